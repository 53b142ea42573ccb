"""The universal scalability law, fitted to a ladder: where its throughput peaks, and how sure that is.

X(c) = λc / (1 + σ(c − 1) + κc(c − 1)). Written as c / X it is linear in 1/λ, σ/λ and κ/λ, none of which is below 0, so
that a fit is a least-squares problem with one answer. Noise of throughput is a share of it, hence the weights.

A fit says something about the part of the curve that it has seen. A peak is told only where the ladder goes on to twice
its concurrency; else all that can be told is below what it does not lie.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.e8.arms import USL_LEVELS, threshold

RESAMPLES = 400
CONFIDENCE = 0.98
SEED = 1  # the same tables give the same interval

Point = tuple[float, float]
"""Concurrency, turns per second."""


@dataclass(frozen=True)
class Usl:
    """A peak with its interval, or where the ladder did not pass one, the concurrency that it is not below.

    ``lambda_tps`` is the throughput of one client, ``sigma`` contention, ``kappa`` crosstalk; None without a peak.
    """

    peak_c: float | None
    lo_c: float | None
    hi_c: float | None
    lower_bound_c: float | None
    lambda_tps: float | None = None
    sigma: float | None = None
    kappa: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The form of ``--json``."""
        return asdict(self)


def fit(points: Sequence[Point]) -> Usl | None:
    """Fit the law to ``points``, repeats included. None of fewer levels than ``USL_LEVELS``, or without c=1."""
    levels = sorted({c for c, _ in points})
    if len(levels) < USL_LEVELS or levels[0] != 1 or any(tps <= 0 for _, tps in points):
        return None
    carried = {c: statistics.median(tps for at, tps in points if at == c) for c in levels}
    # of a plateau its first level: which of the others is highest, noise decides
    most = max(carried.values()) * (1 - threshold("noise_pct") / 100)
    best = min(c for c in levels if carried[c] >= most)
    # a single-peaked curve that is higher at best than at the level below peaks above that one
    bounded = Usl(None, None, None, lower_bound_c=max([c for c in levels if c < best], default=1.0))
    if levels[-1] < 2 * best:
        return bounded
    import numpy as np

    c, tps = np.array(points, dtype=float).T
    terms = _terms(c)
    coefficients = _coefficients(c, tps, terms)
    peak = _peak(coefficients)
    if levels[-1] < 2 * peak:
        return bounded
    lo, hi = _interval(c, tps, terms, coefficients)
    if levels[-1] < hi:
        return bounded
    one, contention, crosstalk = map(float, coefficients)
    return Usl(peak, lo, hi, None, 1 / one, contention / one, crosstalk / one)


def _terms(c: Any) -> Any:
    """The columns that 1/λ, σ/λ and κ/λ are the coefficients of."""
    import numpy as np

    return np.column_stack([np.ones_like(c), c - 1, c * (c - 1)])


def _coefficients(c: Any, tps: Any, terms: Any) -> Any:
    """1/λ, σ/λ, κ/λ of the best fit."""
    import numpy as np
    from scipy.optimize import nnls

    weighted = terms * (tps / c)[:, None]
    scale = weighted.max(axis=0)  # columns of one size: those of c = 128 are 16,000 times those of c = 1
    found, _ = nnls(weighted / scale, np.ones_like(c))
    return found / scale


def _peak(coefficients: Sequence[float]) -> float:
    """Where such a curve is highest: infinity where it never falls, 1 where it never rises."""
    one, contention, crosstalk = map(float, coefficients)
    if contention >= one:
        return 1.0
    return max(1.0, math.sqrt((one - contention) / crosstalk)) if crosstalk > 0 else math.inf


def _interval(c: Any, tps: Any, terms: Any, coefficients: Any) -> tuple[float, float]:
    """Bootstrap of the residuals: the middle of what other draws of the same noise would have given."""
    import numpy as np
    from scipy.special import ndtri, stdtrit

    rng = np.random.default_rng(SEED)
    fitted = c / (terms @ coefficients)
    freedom, tail = len(c) - len(coefficients), (1 - CONFIDENCE) / 2
    # three coefficients took their share of the noise, and so few residuals do not know how large it is
    wider = math.sqrt(len(c) / freedom) * stdtrit(freedom, 1 - tail) / ndtri(1 - tail)
    residuals = np.log(tps / fitted) * wider
    signs = rng.choice([-1.0, 1.0], (RESAMPLES, len(c)))
    draws = fitted * np.exp(rng.choice(residuals, (RESAMPLES, len(c))) * signs)
    peaks = sorted(_peak(_coefficients(c, drawn, terms)) for drawn in draws)
    return peaks[round(tail * (RESAMPLES - 1))], peaks[round((1 - tail) * (RESAMPLES - 1))]
