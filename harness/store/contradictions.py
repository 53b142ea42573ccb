"""Statements of the evidence that disagree about one fact.

Rules judge one of the two. What the other says would be seen by nobody, and nothing tells which of them was damaged.
A statement that is absent, or that is not read here, contradicts nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain

from harness.errors import PlanError
from harness.sortie.report import BackendResult
from harness.sortie.thresholds import Threshold, holds_by, judge, parse_threshold
from harness.store.readers import finite, moment, one_line, whole
from harness.store.source import Json, Source
from harness.store.stated import Stated

CLOCKS_APART = timedelta(minutes=5)  # what the clocks of driver and engines may differ by
MILLISECOND = timedelta(milliseconds=1)


def of_execution(execution: Json, stated: Stated) -> str | None:
    """The first contradiction of an execution, whose form was checked, with itself or with what is stated beside it."""
    found = chain(
        _copies(execution),
        _times(execution),
        _judgements(execution),
        _plan(execution, stated),
        _twins(execution, stated),
    )
    return next(map(one_line, found), None)


def _copies(execution: Json) -> Iterator[str]:
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
        for name in [*totals, *(sums.keys() - totals.keys())]:
            if whole(raw := totals.get(name, 0)) != sums[name]:
                yield f"totals has {name}={raw}, its results have {sums[name]}"


def counts(counters: object) -> dict[str, int]:
    """The counters that are counts."""
    entries = counters.items() if isinstance(counters, dict) else ()
    return {name: number for name, raw in entries if (number := whole(raw)) is not None}


def _times(execution: Json) -> Iterator[str]:
    start, end = moment(execution.get("started_at")), moment(execution.get("ended_at"))
    elapsed_ms = whole(execution.get("elapsed_ms"))
    if start and end and elapsed_ms is not None and abs((end - start) / MILLISECOND - elapsed_ms) >= 1:
        yield f"from started_at to ended_at is not the {elapsed_ms} ms that it took"
    for result in execution.get("results") or []:
        began = moment(result.get("started_at"))
        if start and began and (start - began > CLOCKS_APART or (end and began - end > CLOCKS_APART)):
            yield f"{result['backend']} started at {result['started_at']}, which is not while the execution ran"


def _judgements(execution: Json) -> Iterator[str]:
    """A threshold that passed holds by the value beside it, and by the results, as far as both can be read."""
    lost = {entry["backend"] for entry in execution.get("backend_errors") or []}
    survivors = [_result(result) for result in execution.get("results") or [] if result["backend"] not in lost]
    for judged in execution.get("thresholds") or []:
        if (threshold := _parsed(judged["expr"])) is None:
            continue
        if judged.get("scope") not in (None, threshold.scope):
            yield f"threshold {threshold.expr} is not of scope {judged['scope']}"
        if judged.get("pass") is not True:
            continue
        if holds_by(threshold, str(judged.get("actual")), len(survivors)) is False:
            yield f"threshold {threshold.expr} passed, and its actual {judged['actual']} does not hold"
        if _is_told(threshold) and holds_by(threshold, judge(threshold, survivors).actual, len(survivors)) is False:
            yield f"threshold {threshold.expr} passed, and by the results it does not hold"


def _is_told(threshold: Threshold) -> bool:
    """Whether the results hold what it takes: all counters of the load, no others, and times to a millisecond only."""
    return threshold.kind == "statistic" or (threshold.kind == "counter" and threshold.name.startswith("benchmark."))


def _result(result: Json) -> BackendResult:
    statistics = result.get("statistics")
    return BackendResult(
        backend=result["backend"],
        elapsed_ms=0,
        counters=counts(result.get("counters")),
        statistics={
            name: {key: text if key == "unit" else finite(text) for key, text in statistic.items()}
            for name, statistic in (statistics.items() if isinstance(statistics, dict) else ())
            if isinstance(statistic, dict)
        },
    )


def _plan(execution: Json, stated: Stated) -> Iterator[str]:
    """The share table is graded; the report and plan.yaml say what was to be sent as well."""
    judged, planned = Counter(_exprs(execution)), Counter(stated.plan.thresholds)
    for expr in (judged - planned) if planned else ():
        yield f"the report judges {judged[expr]} threshold(s) {expr}, plan.yaml states {planned[expr]}"
    share = stated.shares.get(execution["label"])
    if share is None:
        return
    rate_rps = whole(execution.get("rate"))
    of_pool = () if execution.get("per_backend") is True else (share.rate_rps * (stated.backends or 1),)
    if rate_rps is not None and rate_rps not in (share.rate_rps, *of_pool):
        yield f"the report's rate is {rate_rps}, shares.tsv plans {share.rate_rps} per node"
    target = next((one for one in stated.plan.targets if one.target == share.target), None)
    if target and target.rate_rps not in (None, share.rate_rps):
        yield f"plan.yaml plans {target.rate_rps:g} rps per node, shares.tsv {share.rate_rps}"
    if target and target.url and share.url and target.url != share.url:
        yield f"plan.yaml sends to {target.url}, shares.tsv names {share.url}"


def _exprs(execution: Json) -> list[str]:
    """Thresholds in the form of a plan's; those that another load generator has of its own are in no plan."""
    exprs = [judged["expr"].strip() for judged in execution.get("thresholds") or []]
    return [expr for expr in exprs if _parsed(expr)]


