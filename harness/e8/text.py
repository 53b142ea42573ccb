"""The verdict of a ladder as lines of text: its rungs, its answer, what it rests on, and last the verdict line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.e8.turns import FAILURES
from harness.e8.verdict import INVALID, KNEE, LadderVerdict
from harness.gate.verdict import REFUSED
from harness.store.readers import one_line

if TYPE_CHECKING:
    from harness.e8.questions import Row, Suspect
    from harness.e8.usl import Usl


def render(verdict: LadderVerdict) -> list[str]:
    """All lines, the verdict line last; each names the arm that its numbers are of.

    A ladder that could not even be read is one line, which is no VERDICT line.
    """
    if verdict.ungraded:
        return [one_line(f"REFUSED {verdict.run}: {verdict.reason}")]
    arm = verdict.arm or "arm?"
    lines = [f"{word}  {arm}  {text}" for word, text in _all(verdict)]
    return ["  ".join(map(one_line, line.split("  "))) for line in [*lines, _verdict(verdict)]]


def answer(verdict: LadderVerdict) -> str:
    """The answer in words."""
    knee = verdict.knee
    if knee.answer == INVALID:
        return f"invalid because {verdict.reason}"
    if knee.answer == KNEE:
        return f"in [{knee.lo}, {knee.hi}], floor {knee.floor}"
    return f"not observed up to c={knee.floor}"


Line = tuple[str, str]


def _all(verdict: LadderVerdict) -> Iterator[Line]:
    for rung in verdict.rungs:
        yield "RUNG", _rung(rung)
    for refusal in verdict.refusals:
        yield "REFUSED", f"{refusal.rule}: {refusal.sentence}"
    for what in verdict.missing:
        yield "MISSING", what
    yield "KNEE", answer(verdict)
    if verdict.knee.answer == KNEE:
        yield from _bound(verdict)
    if verdict.usl is not None:
        yield "USL", _usl(verdict.usl)
    if verdict.marginal_ms_per_turn is not None and verdict.knee.answer != INVALID:
        yield "WORKER CPU", _worker_cpu(verdict)
    for note in verdict.notes:
        yield "NOTE", note
    if verdict.claim:
        yield "CLAIM", verdict.claim


def _rung(rung: Row) -> str:
    count = "?" if rung["ok"] is None or rung["attempts"] is None else f"{rung['ok']}/{rung['attempts']}"
    failed = " ".join(f"{name}={rung[name]}" for name in FAILURES if rung[name])
    used = " ".join(
        f"{name}={_number(rung[key], '%')}"
        for name, key in (
            ("worker", "worker_cpu_util_pct"),
            ("host", "host_cpu_util_pct"),
            ("sandbox", "sandbox_util_pct"),
        )
    )
    return (
        f"{rung['name']}  {rung['state']}  ok={count} "
        f"{_number(rung['throughput_tps'], '/s', 2)} p50={_number(rung['p50_ms'], 'ms', 0)} "
        f"p95={_number(rung['p95_ms'], 'ms', 0)}  {used} "
        f"lag={_number(rung['lag_p99_ms'], 'ms')}" + (f"  {failed}" if failed else "")
    )


def _bound(verdict: LadderVerdict) -> Iterator[Line]:
    convicted = next((suspect for suspect in verdict.suspects if suspect.convicts), None)
    yield "BOUND", f"{verdict.bound}{f': {_suspect(convicted)}' if convicted else ''}"
    near = [suspect for suspect in verdict.suspects if suspect.bound == verdict.runner_up and suspect.ratio]
    nearest = max(near, key=lambda suspect: suspect.ratio or 0, default=None)
    yield "RUNNER-UP", f"{nearest.bound}: {_suspect(nearest)}" if nearest else "none came half as near"


def _suspect(suspect: Suspect) -> str:
    measured, threshold = (
        f"{value:.4g}" if value is not None else "?" for value in (suspect.measured, suspect.threshold)
    )
    return f"{measured} against {threshold} at c={suspect.c} ({suspect.what})"


def _worker_cpu(verdict: LadderVerdict) -> str:
    low, high = verdict.marginal_range_ms or (None, None)
    return (
        f"{_number(verdict.marginal_ms_per_turn, ' ms')} for each further turn ({_number(low, '')} to "
        f"{_number(high, '')} as each level is left out), {_number(verdict.background_ms_per_s, ' ms', 0)} in any "
        "second without one"
    )


def _usl(fit: Usl) -> str:
    if fit.peak_c is None:
        least = f"{fit.lower_bound_c:g}"
        return f"no peak is told, which takes levels up to twice its c; if there is a peak, it is at c={least} or above"
    return f"throughput peaks at c={fit.peak_c:.0f} [{fit.lo_c:.0f}, {fit.hi_c:.0f}]"


def _verdict(verdict: LadderVerdict) -> str:
    knee = verdict.knee
    told = {KNEE: f"[{knee.lo},{knee.hi}]"}.get(knee.answer, knee.answer)
    line = f"VERDICT {verdict.word} arm={verdict.arm or '?'} knee={told}"
    if verdict.word == REFUSED:
        return f"{line} -- {verdict.reason}"
    saturated = "yes" if verdict.saturated else "no"
    line += f" floor={knee.floor} saturated={saturated} bound={verdict.bound} runner_up={verdict.runner_up or 'none'}"
    return f"{line} -- {verdict.reason}" if verdict.reason else line


def _number(value: float | None, unit: str, decimals: int = 1) -> str:
    return "?" if value is None else f"{value:.{decimals}f}{unit}"
