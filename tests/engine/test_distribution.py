"""Distributions agree with HdrHistogram bucket for bucket, and with exact arithmetic elsewhere."""

from __future__ import annotations

import statistics

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.engine.distribution import HDR_MAX_NS, Distribution

VALUES = st.lists(st.integers(0, HDR_MAX_NS), min_size=1, max_size=200)


def of(values: list[int]) -> Distribution:
    distribution = Distribution()
    distribution.add_all(values)
    return distribution


@given(VALUES)
@settings(deadline=None)
def test_moments_are_exact(values: list[int]) -> None:
    distribution = of(values)
    assert (distribution.count, distribution.min, distribution.max) == (len(values), min(values), max(values))
    assert distribution.mean == pytest.approx(statistics.fmean(values))
    assert distribution.pstdev == pytest.approx(statistics.pstdev(values), rel=1e-9, abs=1e-6)


@given(VALUES)
@settings(deadline=None, max_examples=25)  # a histogram of hdrh's costs 100 ms to walk
def test_encoded_form_is_the_histogram_of_the_same_values(values: list[int]) -> None:
    decoded = HdrHistogram.decode(of(values).encode())
    expected = HdrHistogram(1, HDR_MAX_NS, 3)
    for value in values:
        expected.record_value(value)
    assert decoded.get_total_count() == len(values)
    assert [(item.value_iterated_to, item.count_at_value_iterated_to) for item in decoded.get_recorded_iterator()] == [
        (item.value_iterated_to, item.count_at_value_iterated_to) for item in expected.get_recorded_iterator()
    ]


@given(VALUES)
@settings(deadline=None)
def test_a_percentile_is_the_first_bucket_at_or_above_the_fraction(values: list[int]) -> None:
    ordered = sorted(values)
    for per_mille, found in zip((500, 900, 990, 999), of(values).percentiles((500, 900, 990, 999)), strict=True):
        exact = ordered[-(-per_mille * len(values) // 1000) - 1]
        assert exact <= found <= min(exact * 1.001 + 1, max(values))


@given(VALUES, VALUES)
@settings(deadline=None)
def test_merging_equals_adding(first: list[int], second: list[int]) -> None:
    merged, together = of(first), of(first + second)
    merged.merge(of(second))
    for name in Distribution.__slots__:
        assert getattr(merged, name) == getattr(together, name)


def test_values_over_the_histograms_range_stay_in_the_count() -> None:
    distribution = of([1, 90_000_000_000])
    assert distribution.percentiles((999,)) == [90_000_000_000]
    assert HdrHistogram.decode(distribution.encode()).get_total_count() == 2
