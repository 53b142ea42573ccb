"""The tables of a saved run, made where they are wanted; their index says of which evidence, or why there are none."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.files import alone, read_json, sha256_file, write_json
from harness.runs import RunFolder
from harness.store.kinds import kind_of_run
from harness.store.schemas import SCHEMA_VERSION, schema_of

Seal = Callable[[RunFolder], None]
"""Raises EvidenceError unless the evidence is what was saved or adopted. ``harness.stages.tables`` has the one of runs
that have receipts; it is asked for by name, so that tables are never made of evidence that nobody looked at."""


def make_tables(folder: RunFolder, *, seal: Seal, stream: bool | None = None) -> dict[str, Any]:
    """Build the tables and their index, and return the index.

    ``{"schema": 1, "run", "kind", "stream", "schema_version", "schema_sha256", "refused": sentence or None,
    "sums_sha256", "tables": name → {"rows", "sha256"}}``. Evidence that cannot be read makes no table and is
    recorded as refused: the gate says why. ``stream``: of the results stream, for a run that has no report; None: of it
    where the tables that are there are, for who asked for it once has said so of this run. Raises EvidenceError for a
    run that was never saved whole (nothing is recorded), OSError when the disk is full.
    """
    with alone(folder.root):
        return _make(folder, seal, _asked(folder, stream))


def ensure_tables(folder: RunFolder, *, seal: Seal, stream: bool | None = None) -> dict[str, Any]:
    """``make_tables`` where there is no index that can be read, or one of another source or of other schemas.

    A table that was changed or damaged is not made again in silence: it stays for the grading to refuse. Returns the
    index.
    """
    if (index := read_index(folder)) is not None and not _is_other(index, stream):
        return index
    with alone(folder.root):  # another process may have made them meanwhile
        if (index := read_index(folder)) is not None and not _is_other(index, stream):
            return index
        return _make(folder, seal, _asked(folder, stream))


def read_index(folder: RunFolder) -> dict[str, Any] | None:
    """The index of the tables, None when there is none that can be read."""
    try:
        index = read_json(folder.tables_index)
    except (OSError, ValueError):
        return None
    return index if isinstance(index, dict) else None


def _asked(folder: RunFolder, stream: bool | None) -> bool:
    return stream if stream is not None else (read_index(folder) or {}).get("stream") is True


def _is_other(index: dict[str, Any], stream: bool | None) -> bool:
    return not is_of_today(index) or stream not in (None, index.get("stream", False))


def is_of_today(index: Mapping[str, Any]) -> bool:
    """Whether the tables of an index have the columns that are declared now, so that they can be read by name."""
    kind = index.get("kind")
    return isinstance(kind, str) and index.get("schema_sha256") == schema_of(kind)


def _make(folder: RunFolder, seal: Seal, stream: bool) -> dict[str, Any]:
    from harness.store.ingest import build_tables

    if not folder.saved.exists():
        raise EvidenceError(
            f"run {folder.run} was never saved whole ({folder.saved} is not there): "
            f"./doit {kind_of_run(folder)} run={folder.run} goes on with it, ./doit teardown:{folder.run} ends it and "
            "saves what it has",
            run=folder.run,
        )
    for left in folder.root.glob(".tables.*.new"):  # of a process that was killed: this folder is ours alone now
        shutil.rmtree(left, ignore_errors=True)
    try:
        seal(folder)
        tables = build_tables(folder.evidence, folder.tables, run=folder.run, stream=stream)
        refused = None
    except EvidenceError as error:
        shutil.rmtree(folder.tables, ignore_errors=True)
        tables, refused = {}, str(error)
    folder.tables.mkdir(parents=True, exist_ok=True)
    index = {
        "schema": 1,
        "run": folder.run,
        "kind": kind_of_run(folder),
        "stream": stream,
        "schema_version": SCHEMA_VERSION,
        "schema_sha256": schema_of(kind_of_run(folder)),
        "refused": refused,
        "sums_sha256": sha256_file(folder.sums) if folder.sums.is_file() else None,
        "tables": tables,
    }
    write_json(folder.tables_index, index)
    return index


def check_run(folder: RunFolder, run: Any, source: str) -> None:
    """Raise EvidenceError unless ``run``, as ``source`` names it, is the run of this folder."""
    if run != folder.run:
        raise EvidenceError(
            f"{source} is of run {ascii(run)[:80]}, and the folder of run {folder.run!r}; {made_again(folder)}",
            run=folder.run,
        )


def check_tables(folder: RunFolder, tables: Any, names: Iterable[str]) -> dict[str, Path]:
    """Of the tables ``names`` the file of each. How many rows it holds, the file alone says.

    ``tables`` is what the index says of them. Raises EvidenceError when one is not the one that was made.
    """
    files = {}
    for name in names:
        path = folder.tables / f"{name}.parquet"
        made = tables.get(name) if isinstance(tables, dict) else None
        made = made if isinstance(made, dict) else {}
        if not path.is_file() or sha256_file(path) != made.get("sha256"):
            raise EvidenceError(
                f"{path.name} is not what was made from the evidence; {made_again(folder)}", run=folder.run
            )
        files[name] = path
    return files


def made_again(folder: RunFolder) -> str:
    """How tables are made again, wherever the runs folder is."""
    return f"remove {folder.tables}, and `harness gate {folder.run}` makes them from the evidence"
