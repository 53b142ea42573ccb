"""The history of a run's gradings: all of them, what moved each, and nothing damaged passed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