def _parsed(expr: str) -> Threshold | None:
    try:
        return parse_threshold(expr)
    except PlanError:
        return None


def _twins(execution: Json, stated: Stated) -> Iterator[str]:
    """Nothing that was refused passed; the log says PASS or FAIL of each; the stream holds the report's own object."""
    if execution.get("pass") is True and execution.get("refused") is not None:
        yield f"it was refused ({execution['refused']}), and it passed"
    if execution.get("pass") is True and execution["label"] in stated.log.failed:
        yield "sortie.log says FAIL, the report says that it passed"
    if not _equal(stated.stream.get((execution["label"], execution.get("started_at") or ""), execution), execution):
        yield "results.jsonl holds this execution with other values"


def _equal(one: Json, other: Json) -> bool:
    try:
        return one == other
    except RecursionError:  # nested deeper than anything that a driver writes
        return False


def of_run(source: Source, stated: Stated, *, duration_s: int | None, engines: int | None) -> str | None:
    """The first contradiction about the run as a whole. ``engines``: rows of the engine list, None without one."""
    found = chain(_planned(stated, duration_s, engines), _logged(source, stated))
    return next(map(one_line, found), None)


def _planned(stated: Stated, duration_s: int | None, engines: int | None) -> Iterator[str]:
    plan = stated.plan
    if engines not in (None, stated.backends):
        yield f"engines.tsv lists {engines} engines, run.env says BACKENDS={stated.backends}"
    if plan.has_scenario is False:
        yield f"plan.yaml holds no scenario for {', '.join(stated.shares)}"
    if None not in (plan.duration_s, duration_s) and plan.duration_s != duration_s:
        yield f"plan.yaml plans {plan.duration_s:g} s, run.env says DURATION_S={duration_s}"
    planned, shared = [one.target or "?" for one in plan.targets], [one.target for one in stated.shares.values()]
    if plan.has_scenario and planned != shared:
        yield f"plan.yaml names the targets {', '.join(planned) or 'none'}, shares.tsv {', '.join(shared)}"


def _logged(source: Source, stated: Stated) -> Iterator[str]:
    """The driver's last line counts what the report lists; a stream may hold less than what ran."""
    log, executions = stated.log, source.executions
    if log.summary is None or source.kind != "report":
        return
    ran = [execution for execution in executions if execution.get("not_run") is not True]
    passed = sum(execution.get("pass") is True for execution in ran)
    if (log.passed, log.ran) != (passed, len(ran)) or log.summary.startswith("PASS") != (passed == len(executions)):
        yield f'sortie.log says "{log.summary}", and {passed} of {len(ran)} executions in the report passed'
