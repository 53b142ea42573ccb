"""The history of a run's gradings: all of them, what moved each, and nothing damaged passed over."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.e8 import verdict as verdicts
from harness.e8.arms import THRESHOLDS
from harness.e8.refusals import Refusal
from harness.e8.verdict import Knee, LadderVerdict
from harness.gate import Verdict, store
from harness.history.gradings import Grading, gradings, render
from harness.runs import RunFolder
from tests.ci.verdicts import finding, target, verdict

FAILURES = finding("failures", "north", "http_5xx", count=12)
FAILED = verdict(target("orders", findings=(FAILURES, finding("threshold"))), target("basket"))
PASSED = verdict(target("orders"), target("basket"))


def history(folder: Path, *graded: Verdict, tables: str = "t1") -> list[Grading]:
    """The gradings of run quick-1 once these are stored."""
    run = RunFolder(folder / "quick-1")
    for each in graded:
        store.append(run.verdicts, each, tables)
    return gradings(run)


def moved(grading: Grading) -> dict[str, Any]:
    assert grading.change is not None
    return grading.change.to_json()


def test_a_run_that_was_never_graded_has_no_history(tmp_path: Path) -> None:
    assert history(tmp_path) == []
    assert list(render([])) == []


def test_gradings_come_oldest_first_with_what_each_changed(tmp_path: Path) -> None:
    found = history(tmp_path, FAILED, PASSED)
    assert [(each.number, each.verdict, each.exit_code) for each in found] == [(1, "FAIL", 1), (2, "PASS", 0)]
    assert found[0].change is None
    went = [
        {"rule": "failures", "target": "orders", "node": "north", "class": "http_5xx", "subject": None}
        | {"cause": "mesh", "unmeasured": False},
        {"rule": "threshold", "target": "orders", "node": None, "class": None, "subject": None}
        | {"cause": "mesh", "unmeasured": False},
    ]
    same = {"gate": False, "tables": False, "reason": False}
    assert moved(found[1]) == {"against": 1, "was": "FAIL", **same, "came": [], "went": went}
    lines = list(render(found))
    assert lines[0].split("  ")[::2] == ["000001", "FAIL"]
    assert lines[1].endswith("PASS  against 000001: was FAIL, findings changed")
    assert lines[2:] == [
        "  WENT  failures  orders  north  http_5xx  cause=mesh",
        "  WENT  threshold  orders  cause=mesh",
    ]
    json.dumps([each.to_json() for each in found], allow_nan=False)


def test_it_is_told_whether_gate_or_tables_changed(tmp_path: Path) -> None:
    history(tmp_path, PASSED, PASSED)
    found = history(tmp_path, PASSED._replace(gate_sha256="cd" * 32), tables="t2")
    assert [(moved(each)["gate"], moved(each)["tables"]) for each in found[1:]] == [(False, False), (True, True)]
    assert [line.rpartition(": ")[2] for line in render(found)][1:] == [
        "nothing changed",
        "gate changed, tables changed",
    ]


def test_of_two_alike_findings_the_one_that_went_is_seen_and_another_count_is_no_move(tmp_path: Path) -> None:
    twice = verdict(target("orders", findings=(finding("threshold"), finding("threshold"))))
    once = verdict(target("orders", findings=(finding("threshold", count=3),)))
    other = verdict(target("orders", findings=(finding("threshold", cause="driver"),)))
    _, second, third, fourth = history(tmp_path, twice, once, once._replace(run="quick-1"), other)
    assert len(moved(second)["went"]) == 1
    assert (moved(third)["came"], moved(third)["went"]) == ([], [])
    assert [each["cause"] for each in moved(fourth)["came"] + moved(fourth)["went"]] == ["driver", "mesh"]


def test_findings_of_the_run_and_what_was_not_measured_move_too(tmp_path: Path) -> None:
    stranger = verdict(target("orders"), run_findings=(finding("unplanned_target", subject="mesh/ghost"),))
    blind = verdict(target("orders", unmeasured=(finding("failures", None, "stream_resets"),)))
    found = history(tmp_path, stranger, blind)
    assert [each.verdict for each in found] == ["FAIL", "UNPROVEN"]
    assert list(render(found))[2:] == [
        "  CAME  failures  orders  stream_resets  not measured",
        "  WENT  unplanned_target  mesh/ghost  cause=mesh",
    ]


def test_a_refusal_judged_nothing_and_the_next_verdict_is_held_against_the_one_before_it(tmp_path: Path) -> None:
    torn, old = Verdict.refused("quick-1", "report.json is torn"), Verdict.refused("quick-1", "old format")
    found = history(tmp_path, torn, FAILED, torn, old, PASSED)
    assert [each.change and each.change.against for each in found] == [None, 1, 2, 3, 2]
    assert [moved(each)["came"] is None for each in found[1:]] == [True, True, True, False]
    assert [moved(each)["reason"] for each in found[1:4]] == [True, True, True]
    assert len(moved(found[4])["went"]) == 2
    lines = list(render(found))
    assert lines[2].endswith("REFUSED  against 000002: was FAIL, gate changed, reason changed  report.json is torn")


@pytest.mark.parametrize("damage", ["cut", "edited", "another run", "no verdict", "wrong shape", "gone", "folder"])
def test_a_damaged_grading_is_shown_and_passed_over_as_a_base(damage: str, tmp_path: Path) -> None:
    history(tmp_path, FAILED, FAILED, PASSED)
    path = store.stored(RunFolder(tmp_path / "quick-1").verdicts)[1]
    whole = {key: value for key, value in json.loads(path.read_text()).items() if key != "seal"}
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage == "gone":
        path.symlink_to(tmp_path / "nowhere")
    elif damage == "cut":
        path.write_text('{"verdict": "PASS"')
    elif damage == "edited":
        path.write_text(json.dumps(whole | {"verdict": "PASS", "seal": "0" * 64}))
    else:
        other = {
            "another run": {"run": "other"},
            "no verdict": {"graded_at": 7},
            "wrong shape": {"targets": [{"x": 1}]},
        }
        path.write_text(store.sealed(whole | other[damage], path.name))
    found = history(tmp_path)
    assert [each.verdict for each in found] == ["FAIL", "DAMAGED", "PASS"]
    assert (found[1].exit_code, found[1].change) == (2, None)
    assert path.name in str(found[1].reason)
    assert moved(found[2])["against"] == 1
    assert f"DAMAGED  {found[1].reason}" in list(render(found))[1]


@pytest.mark.parametrize(
    "other",
    [
        {"targets": None},
        {"targets": [{"target": {}, "findings": [{"rule": "x"}]}]},
        {"targets": [{"target": "a", "findings": [{"rule": "x", "node": [1]}]}]},
        {"run_findings": [7]},
        {"exit_code": "none"},
        {"exit_code": []},
        {"reason": {}},
        {"tables_sha256": 5},
    ],
)
def test_a_sealed_document_that_is_no_verdict_is_damage(other: dict[str, Any], tmp_path: Path) -> None:
    history(tmp_path, PASSED)
    (path,) = store.stored(RunFolder(tmp_path / "quick-1").verdicts)
    whole = {key: value for key, value in json.loads(path.read_text()).items() if key != "seal"}
    path.write_text(store.sealed(whole | other, path.name))
    assert [each.verdict for each in history(tmp_path)] == ["DAMAGED"]


def test_many_moves_are_cut_and_no_name_makes_a_line(tmp_path: Path) -> None:
    many = tuple(finding("failures", f"node\n{number}\x1b[2J") for number in range(30))
    lines = list(render(history(tmp_path, PASSED, verdict(target("or\nders", findings=many)))))
    assert len(lines) == 2 + 20 + 1
    assert lines[-1] == "  CAME  10 more; --json has them all"
    assert all(line.isprintable() for line in lines)


def test_verdicts_of_earlier_versions_have_their_place(tmp_path: Path) -> None:
    """They knew nothing of what was not measured."""
    history(tmp_path, FAILED, PASSED)
    path = store.stored(RunFolder(tmp_path / "quick-1").verdicts)[0]
    whole = {key: value for key, value in json.loads(path.read_text()).items() if key != "seal"}
    for each in whole["targets"]:
        del each["unmeasured"]
    path.write_text(store.sealed(whole, path.name))
    assert [each.verdict for each in history(tmp_path)] == ["FAIL", "PASS"]


# --- ladders

KNEE = LadderVerdict(
    run="quick-1",
    word="PASS",
    arm="capacity",
    knee=Knee("knee", 8, 8, 16),
    saturated=True,
    bound="worker-cpu",
    runner_up="host-cpu",
    degrade_x=2.0,
    min_c=4,
    rungs=({"name": "c8", "state": "healthy"}, {"name": "c16", "state": "miss"}),
    gate_sha256="ab" * 32,
)


def ladders(folder: Path, *graded: LadderVerdict) -> list[Grading]:
    """The gradings of a ladder once these are stored."""
    run = RunFolder(folder / "quick-1")
    for each in graded:
        store.store(run.verdicts, each.to_json(), ["VERDICT"], "t1")
    return gradings(run)


def test_what_moved_a_ladder_is_told_under_its_arm(tmp_path: Path) -> None:
    """Its knee, what bound it, its rungs and the threshold: all of it, and nothing else."""
    other = replace(
        KNEE,
        word="FAIL",
        reason="the knee is at 16, under the least of 32",
        knee=Knee("knee", 16, 16, 32),
        bound="host-cpu",
        runner_up=None,
        degrade_x=3.0,
        min_c=32,
        rungs=({"name": "c8", "state": "healthy"}, {"name": "c16", "state": "healthy"}),
        gate_sha256="cd" * 32,
    )
    lines = list(render(ladders(tmp_path, KNEE, other, other)))
    about = "against 000001: was PASS, gate changed, reason changed, findings changed"
    assert lines[1].endswith(f"FAIL  {about}  the knee is at 16, under the least of 32")
    assert lines[2:12] == [
        "  CAME  knee  capacity  knee in [16, 32], floor 16",
        "  CAME  bound  capacity  host-cpu, runner-up none",
        "  CAME  rung  capacity  c16 healthy",
        "  CAME  threshold  capacity  degrade_x 3",
        "  CAME  threshold  capacity  min_c 32",
        "  WENT  knee  capacity  knee in [8, 16], floor 8",
        "  WENT  bound  capacity  worker-cpu, runner-up host-cpu",
        "  WENT  rung  capacity  c16 miss",
        "  WENT  threshold  capacity  degrade_x 2",
        "  WENT  threshold  capacity  min_c 4",
    ]
    assert len(lines) == 13 and "against 000002: nothing changed" in lines[12]


def test_a_threshold_of_the_rules_that_changed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ladders(tmp_path, KNEE)
    busier = replace(THRESHOLDS["worker_cpu_bound_pct"], value=85.0)
    monkeypatch.setattr(verdicts, "THRESHOLDS", {**THRESHOLDS, "worker_cpu_bound_pct": busier})
    assert list(render(ladders(tmp_path, KNEE)))[2:] == [
        "  CAME  threshold  capacity  worker_cpu_bound_pct 85",
        "  WENT  threshold  capacity  worker_cpu_bound_pct 80",
    ]


def test_a_ladder_that_is_refused_by_its_rules_was_judged(tmp_path: Path) -> None:
    """Which rule came and went is told; one that could not be read judged nothing."""
    against = (Refusal("sandbox_over_ceiling", "too busy at c8", 8), Refusal("duty_out_of_band", "calibrate again"))
    stopped = replace(KNEE, word="REFUSED", reason="too busy at c8", knee=Knee("invalid"), bound=None, refusals=against)
    blind = replace(KNEE, word="UNPROVEN", missing=("the lease cap",))
    torn = LadderVerdict(run="quick-1", word="REFUSED", reason="ladder.json is cut off")
    found = ladders(tmp_path, KNEE, stopped, torn, blind)
    assert [each.change and each.change.against for each in found] == [None, 1, 2, 2]
    came = [[str(each) for each in change.came or ()] for each in found if (change := each.change)]
    assert came == [
        [
            "knee  capacity  invalid",
            "sandbox_over_ceiling  capacity  c=8  cause=target",
            "duty_out_of_band  capacity  cause=plan",
        ],
        [],
        [
            "knee  capacity  knee in [8, 16], floor 8",
            "bound  capacity  worker-cpu, runner-up host-cpu",
            "not recorded  capacity  the lease cap  not measured",
        ],
    ]
    assert found[2].change is not None and found[2].change.came is None
    json.dumps([each.to_json() for each in found], allow_nan=False)
