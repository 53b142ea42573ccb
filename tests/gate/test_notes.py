"""NOTE lines: what a zero proves, what the range lets go, what adds up. They judge nothing and promise no more."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.gate import grade
from harness.gate.notes import rounded_up
from harness.gate.verdict import rule_of_three

TablesOf = Callable[[str], Path]


@pytest.mark.parametrize(
    ("requests", "said"),
    [(275_400, "1.1e-5"), (91_800, "3.3e-5"), (9_180_000, "3.3e-7"), (19_799, "1.6e-4"), (900, "3.4e-3"), (3, "1.0e0")],
)
def test_three_over_n_is_rounded_up(requests: int, said: str) -> None:
    """The published examples; and 3/19,799 is 1.515e-4, which is not below 1.5e-4."""
    below = rule_of_three(requests)
    assert below is not None and rounded_up(below) == said


@given(st.integers(1, 2**63 - 1))
def test_a_bound_never_promises_more_than_it_proves(requests: int) -> None:
    below = rule_of_three(requests)
    assert below is not None
    said = Fraction(rounded_up(below))
    assert (
        Fraction(3, requests) * Fraction(999_999_999, 1_000_000_000) <= said <= Fraction(3, requests) * Fraction(6, 5)
    )


def test_nothing_sent_proves_nothing() -> None:
    assert rule_of_three(0) is None and rule_of_three(None) is None


def note(tables: Path, start: str) -> str:
    (found,) = [one for one in grade(tables).notes if one.startswith(start)]
    return found


def test_notes_of_a_clean_run(tables_of: TablesOf) -> None:
    tables = tables_of("clean")
    assert note(tables, "what no failure says") == (
        "what no failure says of the failure rate: below 2.1e-3 with 95 % confidence for orders (0 of 1,440), "
        "below 6.3e-3 with 95 % confidence for basket (0 of 480), "
        "below 1.3e-2 for the node that was sent least (0 of 240, basket/north)"
    )
    assert note(tables, "missing on a node") == (
        "missing on a node and still within 99 to 101 % of its plan: 7 of 720 (orders), 2 of 240 (basket)"
    )


def test_a_target_that_failed_has_no_zero_to_speak_of(tables_of: TablesOf) -> None:
    verdict = grade(tables_of("failures"))
    bounds = {target.target: target.zero_below for target in verdict.targets}
    assert bounds["orders"] is None and bounds["basket"] == pytest.approx(3 / 480)
    assert "orders (" not in next(one for one in verdict.notes if one.startswith("what no failure"))


def test_released_requests_are_held_against_outcomes(tables_of: TablesOf) -> None:
    assert note(tables_of("driver-late"), "accounting").startswith("accounting: ")
    nodes = [node for target in grade(tables_of("more-than-released")).targets for node in target.nodes]
    assert {node.unaccounted for node in nodes if node.released is not None and node.outcomes is not None} == {0}
