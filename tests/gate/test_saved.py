"""Grading what is saved: tables, index and evidence must be those of the run that is graded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.files import read_json, sha256_file, write_json
from harness.gate.saved import grade_run
from harness.runs import RunFolder
from harness.store.ingest import build_tables

CASES = Path(__file__).parent.parent / "cases" / "gate"


def saved_run(root: Path, case: str) -> RunFolder:
    """A saved run with tables and their index, as the stages leave it."""
    folder = RunFolder(root / case)
    shutil.copytree(CASES / case, folder.evidence, ignore=shutil.ignore_patterns("expected.*"))
    names = sorted(path.name for path in folder.evidence.iterdir() if path.name != folder.sums.name)
    folder.sums.write_text("".join(f"{sha256_file(folder.evidence / name)}  {name}\n" for name in names))
    tables = build_tables(folder.evidence, folder.tables, run=folder.run)
    index = {"schema": 1, "run": folder.run, "refused": None, "sums_sha256": sha256_file(folder.sums), "tables": tables}
    write_json(folder.tables_index, index)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run that passes."""
    return saved_run(tmp_path, "clean")


def test_a_whole_run_is_graded(folder: RunFolder) -> None:
    verdict, path = grade_run(folder)
    assert (verdict.run, verdict.word) == ("clean", "PASS")
    assert path.parent == folder.verdicts


def test_an_index_of_another_run_is_refused(folder: RunFolder) -> None:
    write_json(folder.tables_index, read_json(folder.tables_index) | {"run": "other"})
    verdict, _ = grade_run(folder)
    assert verdict.word == "REFUSED"
    assert "'other'" in str(verdict.reason)


def test_tables_of_another_run_are_refused(folder: RunFolder) -> None:
    """Made from the same evidence under another name, and listed as if they were this run's."""
    tables = build_tables(folder.evidence, folder.tables, run="other")
    index = {"schema": 1, "run": "clean", "refused": None, "sums_sha256": sha256_file(folder.sums), "tables": tables}
    write_json(folder.tables_index, index)
    verdict, _ = grade_run(folder)
    assert (verdict.run, verdict.word) == ("clean", "REFUSED")
    assert "'other'" in str(verdict.reason)


def test_a_folder_under_another_name_is_refused(folder: RunFolder) -> None:
    """A run that passed, renamed to one that was not graded."""
    renamed = RunFolder(folder.root.rename(folder.root.with_name("renamed")))
    verdict, _ = grade_run(renamed)
    assert (verdict.run, verdict.word) == ("renamed", "REFUSED")
    assert "'clean'" in str(verdict.reason)
