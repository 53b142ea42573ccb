"""The two arms: what each asks, what it may be measured with, where it draws its lines and why, what it may claim.

Every number by which a ladder is judged stands here and nowhere else; docs/methods/e8.md lists them from here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

REALISM, CAPACITY = ARMS = ("realism", "capacity")
NO_BASIS = "none (capacity arm)"
"""The duty basis of the capacity arm: a statement that there is none, which is not the same as none recorded."""

BOUNDS = (
    "not-observed",
    "admission-control",
    "host-cpu",
    "worker-cpu",
    "sandbox-pool",
    "event-loop",
    "memory",
    "generator",
    "unattributed",
)
"""What may have stopped a ladder, in one word each."""


@dataclass(frozen=True)
class Threshold:
    """A number that decides something, with its unit and the reason for it."""

    value: float
    unit: str
    reason: str


THRESHOLDS: Mapping[str, Threshold] = {
    "success_floor": Threshold(
        0.95,
        "of attempts",
        "below it a rung measures refusals and deadlines, not turns; it and every rung above it leave the ladder",
    ),
    "degrade_x": Threshold(
        2,
        "× p95 at c=1",
        "a saturated tier in a closed loop doubles its p95 with each doubling of c; twice is the last step before that",
    ),
    "min_c": Threshold(
        4, "turns", "a tier that cannot carry four turns at once is broken rather than slow; a knee under it fails"
    ),
    "noise_pct": Threshold(
        5,
        "%",
        "the same rung, measured twice on the published rig, differed by 4 and 6 %: what misses or holds by less "
        "decides nothing by itself, and widens the interval",
    ),
    "flat_gain": Threshold(
        1.25,
        "× throughput of half the clients or fewer",
        "a curve that peaks there or before gains at most that much (universal scalability law without contention): a "
        "ladder that never gains more over c=1 was saturated by its first client, and one that gains no more up to its "
        "top stopped rising",
    ),
    "sandbox_ceiling_pct": Threshold(
        25,
        "% of the sandboxes' CPU",
        "capacity: above it the sandbox tier is no longer out of the way, and the number would be partly its own",
    ),
    "cap_headroom_x": Threshold(
        2, "× the top rung", "capacity: a cap nearer than that is reached by uneven routing before the tier is"
    ),
    "fast_ttft_ms": Threshold(25, "ms", "capacity: the stub's first token; more and the number is the stub's sleep"),
    "fast_token_delay_ms": Threshold(2, "ms", "capacity: the stub's token delay, for the same reason"),
    "realism_ttft_ms": Threshold(300, "ms", "realism: the model that the duty of the basis rows was recorded with"),
    "realism_token_delay_ms": Threshold(12, "ms", "realism: the same"),
    "realism_output_tokens": Threshold(64, "tokens", "realism: the same"),
    "execs_per_turn_low": Threshold(0.9, "execs", "capacity: one trivial exec per turn keeps the plumbing on the path"),
    "execs_per_turn_high": Threshold(1.1, "execs", "capacity: more would load the sandboxes that are to be idle"),
    "host_cpu_bound_pct": Threshold(
        85, "% of the target's cores, less its share at rest", "above it run queues form on any tier of that host"
    ),
    "host_rest_pct": Threshold(
        15,
        "% of the target's cores without load",
        "an idle tier and what a machine does for itself read 1 to 8 %; above it another load runs there",
    ),
    "host_rest_over_pct": Threshold(
        5,
        "% of the target's cores, more at rest than at c=1",
        "a load that went away before c=1 was no use at rest; two readings of an idle machine differ by less",
    ),
    "host_shared_pct": Threshold(
        15,
        "% of the host, used by none of the tier's parts",
        "embedded tier: what its parts leave of the host's use, less that at rest, was within 3 % on a machine that "
        "nobody else used, interrupts included, and 29 to 65 % beside another load",
    ),
    "host_shared_s": Threshold(
        0.2,
        "s of CPU",
        "embedded tier: CPU is told in ticks of 10 ms for each process, and a short rung has few of them",
    ),
    "worker_cpu_bound_pct": Threshold(
        80,
        "% of min(workers, cores)",
        "one event loop per worker cannot use more than one core; at four fifths of that its queue dominates",
    ),
    "sandbox_bound_pct": Threshold(
        50, "% of the sandboxes' CPU", "held leases alone convict nobody: a lease is held while the model sleeps"
    ),
    "lease_bound": Threshold(0.95, "leases per sandbox", "under one turn per sandbox no turn has to share one"),
    "lease_signature_pct": Threshold(
        2,
        "% of sandboxes × cap × turns per client",
        "a lease cap ends a rung with exactly that many successes; a client between two turns may lend its lease",
    ),
    "lag_bound_x": Threshold(
        4, "× the lag at c=1", "a p99 in the histogram's lowest buckets moves by up to a factor of two by itself"
    ),
    "runner_up": Threshold(
        0.5, "of its own threshold", "a tier that came less than half of the way to convicting was nowhere near"
    ),
    "cpu_fit_pct": Threshold(
        25,
        "% of the CPU measured at any level",
        "one cost of a turn and one of being there are told only where together they give what each level used; where "
        "turns become cheaper with load they miss c=1 by 100 % and more",
    ),
    "probes_apart": Threshold(
        2, "× the other probe's duty", "capacity: two probes of a trivial command that differ by more tell no duty"
    ),
    "unsteady_x": Threshold(
        3,
        "× p50 at c=1",
        "single clients of steady tiers read p95 at 1 to 1.3 times p50; where a few stalled turns made it, no rung "
        "would miss a bound that is a multiple of it",
    ),
    "stall_x": Threshold(
        1.25, "× p50", "mean latency: 1 to 1.2 up to saturation, and 1.5 where a part stood still for a third of a rung"
    ),
    "claim_turns": Threshold(
        5, "successes", "the slowest of five turns is slower than a typical one in 31 of 32 draws; one may be any turn"
    ),
    "p95_turns": Threshold(20, "successes", "of fewer, the p95 by nearest rank is the largest one"),
    "generator_cpu_bound_pct": Threshold(
        80,
        "% of one core",
        "the generator is one event loop; nearer to a whole core its own queue enters every latency",
    ),
    "generator_lag": Threshold(
        0.5,
        "× p50",
        "p99 of the generator's own loop lag: half of a typical turn would be the client's; beside a saturated tier on "
        "two cores it was a fiftieth",
    ),
    "generator_stall": Threshold(
        0.1,
        "of the rung's time",
        "the longest that the generator stood still: by as much its throughput is too low; on two cores that others "
        "used too it was 3 ms",
    ),
    "generator_held": Threshold(
        0.5, "of c turns in flight", "published rungs held 0.8 to 1; under one half the rung was another, smaller one"
    ),
    "leak_per_1000_turns": Threshold(
        500, "store connections", "the known leak was 2,000; pools that fill up open at most one for each client"
    ),
}


def threshold(name: str) -> float:
    """The number called ``name`` in ``THRESHOLDS``."""
    return THRESHOLDS[name].value


SEARCH: Mapping[str, Threshold] = {
    "misses": Threshold(2, "levels in a row", "end a climb; one alone may be an accident"),
    "repeats": Threshold(3, "times", "c=1 and both ends of the bracket are measured: a median of three outvotes one"),
    "bracket_x": Threshold(1.25, "× its lower end", "is a bracket narrow enough: nearer than that, noise decides"),
    "top_c": Threshold(256, "clients", "end an automatic ladder, unless caps or the generator end it before"),
    "usl_levels": Threshold(
        5, "levels", "are needed for a fit: on fewer, three coefficients do not say how sure they are"
    ),
}
"""How a knee is searched for, where the ladder is not given."""

MISSES, REPEATS, TOP_C, USL_LEVELS = (int(SEARCH[name].value) for name in ("misses", "repeats", "top_c", "usl_levels"))
BRACKET_X = SEARCH["bracket_x"].value


@dataclass(frozen=True)
class Basis:
    """A row that was recorded as a whole, by one workload: it is taken whole, never blended with another.

    ``duty`` is the band of the share of a turn's wall time in which its sandbox is busy; ``sessions`` is how many
    sessions then share one sandbox.
    """

    duty: tuple[float, float]
    sessions: tuple[float, float]
    workload: str


BASES: Mapping[str, Basis] = {
    "e6-ocp": Basis((0.061, 0.079), (12.6, 16.5), "code review on OpenShift"),
    "e6-kind": Basis((0.042, 0.051), (19.7, 24.0), "code review on kind"),
    "e7": Basis((0.021, 0.035), (28.6, 47.6), "converge over mixed refs"),
}


def sandbox_floor(workers: int, turns_per_worker: int, duty_high: float) -> int:
    """How many sandboxes realism needs, so that all turns at once find theirs free: ceil(W × S × duty), at least 1."""
    return max(1, math.ceil(round(workers * turns_per_worker * duty_high, 9)))


@dataclass(frozen=True)
class Arm:
    """What one arm asks, and what its number is."""

    name: str
    asks: str
    number_is: str


ABOUT: Mapping[str, Arm] = {
    REALISM: Arm(
        REALISM,
        "Does the density survive a real, calibrated tool cost?",
        "the density that can be deployed, shaped by the sandboxes",
    ),
    CAPACITY: Arm(
        CAPACITY,
        "How many concurrent turns do supervisor and workers push, with the sandboxes held out of the way?",
        "an upper bound on the supervisor and worker tier, never a density that can be deployed",
    ),
}


@dataclass(frozen=True)
class Claimed:
    """What a claim sentence is made of; None was not measured."""

    measured: str
    floor: int
    saturated: bool
    throughput_tps: float
    workers: int | None
    turns_per_worker: int | None
    pool: int | None
    basis: str | None
    duty: float | None
    worker_cpu_ms_per_turn: float | None
    worker_cpu_ms_marginal: tuple[float, float] | None
    """From the least to the most, as each level in turn is left out."""


def claim(arm: str, of: Claimed) -> str:
    """The one sentence that a ladder of this arm may be quoted by."""
    least = "" if of.saturated else "at least "
    tier = f"{_number(of.workers)} workers of {_number(of.turns_per_worker)} turns"
    carried = f"{least}{of.floor} concurrent turns ({of.throughput_tps:.1f} turns/s)"
    about = ABOUT[arm].number_is
    is_what = (
        f"this is {about}"
        if of.saturated
        else f"no knee was observed up to there, so the number is this or higher; it is {about}"
    )
    if arm == CAPACITY:
        return (
            f"Capacity arm on {of.measured}: {tier} pushed {carried} at "
            f"{_number(of.worker_cpu_ms_per_turn, '.1f')} ms of worker CPU per turn{_marginal(of)}; {is_what}."
        )
    return (
        f"Realism arm on {of.measured}: {tier} and {_number(of.pool)} sandboxes carried {carried} at a measured "
        f"duty of {_number(of.duty, '.4f')} ({of.basis or 'basis not recorded'}); {is_what}."
    )


def _marginal(of: Claimed) -> str:
    if of.worker_cpu_ms_marginal is None:
        return ""
    low, high = (f"{value:.1f}" for value in of.worker_cpu_ms_marginal)
    return f" ({low} ms marginal)" if low == high else f" ({low} to {high} ms marginal)"


def _number(value: float | None, form: str = ".10g") -> str:
    if value is None:
        return "an unknown number of" if form == ".10g" else "?"
    return f"{value:{form}}"
