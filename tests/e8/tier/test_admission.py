"""Admission: W × S exactly, the fewest first, and honest counters of what went wrong."""

from __future__ import annotations

from harness.e8.tier.admission import Admission


def admission(turns_per_worker: int = 2, workers: int = 2) -> Admission:
    made = Admission(turns_per_worker)
    for worker in range(workers):
        made.begin(worker)
    return made


def admit(made: Admission) -> int | None:
    worker = made.choose()
    if worker is not None:
        made.sent(worker)
    return worker


def test_the_fewest_first_until_every_slot_is_in_use() -> None:
    made = admission()
    assert [admit(made) for _ in range(5)] == [0, 1, 0, 1, None]


def test_a_socket_on_its_way_holds_its_slot_whatever_the_worker_says_meanwhile() -> None:
    made = admission(turns_per_worker=2, workers=1)
    admit(made)
    made.report(0, in_flight=1, received=1, at_ns=1)
    admit(made)
    made.report(0, in_flight=0, received=1, at_ns=2)  # the first turn ended before the second socket came in
    assert made.in_flight(0) == 1
    made.report(0, in_flight=1, received=2, at_ns=3)
    assert made.in_flight(0) == 1
    assert made.over_admission == 0


def test_a_second_turn_on_a_kept_connection_is_an_over_admission() -> None:
    made = admission()
    made.report(0, in_flight=1, received=0, at_ns=1)
    assert (made.over_admission, made.in_flight(0)) == (1, 1)


def test_a_refusal_is_spurious_when_a_slot_was_free_before_it_and_counts_once() -> None:
    made = admission(turns_per_worker=1, workers=2)
    admit(made), admit(made)
    made.refused(100)
    made.report(0, in_flight=0, received=1, at_ns=90)
    made.report(1, in_flight=0, received=1, at_ns=95)
    assert made.spurious_refusals == 1


def test_a_slot_given_back_after_the_refusal_makes_it_no_better() -> None:
    made = admission(turns_per_worker=1, workers=1)
    admit(made)
    made.refused(100)
    made.report(0, in_flight=0, received=1, at_ns=101)
    assert made.spurious_refusals == 0


def test_a_worker_that_is_gone_gets_nothing_and_begins_anew_with_nothing() -> None:
    made = admission(turns_per_worker=1, workers=1)
    admit(made)
    made.end(0)
    made.report(0, in_flight=5, received=5, at_ns=1)
    assert (admit(made), made.in_flight(0), made.over_admission) == (None, 0, 0)
    made.begin(0)
    assert admit(made) == 0


def test_a_worker_that_could_not_take_a_socket_is_not_asked_for_it_again() -> None:
    assert admission().choose(frozenset({0})) == 1
    assert admission().choose(frozenset({0, 1})) is None
