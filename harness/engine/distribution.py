"""A distribution of non-negative integers: exact count, sum, min and max, buckets of three significant digits.

The buckets are those of an HdrHistogram with a lowest value of 1 and 3 digits (2,048 sub-buckets), kept in a dict: the
same resolution at about a tenth of the cost per value of ``hdrh``'s ``record_value``. ``encode`` gives the real thing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

from hdrh.histogram import HdrHistogram

SUB_BUCKET_BITS = 11  # 2,048 sub-buckets: the next power of two above 2 × 10^3
HDR_MAX_NS = 60_000_000_000


class Distribution:
    """Values up to any size; ``min`` and ``max`` hold only while ``count`` is not 0."""

    __slots__ = ("buckets", "count", "max", "min", "total", "total_of_squares")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.total_of_squares = 0
        self.min = 0
        self.max = 0
        self.buckets: dict[int, int] = {}  # the bucket's lowest value → how many

    def add_all(self, values: Sequence[int]) -> None:
        """Add many values at once."""
        if not values:
            return
        self._add_moments(len(values), sum(values), sum(map(mul, values, values)), min(values), max(values))
        buckets = self.buckets
        for value in values:
            shift = value.bit_length() - SUB_BUCKET_BITS
            lowest = value >> shift << shift if shift > 0 else value
            buckets[lowest] = buckets.get(lowest, 0) + 1

    def merge(self, other: Distribution) -> None:
        """Add everything ``other`` holds."""
        if not other.count:
            return
        self._add_moments(other.count, other.total, other.total_of_squares, other.min, other.max)
        for lowest, count in other.buckets.items():
            self.buckets[lowest] = self.buckets.get(lowest, 0) + count

    def _add_moments(self, count: int, total: int, total_of_squares: int, low: int, high: int) -> None:
        self.min = min(self.min, low) if self.count else low
        self.max = max(self.max, high)
        self.count += count
        self.total += total
        self.total_of_squares += total_of_squares

    @property
    def mean(self) -> float:
        """The exact mean. ZeroDivisionError without a value."""
        return self.total / self.count

    @property
    def pstdev(self) -> float:
        """The population standard deviation; exact integers underneath, so that nothing cancels out."""
        return math.sqrt(self.count * self.total_of_squares - self.total**2) / self.count

    def percentiles(self, per_mille: Sequence[int]) -> list[int]:
        """For each fraction (in thousandths, ascending) the top of the first bucket at or above it, at most ``max``."""
        found: list[int] = []
        wanted = [-(-fraction * self.count // 1000) for fraction in per_mille]  # ceiling, without a float's error
        seen = 0
        for lowest in sorted(self.buckets):
            seen += self.buckets[lowest]
            while len(found) < len(wanted) and seen >= wanted[len(found)]:
                found.append(min(_highest_equivalent(lowest), self.max))
            if len(found) == len(wanted):
                break
        return found

    def encode(self) -> str:
        """HdrHistogram V2, base64. Values over 60 s stand in its last bucket, so that the count stays right."""
        histogram = HdrHistogram(1, HDR_MAX_NS, 3)
        for lowest, count in self.buckets.items():
            histogram.record_value(min(lowest, HDR_MAX_NS), count)
        encoded: bytes = histogram.encode()
        return encoded.decode("ascii")


def _highest_equivalent(lowest: int) -> int:
    return lowest + (1 << max(0, lowest.bit_length() - SUB_BUCKET_BITS)) - 1
