"""What a target says of itself: ``GET {admin}/metrics`` and ``GET {stub}/profile``, read so that unknown stays None.

A target writes ``"NaN"`` for what it never observed. That, a missing field and a field of another type all become
None; a body that is no JSON object is a reading of nothing. Cumulative counters are only ever differenced, and a
counter that went down makes its difference unknown, with the reason.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.e8.http import Base, fetch

COUNTERS = ("restarts", "handoff_retries", "handoff_failures", "over_admission", "spurious_refusals")
ENVIRONMENT = (
    "PORT",
    "SH_WORKERS",
    "SH_TURNS_PER_WORKER",
    "SH_ROUTING_POLICY",
    "SH_SANDBOX_DISCOVERY",
    "SH_REMOTE_SANDBOX",
    "SH_PERSISTENT_EXEC",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "KAGENTI_SANDBOX_CAP",
    "SH_LAG_RESOLUTION_MS",
)
FETCH_LIMIT_S = 5.0
PLAIN_DECIMAL = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")


def number(value: object) -> float | None:
    """``value`` as a finite number, from a number or from text that is a plain decimal; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not PLAIN_DECIMAL.fullmatch(value):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


@dataclass(frozen=True)
class WorkerReading:
    """One worker at one moment; ``cpu_seconds`` is cumulative since that process began."""

    pid: int | None
    in_flight: float | None
    healthy: bool | None
    loop_lag_p99_ms: float | None
    rss_bytes: float | None
    cpu_seconds: float | None


@dataclass(frozen=True)
class Reading:
    """One answer of the admin listener. ``problem`` says why it holds nothing, when it does.

    ``lease_saturation`` is leases per sandbox, not a share: it is full at the lease cap.
    """

    problem: str | None = None
    workers: tuple[WorkerReading, ...] = ()
    counters: Mapping[str, float | None] = field(default_factory=dict)
    lease_saturation: float | None = None
    pool_size: float | None = None
    cores: float | None = None
    lag_resolution_ms: float | None = None
    file_op_p95_ms: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pids(self) -> tuple[int | None, ...]:
        """The workers' pids, in their order."""
        return tuple(worker.pid for worker in self.workers)

    @property
    def worker_cpu_s(self) -> float | None:
        """CPU seconds of all workers; None when there are none or one does not know its own."""
        known = [worker.cpu_seconds for worker in self.workers if worker.cpu_seconds is not None]
        return sum(known) if known and len(known) == len(self.workers) else None


def parse_reading(document: object) -> Reading:
    """A reading from a parsed body, of whatever shape it is."""
    if not isinstance(document, dict):
        return Reading(problem="the answer of /metrics is no JSON object")
    workers = document.get("workers")
    environment = document.get("env")
    return Reading(
        workers=tuple(_worker(entry) for entry in workers if isinstance(entry, dict))
        if isinstance(workers, list)
        else (),
        counters={name: number(document.get(name)) for name in COUNTERS},
        lease_saturation=number(document.get("lease_saturation")),
        pool_size=number(document.get("sandbox_pool_size")),
        cores=number(document.get("cores")),
        lag_resolution_ms=number(document.get("lag_resolution_ms")),
        file_op_p95_ms=number(document.get("file_op_p95_ms")),
        environment={
            name: str(value)
            for name, value in (environment.items() if isinstance(environment, dict) else ())
            if name in ENVIRONMENT and isinstance(value, str | int | float)
        },
        document=document,
    )


def _worker(entry: Mapping[str, Any]) -> WorkerReading:
    pid, healthy = number(entry.get("pid")), entry.get("healthy")
    return WorkerReading(
        pid=int(pid) if pid is not None else None,
        in_flight=number(entry.get("inFlight")),
        healthy=healthy if isinstance(healthy, bool) else None,
        loop_lag_p99_ms=number(entry.get("loop_lag_p99_ms")),
        rss_bytes=number(entry.get("rss_bytes")),
        cpu_seconds=number(entry.get("cpu_seconds")),
    )


def read_metrics(admin: Base, *, limit_s: float = FETCH_LIMIT_S) -> Reading:
    """The admin listener's answer; one that does not come, or is no 200, is a reading of nothing with the reason."""
    try:
        answer = fetch(admin, "/metrics", limit_s=limit_s)
    except OSError as error:
        return Reading(problem=f"{admin.url}/metrics gave no answer ({error or type(error).__name__})")
    if answer.status != 200:
        return Reading(problem=f"{admin.url}/metrics answered {answer.status}")
    return parse_reading(answer.json())


def read_profile(stub: Base, *, limit_s: float = FETCH_LIMIT_S) -> Mapping[str, Any] | None:
    """The JSON object at ``{stub}/profile`` as it is; None when there is none to be had."""
    return _read_object(stub, "/profile", limit_s)


