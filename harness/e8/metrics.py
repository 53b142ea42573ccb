"""A target is asked: ``GET {admin}/metrics``, ``GET {stub}/profile``. And what two answers differ by.

Cumulative counters are only ever differenced, and a counter that went down makes its difference unknown, with the
reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.e8.http import Base, fetch
from harness.e8.readings import Reading, parse_reading

FETCH_LIMIT_S = 5.0


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


# --- differences


@dataclass(frozen=True)
class Measured:
    """A value, or None with the reason for which there is none. ``parts`` are what it is the sum of, where told."""

    value: float | None
    reason: str | None = None
    parts: tuple[float, ...] = ()


def difference(before: float | None, after: float | None, what: str, *, decimals: int = 3) -> Measured:
    """``after - before`` of a cumulative counter; unknown when an end is unknown or the counter went down."""
    if before is None or after is None:
        end = "before" if before is None else "after"
        return Measured(None, f"{what} was not known {end} the rung")
    if after < before:
        return Measured(None, f"{what} went down from {before:g} to {after:g}: it was reset during the rung")
    return Measured(round(after - before, decimals))


def between(before: Measured, after: Measured, what: str) -> Measured:
    """The difference of two readings; where one is unknown, that one with its reason.

    Unknown too where one of their parts went down, or there are more or fewer of them: the sum would hide it.
    """
    unknown = before if before.value is None else after
    if unknown.value is None:
        return unknown
    if len(before.parts) != len(after.parts):
        return Measured(None, f"{what} was told in {len(before.parts)} numbers before and {len(after.parts)} after")
    for number, (one, other) in enumerate(zip(before.parts, after.parts, strict=True), start=1):
        if other < one:
            return difference(one, other, f"{what} (number {number} of {len(after.parts)})")
    return difference(before.value, after.value, what)


def spent(found: Measured, what: str, succeeded: int) -> Measured:
    """CPU seconds of a part of the target in a rung; of one that had turns, nothing is not an answer but too coarse."""
    if found.value is not None and round(found.value, 3) == 0 and succeeded:
        return Measured(
            None, f"{what} did not rise although turns succeeded: the rung was shorter than it can tell, or it stands"
        )
    return found


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
