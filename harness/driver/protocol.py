"""What driver and engine say to each other: one JSON object a line over TCP, executions told apart by ``id``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from harness.plan.model import Plan, PlannedTarget
from harness.sortie.report import BackendResult

MAX_LINE_BYTES = 8 << 20
CANCEL = {"type": "cancel"}
COUNTER_PREFIX = "benchmark."
LARGEST = 2**63 - 1


def label_of(plan: Plan, target: PlannedTarget) -> str:
    """``<scenario>/<target>``: the execution's label, and its id on the wire."""
    return f"{plan.scenario}/{target.name}"


def phases_s(plan: Plan, backend_index: int, backend_count: int) -> list[float]:
    """Per target, when in its first period an engine sends its first request, so that no two streams coincide.

    Target t of T on backend n of N gets the slot ``(t + n·T/N) mod T`` of its node, shifted by ``n/N`` of a slot: no
    fraction of a period occurs twice, and both a node's targets and a target's nodes are spread over the period.
    """
    count = len(plan.targets)
    stride = backend_index * count // backend_count
    fractions = (
        ((index + stride) % count * backend_count + backend_index) / (count * backend_count) for index in range(count)
    )
    return [fraction / target.rate_rps for fraction, target in zip(fractions, plan.targets, strict=True)]


def start_message(
    plan: Plan, target: PlannedTarget, *, phase_s: float, start_at_unix_ns: int, connections: int, timeout_s: float
) -> dict[str, Any]:
    """The command that starts one execution on one engine.

    A plan counts connections and queue per worker; the engine has one worker, which gets the sum. A plan without a
    queue means a queue of one.
    """
    return {
        "type": "start",
        "id": label_of(plan, target),
        "execution": {
            "label": label_of(plan, target),
            "url": target.url,
            "method": "GET",
            "headers": list(plan.headers),
            "rate_rps": target.rate_rps,
            "duration_s": plan.duration_s,
            "connections": connections * plan.concurrency,
            "max_pending": (plan.max_pending or 1) * plan.concurrency,
            "timeout_s": timeout_s,
            "phase_s": phase_s,
        },
        "start_at_unix_ns": start_at_unix_ns,
    }


def encode(message: Mapping[str, Any]) -> bytes:
    """One line."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any] | None:
    """The object on a line; None when the line holds anything else."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def read_result(message: Mapping[str, Any], backend: str) -> BackendResult | None:
    """The result in an engine's answer; None when it holds none that could be judged.

    Counters that are no ``benchmark.*`` number above 0 and statistics without samples are left out; what is no number
    is left out of its statistic.
    """
    elapsed_ms, counters = message.get("elapsed_ms"), message.get("counters")
    if not is_number(elapsed_ms) or not isinstance(counters, dict):
        return None
    harness = message.get("harness")
    harness = harness if isinstance(harness, dict) else {}
    return BackendResult(
        backend=backend,
        elapsed_ms=round(elapsed_ms),
        started_at=message["started_at"] if isinstance(message.get("started_at"), str) else None,
        counters=read_counters(counters),
        statistics=_statistics(message.get("statistics")),
        planned=_whole(harness.get("planned")),
        released=_whole(harness.get("released")),
        histograms={str(k): v for k, v in _mapping(harness.get("histograms")).items() if isinstance(v, str)},
    )


def was_cancelled(message: Mapping[str, Any]) -> bool:
    """True for a result that a cancellation cut short."""
    return _mapping(message.get("harness")).get("cancelled") is True


def read_counters(value: object) -> dict[str, int]:
    """The ``benchmark.*`` counters above 0."""
    counters = _mapping(value)
    return {
        str(name): count
        for name, count in counters.items()
        if str(name).startswith(COUNTER_PREFIX) and _whole(count) and count > 0
    }


def is_number(value: object) -> TypeGuard[float]:
    """True for a number from 0 to 2^63 - 1; a bool, a NaN and an infinity are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _statistics(value: object) -> dict[str, dict[str, Any]]:
    found = {}
    for name, statistic in _mapping(value).items():
        if not isinstance(statistic, dict) or not _whole(statistic.get("count")):
            continue
        numbers = {key: number for key, number in statistic.items() if is_number(number)}
        found[str(name)] = numbers | {"unit": "ns" if statistic.get("unit") == "ns" else "raw"}
    return found


def _mapping(value: object) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST else None
