"""What an execution says twice: in its results and in their copies, sums, times, statistics and judgements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import pairwise

from harness.errors import PlanError
from harness.sortie.names import COUNTERS
from harness.sortie.report import BackendResult
from harness.sortie.thresholds import POOL, Threshold, holds_by, judge, parse_threshold
from harness.store.readers import finite, moment, whole
from harness.store.source import Json

CLOCKS_APART = timedelta(minutes=5)  # what the clocks of driver and engines may differ by
MILLISECOND = timedelta(milliseconds=1)
ROUNDING_MS = 1000  # an engine's own time may be read this much longer than the driver's
LADDER = ("min", "p50", "p90", "p99", "p99.9", "max")
BUCKET = 1.01  # a percentile is the border of its bucket
RATE_SLACK = 0.02  # times are told to a millisecond, and what is divided by them is no exact rate
ENVOY = "upstream_rq_"


def copies(execution: Json) -> Iterator[str]:
    """``failures`` and ``totals`` repeat what the results count."""
    told: dict[str, Counter[str]] = {}
    for result in execution.get("results") or []:
        told.setdefault(result["backend"], Counter()).update(counts(result.get("counters")))
    for entry in execution.get("failures") or []:
        found = told.get(entry["backend"], Counter())
        for name, raw in (entry.get("counters") or {}).items():
            if whole(raw) != found[name]:
                yield f"failures has {name}={raw} on {entry['backend']}, its result has {found[name]}"
    sums = sum(told.values(), Counter())
    if (totals := execution.get("totals")) is not None:
        for name in [*totals, *sorted(sums.keys() - totals.keys())]:
            if whole(raw := totals.get(name, 0)) != sums[name]:
                yield f"totals has {name}={raw}, its results have {sums[name]}"


def counts(counters: object) -> dict[str, int]:
    """The counters that are counts."""
    entries = counters.items() if isinstance(counters, dict) else ()
    return {name: number for name, raw in entries if (number := whole(raw)) is not None}


def names(execution: Json) -> Iterator[str]:
    """A label is its scenario's name, and more; nothing that was refused passed."""
    scenario = execution.get("scenario")
    if scenario is not None and not f"{execution['label']}/".startswith(f"{scenario}/"):
        yield f"it says that it is of scenario {scenario}, which its label does not begin with"
    if execution.get("pass") is True and execution.get("refused") is not None:
        yield f"it was refused ({execution['refused']}), and it passed"


def requests(execution: Json) -> Iterator[str]:
    """An engine releases what it planned, and no more."""
    for result in execution.get("results") or []:
        own = counts(result.get("harness"))
        if own.get("released", 0) > own.get("planned", own.get("released", 0)):
            yield f"{result['backend']} released {own['released']} requests and planned {own['planned']}"


def times(execution: Json) -> Iterator[str]:
    """It ran from its start to its end, and its results while it ran."""
    start, end = moment(execution.get("started_at")), moment(execution.get("ended_at"))
    elapsed_ms = whole(execution.get("elapsed_ms"))
    if start and end and elapsed_ms is not None and abs((end - start) / MILLISECOND - elapsed_ms) >= 1:
        yield f"from started_at to ended_at is not the {elapsed_ms} ms that it took"
    for result in execution.get("results") or []:
        backend, began, ran_ms = result["backend"], moment(result.get("started_at")), whole(result.get("elapsed_ms"))
        if elapsed_ms is not None and ran_ms is not None and ran_ms > elapsed_ms + ROUNDING_MS:
            yield f"{backend} ran {ran_ms} ms, the whole execution took {elapsed_ms} ms"
        if start and began and start - began > CLOCKS_APART:
            yield f"{backend} started at {result['started_at']}, which is not while the execution ran"
        if end and began and (began - end) / MILLISECOND + (ran_ms or 0) > CLOCKS_APART / MILLISECOND:
            yield f"{backend} started at {result['started_at']}, and so ran on when the execution had ended"


def statistics(execution: Json, counted: Mapping[str, bool]) -> Iterator[str]:
    """A statistic rises from its minimum to its maximum, and times no more answers than were counted."""
    for result in execution.get("results") or []:
        told = result.get("statistics")
        for name, statistic in told.items() if isinstance(told, dict) else ():
            if isinstance(statistic, dict):
                found = [*_order(statistic), *_timed(name, statistic, result.get("counters"), counted)]
                yield from (f"{name} on {result['backend']} {what}" for what in found)
        yield from _envoys_own(result, counted)


