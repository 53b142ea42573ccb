"""Numbers as words: the unknown is never 0, and a bound is never tighter than what was seen."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report import words


@pytest.mark.parametrize(
    ("value_ns", "expected"),
    [
        (None, "not measured"),
        (0, "0 ms"),
        (910_000, "0.91 ms"),
        (900_000, "0.9 ms"),
        (12_340_000, "12.3 ms"),
        (10_000_000, "10 ms"),
        (612_400_000, "612 ms"),
        (1_234_000_000, "1,234 ms"),
    ],
)
def test_milliseconds_have_the_decimals_that_their_size_deserves(value_ns: float | None, expected: str) -> None:
    assert words.milliseconds(value_ns) == expected


@pytest.mark.parametrize(
    "say", [words.milliseconds, words.count, words.mebibytes, words.cores, words.seconds, words.utc]
)
def test_the_unknown_is_not_measured_and_never_zero(say: object) -> None:
    assert say(None) == "not measured"  # type: ignore[operator]


@pytest.mark.parametrize(
    ("value_s", "expected"),
    [(60, "60 s"), (900, "15 min"), (30600, "8 h 30 min"), (7200, "2 h"), (8.5, "8.5 s"), (None, "not measured")],
)
def test_a_duration_is_said_as_people_say_it(value_s: float | None, expected: str) -> None:
    assert words.duration(value_s) == expected


def test_the_bound_of_a_zero_is_the_rule_of_three() -> None:
    assert words.zero_bound(275_400) == "below 1.1 × 10⁻⁵ of requests, with 95 % confidence"


@given(st.integers(min_value=30, max_value=10**12))
def test_the_bound_holds_against_the_exact_one(trials: int) -> None:
    """1 - 0.05^(1/n) is exact; the words may be looser by one in the second digit, and never tighter."""
    mantissa, exponent = words.zero_bound(trials).removeprefix("below ").split(" of ")[0].split(" × 10")
    said = float(mantissa) * 10.0 ** int(exponent.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    exact = -math.expm1(math.log(0.05) / trials)
    assert exact <= said <= exact * 1.11


@pytest.mark.parametrize("trials", [0, 1, 29])
def test_a_few_requests_prove_nothing(trials: int) -> None:
    assert words.zero_bound(trials).startswith("nothing")


def test_a_next_step_says_whom_the_findings_blame_when_they_agree() -> None:
    assert words.next_step("below_plan", "Look.", {"mesh"}) == (
        "below_plan (the mesh failed this, not the load generator): Look."
    )
    assert "mesh is not blamed" in words.next_step("below_plan", "Look.", {"driver"})
    assert words.next_step("below_plan", "Look.", {"mesh", "driver"}) == "below_plan: Look."


@pytest.mark.parametrize("measured_by", ["sortie", "nighthawk", "k6"])
def test_only_latency_of_this_harness_counts_from_when_a_request_was_due(measured_by: str) -> None:
    assert "should have been sent" in words.LATENCY["this harness"]
    assert "should have been sent" not in words.LATENCY[measured_by]
    assert "not in it" in words.LATENCY[measured_by]


@pytest.mark.parametrize(("value", "said"), [(0, "0 lines"), (1, "1 line"), (2000, "2,000 lines")])
def test_a_count_agrees_with_its_noun(value: int, said: str) -> None:
    assert words.number(value, "line") == said


def test_a_long_list_is_cut_and_says_so() -> None:
    assert words.shortened(["a", "b", "c"]) == "a, b, c"
    assert words.shortened(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
