"""Threshold expressions: ``<selector> <op> <value>``, parsed before the load and judged after it.

Selectors: ``counter:NAME`` and ``rate:NAME`` over the pool; ``STATISTIC.pN``, ``.mean``, ``.min``, ``.max``,
``.pstdev`` and ``.count`` per backend. A name is given whole or by a suffix that starts after a dot
(``latency_2xx`` for ``benchmark_http_client.latency_2xx``).
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from harness.errors import PlanError
from harness.sortie import names
from harness.sortie.durations import format_duration, parse_duration
from harness.sortie.percentiles import REPORTED, percentile
from harness.sortie.report import BackendResult, ThresholdResult

POOL = "pool"
PER_BACKEND = "per-backend"

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_NAME = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
_EXPRESSION = re.compile(r"(?P<selector>[^\s<>=!]+)\s*(?P<op><=|>=|==|!=|<|>)\s*(?P<value>[^\s<>=!]+)")
_POOL_SELECTOR = re.compile(rf"(?P<kind>counter|rate):(?P<name>{_NAME})", re.ASCII)
_STATISTIC_SELECTOR = re.compile(
    rf"(?P<name>{_NAME})\.(?:p(?P<percent>[0-9]+(?:\.[0-9]+)?)|(?P<field>mean|min|max|pstdev|count))", re.ASCII
)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_SIZE_SUFFIX = "_size"  # ids that end so count bytes; every other statistic an engine gives is a duration


@dataclass(frozen=True)
class Threshold:
    """A parsed expression.

    ``kind`` is ``counter``, ``rate`` or ``statistic``. Of a statistic, ``field`` names the number and is empty where
    ``percent`` is given. ``value`` is nanoseconds when ``is_duration``.
    """

    expr: str
    kind: str
    name: str
    op: str
    value: float
    is_duration: bool = False
    field: str = ""
    percent: Decimal | None = None

    @property
    def scope(self) -> str:
        """``pool`` for counters and rates, ``per-backend`` for statistics."""
        return PER_BACKEND if self.kind == "statistic" else POOL

    def holds(self, actual: float) -> bool:
        """True when ``actual`` satisfies the expression; a NaN satisfies none."""
        return not math.isnan(actual) and _OPERATORS[self.op](actual, self.value)


class _Unresolved(Exception):  # noqa: N818 - carries a text into the report, never leaves this module
    """A metric that cannot be resolved; its text becomes the threshold's ``actual``."""


def parse_threshold(text: str) -> Threshold:
    """Parse one expression. Raises PlanError naming what is wrong with it."""
    expr = text.strip()
    match = _EXPRESSION.fullmatch(expr)
    if match is None:
        raise PlanError(f"threshold {expr!r} must be '<selector> <op> <value>' with one of {' '.join(_OPERATORS)}")
    selector, op, value = match["selector"], match["op"], match["value"]
    if pool := _POOL_SELECTOR.fullmatch(selector):
        return Threshold(expr, pool["kind"], pool["name"], op, _number(expr, value))
    statistic = _STATISTIC_SELECTOR.fullmatch(selector)
    if statistic is None:
        raise PlanError(
            f"threshold {expr!r}: {selector!r} must be counter:NAME, rate:NAME or "
            "STATISTIC followed by .pN, .mean, .min, .max, .pstdev or .count"
        )
    name, field = statistic["name"], statistic["field"] or ""
    percent = None if statistic["percent"] is None else Decimal(statistic["percent"])
    if percent is not None and not 0 < percent <= 100:
        raise PlanError(f"threshold {expr!r}: a percentile must be above 0 and at most 100")
    if field == "count" or name.endswith(_SIZE_SUFFIX):
        return Threshold(expr, "statistic", name, op, _number(expr, value), False, field, percent)
    duration_ns = parse_duration(value)
    if duration_ns is None:
        raise PlanError(f"threshold {expr!r}: {value!r} must be a duration with its unit, like 500ms")
    return Threshold(expr, "statistic", name, op, duration_ns, True, field, percent)


def parse_thresholds(texts: Iterable[str]) -> tuple[Threshold, ...]:
    """Every expression of a plan, in its order. Raises PlanError at the first bad one."""
    return tuple(parse_threshold(text) for text in texts)


def check_known(threshold: Threshold) -> None:
    """Refuse what can never be told by an engine here, before the load rather than after it.

    A counter that nobody counts reads as 0, so a misspelt ``== 0`` would hold whatever happens; a statistic that nobody
    measures always fails. Raises PlanError, with the name that was probably meant.
    """
    if threshold.kind != "statistic":
        _known(threshold, (*names.COUNTERS, *names.RESET_REASONS), "counts")
        return
    name = _known(threshold, names.STATISTICS, "measures")
    if threshold.percent is None or threshold.percent == 100 or name in names.WITH_HISTOGRAM:
        return
    if name in names.SIZES:
        raise PlanError(f"threshold {threshold.expr!r}: {name} has no percentiles; ask for .mean, .min or .max")
    if threshold.percent not in REPORTED:
        raise PlanError(f"threshold {threshold.expr!r}: {name} is told at p50, p90, p99 and p99.9 only")


def _known(threshold: Threshold, known: Sequence[str], verb: str) -> str:
    """The known name that the threshold means. Raises PlanError when there is none."""
    if found := _match(threshold.name, known, threshold.kind):
        return found
    whole = {name.rpartition(".")[2]: name for name in known}
    near = difflib.get_close_matches(threshold.name.rpartition(".")[2], whole, n=1)
    meant = [whole[short] if "." in threshold.name else short for short in near]
    listed = ", ".join(short for short, name in whole.items() if name not in names.RESET_REASONS)
    hint = f"did you mean {meant[0]}?" if meant else f"it {verb}: {listed}"
    raise PlanError(f"threshold {threshold.expr!r}: the engine {verb} no {threshold.name!r}; {hint}")


