"""What a target says of itself at ``{admin}/metrics``, read so that unknown stays None.

A target writes ``"NaN"`` for what it never observed. That, a missing field and a field of another type all become
None; a body that is no JSON object is a reading of nothing.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.e8.tier.settings import ECHOED

COUNTERS = ("restarts", "handoff_retries", "handoff_failures", "over_admission", "spurious_refusals")
MOST = 2.0**53
PLAIN_DECIMAL = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")


def number(value: object) -> float | None:
    """``value`` as a number, from a number or from text that is a plain decimal; None for anything else.

    Beyond ``MOST`` it is nothing that a target can have counted, and no float tells it from its neighbour.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not PLAIN_DECIMAL.fullmatch(value):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and abs(found) <= MOST else None


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
            if name in ECHOED and isinstance(value, str | int | float)
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


# --- what was polled during a rung


@dataclass
class Polled:
    """Readings taken while a rung ran, and in the ``tail`` right after it, where its last tick is told.

    The tail counts for what was the most of a figure that workers tell by the tick, not for what was the middle, nor
    for what is held only while turns run. A maximum of none is None, never 0.
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

    def most_held(self, pick: Callable[[Reading], float | None]) -> float | None:
        """The largest value while the rung ran, of what its turns held; None where no poll saw any."""
        return max(_known(map(pick, self.readings)), default=None) or None

    def median(self, pick: Callable[[Reading], float | None]) -> float | None:
        """The middle value over those readings that had one."""
        values = _known(map(pick, self.readings))
        return statistics.median(values) if values else None

    def worker_maximum(self, pid: int | None, pick: Callable[[WorkerReading], float | None]) -> float | None:
        """The largest value that this worker had."""
        return max(self._of(pid, pick, [*self.readings, *self.tail]), default=None)

    def worker_most_held(self, pid: int | None, pick: Callable[[WorkerReading], float | None]) -> float | None:
        """The largest value that this worker had while the rung ran; 0 only where another worker is seen to hold some.

        Polls that saw no turn of a rung that had some were too few to tell.
        """
        if not any(pick(worker) for reading in self.readings for worker in reading.workers):
            return None
        return max(self._of(pid, pick, self.readings), default=None)

    def worker_median(self, pid: int | None, pick: Callable[[WorkerReading], float | None]) -> float | None:
        """The middle value that this worker had."""
        values = self._of(pid, pick, self.readings)
        return statistics.median(values) if values else None

    def _of(
        self, pid: int | None, pick: Callable[[WorkerReading], float | None], readings: list[Reading]
    ) -> list[float]:
        if pid is None:  # it is known by nothing from one reading to the next: they may stand in another order
            return []
        return _known(pick(worker) for reading in readings for worker in reading.workers if worker.pid == pid)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def total_in_flight(reading: Reading) -> float | None:
    """Turns that the workers hold; None when one of them does not say."""
    known = [worker.in_flight for worker in reading.workers if worker.in_flight is not None]
    return sum(known) if known and len(known) == len(reading.workers) else None
