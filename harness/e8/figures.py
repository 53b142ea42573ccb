"""Arithmetic that measuring and judging share, so that a figure is worked out in one way only."""

from __future__ import annotations

import math
from collections.abc import Iterable


def utilisation_pct(cpu_s: float | None, wall_s: float | None, units: float | None) -> float | None:
    """CPU seconds as a share of what ``units`` cores or sandboxes could have spent, in %; None where nobody knows."""
    if cpu_s is None or wall_s is None or units is None or wall_s <= 0 or units <= 0:
        return None
    return 100 * cpu_s / (wall_s * units)


def nearest_rank(values: Iterable[float], percent: float) -> float | None:
    """The percentile by nearest rank over ``values``; None of none."""
    ordered = sorted(values)
    if not ordered:
        return None
    index = math.floor(percent / 100 * len(ordered) + 0.9999)
    return ordered[min(max(index, 1), len(ordered)) - 1]
