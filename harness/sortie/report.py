"""The JSON report and the results stream: the model, and the one encoder that both go through.

Keys, their order and when each is left out are fixed by the report format; readers detect features by presence, so
an empty list or a false flag is never written where the format leaves the key out.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.files import utc_stamp

EXECUTION_CAP = "execution_cap"
STATISTIC_NUMBERS = ("mean", "pstdev", "min", "max", "p50", "p90", "p99", "p99.9")
FAILURE_COUNTERS = frozenset(
    f"benchmark.{name}"
    for name in (
        "http_4xx",
        "http_5xx",
        "grpc_error",
        "stream_resets",
        "stream_resets_before_headers",
        "stream_resets_incomplete_body",
        "pool_overflow",
        "pool_connection_failure",
        "pool_failure_local_connection_failure",
        "pool_failure_remote_connection_failure",
        "pool_failure_timeout",
        "http_inflight_lost",
    )
)
RESET_REASON_PREFIX = "benchmark.stream_resets_"

# Go's encoder writes these inside strings; outside of strings none of them occurs in JSON.
_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)  # fmt: skip


def is_failure(counter: str) -> bool:
    """True for a counter that the report's ``failures`` lists: the fixed set, and every kind of stream reset."""
    return counter in FAILURE_COUNTERS or counter.startswith(RESET_REASON_PREFIX)


@dataclass(frozen=True)
class ThresholdResult:
    """One judged threshold. ``scope`` is ``pool`` or ``per-backend``; ``actual`` is text for people."""

    expr: str
    scope: str
    passed: bool
    actual: str

    def to_json(self) -> dict[str, Any]:
        """The entry of ``thresholds``."""
        return {"expr": self.expr, "scope": self.scope, "pass": self.passed, "actual": self.actual}


@dataclass(frozen=True, kw_only=True)
class BackendResult:
    """What one backend returned for one execution.

    ``elapsed_ms`` and ``started_at`` are the engine's. ``counters`` holds ``benchmark.*`` names with values above 0.
    ``statistics`` maps an id to ``{count, unit, mean, …}``, numbers in ``unit`` (``ns`` or ``raw``). ``planned`` and
    ``released`` count requests. ``histograms`` maps a short id to an encoded HDR histogram and is not in the report.
    """

    backend: str
    elapsed_ms: int
    started_at: str | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    statistics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    planned: int | None = None
    released: int | None = None
    histograms: Mapping[str, str] = field(default_factory=dict)

    @property
    def failures(self) -> dict[str, int]:
        """The failure counters that moved."""
        return {name: value for name, value in sorted(self.counters.items()) if value and is_failure(name)}

    def to_json(self) -> dict[str, Any]:
        """The entry of ``results``; ``harness`` is our own key, beside what the format knows."""
        entry: dict[str, Any] = {"backend": self.backend, "elapsed_ms": self.elapsed_ms}
        if self.started_at:
            entry["started_at"] = self.started_at
        entry["counters"] = _moved(self.counters)
        statistics = {
            name: statistic_json(value) for name, value in sorted(self.statistics.items()) if value.get("count", 0) > 0
        }
        if statistics:
            entry["statistics"] = statistics
        counted = {"planned": self.planned, "released": self.released}
        known = {name: value for name, value in counted.items() if value is not None}
        if known:
            entry["harness"] = known
        return entry


