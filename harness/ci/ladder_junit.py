"""A ladder's verdict as JUnit XML: a case per planned rung, one for the knee, one per refusal of the whole ladder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.ci.junit import RUN_CASE, Case, document
from harness.ci.rungs import arm_of, planned_rungs
from harness.e8.advice import ADVICE
from harness.e8.refusals import Refusal
from harness.e8.text import answer, render
from harness.e8.verdict import INVALID, LadderVerdict
from harness.gate.verdict import FAIL, PASS, UNPROVEN
from harness.store.columns import LADDER

KNEE_CASE = "knee"


def ladder_junit(verdict: LadderVerdict, *, tables_sha256: str | None = None, beside: Sequence[str] = ()) -> str:
    """The whole document, in UTF-8 when written. Every case is of the arm that its ``classname`` names.

    A rung fails by the rules that refuse it, and is skipped where it was planned and not measured, or measured the
    generator. That it is no healthy rung is no failure: it is what a ladder climbs for. CI shows skipped as good, so
    the case ``run``/``verdict`` stands for the whole: it passes with a PASS only. A ladder that could not be read has
    that case alone. ``tables_sha256`` is the digest of the graded tables' index; ``beside`` are lines that belong
    before the verdict's own.
    """
    *said, last = render(verdict)
    return document(list(_cases(verdict)), _properties(verdict, tables_sha256), [*said, *beside, last])


def _properties(verdict: LadderVerdict, tables_sha256: str | None) -> Iterator[tuple[str, str]]:
    yield "run", verdict.run
    yield "verdict", verdict.word
    yield "gate_sha256", verdict.gate_sha256
    yield "kind", LADDER
    told = {"arm": verdict.arm, "measured": verdict.measured, "bound": verdict.bound, "runner_up": verdict.runner_up}
    yield from ((name, value) for name, value in {**told, "tables_sha256": tables_sha256}.items() if value)


def _cases(verdict: LadderVerdict) -> Iterator[Case]:
    if not verdict.ungraded:
        arm = arm_of(verdict)
        yield from _rungs(verdict, arm)
        yield _knee(verdict, arm)
        yield from _refusals(verdict, arm)
    yield _run(verdict)


def _rungs(verdict: LadderVerdict, arm: str) -> Iterator[Case]:
    for name, rung in planned_rungs(verdict):
        if rung is None:
            yield Case(arm, name, outcome="skipped", message="not measured")
        elif against := [refusal for refusal in verdict.refusals if refusal.c == rung["c"]]:
            yield _refused(arm, name, against, rung["wall_ms"])
        elif rung["state"] == "generator":
            message = "it measured the generator, and was left out of the ladder"
            yield Case(arm, name, rung["wall_ms"], "skipped", message)
        else:
            yield Case(arm, name, rung["wall_ms"])


def _knee(verdict: LadderVerdict, arm: str) -> Case:
    if verdict.knee.answer == INVALID:
        return Case(arm, KNEE_CASE, outcome="error", message=answer(verdict), kind=INVALID)
    outcome = {FAIL: "failure", UNPROVEN: "error"}.get(verdict.word)
    message = f"{answer(verdict)}: {verdict.reason}" if outcome else ""
    return Case(arm, KNEE_CASE, None, outcome, message, verdict.word if outcome else "", verdict.missing)


def _refusals(verdict: LadderVerdict, arm: str) -> Iterator[Case]:
    """A case per rule that refuses the whole ladder, or a level of which no rung is there."""
    levels = {rung["c"] for rung in verdict.rungs}
    of_ladder = [refusal for refusal in verdict.refusals if refusal.c not in levels]
    for rule in dict.fromkeys(refusal.rule for refusal in of_ladder):
        yield _refused(arm, rule, [refusal for refusal in of_ladder if refusal.rule == rule])


def _refused(arm: str, name: str, against: Sequence[Refusal], wall_ms: float | None = None) -> Case:
    """One outcome, however many rules: CI shows the first of a case only."""
    message = "; ".join(refusal.sentence for refusal in against)
    advice = [ADVICE.get(refusal.rule) for refusal in against]
    owners = ", ".join(sorted({each.owner for each in advice if each}))
    lines = [f"{refusal.rule}: {refusal.sentence}" for refusal in against]
    lines += dict.fromkeys(each.next_step for each in advice if each)
    return Case(arm, name, wall_ms, "failure", message, owners, tuple(lines))


def _run(verdict: LadderVerdict) -> Case:
    if verdict.word == PASS:
        return Case(*RUN_CASE)
    outcome = "failure" if verdict.word == FAIL else "error"
    return Case(*RUN_CASE, None, outcome, verdict.reason or verdict.word, verdict.word, (render(verdict)[-1],))