def read_stub_stats(stub: Base, *, limit_s: float = FETCH_LIMIT_S) -> Mapping[str, Any] | None:
    """The JSON object at ``{stub}/stats``: execs per turn since the stub began; None of a stub that does not count."""
    return _read_object(stub, "/stats", limit_s)


def _read_object(stub: Base, path: str, limit_s: float) -> Mapping[str, Any] | None:
    try:
        answer = fetch(stub, path, limit_s=limit_s)
    except OSError:
        return None
    document = answer.json() if answer.status == 200 else None
    return document if isinstance(document, dict) else None


# --- differences and shares


@dataclass(frozen=True)
class Measured:
    """A value, or None with the reason for which there is none."""

    value: float | None
    reason: str | None = None


def difference(before: float | None, after: float | None, what: str, *, decimals: int = 3) -> Measured:
    """``after - before`` of a cumulative counter; unknown when an end is unknown or the counter went down."""
    if before is None or after is None:
        end = "before" if before is None else "after"
        return Measured(None, f"{what} was not known {end} the rung")
    if after < before:
        return Measured(None, f"{what} went down from {before:g} to {after:g}: it was reset during the rung")
    return Measured(round(after - before, decimals))


def between(before: Measured, after: Measured, what: str) -> Measured:
    """The difference of two readings; where one is unknown, that one with its reason."""
    unknown = before if before.value is None else after
    return unknown if unknown.value is None else difference(before.value, after.value, what)


def worker_cpu_difference(before: Reading, after: Reading, succeeded: int) -> Measured:
    """CPU seconds that the workers spent between two readings.

    Unknown when a worker was replaced (its counter began anew, whatever the sum says) and when nothing was spent
    although turns succeeded: the rung was shorter than the period in which workers tell of themselves.
    """
    if before.pids != after.pids:
        return Measured(None, f"workers changed during the rung: pids {list(before.pids)} became {list(after.pids)}")
    for one, other in zip(before.workers, after.workers, strict=True):
        each = difference(one.cpu_seconds, other.cpu_seconds, f"CPU time of worker pid {one.pid}")
        if each.value is None:
            return each
    found = difference(before.worker_cpu_s, after.worker_cpu_s, "the workers' CPU time")
    if found.value is not None and round(found.value, 2) == 0 and succeeded:
        return Measured(None, "the workers told of no CPU time: the rung was shorter than their reporting period")
    return found


def utilisation_pct(cpu_s: float | None, wall_s: float, units: float | None) -> float | None:
    """CPU seconds as a share of what ``units`` cores or sandboxes could have spent, in %, one decimal."""
    if cpu_s is None or units is None or not wall_s > 0 or not units > 0:
        return None
    return round(100 * cpu_s / (wall_s * units), 1)


def nearest_rank(values: Iterable[float], percent: float) -> float | None:
    """The percentile by nearest rank over ``values``; None of none."""
    ordered = sorted(values)
    if not ordered:
        return None
    index = math.floor(percent / 100 * len(ordered) + 0.9999)
    return ordered[min(max(index, 1), len(ordered)) - 1]


# --- what was polled during a rung


@dataclass
class Polled:
    """Readings taken while a rung ran, and in the ``tail`` right after it, where its last tick is told.

    The tail counts for what was the most, not for what was the middle. A maximum of none is None, never 0.
    """

    readings: list[Reading] = field(default_factory=list)
    tail: list[Reading] = field(default_factory=list)
    failed: int = 0

    def add(self, reading: Reading, *, tail: bool = False) -> None:
        """Keep one reading; one that holds nothing is only counted."""
        if reading.problem is not None:
            self.failed += 1
        else:
            (self.tail if tail else self.readings).append(reading)

    def maximum(self, pick: Callable[[Reading], float | None]) -> float | None:
        """The largest value that any reading had."""
        return max(_known(map(pick, [*self.readings, *self.tail])), default=None)

    def median(self, pick: Callable[[Reading], float | None]) -> float | None:
        """The middle value over those readings that had one."""
        values = _known(map(pick, self.readings))
        return statistics.median(values) if values else None

    def worker_maximum(self, pid: int | None, pick: Callable[[WorkerReading], float | None]) -> float | None:
        """The largest value that this worker had."""
        return max(self._of(pid, pick, [*self.readings, *self.tail]), default=None)

    def worker_median(self, pid: int | None, pick: Callable[[WorkerReading], float | None]) -> float | None:
        """The middle value that this worker had."""
        values = self._of(pid, pick, self.readings)
        return statistics.median(values) if values else None

    def _of(
        self, pid: int | None, pick: Callable[[WorkerReading], float | None], readings: list[Reading]
    ) -> list[float]:
        return _known(pick(worker) for reading in readings for worker in reading.workers if worker.pid == pid)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def total_in_flight(reading: Reading) -> float | None:
    """Turns that the workers hold; None when one of them does not say."""
    known = [worker.in_flight for worker in reading.workers if worker.in_flight is not None]
    return sum(known) if known and len(known) == len(reading.workers) else None
