"""The scalability law: a peak only where the ladder passed it by a doubling, with an interval that holds it."""

from __future__ import annotations

import math
import random

from harness.e8 import usl


def points(rungs: list[int], peak: float, sigma: float, noise: float, rng: random.Random) -> list[usl.Point]:
    kappa = (1 - sigma) / peak**2
    return [(c, 20 * c / (1 + sigma * (c - 1) + kappa * c * (c - 1)) * math.exp(rng.gauss(0, noise))) for c in rungs]


def test_the_interval_holds_the_peak() -> None:
    """400 ladders past their peak by a doubling or more, 1 and 3 % of noise: at least 95 % hold it."""
    rng, held, told = random.Random(21), 0, 0
    for number in range(400):
        peak = rng.uniform(8, 60)
        fit = usl.fit(points([1, 2, 4, 8, 16, 32, 64, 128], peak, rng.uniform(0, 0.05), (0.01, 0.03)[number % 2], rng))
        assert fit is not None
        told += fit.peak_c is not None
        if fit.peak_c is not None:
            assert fit.lo_c is not None and fit.hi_c is not None
            held += fit.lo_c <= peak <= fit.hi_c
            assert fit.hi_c <= 128
    assert told >= 380
    assert held >= 0.95 * told


def test_a_ladder_that_does_not_pass_the_peak_gives_a_lower_bound_alone() -> None:
    """The peak is at 44: to 16 and to 32 nothing can be said but below what it does not lie."""
    rng = random.Random(22)
    for _ in range(50):
        for rungs in ([1, 2, 4, 8, 16], [1, 2, 4, 8, 16, 32]):
            fit = usl.fit(points(rungs, 44, 0.0171, 0.02, rng))
            assert fit is not None
            assert (fit.peak_c, fit.lo_c, fit.hi_c) == (None, None, None)
            assert fit.lower_bound_c == rungs[-2]


def test_a_line_has_no_peak() -> None:
    rng = random.Random(23)
    for _ in range(50):
        fit = usl.fit([(c, 10 * c * math.exp(rng.gauss(0, 0.02))) for c in (1, 2, 4, 8, 16, 32)])
        assert fit is not None and fit.peak_c is None and fit.lower_bound_c == 16


def test_coefficients_without_noise_are_those_of_the_law() -> None:
    fit = usl.fit(points([1, 2, 4, 8, 16, 32, 64, 128], 32, 0.02, 0.0, random.Random(24)))
    assert fit is not None and fit.peak_c is not None and fit.sigma is not None and fit.kappa is not None
    assert math.isclose(fit.peak_c, 32, rel_tol=1e-6)
    assert math.isclose(fit.sigma, 0.02, rel_tol=1e-6)
    assert math.isclose(fit.kappa, 0.98 / 32**2, rel_tol=1e-6)


def test_the_same_points_give_the_same_interval() -> None:
    given = points([1, 2, 4, 8, 16, 32, 64], 16, 0.01, 0.02, random.Random(25))
    assert usl.fit(given) == usl.fit(list(given))


def test_too_few_levels_and_ladders_without_a_first_one_are_not_fitted() -> None:
    assert usl.fit([(1, 10.0), (2, 19.0), (4, 36.0), (8, 60.0)]) is None
    assert usl.fit([(1, 10.0), (1, 10.1), (2, 19.0), (4, 36.0), (8, 60.0)]) is None
    assert usl.fit([(2, 19.0), (4, 36.0), (8, 60.0), (16, 80.0), (32, 70.0)]) is None
    assert usl.fit([(1, 0.0), (2, 19.0), (4, 36.0), (8, 60.0), (16, 80.0)]) is None


def test_saturation_from_the_first_client_is_a_peak_at_one() -> None:
    fit = usl.fit([(c, 10.0 - 0.1 * c) for c in (1, 2, 4, 8, 16)])
    assert fit is not None and fit.peak_c == 1


def test_a_plateau_is_not_below_the_level_before_it() -> None:
    """Which of four equal levels is highest, noise decides: it says nothing of where the peak does not lie."""
    fit = usl.fit([(1, 19.1), (2, 38.2), (4, 38.9), (8, 39.1), (16, 39.0)])
    assert fit is not None and fit.peak_c is None and fit.lower_bound_c == 1