@dataclass(frozen=True)
class BackendError:
    """Why a backend did not finish cleanly. ``refused`` is ``execution_cap`` for a refusal, else None."""

    backend: str
    error: str
    refused: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The entry of ``backend_errors``."""
        entry = {"backend": self.backend, "error": self.error}
        return entry | {"refused": self.refused} if self.refused else entry


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One target's execution over all backends of the pool; one entry of the report and one line of the stream.

    ``rate_rps`` is per backend when ``per_backend``. ``elapsed_ms`` runs on the driver's clock from the dispatch to
    the last answer or give-up. An execution with ``error`` has neither thresholds nor results (ValueError otherwise).
    """

    label: str
    scenario: str
    pool: str
    rate_rps: int
    duration_ms: int
    elapsed_ms: int = 0
    started_unix_ms: int | None = None
    per_backend: bool = True
    not_run: bool = False
    refused: str | None = None
    error: str | None = None
    dns: str | None = None
    backends: tuple[str, ...] = ()
    thresholds: tuple[ThresholdResult, ...] = ()
    results: tuple[BackendResult, ...] = ()
    backend_errors: tuple[BackendError, ...] = ()

    def __post_init__(self) -> None:
        if self.error and (self.thresholds or self.results):
            raise ValueError("an execution with an error holds neither thresholds nor results")
        if self.not_run and self.refused:
            raise ValueError("an execution that was refused is not one that was never attempted")

    @property
    def passed(self) -> bool:
        """False on an error, on a failed threshold and on any backend error; without thresholds vacuously true."""
        judged = all(threshold.passed for threshold in self.thresholds)
        return judged and not (self.error or self.not_run or self.backend_errors)

    @property
    def totals(self) -> dict[str, int]:
        """Counters summed over the backends that returned results."""
        totals: Counter[str] = Counter()
        for result in self.results:
            totals.update(result.counters)
        return _moved(totals)

    @property
    def started_at(self) -> str | None:
        """When the driver began to dispatch."""
        return None if self.started_unix_ms is None else utc_stamp(self.started_unix_ms / 1000)

    @property
    def ended_at(self) -> str | None:
        """Exactly ``started_at`` plus ``elapsed_ms``."""
        return None if self.started_unix_ms is None else utc_stamp((self.started_unix_ms + self.elapsed_ms) / 1000)

    def to_json(self) -> dict[str, Any]:
        """The object of the report and of the stream, keys in the format's order."""
        optional: dict[str, Any] = {
            "not_run": self.not_run,
            "refused": self.refused,
            "error": self.error,
            "dns": self.dns,
            "backends": list(self.backends),
            "thresholds": [threshold.to_json() for threshold in self.thresholds],
            "failures": [{"backend": r.backend, "counters": r.failures} for r in self.results if r.failures],
            "totals": self.totals,
            "results": [result.to_json() for result in self.results],
            "backend_errors": [error.to_json() for error in self.backend_errors],
        }
        head: dict[str, Any] = {
            "label": self.label,
            "scenario": self.scenario,
            "pool": self.pool,
            "rate": self.rate_rps,
        }
        if self.per_backend:
            head["per_backend"] = True
        head |= {"duration_ms": self.duration_ms, "elapsed_ms": self.elapsed_ms}
        if self.started_unix_ms is not None:
            head |= {"started_at": self.started_at, "ended_at": self.ended_at}
        return head | {"pass": self.passed} | {key: value for key, value in optional.items() if value}


def report_passed(executions: Iterable[Execution]) -> bool:
    """True when there is at least one execution and every one passed."""
    verdicts = [execution.passed for execution in executions]
    return bool(verdicts) and all(verdicts)


def encode_report(executions: Iterable[Execution]) -> str:
    """The whole report: two-space indent, a final newline; ``executions`` is null when there is none."""
    listed = list(executions)
    document = {
        "pass": report_passed(listed),
        "executions": [execution.to_json() for execution in listed] or None,
    }
    return _escaped(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def encode_stream_line(execution: Execution) -> str:
    """One line of the results stream, without its newline: the report's own object, compact."""
    return _escaped(json.dumps(execution.to_json(), separators=(",", ":"), ensure_ascii=False, allow_nan=False))


def statistic_json(statistic: Mapping[str, Any]) -> dict[str, Any]:
    """``count`` and ``unit`` always; another number only when the engine gave it: an unknown is absent, never 0."""
    entry: dict[str, Any] = {"count": statistic["count"], "unit": statistic["unit"]}
    for name in STATISTIC_NUMBERS:
        value = statistic.get(name)
        if isinstance(value, int | float) and math.isfinite(value):
            entry[name] = int(value) if value == int(value) else value
    return entry


def _moved(counters: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in sorted(counters.items()) if value}


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)
