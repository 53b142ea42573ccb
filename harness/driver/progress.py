"""How a running load stands, for people who look and for the history of counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from harness.driver.link import EngineLink, Interval, Slot
from harness.files import utc_stamp
from harness.plan.model import Plan
from harness.sortie.log import progress_line
from harness.sortie.report import is_failure

SILENT_AFTER_S = 5.0  # an engine speaks every second
HTTP_2XX = "benchmark.http_2xx"


def snapshot(plan: Plan, links: Sequence[EngineLink], *, elapsed_s: float) -> dict[str, Any]:
    """The newest counts: whole load, failures by class, and per backend with how long it has been silent."""
    counters: Counter[str] = Counter()
    for link in links:
        for slot in link.slots.values():
            counters.update(slot.counters)
    return {
        "at": utc_stamp(),
        "elapsed_s": round(elapsed_s, 1),
        "duration_s": plan.duration_s,
        "planned": sum(plan.planned_per_node(target) for target in plan.targets) * len(links),
        "http_2xx": counters[HTTP_2XX],
        "failures": {name.removeprefix("benchmark."): n for name, n in sorted(counters.items()) if is_failure(name)},
        "backends": {link.backend: _backend(link) for link in links},
    }


def _backend(link: EngineLink) -> dict[str, Any]:
    silent_s = time.monotonic() - link.heard_s
    state = "silent" if link.state == "running" and silent_s > SILENT_AFTER_S else link.state
    http_2xx = sum(slot.counters.get(HTTP_2XX, 0) for slot in link.slots.values())
    return {"http_2xx": http_2xx, "silent_s": round(silent_s, 1), "state": state}


class History:
    """Rows and log lines of the counts, one per backend and target at each ``emit``."""

    def __init__(self, links: Sequence[EngineLink]) -> None:
        self._links = links
        self._told: set[tuple[str, str]] = set()

    def emit(self, elapsed_s: float) -> tuple[list[dict[str, Any]], list[str]]:
        """Rows of ``progress.jsonl`` and lines of the log for every execution, a last time for one that ended.

        A row's ``interval`` covers the time since the row before, put together from what the engine told each
        second: the answers' sum, the median second's p50 weighted by answers, the highest p99 and the highest
        maximum; null when the engine told nothing. ``state`` is ``running`` or ``ended``.
        """
        rows, lines, at = [], [], utc_stamp()
        for link in self._links:
            for slot in link.slots.values():
                if (slot.label, slot.backend) in self._told:
                    continue
                if not slot.open:
                    self._told.add((slot.label, slot.backend))
                interval = merge(slot.intervals)
                slot.intervals.clear()
                rows.append(_row(slot, at, elapsed_s, interval))
                if slot.open:
                    lines.append(
                        progress_line(
                            slot.label,
                            slot.backend,
                            elapsed_s=int(elapsed_s),
                            counters=slot.counters,
                            mean_ns=interval.mean_ns if interval else None,
                            max_ns=interval.max_ns if interval else None,
                        )
                    )
        return rows, lines


def _row(slot: Slot, at: str, elapsed_s: float, interval: Interval | None) -> dict[str, Any]:
    told = None
    if interval is not None:
        told = {"count": interval.count}
        latencies = (("p50_ns", interval.p50_ns), ("p99_ns", interval.p99_ns), ("max_ns", interval.max_ns))
        told |= {name: value for name, value in latencies if value is not None}
    return {
        "at": at,
        "elapsed_s": round(elapsed_s, 1),
        "label": slot.label,
        "backend": slot.backend,
        "state": "running" if slot.open else "ended",
        "counters": dict(sorted(slot.counters.items())),
        "interval": told,
    }


def merge(intervals: Iterable[Interval]) -> Interval | None:
    """One interval out of several one-second ones, see ``History.emit``; None out of none."""
    told = list(intervals)
    if not told:
        return None
    count = sum(interval.count for interval in told)
    means = [(interval.mean_ns, interval.count) for interval in told if interval.mean_ns is not None and interval.count]
    return Interval(
        count=count,
        p50_ns=_weighted_median([(i.p50_ns, i.count) for i in told if i.p50_ns is not None and i.count]),
        p99_ns=max((i.p99_ns for i in told if i.p99_ns is not None and i.count), default=None),
        max_ns=max((i.max_ns for i in told if i.max_ns is not None and i.count), default=None),
        mean_ns=round(sum(mean * n for mean, n in means) / sum(n for _, n in means)) if means else None,
    )


def _weighted_median(values: list[tuple[int, int]]) -> int | None:
    half, seen = sum(count for _, count in values) / 2, 0
    for value, count in sorted(values):
        seen += count
        if seen >= half:
            return value
    return None
