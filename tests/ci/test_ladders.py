"""A ladder's verdict as JUnit XML and as a summary: every planned rung, the knee, every refusal, each under its arm."""

from __future__ import annotations

import dataclasses
import json
import re
from functools import cache
from pathlib import Path

import pytest

from harness.ci.junit import RUN_CASE
from harness.ci.ladder_junit import ladder_junit
from harness.ci.ladder_markdown import ladder_markdown
from harness.e8.advice import next_step
from harness.e8.grade import judge, refused
from harness.e8.questions import ask_of
from harness.e8.reading import parse_ladder
from harness.e8.refusals import Refusal
from harness.e8.verdict import LadderVerdict
from harness.errors import EvidenceError
from tests.ci.test_junit import HOSTILE, Outcomes, case_of, check, outcomes

CASES = Path(__file__).parent.parent / "cases" / "e8"
RUNGS = ("c1", "c2", "c4", "c8", "c16", "c32")


@cache
def graded(case: str) -> LadderVerdict:
    ladder = parse_ladder(json.loads((CASES / case / "ladder.json").read_text()))
    return judge("e8-1", ladder, ask_of(ladder))


def readable() -> list[str]:
    found = []
    for path in sorted(CASES.glob("*/ladder.json")):
        try:
            graded(path.parent.name)
        except EvidenceError:
            continue
        found.append(path.parent.name)
    return found


def failing(case: str) -> Outcomes:
    found = outcomes(check(ladder_junit(graded(case))))
    return {name: outcome for name, outcome in found.items() if outcome != "passed"}


def test_a_pass_has_a_case_per_rung_and_one_for_the_knee() -> None:
    suite = check(ladder_junit(graded("capacity-worker-cpu"), tables_sha256="cd" * 32, beside=["DRILL  none"]))
    names = [*(("capacity", name) for name in (*RUNGS, "knee")), RUN_CASE]
    assert outcomes(suite) == dict.fromkeys(names, "passed")
    assert case_of(suite, "capacity", "c1").get("time") == "3.191"
    properties = {each.attrib["name"]: each.attrib["value"] for each in suite.iter("property")}
    assert len(properties.pop("gate_sha256")) == 64
    assert properties == {
        "run": "e8-1",
        "verdict": "PASS",
        "kind": "e8",
        "arm": "capacity",
        "measured": "embedded",
        "bound": "worker-cpu",
        "runner_up": "host-cpu",
        "tables_sha256": "cd" * 32,
    }
    said = suite.findtext("system-out", "").splitlines()
    assert said[0].startswith("RUNG  capacity  c1  ")
    assert said[-2] == "DRILL  none" and said[-1].startswith("VERDICT PASS arm=capacity")


def test_a_rung_that_is_refused_fails_with_the_sentence_and_what_to_do() -> None:
    verdict = graded("capacity-over-the-ceiling")
    suite = check(ladder_junit(verdict))
    assert failing("capacity-over-the-ceiling") == {
        ("capacity", "c8"): "failure",
        ("capacity", "knee"): "error",
        RUN_CASE: "error",
    }
    (failure,) = case_of(suite, "capacity", "c8")
    assert failure.attrib == {"message": verdict.refusals[0].sentence, "type": "target"}
    assert str(failure.text).splitlines()[-1] == next_step("sandbox_over_ceiling")


def test_a_planned_rung_that_was_not_measured_is_skipped_and_the_run_is_an_error() -> None:
    assert failing("capacity-rung-missing") == {
        ("capacity", "c32"): "skipped",
        ("capacity", "knee"): "error",
        ("capacity", "rungs_missing"): "failure",
        RUN_CASE: "error",
    }


def test_a_refusal_of_the_whole_ladder_is_a_case_of_its_own() -> None:
    found = failing("capacity-called-both")
    assert found.pop(("both", "arm_unknown")) == "failure" and found[RUN_CASE] == "error"


def test_a_knee_under_the_least_fails_and_one_that_is_not_proven_is_an_error() -> None:
    assert failing("knee-under-the-least") == {("capacity", "knee"): "failure", RUN_CASE: "failure"}
    assert failing("realism-duty-not-measured") == {("realism", "knee"): "error", RUN_CASE: "error"}


def test_a_rung_that_measured_the_generator_and_was_left_out_is_skipped() -> None:
    """One above the knee is not needed, and refuses nothing."""
    rung = {**graded("capacity-worker-cpu").rungs[-1], "state": "generator"}
    verdict = graded("capacity-worker-cpu")
    verdict = dataclasses.replace(verdict, rungs=(*verdict.rungs[:-1], rung))
    found = outcomes(check(ladder_junit(verdict)))
    assert found.pop(("capacity", "c32")) == "skipped" and set(found.values()) == {"passed"}


