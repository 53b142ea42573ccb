"""Rules about a ladder's target: what must be known of it, and hold, before its rungs can mean anything.

Each gives None where it holds, a sentence where it does not, or ``Unknown``. See harness.e8.refusals.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from harness.e8.arms import ARMS, BASES, CAPACITY, NO_BASIS, REALISM, sandbox_floor, threshold
from harness.e8.record import STOP_REASON, Ladder, Rung


@dataclass(frozen=True)
class Unknown:
    """A fact that a rule needs. ``what`` names it in a list of gaps; ``sentence`` refuses where it was asked for.

    Without a sentence it is a gap in any case.
    """

    what: str
    sentence: str | None = None


Said = str | Unknown | None


# --- before any turn


def arm_unknown(ladder: Ladder) -> Said:
    """A ladder is of one of two arms, and its number means nothing without."""
    either = " or ".join(ARMS)
    if "arm" in ladder.unusable:
        return f"the arm {ladder.unusable['arm']}: it is {either}"
    if ladder.arm is None:
        return Unknown("the arm", f"no arm is named; arm= is {either}")
    return None if ladder.arm in ARMS else f"there is no arm {ladder.arm!r}; arm= is {either}"


def no_first_rung(ladder: Ladder) -> Said:
    """Every rung is held against that of a single client."""
    planned = {name.partition(".")[0] for name in ladder.planned or ()} or {f"c{rung.c}" for rung in ladder.rungs}
    return None if "c1" in planned else "the ladder has no c=1 rung, against which all others are held; begin it with 1"


def stub_not_pinned(ladder: Ladder) -> Said:
    """The stub whose profile is read must be the one that the target calls."""
    told, echoed = ladder.stub_url, ladder.stub_url_echoed
    if echoed is None:
        return Unknown(
            "the model endpoint of the target", "the target does not tell its ANTHROPIC_BASE_URL, so no stub is pinned"
        )
    if told is None:
        return Unknown("the URL of the stub", "no stub is named; e8.stub= is the URL that the target calls")
    if told != echoed:
        return f"the target's ANTHROPIC_BASE_URL is {echoed}, and the stub is {told}: name the one that it calls"
    return None


def profile_unusable(ladder: Ladder) -> Said:
    """Without the stub's times nobody knows how much of a turn is the stub's sleep."""
    if "profile" in ladder.unusable:
        return f"what the stub tells at /profile is not a real profile: it {ladder.unusable['profile']}"
    if ladder.profile is None:
        return Unknown("the stub's profile", "stub profile unreachable: nothing usable came from its /profile")
    return None


def profile_of_another_arm(ladder: Ladder) -> Said:
    """Capacity needs a fast stub, realism exactly the one of the basis rows."""
    profile = ladder.profile
    if profile is None:
        return None
    found = f"{profile.ttft_ms:g} ms to the first token and {profile.token_delay_ms:g} ms between tokens"
    if ladder.arm == CAPACITY:
        ttft_ms, delay_ms = threshold("fast_ttft_ms"), threshold("fast_token_delay_ms")
        if profile.ttft_ms > ttft_ms or profile.token_delay_ms > delay_ms:
            return (
                f"the stub has {found}, which is not a fast profile: the capacity arm takes at most {ttft_ms:g} and "
                f"{delay_ms:g}, else its number is the stub's sleep"
            )
    if ladder.arm == REALISM:
        pinned = tuple(map(threshold, ("realism_ttft_ms", "realism_token_delay_ms", "realism_output_tokens")))
        if (profile.ttft_ms, profile.token_delay_ms, profile.output_tokens) != pinned:
            return (
                f"the stub has {found}, {profile.output_tokens:g} tokens: the realism arm is pinned to {pinned[0]:g} "
                f"and {pinned[1]:g} ms, {pinned[2]:g} tokens"
            )
    return None


def no_tool_calls(ladder: Ladder) -> Said:
    """A turn that never calls a tool leaves half of the path out."""
    if ladder.profile is not None and ladder.profile.tool_call_rate <= 0:
        return "the stub's toolCallRate is 0, so no session ever reaches a sandbox; 0.5 gives one exec per turn"
    return None


def workers_unknown(ladder: Ladder) -> Said:
    """W and S say what was measured, and how many turns are admitted."""
    for name, fact, variable in (
        ("workers", "the number of workers", "SH_WORKERS"),
        ("turns_per_worker", "the turns that a worker may hold", "SH_TURNS_PER_WORKER"),
    ):
        if name in ladder.unusable:
            return f"the target's {variable} {ladder.unusable[name]}"
        if getattr(ladder, name) is None:
            return Unknown(fact, f"the target does not tell its {variable}")
    return None


def admission_headroom(ladder: Ladder) -> Said:
    """Capacity: turns refused at admission would end the ladder before the tier does."""
    if ladder.arm != CAPACITY or ladder.workers is None or ladder.turns_per_worker is None:
        return None
    admitted, needed = ladder.workers * ladder.turns_per_worker, threshold("cap_headroom_x") * ladder.top
    if admitted < needed:
        return (
            f"{ladder.workers} workers of {ladder.turns_per_worker} turns admit {admitted}, and the capacity arm needs "
            f"{needed:g} for a top rung of {ladder.top}: raise the admission cap (SH_TURNS_PER_WORKER)"
        )
    return None


def basis_of_another_arm(ladder: Ladder) -> Said:
    """Realism stands on a row of recorded duty; capacity on none, and says so."""
    if "basis" in ladder.unusable:
        return f"the duty basis {ladder.unusable['basis']}"
    if ladder.arm not in ARMS:
        return None
    if ladder.basis is None:
        return Unknown("the duty basis", "no duty basis is recorded, not even that there is none")
    if ladder.arm == CAPACITY and ladder.basis != NO_BASIS:
        return f"the duty basis is {ladder.basis}, and the capacity arm has {NO_BASIS!r}: one of both is mislabelled"
    duties = [duty for duty in (ladder.duty, ladder.duty_second) if duty is not None]
    if ladder.arm == CAPACITY and duties and min(duties) > (row := max(basis.duty[1] for basis in BASES.values())):
        return (
            f"the duty is {min(duties):.4g}, above {row:g}, the highest of any row, and the capacity arm has one near "
            "0: run a trivial command"
        )
    if ladder.arm == REALISM and ladder.basis not in BASES:
        return f"there is no duty basis {ladder.basis!r}; the rows are {', '.join(BASES)}, and each is taken whole"
    return None


def duty_out_of_band(ladder: Ladder) -> Said:
    """Realism: the duty was calibrated to its row, and two probes say so."""
    if ladder.arm != REALISM or (basis := BASES.get(ladder.basis or "")) is None:
        return None
    if ladder.duty is None:
        return Unknown("the duty of a sandbox, which nothing counted or recorded")
    low, high = basis.duty
    for name, duty in (("duty", ladder.duty), ("second probe of the duty", ladder.duty_second)):
        if duty is not None and not low <= duty <= high:
            return f"the {name} is {duty:.4f}, outside of {low:g} to {high:g} of {ladder.basis}; calibrate again"
    return None


def not_one_exec(ladder: Ladder) -> Said:
    """Capacity: one trivial exec per turn. Either arm: at least one, or the sandboxes were never reached."""
    execs = ladder.execs_per_turn
    if execs is None:
        return None
    if execs <= 0:
        return "no sandbox exec was recorded while the workload was probed: the tool calls end elsewhere"
    low, high = threshold("execs_per_turn_low"), threshold("execs_per_turn_high")
    if ladder.arm == CAPACITY and not low <= execs <= high:
        return f"a turn ran {execs:g} execs, and the capacity arm wants one ({low:g} to {high:g}): see toolCallRate"
    return None


def success_untold(ladder: Ladder) -> Said:
    """A turn whose model call failed answers 200 too."""
    if ladder.success_by != STOP_REASON:
        return Unknown("whether a success had more than status 200")
    return None


def host_not_at_rest(ladder: Ladder) -> Said:
    """What the target's host does without load is little, else the ladder shares it with another load."""
    rest, most = ladder.host_rest_pct, threshold("host_rest_pct")
    if ladder.probed and rest is not None and rest > most:
        return (
            f"another load used {rest:.1f} % of the target's host before the ladder, where {most:g} % is the most of a "
            "host at rest: end it and climb again"
        )
    return None


