"""What is said of thousands of ladders whose truth is known: no knee where there is none, an interval that holds it.

Noise is lognormal. All ladders of a test are graded at once, by the SQL that grades one.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.e8.ladder import next_steps
from harness.e8.questions import ask, ask_of, database, load_ladders
from harness.e8.record import Ladder, Rung

Curve = Callable[[float], float]

DOUBLING = [[2**step for step in range(rungs)] for rungs in (6, 8, 10)]
DENSE = [
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16],
    [1, 4, 8, 12, 16, 20, 24, 28, 32],
    [1, 2, 4, 8, 12, 16, 24, 32, 48, 64],
]


def rung(rng: random.Random, c: int, tps: Curve, p95_ms: Curve, noise: float, repeat: int = 1) -> Rung:
    return Rung(
        c=c,
        repeat=repeat,
        attempts=30 * c,
        ok=30 * c,
        throughput_tps=tps(c) * math.exp(rng.gauss(0, noise)),
        p95_ms=p95_ms(c) * math.exp(rng.gauss(0, noise)),
    )


def ladder(rng: random.Random, rungs: Sequence[int], tps: Curve, p95_ms: Curve, noise: float) -> Ladder:
    return Ladder(rungs=tuple(rung(rng, c, tps, p95_ms, noise) for c in rungs))


def knees(ladders: Sequence[Ladder]) -> list[dict[str, Any]]:
    with database(lean=False) as connection:
        load_ladders(connection, {str(number): one for number, one in enumerate(ladders)})
        answers = ask(connection)
    found = [answers[str(number)].knee for number in range(len(ladders))]
    return [knee for knee in found if knee is not None]


@pytest.mark.parametrize(("shapes", "noise"), [(DOUBLING, 0.01), (DOUBLING, 0.05), (DENSE, 0.03)])
def test_a_linear_throughput_with_flat_latency_has_no_knee(shapes: list[list[int]], noise: float) -> None:
    """2,000 ladders: a finder of bends in the latency curve sees one in every single one of them."""
    rng = random.Random(11)
    ladders = [ladder(rng, shapes[n % 3], lambda c: 10 * c, lambda c: 1500, noise) for n in range(2000)]
    assert Counter(knee["answer"] for knee in knees(ladders)) == {"not-observed": 2000}


@pytest.mark.parametrize("p95_ms", [lambda c: 100 * c, lambda c: 100], ids=["latency grows", "latency is flat"])
def test_a_throughput_that_is_flat_from_the_first_client_has_its_knee_there(p95_ms: Curve) -> None:
    rng = random.Random(12)
    ladders = [ladder(rng, [*DOUBLING, *DENSE][n % 6], lambda c: 10, p95_ms, 0.03) for n in range(600)]
    answers = Counter((knee["answer"], knee["lo_c"], knee["hi_c"], knee["floor_c"]) for knee in knees(ladders))
    assert answers == {("knee", 1, 1, 1): 600}


def universal(rng: random.Random) -> tuple[float, Curve, Curve]:
    """Scalability law, with the latency that follows from it in a closed loop: the knee is where that doubled."""
    peak, sigma = rng.uniform(4, 100), rng.uniform(0, 0.05)
    kappa = (1 - sigma) / peak**2

    def slowed(c: float) -> float:
        return 1 + sigma * (c - 1) + kappa * c * (c - 1)

    low, high = 1.0, peak
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if slowed(middle) <= 2 else (low, middle)
    return high, lambda c: 10 * c / slowed(c), lambda c: 100 * slowed(c)


def saturated(rng: random.Random) -> tuple[float, Curve, Curve]:
    """Linear to a plateau that never falls: healthy until the latency has doubled."""
    full = math.exp(rng.uniform(math.log(2), math.log(60)))
    return 2 * full, lambda c: 10 * min(c, full), lambda c: 100 * max(1, c / full)


def peaked(rng: random.Random) -> tuple[float, Curve, Curve]:
    """The law's throughput with a latency that tells nothing."""
    peak, sigma = rng.uniform(3, 100), rng.uniform(0, 0.05)
    kappa = (1 - sigma) / peak**2
    return peak, lambda c: 10 * c / (1 + sigma * (c - 1) + kappa * c * (c - 1)), lambda c: 100


def cliff(rng: random.Random) -> tuple[float, Curve, Curve]:
    """Linear up to a peak, and down again as it went up, with a latency that tells nothing."""
    peak = math.exp(rng.uniform(math.log(2), math.log(100)))
    return peak, lambda c: 10 * (c if c <= peak else peak * peak / c), lambda c: 100


