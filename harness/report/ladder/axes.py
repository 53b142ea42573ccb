"""Axes of the pictures of a ladder, in user units: concurrency by doublings, values by factors; and medians."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise

STEPS = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8))
"""Of one decade, from coarse to fine: the round values that grid lines are drawn at."""


class Doublings:
    """Concurrency, each doubling as wide as any other, from 1 to the doubling that holds the top."""

    def __init__(self, levels: Iterable[int], start: float, end: float) -> None:
        self._powers = max(1, math.ceil(math.log2(max(levels, default=1))))
        self._start, self._end = start, end

    def __call__(self, c: float) -> float:
        return self._start + math.log2(max(c, 1)) / self._powers * (self._end - self._start)

    def doublings(self) -> list[int]:
        """1, 2, 4 … up to the end of the axis."""
        return [2**power for power in range(self._powers + 1)]


class Factors:
    """Positive values, equal factors equally far apart: the lowest of them at ``start``, the highest at ``end``."""

    def __init__(self, values: Iterable[float | None], start: float, end: float) -> None:
        positive = [value for value in values if value is not None and value > 0]
        self._low, self._high = min(positive, default=1.0), max(positive, default=10.0)
        if self._high < 2 * self._low:  # a flat line is drawn flat, in the middle of its surroundings
            self._low, self._high = self._low / 1.5, self._high * 1.5
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        share = math.log(max(value, self._low) / self._low) / math.log(self._high / self._low)
        return self._start + min(share, 1.0) * (self._end - self._start)

    def ticks(self, least: int = 3) -> list[float]:
        """Round values on the axis, as few as there can be of ``least`` and more."""
        decades = range(math.floor(math.log10(self._low)), math.ceil(math.log10(self._high)) + 1)
        for steps in STEPS:
            found = [step * 10.0**decade for decade in decades for step in steps]
            within = [value for value in found if self._low <= value <= self._high]
            if len(within) >= least:
                break
        return within


def apart(wanted: Sequence[tuple[float, int]], least: float) -> list[int]:
    """Of numbers at positions, those that can be written without touching: earlier ones have the right of way."""
    written: list[tuple[float, int]] = []
    for at, number in wanted:
        if all(abs(at - other) >= least for other, _ in written):
            written.append((at, number))
    return [number for _, number in written]


def spread(positions: Sequence[float], least: float) -> list[float]:
    """Positions of labels at least ``least`` apart, each as near to its own as that allows, in the order given."""
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    placed = list(positions)
    for before, index in pairwise(order):
        placed[index] = max(placed[index], placed[before] + least)
    return placed


def medians(points: Iterable[tuple[int, float | None]]) -> list[tuple[int, float | None]]:
    """Each concurrency, upwards, with the median over its repeats; None where none was measured."""
    found: dict[int, list[float]] = {}
    for c, value in points:
        found.setdefault(c, []).extend([] if value is None else [value])
    return [(c, statistics.median(values) if values else None) for c, values in sorted(found.items())]