# --- after the first rung


def no_success(ladder: Ladder) -> Said:
    """Zero successes at c=1: nothing is being measured."""
    first = [rung for rung in ladder.rungs if rung.c == 1]
    if first and all(rung.rate in (None, 0) for rung in first):
        kinds = _failures(first[0])
        return (
            f"ZERO successful turns at c=1{f' ({kinds})' if kinds else ''}: nothing works there that could be measured"
        )
    return None


def first_rung_late(ladder: Ladder) -> Said:
    """A c=1 that did not come to its end in time is nothing that other rungs can be held against."""
    for rung in ladder.rungs:
        if rung.c == 1 and rung.late:
            return (
                f"{rung.name} ended by its deadline after {_number(rung.attempts)} of {_number(rung.planned_turns)} "
                "planned turns, and every rung is held against c=1: see why single turns take so long"
            )
    return None


def first_rung_unsteady(ladder: Ladder) -> Said:
    """A p95 at c=1 that a few stalled turns made bounds nothing: every rung would be healthy against it."""
    first = [rung for rung in ladder.rungs if rung.c == 1 and rung.p95_ms is not None]
    typical = [value for rung in first if (value := _typical_ms(rung)) is not None]
    if not typical:
        return None
    typical_ms, p95_ms = statistics.median(typical), statistics.median(rung.p95_ms or 0.0 for rung in first)
    if p95_ms > threshold("unsteady_x") * typical_ms:
        return (
            f"a turn of c=1 takes {typical_ms:.0f} ms, and its p95 is {p95_ms:.0f} ms: some turns stalled, and every "
            "rung is held against that p95; see what stood still, and climb again"
        )
    return None


