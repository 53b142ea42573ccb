"""A clean run to damage: two targets on two nodes, made from the case of that name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.store.ingest import build_tables

CASES = Path(__file__).parent.parent / "cases" / "gate"


@pytest.fixture
def tables_of(tmp_path: Path) -> Callable[[str], Path]:
    """Case name → a folder with the tables of its evidence."""

    def build(case: str) -> Path:
        evidence, tables = tmp_path / case / "evidence", tmp_path / case / "tables"
        shutil.copytree(CASES / case, evidence, ignore=shutil.ignore_patterns("expected.*"))
        build_tables(evidence, tables, run=case)
        return tables

    return build
