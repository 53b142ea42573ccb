"""Tables: Parquet from the evidence. Damaged evidence makes no table, and says so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.files import sha256_file, write_json
from harness.graph import receipts
from harness.graph.invocation import LIVE_STAGES
from harness.graph.receipts import PROJECT
from harness.runs import SAVED, SUMS, RunFolder
from harness.store.ingest import verify_sums


def reads(folder: RunFolder) -> list[Path]:
    """Every saved file, so that one changed byte is noticed, and the code that makes tables of them."""
    code = sorted((PROJECT / "harness" / "store").glob("*.py"))
    if not folder.evidence.is_dir():
        return [folder.sums, *code]
    saved = (path for path in folder.evidence.iterdir() if path.is_file() and not path.name.startswith("."))
    return [*sorted(saved), *code]


def intact(folder: RunFolder) -> str | None:
    """Why the tables have to be made again although every listed file is as it was: something was added."""
    present = {path.name for path in folder.evidence.iterdir()} if folder.evidence.is_dir() else set()
    listed = (
        {line.partition("  ")[2] for line in folder.sums.read_text(errors="replace").splitlines()}
        if folder.sums.is_file()
        else set()
    )
    added = sorted(present - listed - {SUMS, SAVED})
    return f"evidence holds what was not saved: {', '.join(added)}" if added else None


def makes(folder: RunFolder) -> list[Path]:
    """The tables and their index, as far as they are there."""
    return sorted({folder.tables_index, *folder.tables.glob("*.parquet")})


def work(folder: RunFolder) -> dict[str, Any]:
    """Build the tables and their index. Evidence that cannot be read is recorded as refused: the gate says why.

    Raises EvidenceError for a run that was never saved whole: there is nothing to grade, and nothing is recorded.
    """
    from harness.store.ingest import build_tables

    if not folder.saved.exists():
        raise EvidenceError(
            f"was never saved whole ({folder.saved} is not there): ./doit soak run={folder.run} goes on with it, "
            f"./doit teardown:{folder.run} ends it and saves what it has"
        )
    try:
        check_seal(folder)
        tables = build_tables(folder.evidence, folder.tables, run=folder.run)
        refused = None
    except EvidenceError as error:
        shutil.rmtree(folder.tables, ignore_errors=True)
        tables, refused = {}, str(error)
    folder.tables.mkdir(parents=True, exist_ok=True)
    sums = sha256_file(folder.sums) if folder.sums.is_file() else None
    index = {
        "schema": 1,
        "run": folder.run,
        "refused": refused,
        "sums_sha256": sums,
        "tables": tables,
    }
    write_json(folder.tables_index, index)
    rows = sum(table["rows"] for table in tables.values())
    return {"summary": refused or f"{len(tables)} tables, {rows:,} rows", "refused": refused}


def check_seal(folder: RunFolder) -> None:
    """Raise EvidenceError unless the evidence is what the stages before saw, digest for digest.

    The list of digests must be there and be the one that ``save`` wrote; what earlier stages made (run.json, plan,
    pins, engines, report) must stand in it with the digest that their receipts hold.
    """
    if not folder.sums.is_file():
        raise EvidenceError(f"{folder.sums} is gone: without it the evidence proves nothing")
    saved = receipts.read(folder, "save")
    if saved is not None and saved.outputs.get(receipts.name_of(folder.sums, folder)) != sha256_file(folder.sums):
        raise EvidenceError(f"{folder.sums} is not the list that was saved: the evidence proves nothing")
    sums = verify_sums(folder.evidence)
    for stage in LIVE_STAGES:
        receipt = receipts.read(folder, stage)
        for name, digest in receipt.outputs.items() if receipt else ():
            file = name.rpartition("/")[2].removeprefix("run:")
            if sums.get(file) != digest:
                raise EvidenceError(f"{file} in {folder.evidence} is not the one that stage {stage} made")