def pool_unobserved(ladder: Ladder) -> Said:
    """How many sandboxes there were is observed by a turn that selected one, never assumed."""
    if "pool" in ladder.unusable:
        return f"the target's sandbox pool size {ladder.unusable['pool']}"
    if ladder.pool is None and ladder.rungs:
        return Unknown(
            "the sandbox pool", "sandbox pool size unreported after turns at c=1: tools may run in the workers"
        )
    return None


def pool_under_floor(ladder: Ladder) -> Said:
    """Realism: with fewer sandboxes than the duty needs, the ladder measures their queue."""
    workers, turns, pool, basis = ladder.workers, ladder.turns_per_worker, ladder.pool, BASES.get(ladder.basis or "")
    if ladder.arm != REALISM or workers is None or turns is None or pool is None or basis is None:
        return None
    high = basis.duty[1]
    if pool < (floor := sandbox_floor(workers, turns, high)):
        return (
            f"there are {pool} sandboxes, under the floor of {floor} for {workers} workers of {turns} turns at a duty "
            f"of up to {high:g} ({ladder.basis}); start more"
        )
    return None


def lease_headroom(ladder: Ladder) -> Said:
    """Capacity: a lease cap that is reached would end the ladder before the tier does. Either arm: it must be known."""
    if "cap" in ladder.unusable:
        return f"the target's KAGENTI_SANDBOX_CAP {ladder.unusable['cap']}"
    if ladder.cap is None:
        return Unknown("the lease cap", "the target does not tell its KAGENTI_SANDBOX_CAP")
    if ladder.arm != CAPACITY or ladder.pool is None:
        return None
    leases, needed = ladder.pool * ladder.cap, threshold("cap_headroom_x") * ladder.top
    if leases < needed:
        return (
            f"{ladder.pool} sandboxes of {ladder.cap} leases hold {leases} turns, and the capacity arm needs "
            f"{needed:g} for a top rung of {ladder.top}: raise KAGENTI_SANDBOX_CAP"
        )
    return None


def _typical_ms(rung: Rung) -> float | None:
    """Of c=1: its median turn; where that is not known, the mean of those that took less than p95, gaps included."""
    tps, slow = rung.made_throughput_tps, rung.slow_share
    if rung.p50_ms is not None or not tps or slow >= 1:
        return rung.p50_ms
    return max(0.0, 1000 / tps - slow * (rung.p95_ms or 0.0)) / (1 - slow)


def _number(value: int | None) -> str:
    return "an unknown number" if value is None else str(value)


def _failures(rung: Rung) -> str:
    kinds = {
        "429": rung.refused_429,
        "503": rung.refused_503,
        "200 with an error": rung.errors_in_200,
        "no answer in time": rung.timed_out,
        "other": rung.failed_otherwise,
    }
    return ", ".join(f"{count} × {kind}" for kind, count in kinds.items() if count)
