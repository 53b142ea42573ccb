"""The list of runs: a verdict that is not what was stored is said to be so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.history.database import ask, open_database, run_roots
from harness.history.inventory import list_runs, newest_verdict, run_state
from harness.runs import RunFolder
from tests.report import made


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run that was graded FAIL."""
    tables = made.clean_tables({"svc-1": 9})
    return made.save_run(tmp_path / "runs", "quick-1", tables, made.verdict_of(tables, "quick-1", "FAIL"))


def test_a_verdict_that_was_edited_reads_as_damaged(folder: RunFolder) -> None:
    """Neither as the word that was put in, nor as a run that was never graded."""
    assert run_state(folder).verdict == "FAIL"
    (path,) = folder.verdicts.iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"verdict": "PASS"}))
    (state,) = list_runs(folder.root.parent)
    assert (state.state, state.verdict) == ("graded", "DAMAGED")
    assert state.reason == f"{path.name} was changed after it was stored; grade again"
    sql = "SELECT verdict, reason, targets FROM verdicts"
    with open_database(run_roots(folder.root.parent), sql) as opened:
        assert ask(opened, sql, {})[1] == [("DAMAGED", state.reason, None)]


def test_a_verdict_of_another_run_reads_as_damaged(folder: RunFolder) -> None:
    """Copied from a run that passed, it would pass this one."""
    other = RunFolder(folder.root.parent / "quick-2")
    shutil.copytree(folder.root, other.root)
    verdict = newest_verdict(other)
    assert verdict is not None
    assert verdict["verdict"] == "DAMAGED"
    assert "another run" in verdict["reason"]


def test_a_run_that_was_never_graded_has_no_verdict(folder: RunFolder) -> None:
    shutil.rmtree(folder.verdicts)
    assert newest_verdict(folder) is None
    assert run_state(folder).verdict is None
