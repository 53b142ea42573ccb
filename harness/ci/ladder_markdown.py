"""A ladder's verdict as a step summary: verdict, answer, claim, what bound it, then its rungs; each names the arm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness.ci.markdown import LIMIT_BYTES, LONGEST_PROSE, UNKNOWN, Section, data, row, summary, table
from harness.ci.rungs import arm_of, planned_rungs
from harness.e8.advice import ADVICE
from harness.e8.text import render
from harness.e8.turns import FAILURES
from harness.e8.verdict import INVALID, NOT_OBSERVED, LadderVerdict

if TYPE_CHECKING:
    from harness.e8.questions import Row
    from harness.e8.refusals import Refusal

ANSWERS = {
    "KNEE": "knee",
    "BOUND": "bound by",
    "RUNNER-UP": "runner-up",
    "USL": "peak of throughput",
    "WORKER CPU": "worker CPU",
}
"""Lines of the verdict that are an answer, and what they are called here."""


def ladder_markdown(verdict: LadderVerdict, *, beside: Sequence[str] = (), limit_bytes: int = LIMIT_BYTES) -> str:
    """The summary; at most ``limit_bytes`` long, but for the verdict itself, which is always there.

    ``beside`` are lines that belong before the verdict's own.
    """
    return summary(_opening(verdict), beside, _sections(verdict), verdict.gate_sha256, limit_bytes)


def _opening(verdict: LadderVerdict) -> Iterator[str]:
    yield f"## {verdict.word} {data(verdict.run)}"
    yield ""
    if verdict.reason is not None:
        yield f"{data(verdict.reason, LONGEST_PROSE)}\n"
    if verdict.claim:
        yield f"> {data(verdict.claim, LONGEST_PROSE)}\n"


def _sections(verdict: LadderVerdict) -> Iterator[Section]:
    arm = data(arm_of(verdict))
    answers = () if verdict.ungraded else tuple(_answers(verdict))
    yield Section(table("", "arm", "answer"), answers, lambda item: row(item[0], arm, data(item[1], LONGEST_PROSE)))
    refusals = "\n### Refused\n" + table("arm", "rung", "rule", "whose", "what", "what to do next")
    yield Section(refusals, verdict.refusals, lambda refusal: _refusal(arm, refusal))
    yield Section("\n### Not recorded\n\n", verdict.missing, lambda what: f"- {data(what, LONGEST_PROSE)}")
    rungs = "\n### Rungs\n" + table(
        "rung", "arm", "state", "ok of attempts", "turns/s", "p50, ms", "p95, ms", "workers, %", "host, %",
        "sandboxes, %", "lag p99, ms", "failures",
    )  # fmt: skip
    yield Section(rungs, list(planned_rungs(verdict)), lambda item: _rung(arm, *item))
    yield Section("\n### Notes\n\n", verdict.notes, lambda note: f"- {data(note, LONGEST_PROSE)}")


def _answers(verdict: LadderVerdict) -> Iterator[tuple[str, str]]:
    """What the ladder came to, as the gate prints it: its lines are a word, the arm and a text."""
    if verdict.knee.answer == INVALID:  # the reason stands above, and every refusal below
        yield ANSWERS["KNEE"], INVALID
        return
    for line in render(verdict)[:-1]:
        word, _, text = line.split("  ", 2)
        if word in ANSWERS and text != NOT_OBSERVED:  # nothing bound a ladder without a knee
            yield ANSWERS[word], text


def _refusal(arm: str, refusal: Refusal) -> str:
    rung = "" if refusal.c is None else f"c={refusal.c}"
    advice = ADVICE.get(refusal.rule)
    whose, then = (advice.owner, data(advice.next_step, LONGEST_PROSE)) if advice else ("", "")
    return row(arm, rung, data(refusal.rule), whose, data(refusal.sentence, LONGEST_PROSE), then)


def _rung(arm: str, name: str, rung: Row | None) -> str:
    if rung is None:
        return row(data(name), arm, UNKNOWN, *[""] * 9)
    done = f"{_count(rung['ok'])} of {_count(rung['attempts'])}"
    failed = " ".join(f"{data(kind)} {rung[kind]:,}" for kind in FAILURES if rung[kind])
    if not failed:
        failed = "none" if all(rung[kind] is not None for kind in FAILURES) else UNKNOWN
    used = (rung["worker_cpu_util_pct"], rung["host_cpu_util_pct"], rung["sandbox_util_pct"], rung["lag_p99_ms"])
    turns = (_number(rung["throughput_tps"], 2), _number(rung["p50_ms"], 0), _number(rung["p95_ms"], 0))
    return row(data(name), arm, rung["state"], done, *turns, *map(_number, used), failed)


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _number(value: float | None, decimals: int = 1) -> str:
    return UNKNOWN if value is None else f"{value:,.{decimals}f}"