def plateau(rng: random.Random, most: float = 100) -> tuple[float, Curve, Curve]:
    """Linear to a plateau that never falls, with a latency that tells nothing: only throughput shows the knee."""
    full = math.exp(rng.uniform(math.log(2), math.log(most)))
    return full, lambda c: 10 * min(c, full), lambda c: 100


@pytest.mark.parametrize("law", [universal, saturated, peaked, cliff, plateau])
@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_the_interval_holds_the_true_knee(law: Callable[[random.Random], Any], noise: float) -> None:
    """400 ladders with a true peak each, doubling to 256: 95 % of the intervals hold it, and all see a knee."""
    rng = random.Random(13)
    truths = [law(rng) for _ in range(400)]
    found = knees([ladder(rng, DOUBLING[2][:9], tps, p95_ms, noise) for _, tps, p95_ms in truths])
    assert Counter(knee["answer"] for knee in found) == {"knee": 400}
    held = [knee["lo_c"] <= true <= knee["hi_c"] for (true, *_), knee in zip(truths, found, strict=True)]
    assert sum(held) >= 380
    assert all(knee["lo_c"] <= knee["floor_c"] <= knee["hi_c"] for knee in found)
    widths = sorted(knee["hi_c"] / knee["lo_c"] for knee in found)
    assert widths[len(widths) // 2] <= 8, "an interval that says nothing holds everything"


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_a_top_that_no_longer_rises_is_no_ladder_without_a_knee(noise: float) -> None:
    """1,000 ladders that end a doubling or more into a plateau, on which latency stays in its bound."""
    rng = random.Random(15)
    laws = [plateau(rng, most=64) for _ in range(1000)]
    ladders = [ladder(rng, DOUBLING[1], tps, p95_ms, noise) for _, tps, p95_ms in laws]
    assert Counter(knee["answer"] for knee in knees(ladders)) == {"knee": 1000}


@pytest.mark.parametrize(
    ("tps", "lo", "hi", "floor"),
    [
        ({1: 19.1, 2: 38.2, 4: 38.9, 8: 39.1, 16: 39.0}, 1, 8, 8),
        ({1: 9.2, 2: 18.5, 4: 36.2, 8: 38.9}, 2, 8, 8),
        ({1: 10, 2: 20, 4: 20}, 1, 4, 4),
        ({1: 10, 2: 20, 4: 40, 8: 80, 16: 79, 32: 78}, 4, 16, 8),
    ],
    ids=["every rung waits", "the top alone", "as fast as half of it", "falls within noise"],
)
def test_where_throughput_stopped_rising_a_knee_is_told(tps: dict[int, float], lo: int, hi: int, floor: int) -> None:
    """Whatever p95 says: the floor is the highest healthy level, the knee lies where the last rise was."""
    (knee,) = knees([ladder(random.Random(1), list(tps), lambda c: tps[int(c)], lambda c: 100, 0.0)])
    assert (knee["answer"], knee["lo_c"], knee["hi_c"], knee["floor_c"]) == ("knee", lo, hi, floor)


def test_a_level_that_alone_does_not_rise_is_stepped_over() -> None:
    tps = {1: 10.0, 2: 20.0, 4: 40.0, 8: 41.0, 16: 160.0}
    (knee,) = knees([ladder(random.Random(1), list(tps), lambda c: tps[int(c)], lambda c: 100, 0.0)])
    assert (knee["answer"], knee["floor_c"]) == ("not-observed", 16)


def test_an_automatic_ladder_narrows_the_interval_and_ends() -> None:
    """It doubles, bisects and repeats, in some sixteen rungs; its interval holds the knee and is the narrower one."""
    rng = random.Random(14)
    held, ratios, counts = 0, [], []
    for _ in range(12):
        true, tps, p95_ms = universal(rng)
        done: list[Rung] = []
        while steps := next_steps(Ladder(rungs=tuple(done)), None, top=256):
            done += [rung(rng, step.c, tps, p95_ms, 0.02, step.repeat) for step in steps]
        knee = ask_of(Ladder(rungs=tuple(done))).knee
        assert knee is not None and knee["answer"] == "knee"
        held += knee["lo_c"] <= true <= knee["hi_c"]
        ratios.append(knee["hi_c"] / knee["lo_c"])
        counts.append(len(done))
    assert held >= 11
    assert sorted(ratios)[6] <= 2
    assert max(counts) <= 24
