"""Numbers and rules as words. ``None`` is always "not measured": an unknown number is never printed as 0."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import datetime

NOT_MEASURED = "not measured"

NEXT_STEP: dict[str, str] = {
    "missing": "The target was planned and never driven: compare plan.yaml with sortie.log in the evidence.",
    "duplicate": "Two runs share one file. Save each run under a name of its own and grade again.",
    "not_run": "The driver never attempted this target: sortie.log says why. Repeat the run.",
    "refused_at_cap": "The engine was full: raise engine.max_executions, or drive fewer targets at once.",
    "lost_backend": "The engine of that node went away: read engine-<node>.log, then proxy-<node>.log.",
    "execution_error": "Read the error in the finding and the same lines of sortie.log.",
    "short_run": "The load ended before its time: find the first error in sortie.log and repeat the run.",
    "off_plan": "The engine of that node ran longer or shorter than planned: was its process frozen or starved of CPU?",
    "pool_size": "Not every node took part: compare engines.tsv with the dispatch list in report.json.",
    "failures": "Read the class in the finding, then access-<node>.log and proxy-<node>.log around its time.",
    "driver_saturated": "The engine's queue was full: find what stalled (latency below). If nothing did, the load is "
    "too much for one engine: raise connections= or stall_budget_s=, lower rate=, or spread it over more nodes=.",
    "in_flight": "Requests had no outcome at the end: look for a stalled server, or raise engine.timeout_s.",
    "below_plan": "Fewer answers than planned: read the same node's other findings first, then its latency.",
    "above_plan": "More answers than planned: is something else sending through the same engine?",
    "threshold": "A limit of the plan was passed; the finding shows the value that was seen.",
    "unplanned_target": "The report holds a target outside the plan: report and share table are of two runs.",
    "undispatched_backend": "A result came from an address that was not dispatched: report and log are of two runs.",
    "silent_backend": "A node took the load and returned nothing, unlisted: the report may be cut off.",
    "report_failed": "The driver says FAIL and nothing says why, or two files disagree: read its detail, sortie.log.",
    "log_skips": "The driver's log says that something was skipped: read the SKIP lines of sortie.log.",
    "no_results": "The execution ended without one result: read sortie.log and the engines' logs.",
    "bad_counters": "A counter is not a whole number: the report was changed or its producer is broken.",
    "driver_late": "The engine itself sent late: free CPU on its machine or lower rate=, then repeat the run.",
    "churn_incomplete": "What was rolled is not what was planned: read churn.log, repair the cause and repeat the run.",
}


ANY_RULE = "Read the detail of the finding, and what the gate says of each node: harness gate RUN --per-node"
"""The advice for a rule that has none of its own here."""

BLAME: dict[str, str] = {
    "mesh": "the mesh failed this, not the load generator",
    "driver": "the load generator's fault, the mesh is not blamed",
    "plan": "the plan is at fault",
    "evidence": "what was saved is at fault",
}
"""Cause of a finding → whom it blames."""


def advice(rule: str) -> str:
    """What to do when a rule is broken."""
    return NEXT_STEP.get(rule, ANY_RULE)


def next_step(rule: str, nodes: Collection[str], causes: Collection[str] = ()) -> str:
    """What to do about a broken rule and whom it blames; where it names one node, with that node's name in the files.

    ``causes`` are those of all findings of the rule; where they differ, nobody is named.
    """
    step = advice(rule)
    if len(nodes) == 1:
        step = step.replace("<node>", next(iter(nodes)))
    blame = BLAME.get(next(iter(causes))) if len(causes) == 1 else None
    return f"{rule} ({blame}): {step}" if blame else f"{rule}: {step}"


def number(value: int, noun: str) -> str:
    """``1 line``, ``2 lines``: a count with its noun."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def shortened(items: Sequence[str], most: int = 3) -> str:
    """The first few of a list, and how many more there are."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")


def milliseconds(value_ns: float | None) -> str:
    """Nanoseconds as milliseconds: no decimals from 100, one from 10, else two; trailing zeros dropped."""
    if value_ns is None:
        return NOT_MEASURED
    value = value_ns / 1e6
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    text = f"{value:,.{decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + " ms"


def count(value: float | None) -> str:
    """A whole number with thousands separators."""
    return NOT_MEASURED if value is None else f"{value:,.0f}"


def mebibytes(value_bytes: float | None) -> str:
    """Bytes as MiB, one decimal below 100."""
    if value_bytes is None:
        return NOT_MEASURED
    value = value_bytes / 2**20
    return f"{value:,.0f} MiB" if value >= 100 else f"{value:.1f} MiB"


def cores(value: float | None) -> str:
    """CPU cores in use, three decimals."""
    return NOT_MEASURED if value is None else f"{value:.3f}"


def seconds(value_s: float | None) -> str:
    """A moment or a duration in seconds, one decimal when it has one."""
    return NOT_MEASURED if value_s is None else f"{value_s:,.1f}".removesuffix(".0") + " s"


def duration(value_s: float | None) -> str:
    """A duration for people: ``60 s``, ``15 min``, ``8 h 30 min``."""
    if value_s is None:
        return NOT_MEASURED
    if value_s < 120 or value_s % 60:
        return seconds(value_s)
    hours, minutes = divmod(int(value_s) // 60, 60)
    return " ".join(part for part in (f"{hours} h" if hours else "", f"{minutes} min" if minutes else "") if part)


def utc(moment: datetime | str | None) -> str:
    """A UTC moment to the millisecond, with its zone."""
    if moment is None:
        return NOT_MEASURED
    if isinstance(moment, str):
        return moment
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d} UTC"


def zero_bound(trials: int | None) -> str:
    """What 0 failures in ``trials`` requests prove: the rate is below 3/n with 95 % confidence.

    The rule of three: (1 - p)^n = 0.05 solved for small p, with -ln 0.05 = 2.996 rounded up. Few trials (n < 30, where
    the rounding shows) and none prove nothing that is worth a number.
    """
    if trials is None:
        return NOT_MEASURED
    if trials < 30:
        return f"nothing: {number(trials, 'request')} {'is' if trials == 1 else 'are'} too few"
    exponent = math.floor(math.log10(3 / trials))
    mantissa = math.ceil(3 / trials / 10.0**exponent * 10) / 10  # upwards: a bound may be loose, never too tight
    return f"below {mantissa:.1f} × 10{superscript(exponent)} of requests, with 95 % confidence"


def superscript(number: int) -> str:
    """An exponent in superscript digits."""
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
