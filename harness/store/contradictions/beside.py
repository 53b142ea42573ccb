"""What an execution says, and what the share table, the plan, the log, the stream or times.tsv say of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from harness.sortie.durations import NS_PER_UNIT
from harness.store.contradictions.within import counts, parsed
from harness.store.driver_log import DriverLog, Started
from harness.store.readers import Share, moment, whole
from harness.store.source import Json
from harness.store.stated import Stated, StatedStream
from harness.store.stated_plan import StatedPlan

PLANNED_SLACK = 0.01  # an engine plans whole requests


def shares(execution: Json, stated: Stated) -> Iterator[str]:
    """The share table is graded; the report says what was to be sent as well."""
    share = stated.shares.get(execution["label"])
    if share is None:
        return
    nodes = 1 if execution.get("per_backend") is True else stated.backends or 1
    rate_rps, duration_ms = whole(execution.get("rate")), whole(execution.get("duration_ms"))
    if rate_rps not in (None, share.rate_rps * nodes):
        of_all = "" if nodes == 1 else f" for {nodes} nodes together"
        yield f"the report's rate is {rate_rps}{of_all}, shares.tsv plans {share.rate_rps} per node"
    for result in execution.get("results") or []:
        own = result.get("harness")
        planned = whole(own.get("planned")) if isinstance(own, dict) else None
        wanted = None if duration_ms is None else share.rate_rps * duration_ms / 1000
        if planned is not None and wanted is not None and abs(planned - wanted) > wanted * PLANNED_SLACK:
            yield f"{result['backend']} planned {planned} requests, by shares.tsv it was to send {wanted:g}"


def plan(execution: Json, stated: StatedPlan, share: Share | None) -> Iterator[str]:
    """plan.yaml states thresholds, pool and duration, and of each target the rate and the URL."""
    judged, planned = Counter(_exprs(execution)), Counter(stated.thresholds)
    for expr in (judged - planned) if planned else ():
        yield f"the report judges {judged[expr]} threshold(s) {expr}, plan.yaml states {planned[expr]}"
    if share is None:
        return
    for key, told in (("pool", stated.pool), ("dns", stated.dns)):
        if told is not None and execution.get(key) not in (None, told):
            yield f"its {key} is {execution[key]}, in plan.yaml it is {told}"
    duration_ms = whole(execution.get("duration_ms"))
    if stated.duration_s is not None and duration_ms is not None and duration_ms != round(stated.duration_s * 1000):
        yield f"it was to take {duration_ms} ms, plan.yaml plans {stated.duration_s:g} s"
    target = stated.by_target.get(share.target)
    if target and target.rate_rps not in (None, share.rate_rps):
        yield f"plan.yaml plans {target.rate_rps:g} rps per node, shares.tsv {share.rate_rps}"
    if target and target.url and share.url and target.url != share.url:
        yield f"plan.yaml sends to {target.url}, shares.tsv names {share.url}"


def _exprs(execution: Json) -> list[str]:
    exprs = [judged["expr"].strip() for judged in execution.get("thresholds") or []]
    return [expr for expr in exprs if parsed(expr)]


def log(execution: Json, told: DriverLog) -> Iterator[str]:
    """The log says PASS or FAIL of each, and what had failed while it ran."""
    label = execution["label"]
    if execution.get("pass") is True and label in told.failed:
        yield "sortie.log says FAIL, the report says that it passed"
    for result in execution.get("results") or []:
        failing = told.failing.get((label, result["backend"]), frozenset())
        if unseen := failing - {name for name, number in counts(result.get("counters")).items() if number}:
            yield f"sortie.log counts {min(unseen)} on {result['backend']}, its result has none"


def started(execution: Json, told: Started | None) -> Iterator[str]:
    """The log says of each, as it starts, at which rate, for how long and on which backends."""
    if told is None:
        return
    rate_rps, duration_ms = whole(execution.get("rate")), whole(execution.get("duration_ms"))
    backends = frozenset(execution.get("backends") or told.backends)
    if rate_rps not in (None, told.rate_rps):
        yield f"sortie.log says that its rate was {told.rate_rps}, the report {rate_rps}"
    if duration_ms is not None and told.duration_ns not in (None, duration_ms * NS_PER_UNIT["ms"]):
        yield f"sortie.log says that it was to take other than {duration_ms} ms"
    if strange := backends ^ told.backends:
        yield f"only one of sortie.log and the report says that it ran on {min(strange)}"


def stream(execution: Json, told: StatedStream) -> Iterator[str]:
    """What the stream holds of a label is the report's own object, once."""
    lines = told.executions.get(execution["label"], [])
    if len(lines) > 1:
        yield f"results.jsonl holds it {len(lines)} times"
    for line in lines:
        if not _equal(line.get("started_at"), execution.get("started_at")):
            yield f"results.jsonl says that it started at {line.get('started_at')}, not {execution.get('started_at')}"
        if not _equal(line, execution):
            yield "results.jsonl holds this execution with other values"


def _equal(one: object, other: object) -> bool:
    """Times by what they say, all else as it is."""
    try:
        return one == other or _equal_by_times(one, other)
    except RecursionError:  # nested deeper than anything that a driver writes
        return False


def _equal_by_times(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal_by_times(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal_by_times, one, other))
    return one == other or (moment(one) is not None and moment(one) == moment(other))


def times(execution: Json, told: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """times.tsv is made from the report."""
    if execution.get("pass") is True and (words := told.get(execution["label"], frozenset()) - {"pass"}):
        yield f"times.tsv says {min(words)}, the report says that it passed"
