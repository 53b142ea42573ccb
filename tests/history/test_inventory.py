"""The list of runs: a verdict that is not what was stored is said to be so."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from harness.files import write_json
from harness.gate.store import sealed
from harness.graph import lock
from harness.history.database import ask, open_database, run_roots
from harness.history.inventory import list_runs, newest_verdict, run_state
from harness.runs import RunFolder
from tests.core.progress import LADDER_SEEN
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


def evidence(runs: Path, run: str, env: str = "", **files: str) -> RunFolder:
    """A run that was taken in from elsewhere, and never graded."""
    folder = RunFolder(runs / run)
    folder.evidence.mkdir(parents=True)
    (folder.evidence / "run.env").write_text(f"RUN_TAG={run}\nBACKENDS=1\n{env}")
    for name, text in files.items():
        (folder.evidence / name.replace("_AT_", "@").replace("__", ".")).write_text(text)
    return folder


def test_runs_are_sorted_by_when_they_were_and_not_by_name(folder: RunFolder) -> None:
    """created_at of quick-1 is 2026-10-08T10:14:52; names run the other way."""
    runs = folder.root.parent
    evidence(runs, "z-oldest", "T_LOAD=1700000000\n")
    evidence(runs, "y-by-load", "T_LOAD=1791500000\n")  # 2026-10-08T22:53:20
    started = '{"executions": [{"label": "mesh/a", "started_at": "%s"}]}'
    evidence(runs, "a-by-report", report__json=started % "2026-10-09T01:00:00.123456789Z")
    evidence(runs, "b-by-stream", results__jsonl='{"label": "mesh/a", "started_at": "2026-10-07T01:00:00Z"}\n')
    nighthawk = 'results:\n  - name: global\n    execution_start: "2026-10-06T01:00:00Z"\n'
    evidence(runs, "c-by-cell", cart_AT_node__yaml=nighthawk)
    evidence(runs, "n-says-nothing", "T_LOAD=soon\n", report__json=started % "soon")
    evidence(runs, "m-says-nothing", "T_LOAD=99999999999999\n")
    graded = evidence(runs, "d-by-verdict")
    graded.verdicts.mkdir()
    path = graded.verdicts / "000001-20261008T101700000Z.json"
    verdict = {"run": graded.run, "verdict": "FAIL", "window": {"dispatched": "2026-10-05T01:00:00.000Z"}}
    path.write_text(sealed(verdict, path.name))
    assert [(state.run, state.at and state.at[:10]) for state in list_runs(runs)] == [
        ("a-by-report", "2026-10-09"),
        ("y-by-load", "2026-10-08"),
        ("quick-1", "2026-10-08"),
        ("b-by-stream", "2026-10-07"),
        ("c-by-cell", "2026-10-06"),
        ("d-by-verdict", "2026-10-05"),
        ("z-oldest", "2023-11-14"),
        ("n-says-nothing", None),
        ("m-says-nothing", None),
    ]
    assert {state.created_at for state in list_runs(runs)} == {None, "2026-10-08T10:14:52.100Z"}


def test_listing_reads_no_table(folder: RunFolder) -> None:
    """A thousand runs are listed without one Parquet file being opened."""
    shutil.rmtree(folder.tables)
    folder.tables.mkdir()
    for path in ("runs", "executions"):
        os.mkfifo(folder.tables / f"{path}.parquet")  # whoever opens it waits for ever
    evidence(folder.root.parent, "held", "")
    os.mkfifo(folder.root.parent / "held" / "evidence" / "report.json")
    assert [state.run for state in list_runs(folder.root.parent)] == ["quick-1", "held"]


def test_the_state_of_a_ladder_names_the_rung_and_who_climbs_it(tmp_path: Path) -> None:
    """From its first file to its end; a runs folder that another run holds is not held for this one."""
    ladder = RunFolder(tmp_path / "e8-1-capacity")
    ladder.live.mkdir(parents=True)
    about = {"run": ladder.run, "kind": "e8", "arm": "capacity", "measured": "embedded", "settings": {"fault": ""}}
    write_json(ladder.run_json, {**about, "created_at": "2026-11-30T12:00:00.000Z"})
    lock.begin(ladder)
    state = run_state(ladder)
    assert (state.kind, state.arm, state.fleet, state.drill) == ("e8", "capacity", "embedded", "no")
    assert (state.at, state.state) == ("2026-11-30T12:00:00.000Z", "created")
    with lock.hold(tmp_path):
        assert run_state(ladder).state == "preparing"
        write_json(ladder.progress_json, LADDER_SEEN)
        assert run_state(ladder).state == "climbing c8"
        lock.finish(ladder)
        assert run_state(ladder).state == "left at c8"
    lock.begin(ladder)
    assert run_state(ladder).state == "left at c8"
    write_json(ladder.closed, {"reason": "the tier is gone"})
    assert (run_state(ladder).state, run_state(ladder).reason) == ("closed", "the tier is gone")
    ladder.evidence.mkdir()
    ladder.saved.write_text("")
    assert run_state(ladder).state == "saved"


def test_asking_for_a_state_leaves_nothing_behind(tmp_path: Path) -> None:
    ladder = RunFolder(tmp_path / "e8-1-realism")
    ladder.root.mkdir()
    write_json(ladder.run_json, {"run": ladder.run, "kind": "e8", "arm": "realism"})
    assert run_state(ladder).state == "created"
    assert [path.name for path in tmp_path.iterdir()] == [ladder.run]


def test_the_arm_of_a_ladder_from_elsewhere_is_that_of_its_evidence(tmp_path: Path) -> None:
    ladder = RunFolder(tmp_path / "adopted-1")
    ladder.evidence.mkdir(parents=True)
    (ladder.evidence / "ladder.json").write_text(json.dumps({"arm": "realism", "rungs": []}))
    assert (run_state(ladder).kind, run_state(ladder).arm) == ("e8", "realism")
    (ladder.evidence / "ladder.json").write_text("{")
    assert (run_state(ladder).kind, run_state(ladder).arm) == ("e8", None)
