"""What probes of a workload came to: the cost of one exec, and turns that were driven to learn how often it runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Cost of one exec in ms: the median of the samples without the smallest one, and their spread."""

    cost_ms: float
    spread_pct: float

    @classmethod
    def of(cls, samples_ms: Sequence[float]) -> Timing:
        """From at least two samples."""
        kept = sorted(samples_ms)[1:]
        cost_ms = statistics.median(kept)
        return cls(round(cost_ms, 3), round(100 * (kept[-1] - kept[0]) / cost_ms, 1) if cost_ms else 0.0)


@dataclass(frozen=True)
class Probe:
    """Turns driven one after another: how many, how many execs they made, how long they took together."""

    turns: int
    execs: int
    wall_ms: float
    busy_ms: float

    @property
    def execs_per_turn(self) -> float:
        """Execs by turns."""
        return round(self.execs / self.turns, 3)

    @property
    def mean_turn_ms(self) -> float:
        """Mean turn."""
        return round(self.wall_ms / self.turns, 1)

    @property
    def duty(self) -> float:
        """Share of the turns' time in which a sandbox was busy, four decimals."""
        return round(self.busy_ms / self.wall_ms, 4)
