"""Which kind of run one is, read from its files: a soak, or a ladder of rungs."""

from __future__ import annotations

from pathlib import Path

from harness.errors import EvidenceError
from harness.runs import RUN_JSON, RunFolder
from harness.store import readers
from harness.store.columns import LADDER, SOAK, Table
from harness.store.schemas import TABLES

LADDER_FILE, RECORD_FILE = LADDER_FILES = ("ladder.json", "record.json")
"""A ladder of a harness, and the JSON array of rung records that another recorder left."""


def tables_of(kind: str) -> dict[str, Table]:
    """The tables that a run of this kind has, by name. Raises EvidenceError for a kind that there is not."""
    if kind not in (SOAK, LADDER):
        raise EvidenceError(f"there is no kind of run called {readers.one_line(ascii(kind))[:80]}")
    return {name: table for name, table in TABLES.items() if table.kind == kind}


def kind_of(evidence: Path, *descriptions: Path) -> str:
    """The kind of run whose evidence this is: a ladder is there, or ``run.json`` says it is one; else it is a soak.

    ``descriptions``: further files that may be the run's ``run.json``.
    """
    if any((evidence / name).is_file() for name in LADDER_FILES):
        return LADDER
    return LADDER if any(map(_is_said, (evidence / RUN_JSON, *descriptions))) else SOAK


def kind_of_run(folder: RunFolder) -> str:
    """The kind of a run, saved yet or not. What the evidence says of it stands, whatever the copy beside it says."""
    sealed = folder.evidence / RUN_JSON
    return kind_of(folder.evidence, *([] if sealed.is_file() else [folder.run_json]))


def _is_said(path: Path) -> bool:
    try:
        about = readers.read_document(path) if path.is_file() else None
    except EvidenceError:
        return False
    return isinstance(about, dict) and about.get("kind") == LADDER