def split_actual(expr: str, actual: str, backends: int) -> list[tuple[str, bool]] | None:
    """The values that ``actual`` lists for a per-backend threshold, each with whether it satisfies ``expr``.

    None unless there is one readable value for each of ``backends``: whose a value is must never be guessed.
    """
    try:
        threshold = parse_threshold(expr)
    except PlanError:
        return None
    values = _values(threshold, actual, backends)
    if threshold.scope != PER_BACKEND or values is None:
        return None
    return [(text, threshold.holds(value)) for text, value in zip(actual.split(", "), values, strict=True)]


def holds_by(threshold: Threshold, actual: str, backends: int) -> bool | None:
    """Whether ``actual`` satisfies the threshold, each of its values where it lists one for each of ``backends``.

    None where it cannot be read.
    """
    values = _values(threshold, actual, backends)
    return None if values is None else all(map(threshold.holds, values))


def _values(threshold: Threshold, actual: str, backends: int) -> list[float] | None:
    """The numbers that ``actual`` lists, durations in nanoseconds; None unless each is one, and none is left over."""
    texts = actual.split(", ") if threshold.scope == PER_BACKEND else [actual]
    found = [parse_duration(text) if threshold.is_duration else _plain(text) for text in texts]
    values = [value for value in found if value is not None]
    wanted = backends if threshold.scope == PER_BACKEND else 1
    return values if len(values) == len(found) == wanted else None


def judge(threshold: Threshold, survivors: Sequence[BackendResult]) -> ThresholdResult:
    """Judge one threshold over the backends that finished cleanly. Never raises.

    What cannot be resolved fails, and says why in ``actual``. Without a survivor nothing is known, so all fail.
    """
    if not survivors:
        return ThresholdResult(threshold.expr, threshold.scope, False, "no backend survived")
    judged = _judge_statistic if threshold.kind == "statistic" else _judge_pool
    return judged(threshold, survivors)


def _judge_pool(threshold: Threshold, survivors: Sequence[BackendResult]) -> ThresholdResult:
    try:
        actual = _pool_value(threshold, survivors)
    except _Unresolved as error:
        return ThresholdResult(threshold.expr, POOL, False, str(error))
    return ThresholdResult(threshold.expr, POOL, threshold.holds(actual), format_number(actual))


def _pool_value(threshold: Threshold, survivors: Sequence[BackendResult]) -> float:
    """The pool's total of a counter (absent is 0), for a rate divided by the longest execution of a survivor."""
    name = _match(threshold.name, {name for result in survivors for name in result.counters}, "counter")
    total = sum(result.counters.get(name, 0) for result in survivors) if name else 0
    if threshold.kind == "counter":
        return total
    longest_ms = max(result.elapsed_ms for result in survivors)
    if longest_ms <= 0:
        raise _Unresolved("no rate: no backend ran for a measurable time")
    return total * 1000 / longest_ms


def _judge_statistic(threshold: Threshold, survivors: Sequence[BackendResult]) -> ThresholdResult:
    passed, actuals = True, []
    for result in survivors:
        try:
            value = _statistic_value(threshold, result)
        except _Unresolved as error:
            passed = False
            actuals.append(str(error))
            continue
        passed = passed and threshold.holds(value)
        actuals.append(format_duration(round(value)) if threshold.is_duration else format_number(value))
    return ThresholdResult(threshold.expr, PER_BACKEND, passed, ", ".join(actuals))


def _statistic_value(threshold: Threshold, result: BackendResult) -> float:
    name = _match(threshold.name, result.statistics, "statistic")
    if name is None or not result.statistics[name].get("count"):
        raise _Unresolved(f"backend {result.backend} has no statistic {threshold.name!r}")
    statistic = result.statistics[name]
    if threshold.field == "count":
        return int(statistic["count"])
    if (statistic.get("unit") == "ns") != threshold.is_duration:
        wanted = "a duration" if statistic.get("unit") == "ns" else "a plain number"
        raise _Unresolved(f"statistic {name!r} must be compared with {wanted}")
    if threshold.percent is None:
        value = statistic.get(threshold.field)
    else:
        value = percentile(statistic, _histogram(name, result.histograms), threshold.percent)
    if not isinstance(value, int | float):
        asked = threshold.field or f"p{threshold.percent}"
        raise _Unresolved(f"backend {result.backend} has no {asked} of statistic {name!r}")
    return value


def _histogram(statistic: str, histograms: Mapping[str, str]) -> str | None:
    """An engine names a histogram by the statistic's whole id or by its last part."""
    return histograms.get(statistic) or histograms.get(statistic.rpartition(".")[2])


def _match(name: str, known: Iterable[str], what: str) -> str | None:
    """The known name that ``name`` means: itself, else the one it is a dotted suffix of. None when there is none."""
    names = set(known)
    if name in names:
        return name
    found = sorted(candidate for candidate in names if candidate.endswith("." + name))
    if len(found) > 1:
        raise _Unresolved(f"{what} {name!r} is ambiguous: {', '.join(found)}")
    return found[0] if found else None


def format_number(value: float) -> str:
    """Plain text: whole numbers without a decimal point, others in the fewest digits that read back equal."""
    return str(int(value)) if value == int(value) else repr(float(value))


def _number(expr: str, text: str) -> float:
    value = _plain(text)
    if value is None:
        raise PlanError(f"threshold {expr!r}: {text!r} must be a plain number")
    return value


def _plain(text: str) -> float | None:
    if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        return None
    return int(text) if text.isdigit() else float(text)
