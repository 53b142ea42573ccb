"""Grading what is saved: the tables of a run, held against their index, to a verdict beside the earlier ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.files import read_json, sha256_file
from harness.gate.run import READS, grade
from harness.gate.store import append
from harness.gate.verdict import Verdict
from harness.runs import RunFolder
from harness.store.sums import verify_sums


def grade_run(folder: RunFolder) -> tuple[Verdict, Path]:
    """Grade a run and store the verdict; returns it with its file. What cannot be graded is REFUSED, and stored too.

    Raises EvidenceError when the run has no tables at all: then nothing was there to be graded, and nothing is stored.
    """
    try:
        index = read_json(folder.tables_index)
        run, refused, tables, sums = index["run"], index["refused"], index["tables"], index["sums_sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        raise EvidenceError(
            f"run {folder.run} has no tables to grade; `./doit tables:{folder.run}` makes them from its evidence",
            run=folder.run,
        ) from None
    verdict = _grade(folder, run, tables, sums) if refused is None else Verdict.refused(folder.run, str(refused))
    return verdict, append(folder.verdicts, verdict, sha256_file(folder.tables_index))


def _grade(folder: RunFolder, run: Any, tables: Any, sums: Any) -> Verdict:
    try:
        check_run(folder, run, folder.tables_index.name)
        check_evidence(folder, sums)
        check_tables(folder, tables)
        verdict = grade(folder.tables)
        check_run(folder, verdict.run, "tables")
    except EvidenceError as error:
        return Verdict.refused(folder.run, error.message)
    return verdict


def check_run(folder: RunFolder, run: Any, source: str) -> None:
    """Raise EvidenceError unless ``run``, as ``source`` names it, is the run of this folder."""
    if run != folder.run:
        raise EvidenceError(
            f"{source} is of run {ascii(run)[:80]}, and the folder of run {folder.run!r}; "
            f"`./doit tables:{folder.run}` makes the tables from the evidence that is here",
            run=folder.run,
        )


def check_evidence(folder: RunFolder, sums_sha256: Any) -> None:
    """Raise EvidenceError when the evidence is gone, was changed, or is not what the tables were made from."""
    if not verify_sums(folder.evidence) or sha256_file(folder.sums) != sums_sha256:
        raise EvidenceError(
            f"the tables were not made from what stands in evidence now; `./doit tables:{folder.run}` makes them again",
            run=folder.run,
        )


def check_tables(folder: RunFolder, tables: Any) -> None:
    """Raise EvidenceError when a table that is graded is not the one that the index says was made."""
    for name in READS:
        path = folder.tables / f"{name}.parquet"
        made = tables.get(name) if isinstance(tables, dict) else None
        digest = made.get("sha256") if isinstance(made, dict) else None
        if not path.is_file() or sha256_file(path) != digest:
            raise EvidenceError(
                f"{path.name} is not what was made from the evidence; `./doit tables:{folder.run}` makes it again",
                run=folder.run,
            )
