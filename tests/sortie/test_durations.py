"""Go's duration text, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sortie.durations import NS_PER_UNIT, format_duration, format_duration_ms, parse_duration


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (999, "999ns"),
        (1_000, "1µs"),
        (1_100, "1.1µs"),
        (999_999, "999.999µs"),
        (1_000_000, "1ms"),
        (3_112_447, "3.112447ms"),
        (500_000_000, "500ms"),
        (1_000_000_000, "1s"),
        (1_000_000_001, "1.000000001s"),
        (59_999_000_000, "59.999s"),
        (60_000_000_000, "1m0s"),
        (62_500_000_000, "1m2.5s"),
        (600_640_000_000, "10m0.64s"),
        (3_600_000_000_000, "1h0m0s"),
        (30_600_000_000_000, "8h30m0s"),
        (3_599_999_999_999, "59m59.999999999s"),
        (-1_500_000, "-1.5ms"),
    ],
)
def test_durations_read_as_go_prints_them(duration_ns: int, text: str) -> None:
    assert format_duration(duration_ns) == text


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("500ms", 500_000_000),
        ("1.5s", 1_500_000_000),
        ("1h30m", 5_400_000_000_000),
        ("8h", 28_800_000_000_000),
        ("2us", 2_000),
        ("2µs", 2_000),
        ("2μs", 2_000),
        ("7ns", 7),
        ("0.5ns", 0),
        ("0s", 0),
        ("1m1m", 120_000_000_000),
    ],
)
def test_durations_are_read(text: str, duration_ns: int) -> None:
    assert parse_duration(text) == duration_ns


@pytest.mark.parametrize("text", ["", "5", "0", "s", ".s", "1.s", ".5s", "-1s", "+1s", "1 s", " 1s", "1s ", "1s\n"])
@pytest.mark.parametrize("end", ["", "1d", "1sec", "1_0s", "٣s", "1e3s"])
def test_anything_else_is_no_duration(text: str, end: str) -> None:
    assert parse_duration(text + end) is None


@given(st.integers(0, 10**18))
def test_what_is_printed_reads_back_equal(duration_ns: int) -> None:
    assert parse_duration(format_duration(duration_ns)) == duration_ns


@given(st.integers(0, 10**12))
def test_milliseconds_are_whole(duration_ms: int) -> None:
    assert parse_duration(format_duration_ms(duration_ms)) == duration_ms * 1_000_000


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(NS_PER_UNIT))), min_size=1, max_size=6))
def test_a_sum_of_parts_is_their_sum(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    assert parse_duration(text) == sum(number * NS_PER_UNIT[unit] for number, unit in parts)


@given(st.text(alphabet="0123456789.nuµmsh -", max_size=12))
def test_no_text_breaks_the_reader(text: str) -> None:
    value = parse_duration(text)
    assert value is None or value >= 0
