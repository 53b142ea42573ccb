"""What a worker tells of itself once per tick."""

from __future__ import annotations

import asyncio
import math
import os
import time
from pathlib import Path
from typing import Any

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class LoopLag:
    """Times between beats of a timer that is due every ``resolution_ms``: an idle loop reads a bit over the resolution.

    p99 over the beats since the last ``take``. A loop that was blocked for 50 ms has one gap of 50 ms.
    """

    def __init__(self, resolution_ms: int) -> None:
        self.resolution_ms = resolution_ms
        self._gaps_ms: list[float] = []
        self._loop = asyncio.get_running_loop()
        self._last_s = time.perf_counter()
        self._loop.call_later(resolution_ms / 1000, self._beat)

    def _beat(self) -> None:
        now_s = time.perf_counter()
        self._gaps_ms.append((now_s - self._last_s) * 1000)
        self._last_s = now_s
        self._loop.call_later(self.resolution_ms / 1000, self._beat)

    def take(self) -> float | None:
        """p99 in ms, and start anew; None without a beat."""
        gaps_ms, self._gaps_ms = self._gaps_ms, []
        return percentile(gaps_ms, 99)


def percentile(values: list[float], percent: int) -> float | None:
    """By nearest rank; None of none."""
    return sorted(values)[math.ceil(percent / 100 * len(values)) - 1] if values else None


class Telemetry:
    """One worker's figures. What was not observed in a tick is left out, never 0."""

    def __init__(self, resolution_ms: int) -> None:
        self.file_ops_ms: list[float] = []
        self._lag = LoopLag(resolution_ms)

    def take(self, leases_held: int, pool_size: int | None) -> dict[str, Any]:
        """The figures of the tick that ends now; times in ms, CPU cumulative in seconds."""
        file_op_ms = percentile(self.file_ops_ms, 95)
        self.file_ops_ms.clear()
        figures = {
            "loopLagP99Ms": _rounded(self._lag.take()),
            "lagResolutionMs": self._lag.resolution_ms,
            "rssBytes": int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES,
            "cpuSeconds": round(time.process_time(), 6),
            "leasesHeld": leases_held,
            "leasePoolSize": pool_size,
            "fileOpP95Ms": _rounded(file_op_ms),
        }
        return {name: value for name, value in figures.items() if value is not None}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