def _order(statistic: Json) -> Iterator[str]:
    told = {key: number for key in (*LADDER, "mean", "pstdev") if (number := finite(statistic.get(key))) is not None}
    yield from (f"has {key}={number:.12g}, below 0" for key, number in told.items() if number < 0)
    for low, high in pairwise(key for key in LADDER if key in told):
        if told[low] > told[high] * BUCKET:
            yield f"has {low}={told[low]:.12g} and {high}={told[high]:.12g}"


def _timed(name: str, statistic: Json, counters: object, counted: Mapping[str, bool]) -> Iterator[str]:
    """Every answer that is timed is counted; one that is slow beyond the histogram is counted only."""
    status = name.removeprefix("benchmark_http_client.latency_")
    counter, samples = f"benchmark.http_{status}", whole(statistic.get("count"))
    if status == name or counter not in COUNTERS or samples is None or not isinstance(counters, dict):
        return
    number = whole(counters.get(counter, 0))
    if number is not None and samples > number and (counter in counters or counted.get(counter)):
        yield f"times {samples} answers, {counter} counts {number}"


def _envoys_own(result: Json, counted: Mapping[str, bool]) -> Iterator[str]:
    """Envoy's counters of the same answers, where a producer tells them."""
    told = counts(result.get("counters"))
    for status in ("4xx", "5xx"):
        counter, own = f"benchmark.http_{status}", told.get(f"{ENVOY}{status}", 0)
        if own and not told.get(counter) and counted.get(counter):
            yield f"{result['backend']} has {ENVOY}{status}={own} and no {counter}"


def thresholds(execution: Json) -> Iterator[str]:
    """A threshold that passed holds by the value beside it, and by the results, as far as both can be read."""
    lost = {entry["backend"] for entry in execution.get("backend_errors") or []}
    survivors = [_result(result) for result in execution.get("results") or [] if result["backend"] not in lost]
    for judged in execution.get("thresholds") or []:
        if (threshold := parsed(judged["expr"])) is None:
            continue
        if judged.get("scope") not in (None, threshold.scope):
            yield f"threshold {threshold.expr} is not of scope {judged['scope']}"
        if judged.get("pass") is not True:
            continue
        if holds_by(threshold, str(judged.get("actual")), len(survivors)) is False:
            yield f"threshold {threshold.expr} passed, and its actual {judged['actual']} does not hold"
        if _is_refuted(threshold, survivors):
            yield f"threshold {threshold.expr} passed, and by the results it does not hold"


def parsed(expr: str) -> Threshold | None:
    """A threshold in the form of a plan's; those that another load generator has of its own are in no plan."""
    try:
        return parse_threshold(expr)
    except PlanError:
        return None


def _is_refuted(threshold: Threshold, survivors: list[BackendResult]) -> bool:
    if threshold.scope == POOL and not _is_told(threshold.name, survivors):
        return False
    actual = judge(threshold, survivors).actual
    if threshold.kind == "rate" and (rate := _number(actual)) is not None:
        return not (
            any(threshold.holds(rate * factor) for factor in (1 - RATE_SLACK, 1, 1 + RATE_SLACK))
            or abs(rate - threshold.value) <= RATE_SLACK * abs(rate)
        )
    return holds_by(threshold, actual, len(survivors)) is False or "has no statistic" in actual


def _is_told(name: str, survivors: list[BackendResult]) -> bool:
    """Whether the results hold the counter, or would hold it: all counters of the load, and none of Envoy's own."""
    known = {*COUNTERS, *(counter for result in survivors for counter in result.counters)}
    return name.startswith("benchmark.") or any(counter.endswith(f".{name}") for counter in known)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _result(result: Json) -> BackendResult:
    told = result.get("statistics")
    return BackendResult(
        backend=result["backend"],
        elapsed_ms=whole(result.get("elapsed_ms")) or 0,
        counters=counts(result.get("counters")),
        statistics={
            name: {key: text if key == "unit" else finite(text) for key, text in statistic.items()}
            for name, statistic in (told.items() if isinstance(told, dict) else ())
            if isinstance(statistic, dict)
        },
    )
