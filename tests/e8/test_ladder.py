"""Which rung comes next, as a pure function of the records so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from harness.e8.arms import BRACKET_X, REPEATS, TOP_C
from harness.e8.ladder import MOST_RUNGS, Step, next_steps, parse_ladder
from harness.e8.record import Ladder, Rung
from harness.errors import SettingsError

Measure = Callable[[Step], Rung]


def carried(step: Step, knee: float, **more: float) -> Rung:
    """A tier that is linear up to its knee and then only slower."""
    c = step.c
    return Rung(
        c=c,
        repeat=step.repeat,
        attempts=30 * c,
        ok=30 * c,
        wall_ms=3000,
        throughput_tps=10 * min(c, knee),
        p95_ms=100 * max(1.0, (c / knee) ** 2),
        **more,
    )


def climb(measure: Measure, top: int = 256, **facts: float) -> list[Rung]:
    done: list[Rung] = []
    while steps := next_steps(Ladder(rungs=tuple(done), **facts), None, top=top):
        assert not {step.name for step in steps} & {rung.name for rung in done}, "a rung is measured once"
        done += [measure(step) for step in steps]
    return done


def test_a_given_ladder_is_what_is_left_of_it() -> None:
    done = Ladder(rungs=tuple(carried(Step(c), 100) for c in (1, 2)))
    whole = Ladder(rungs=tuple(carried(Step(c), 100) for c in (1, 2, 4, 8)))
    assert [step.name for step in next_steps(Ladder(), (1, 2, 4, 8))] == ["c1", "c2", "c4", "c8"]
    assert [step.name for step in next_steps(done, (1, 2, 4, 8))] == ["c4", "c8"]
    assert next_steps(whole, (1, 2, 4, 8)) == ()


def test_an_automatic_ladder_doubles_until_two_levels_miss_then_bisects_and_repeats() -> None:
    names = [rung.name for rung in climb(lambda step: carried(step, 20))]
    assert names[:8] == ["c1", "c2", "c4", "c8", "c16", "c32", "c64", "c24"]
    floors = [rung for rung in climb(lambda step: carried(step, 20)) if rung.p95_ms is not None and rung.p95_ms <= 200]
    low = max(rung.c for rung in floors)
    high = min(rung.c for rung in climb(lambda step: carried(step, 20)) if rung.p95_ms and rung.p95_ms > 200)
    assert low <= 20 * 2**0.5 <= high
    assert high <= BRACKET_X * low
    for c in (1, low, high):
        assert sum(name.partition(".")[0] == f"c{c}" for name in names) == REPEATS


def test_it_searches_by_the_bound_by_which_it_is_graded() -> None:
    """Latency alone stops it: at 8 times the p95 of c=1 it is three times as far up as at 2 times."""

    def slower(step: Step) -> Rung:
        return dataclasses.replace(carried(step, 1000), p95_ms=100.0 * max(1.0, step.c / 4))

    levels = {x: {rung.c for rung in climb(slower, degrade_x=x)} for x in (2.0, 8.0)}
    assert max(levels[2.0]) == 32, "8 is the last healthy one, 16 and 32 miss"
    assert max(levels[8.0]) == 128, "32 is the last healthy one, 64 and 128 miss"
    assert any(32 < c < 64 for c in levels[8.0]), "and the bracket above it is halved"


def test_without_a_knee_it_ends_at_the_top_which_is_measured_too() -> None:
    assert [rung.c for rung in climb(lambda step: carried(step, 1000), top=48)] == [1, 2, 4, 8, 16, 32, 48]


def test_where_turns_fail_the_ladder_is_cut_and_that_is_bisected_too() -> None:
    def leased(step: Step) -> Rung:
        rung = carried(step, 1000)
        ok = min(rung.ok or 0, 12 * 30)
        return Rung(c=step.c, repeat=step.repeat, attempts=rung.attempts, ok=ok, throughput_tps=10.0 * ok, p95_ms=100)

    done = climb(leased)
    healthy = [rung.c for rung in done if rung.ok == rung.attempts]
    assert max(healthy) == 12
    assert min(rung.c for rung in done if rung.rate is not None and rung.rate < 0.95) <= BRACKET_X * 12


def test_it_goes_no_higher_than_its_generator_and_does_not_search_there() -> None:
    done = climb(lambda step: carried(step, 1000, generator_cpu_s=2.9 if step.c >= 16 else 0.1))
    assert [rung.c for rung in done] == [1, 2, 4, 8, 16]


def test_a_first_rung_that_fails_ends_it() -> None:
    assert len(climb(lambda step: Rung(c=1, attempts=30, ok=0))) == 1


def test_it_ends_whatever_is_measured() -> None:
    """A tier that answers at random: the search is bounded."""
    import random

    rng = random.Random(5)

    def random_rung(step: Step) -> Rung:
        attempts = 30 * step.c
        return Rung(
            c=step.c,
            repeat=step.repeat,
            attempts=attempts,
            ok=rng.choice([attempts, attempts, int(0.9 * attempts)]),
            throughput_tps=rng.uniform(1, 100),
            p95_ms=rng.uniform(1, 1000),
        )

    for _ in range(10):
        assert len(climb(random_rung)) <= MOST_RUNGS + 2 * REPEATS


@pytest.mark.parametrize(
    ("text", "rungs", "top"),
    [
        ("1 2 4 8", (1, 2, 4, 8), 8),
        (" 1  2\t4 ", (1, 2, 4), 4),
        ("1", (1,), 1),
        ("auto", None, TOP_C),
        (" auto ", None, TOP_C),
        ("auto 48", None, 48),
    ],
)
def test_a_ladder_as_it_is_written(text: str, rungs: tuple[int, ...] | None, top: int) -> None:
    assert parse_ladder(text) == (rungs, top)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2 4 8", "no c=1 rung"),
        ("", "no c=1 rung"),
        ("1 2 four", "'four' is no number of clients"),
        ("1 2 4.5", "'4.5'"),
        ("1 -2", "'-2'"),
        ("1 0 2", "'0'"),
        ("1 4 2", "must rise"),
        ("1 2 2 4", "must rise"),
        ("1 9999999", "'9999999'"),
        ("automatic", "'automatic'"),
        ("auto 0", "auto stands alone"),
        ("auto 4 8", "auto stands alone"),
    ],
)
def test_a_ladder_that_is_none_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        parse_ladder(text)
    assert words in refusal.value.message
