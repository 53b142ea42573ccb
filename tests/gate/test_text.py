"""How numbers and lines are written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.gate import Verdict, render
from harness.gate.text import brief, ms


def test_milliseconds_have_as_many_decimals_as_they_bear() -> None:
    """None from 100 ms, one from 10, else two; zeros dropped; unknown is a question mark."""
    values = {
        None: "?",
        123_456_789: "123",
        12_345_678: "12.3",
        1_234_567: "1.23",
        1_500_000: "1.5",
        10_000_000: "10",
        0: "0",
    }
    assert {value: ms(value) for value in values} == values


@given(st.floats(min_value=0, max_value=1e12))
def test_brief_keeps_the_number_to_two_decimals(number: float) -> None:
    """No more than two decimals, no trailing zero, and the same number."""
    text = brief(number)
    assert abs(float(text) - number) <= 0.005 + number * 1e-12
    whole, _, decimals = text.partition(".")
    assert len(decimals) <= 2
    assert not decimals.endswith("0")
    assert whole


@given(st.text())
def test_a_refusal_is_one_line_whatever_the_reason_holds(reason: str) -> None:
    """No text makes a line of its own, or a verdict line."""
    lines = render(Verdict.refused("run", reason))
    assert len(lines) == 1
    assert lines[0].startswith("REFUSED run:")
    assert len(lines[0].splitlines()) == 1
    assert lines[0].isprintable()