def test_a_ladder_that_could_not_be_read_is_the_case_of_the_run_alone() -> None:
    verdict = refused("e8-1", "ladder.json is cut off; grade another")
    assert outcomes(check(ladder_junit(verdict))) == {RUN_CASE: "error"}
    text = ladder_markdown(verdict)
    assert text.startswith("## REFUSED `e8-1`\n") and "cut off" in text and "|" not in text


@pytest.mark.parametrize("case", readable())
def test_every_case_keeps_the_form_and_no_refusal_is_lost(case: str) -> None:
    verdict = graded(case)
    document, summary = ladder_junit(verdict), ladder_markdown(verdict)
    suite = check(document)
    told = " ".join(str(outcome.text) for each in suite.iter("testcase") for outcome in each)
    assert all(f"{refusal.rule}: {refusal.sentence}" in told for refusal in verdict.refusals)
    assert all(what in told for what in verdict.missing)
    assert (outcomes(suite)[RUN_CASE] == "passed") == (verdict.word == "PASS")
    assert {name for arm, name in outcomes(suite) if arm != "run"} >= {
        *(str(rung["name"]) for rung in verdict.rungs),
        *(verdict.facts["planned"] or ()),
        "knee",
    }
    assert not re.search(r"ideal", document + summary, re.IGNORECASE)


@pytest.mark.parametrize("case", readable())
def test_every_row_of_a_summary_names_the_arm(case: str) -> None:
    verdict = graded(case)
    summary = ladder_markdown(verdict)
    rows = [line for line in summary.splitlines() if line.startswith("|")]
    arm = f"`{verdict.arm or 'arm?'}`"
    heads = [number for number, line in enumerate(rows) if "---" in line]
    body = [line for number, line in enumerate(rows) if number not in heads and number + 1 not in heads]
    assert len(body) >= 1 + len(verdict.rungs) + len(verdict.refusals)
    assert all(arm in line for line in body)
    widths = {line.count("|") for line in rows[heads[-1] - 1 :]}
    assert len(widths) == 1


def test_a_summary_tells_verdict_claim_answer_bound_and_rungs() -> None:
    summary = ladder_markdown(graded("capacity-worker-cpu"), beside=["REPORT  page"])
    assert summary.startswith("## PASS `e8-1`\n")
    order = [
        "> `Capacity arm",
        "- `REPORT",
        "| knee |",
        "| bound by |",
        "| runner-up |",
        "### Rungs",
        "Rules:",
    ]
    places = [summary.index(piece) for piece in order]
    assert places == sorted(places)
    assert "upper bound" in summary
    assert "| `c16` | `capacity` | miss | 480 of 480 | 84.00 | 182 | 268 |" in summary


def test_nothing_is_said_to_have_bound_a_ladder_without_a_knee() -> None:
    verdict = graded("realism-not-observed")
    summary = ladder_markdown(verdict)
    assert verdict.bound == "not-observed"
    assert "bound by" not in summary and "| knee | `realism` | `not observed up to " in summary


def test_why_a_ladder_is_refused_is_told_on_top_and_with_its_rule_and_nowhere_else() -> None:
    verdict = graded("capacity-over-the-ceiling")
    summary = ladder_markdown(verdict)
    assert summary.count(str(verdict.reason)) == 2
    assert "| knee | `capacity` | `invalid` |" in summary


def test_what_was_not_measured_is_said_so_and_is_no_zero() -> None:
    verdict = graded("capacity-worker-cpu")
    unknown = {name: None for name in verdict.rungs[0] if name not in ("name", "c", "repeat", "arm", "state")}
    verdict = dataclasses.replace(verdict, rungs=({**verdict.rungs[0], **unknown},))
    row = next(line for line in ladder_markdown(verdict).splitlines() if "`c1`" in line)
    assert "? of ?" in row and row.count("not measured") == 8 and "0" not in row
    assert "time" not in case_of(check(ladder_junit(verdict)), "capacity", "c1").attrib


@pytest.mark.parametrize("text", HOSTILE)
def test_names_and_sentences_are_text_and_nothing_else(text: str) -> None:
    against = (Refusal("stub_not_pinned", text), Refusal("worker_frozen", text, 8))
    verdict = dataclasses.replace(graded("capacity-worker-cpu"), run=text, reason=text, word="REFUSED")
    verdict = dataclasses.replace(verdict, refusals=against, notes=(text,), missing=(text,), arm=text or "x")
    check(ladder_junit(verdict))
    summary = ladder_markdown(verdict)
    assert "<script" not in summary and "\x1b" not in summary and "\x00" not in summary


def test_a_summary_is_cut_before_it_is_too_long() -> None:
    verdict = graded("capacity-worker-cpu")
    verdict = dataclasses.replace(verdict, notes=("a note " * 200,) * 100)
    text = ladder_markdown(verdict, limit_bytes=6_000)
    assert len(text.encode()) <= 6_000 and "more left out here" in text and text.startswith("## PASS")
