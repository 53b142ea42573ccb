"""Tables: Parquet from the evidence. Damaged evidence makes no table, and says so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.files import write_json
from harness.runs import RunFolder


def reads(folder: RunFolder) -> list[Path]:
    """Every saved file, so that one changed byte is noticed."""
    if not folder.evidence.is_dir():
        return [folder.sums]
    return sorted(path for path in folder.evidence.iterdir() if path.is_file() and not path.name.startswith("."))


def makes(folder: RunFolder) -> list[Path]:
    """The tables and their index, as far as they are there."""
    return sorted({folder.tables_index, *folder.tables.glob("*.parquet")})


def work(folder: RunFolder) -> dict[str, Any]:
    """Build the tables and their index. Evidence that cannot be read is recorded as refused: the gate says why."""
    from harness.store.ingest import build_tables

    try:
        if not folder.saved.exists():
            raise EvidenceError(
                f"{folder.evidence}: holds no {folder.saved.name}; save the run first with ./doit save:{folder.run}"
            )
        tables = build_tables(folder.evidence, folder.tables, run=folder.run)
        refused = None
    except EvidenceError as error:
        shutil.rmtree(folder.tables, ignore_errors=True)
        tables, refused = {}, str(error)
    folder.tables.mkdir(parents=True, exist_ok=True)
    write_json(folder.tables_index, {"schema": 1, "run": folder.run, "refused": refused, "tables": tables})
    rows = sum(table["rows"] for table in tables.values())
    return {"summary": refused or f"{len(tables)} tables, {rows:,} rows", "refused": refused}
