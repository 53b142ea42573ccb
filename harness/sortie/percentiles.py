"""Any percentile from an encoded HDR histogram, for those that a statistic does not carry itself."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from decimal import Decimal
from itertools import accumulate
from typing import Any

REPORTED = {Decimal(50): "p50", Decimal(90): "p90", Decimal(99): "p99", Decimal("99.9"): "p99.9", Decimal(100): "max"}


def percentile(statistic: Mapping[str, Any], histogram: str | None, asked: Decimal) -> float | int | None:
    """The value at ``asked`` percent (0 < asked ≤ 100) in the statistic's unit; None when nothing can tell.

    A percentile that the engine reported is taken from there. Any other is the first histogram bucket at or above
    the asked fraction, its upper end, but never more than the reported maximum.
    """
    reported = statistic.get(REPORTED.get(asked, ""))
    if isinstance(reported, int | float):
        return reported
    if histogram is None:
        return None
    value = _bucket_at(histogram, asked)
    largest = statistic.get("max")
    if value is not None and isinstance(largest, int | float):
        return min(value, largest)
    return value


def _bucket_at(encoded: str, asked: Decimal) -> int | None:
    """Upper end of the first bucket whose cumulative count reaches ``asked`` percent; None when unreadable."""
    from hdrh.histogram import HdrHistogram  # here: only a threshold off the reported percentiles needs it

    try:
        histogram = HdrHistogram.decode(encoded)
    except Exception:  # noqa: BLE001 - the decoder fails in as many ways as base64, zlib and struct do
        return None
    cumulative = list(accumulate(histogram.counts))  # over the whole array: its own iterator takes 15 times as long
    if not cumulative or not cumulative[-1]:
        return None
    index = bisect_left(cumulative, math.ceil(asked * cumulative[-1] / 100))
    return int(histogram.get_highest_equivalent_value(histogram.get_value_from_index(index)))
