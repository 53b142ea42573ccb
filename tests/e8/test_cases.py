"""Every folder under tests/cases/e8 is a case: a ladder as evidence, expected.json, maybe expected.txt. No code to add.

``rules`` are the refusals by name, in order; ``knee``, ``bound``, ``missing`` and the rest are those of the verdict.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.e8.arms import ARMS, BOUNDS
from harness.e8.grade import grade, refused
from harness.e8.text import render
from harness.e8.verdict import LadderVerdict
from harness.errors import EvidenceError
from harness.store.columns import LADDER
from harness.store.ingest import build_tables
from harness.store.kinds import tables_of
from tests.e8.every_rule import RULES

CASES = Path(__file__).parent.parent / "cases" / "e8"
FOLDERS = sorted(path for path in CASES.iterdir() if path.is_dir())


def grade_case(folder: Path, scratch: Path) -> LadderVerdict:
    """Evidence → tables → verdict, as the stages do it."""
    evidence, tables = scratch / "evidence", scratch / "tables"
    shutil.copytree(folder, evidence, ignore=shutil.ignore_patterns("expected.*"))
    try:
        build_tables(evidence, tables, run=folder.name)
        return grade({name: tables / f"{name}.parquet" for name in tables_of(LADDER)})
    except EvidenceError as error:
        assert "\n" not in str(error)
        return refused(folder.name, str(error))


def expected_of(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return document


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], LadderVerdict]:
    """Each case graded once."""
    return cache(lambda folder: grade_case(folder, tmp_path_factory.mktemp("case")))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_case_is_graded_as_expected(folder: Path, graded: Callable[[Path], LadderVerdict]) -> None:
    expected = expected_of(folder)
    verdict = graded(folder)
    lines = render(verdict)
    assert verdict.word == expected["verdict"], lines
    assert verdict.exit_code == {"PASS": 0, "FAIL": 1}.get(verdict.word, 2)
    assert [refusal.rule for refusal in verdict.refusals] == expected["rules"]
    for words in expected["reason_contains"]:
        assert words in str(verdict.reason)
    for words in expected["notes_contain"]:
        assert any(words in note for note in verdict.notes), verdict.notes
    document = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    for name in ("arm", "knee", "saturated", "bound", "runner_up", "missing"):
        assert document[name] == expected[name], name
    if (folder / "expected.txt").exists():
        assert "\n".join(lines) + "\n" == (folder / "expected.txt").read_text()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_what_is_printed_names_its_arm_and_no_ideal(folder: Path, graded: Callable[[Path], LadderVerdict]) -> None:
    """Every line names the arm that its numbers are of; only a proven ladder may be quoted, by its arm's sentence."""
    verdict = graded(folder)
    lines = render(verdict)
    assert not any("ideal" in line for line in lines)
    if verdict.ungraded:
        assert lines == [f"REFUSED {folder.name}: {verdict.reason}"]
        return
    for line in lines[:-1]:
        assert line.split("  ")[1] == (verdict.arm or "arm?"), line
    assert lines[-1].startswith(f"VERDICT {verdict.word} arm={verdict.arm or '?'} ")
    assert (verdict.claim is not None) == (verdict.word in ("PASS", "FAIL"))
    if verdict.arm == "capacity" and verdict.claim:
        assert "an upper bound on the supervisor and worker tier, never a density" in verdict.claim
        assert "ms of worker CPU per turn" in verdict.claim
    assert verdict.bound is None or verdict.bound in BOUNDS
    assert (verdict.bound is None or verdict.bound == "generator") == (verdict.word == "REFUSED")
    assert (verdict.knee.answer == "invalid") == (verdict.word == "REFUSED")


def test_every_rule_refuses_in_a_case_of_each_arm_that_it_judges() -> None:
    """A rule that belongs to one arm leaves the same figures alone in the other: see ONE_ARM."""
    cases = [expected_of(folder) for folder in FOLDERS]
    seen = {(rule, expected["arm"]) for expected in cases for rule in expected["rules"]}
    for rule in {*RULES, "contradiction"} - {"arm_unknown", "success_untold"}:
        judged = {arm for arm in ARMS if (rule, arm) in seen}
        assert judged == ({ONE_ARM[rule][0]} if rule in ONE_ARM else set(ARMS)), rule
    assert {arm for rule, arm in seen if rule == "arm_unknown"} == {None, "both"}
    untold = {expected["arm"] for expected in cases if any("status 200" in what for what in expected["missing"])}
    assert untold == {*ARMS, None}, "success_untold is a gap, and never refuses"


ONE_ARM = {
    "admission_headroom": ("capacity", "realism-admission-without-headroom"),
    "sandbox_unmeasured": ("capacity", "realism-sandboxes-unmeasured"),
    "sandbox_over_ceiling": ("capacity", "realism-over-the-ceiling-of-capacity"),
    "duty_out_of_band": ("realism", "capacity-duty-not-measured"),
    "pool_under_floor": ("realism", "capacity-pool-under-the-floor-of-realism"),
}
"""Rule → the arm that it judges, and the case in which the other arm is let pass with such figures."""


def test_every_case_that_lets_the_other_arm_pass_does_so() -> None:
    for arm, case in ONE_ARM.values():
        expected = expected_of(CASES / case)
        assert (expected["verdict"], expected["rules"]) == ("PASS", [])
        assert expected["arm"] != arm


def test_every_bound_has_a_case() -> None:
    assert {expected_of(folder)["bound"] for folder in FOLDERS} - {None} == set(BOUNDS)
