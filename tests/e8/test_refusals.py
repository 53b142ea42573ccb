"""What several rungs are refused for alike is said once, and names them."""

from __future__ import annotations

from harness.e8.refusals import Refusal, together


def refusals(*said: tuple[int, str], rule: str = "some_rule") -> list[Refusal]:
    return [Refusal(rule, sentence, c) for c, sentence in said]


def test_the_same_of_several_rungs_names_them_all() -> None:
    found = together(refusals((1, "not known at c1: ask"), (2, "not known at c2: ask")))
    assert found == (Refusal("some_rule", "not known at c1, c2: ask", 1),)


def test_of_many_rungs_the_first_two_and_the_last_are_named() -> None:
    (found,) = together(refusals(*((c, f"not known at c{c}") for c in (1, 2, 4, 8, 16))))
    assert found.sentence == "not known at c1, c2, … c16"


def test_other_percentages_are_no_other_reason() -> None:
    (found,) = together(refusals((4, "30.1 % of it at c4 was used"), (8, "31 % of it at c8 was used")))
    assert found.sentence == "30.1 % of it at c4 was used; likewise at c8"


def test_other_words_other_numbers_and_other_rules_stay_apart() -> None:
    one = refusals((4, "worker 1 was frozen at c4"), (8, "worker 2 was frozen at c8"))
    other = refusals((4, "worker 1 was frozen at c4"), rule="another_rule")
    assert together([*one, *other]) == (*one, *other)


def test_what_is_of_no_rung_stays_as_it_is() -> None:
    whole = [Refusal("some_rule", "c4 was measured at 3 % and is not planned"), Refusal("other", "c1 is missing")]
    assert together(whole) == tuple(whole)
