"""Rules about one rung, and about all rungs together. See harness.e8.refusals."""

from __future__ import annotations

from collections.abc import Iterator

from harness.e8.arms import CAPACITY, threshold
from harness.e8.record import EMBEDDED, PARTS, Ladder, Rung, rung_name
from harness.e8.rules import Said, Unknown
from harness.e8.turns import ALL_TURNS

POOL = "the number of sandboxes"

# --- a rung


def nothing_attempted(ladder: Ladder, rung: Rung) -> Said:
    """A rung of no turns says nothing of the tier, and a ladder that ends there was ended by something else."""
    if ladder.probed and (rung.attempts is None or rung.ok is None):
        return f"{rung.name} does not say how many turns were attempted and succeeded: measure it again"
    if rung.turns_ok is None and rung.rate is not None:
        return Unknown("how many turns were attempted and succeeded")
    if rung.attempts != 0:
        return None
    return Unknown(f"any turn at {rung.name}", f"no turn was attempted at {rung.name}: measure it again")


def workers_miscounted(ladder: Ladder, rung: Rung) -> Said:
    """Figures of some workers are not those of the tier."""
    told = len(rung.workers)
    if not told and ladder.probed and rung.rate and rung.rate >= threshold("success_floor"):
        return (
            f"no worker told of itself at {rung.name}, so neither its CPU nor its lag is known: see what /metrics says"
        )
    if not told or ladder.workers in (None, told):
        return None
    return (
        f"{told} workers told of themselves at {rung.name}, and the target has {ladder.workers} (SH_WORKERS): what was "
        "measured is not the tier that is named"
    )


def execs_off(ladder: Ladder, rung: Rung) -> Said:
    """What was probed before the ladder must hold in it: in the capacity arm one exec per turn, in either arm any."""
    mean = rung.mean_execs
    if not rung.rate or rung.rate < threshold("success_floor"):
        return None
    if mean is None:
        return _execs_uncounted(ladder, rung)
    if mean == 0:
        return f"no exec reached a sandbox at {rung.name}: the tool calls end elsewhere"
    low, high = threshold("execs_per_turn_low"), threshold("execs_per_turn_high")
    probed = ladder.execs_per_turn
    if ladder.arm != CAPACITY and (mean < low or (probed and not low * probed <= mean <= high * probed)):
        return (
            f"turns at {rung.name} ran {mean:.2g} execs each, where {probed or 1:g} were probed before the ladder: its "
            "duty is not that of the probe"
        )
    if ladder.arm == CAPACITY and not low <= mean <= high:
        return (
            f"turns at {rung.name} ran {mean:.2f} execs each, and the capacity arm wants one ({low:g} to {high:g}): "
            "see toolCallRate, and who the stub counts tool calls for"
        )
    return None


def _execs_uncounted(ladder: Ladder, rung: Rung) -> Said:
    if ladder.arm != CAPACITY or not ladder.probed:  # a record of somebody's may have counted them before it alone
        return None
    why = rung.why_unknown.get("execs")
    return (
        f"no exec was counted at {rung.name}{f' ({why})' if why else ''}, and the capacity arm rests on one each turn; "
        "e8.exec_count_cmd= names a command that prints how many there were"
    )


def sandbox_unmeasured(ladder: Ladder, rung: Rung) -> Said:
    """Capacity: that the sandboxes were out of the way is measured, at every rung."""
    if ladder.arm != CAPACITY or ladder.settle(rung).sandbox_util_pct is not None:
        return None
    if rung.sandbox_cpu_s is not None and rung.wall_s is None:
        return Unknown(f"how long {rung.name} took", f"{rung.name} does not say how long it took: measure it again")
    why = rung.why_unknown.get("sandbox_util_pct") or rung.why_unknown.get("sandbox_cpu_s")
    return Unknown(
        "the sandboxes' CPU",
        f"sandbox utilisation is UNMEASURED at {rung.name}{f' ({why})' if why else ''}, and the capacity arm rests on "
        "it; e8.sandbox_cpu_cmd= names a command that prints it",
    )


def sandbox_over_ceiling(ladder: Ladder, rung: Rung) -> Said:
    """Capacity: above the ceiling the number is partly the sandboxes'."""
    used, ceiling = ladder.settle(rung).sandbox_util_pct, threshold("sandbox_ceiling_pct")
    # as it is printed: 25.0 is within, 25.1 is not
    if ladder.arm == CAPACITY and used is not None and round(used, 1) > ceiling:
        return (
            f"sandbox utilisation is {used:.1f}% at {rung.name}, which exceeds the {ceiling:g}% ceiling of the "
            "capacity arm: add sandboxes"
        )
    return None


def host_shared(ladder: Ladder, rung: Rung) -> Said:
    """Embedded tier: the host's use is that of the tier's parts, and of nobody else's."""
    others_s = used_by_others_s(ladder, rung)
    share = rung.made_util_pct(others_s, ladder.cores)
    if others_s is None or share is None or others_s <= threshold("host_shared_s"):
        return None
    if share > threshold("host_shared_pct"):
        return (
            f"{share:.1f} % of the host at {rung.name} was used by none of the tier's parts: something else ran there; "
            "end it and climb again"
        )
    return None


def used_by_others_s(ladder: Ladder, rung: Rung) -> float | None:
    """CPU seconds of the host that neither the tier's parts had nor the host at rest.

    None where one of them is not known, or where nobody knows what else belongs on the host: of another tier.
    """
    spent = [getattr(rung, name) for name in PARTS.values()]
    if ladder.measured != EMBEDDED or None in (rung.host_cpu_s, rung.wall_s, ladder.cores, *spent):
        return None
    at_rest_s = (ladder.rest_pct or 0.0) / 100 * (rung.wall_s or 0.0) * (ladder.cores or 0)
    return float((rung.host_cpu_s or 0.0) - sum(spent) - at_rest_s)


def generator_bound(ladder: Ladder, rung: Rung) -> Said:
    """What the generator could not send or keep in flight says nothing of the target."""
    if rung.attempts and rung.attempts < rung.c:
        return (
            f"the generator sent {rung.attempts} turns at {rung.name}, fewer than its {rung.c} clients, and no more "
            "than that were in flight: the rung measured the client; send more turns per rung"
        )
    if not rung.rate or rung.rate < threshold("success_floor"):
        return None  # refusals come back at once, and keep any generator busy
    # what it waited for a core counts too: beside a busy tier it may be bound without having had the whole of one
    wanted_s = None if rung.generator_cpu_s is None else rung.generator_cpu_s + (rung.generator_wait_s or 0)
    busy, most = rung.made_util_pct(wanted_s, 1), threshold("generator_cpu_bound_pct")
    if busy is not None and busy >= most:
        return (
            f"the generator used or waited for {busy:.0f}% of its one core at {rung.name} ({most:g}% is its limit): "
            "the rung measured the client; generate from a larger machine, or end the ladder lower"
        )
    lag_ms, most_ms = rung.generator_lag_p99_ms, threshold("generator_lag") * (rung.p50_ms or 0)
    if lag_ms is not None and rung.p50_ms and lag_ms >= most_ms:
        return (
            f"the generator's own loop was late by {lag_ms:.0f} ms (p99) at {rung.name}, where a turn takes "
            f"{rung.p50_ms:.0f} ms: the rung measured the client; generate from a machine that has a core to spare"
        )
    stall_ms, least_ms = rung.generator_lag_max_ms, threshold("generator_stall") * 1000 * (rung.wall_s or 0)
    # shorter than a turn it cost each client one at most, whatever the share of a short rung
    if stall_ms is not None and rung.p50_ms and stall_ms > max(least_ms, rung.p50_ms):
        return (
            f"the generator stood still for {stall_ms:.0f} ms at {rung.name}, of {1000 * (rung.wall_s or 0):.0f} ms in "
            "all: the rung measured the client; see what held it up, and measure the rung again"
        )
    held, least = _held(ladder, rung), threshold("generator_held") * rung.c
    if held is not None and held < least:
        return (
            f"the generator had {held:.1f} turns in flight at {rung.name}, under {least:g}: the rung measured the "
            "client; send more turns per rung"
        )
    return None


def _held(ladder: Ladder, rung: Rung) -> float | None:
    """Turns in flight: as a harness saw them, of another's record no more than its turns and their p95 allow."""
    if ladder.probed and rung.achieved_c is not None:
        return rung.achieved_c
    timed = rung.c == 1 or rung.wall_ms is not None or rung.p50_ms is not None
    told = (rung.achieved_c, rung.held_most if timed else None)
    return min((each for each in told if each is not None), default=None)


def worker_frozen(ladder: Ladder, rung: Rung) -> Said:
    """A worker that stands still keeps its slots and reads healthy, and every turn that it is given is lost."""
    moved = any(worker.cpu_s for worker in rung.workers)
    # a turn that outlived its client's deadline, on one worker alone, is not a turn that takes long
    held = [each.in_flight_end for each in rung.workers]
    hung = (
        rung.ended == ALL_TURNS and rung.timed_out and len(held) > 1 and None not in held and sum(map(bool, held)) == 1
    )
    for number, worker in enumerate(rung.workers, start=1):
        name = f"worker {number}" + (f" (pid {worker.pid})" if worker.pid else "")
        if moved and worker.in_flight_end and worker.cpu_s is not None and round(worker.cpu_s, 2) == 0:
            return (
                f"{name} was frozen at {rung.name}: it held {worker.in_flight_end} turns to the end and used no CPU "
                "while others did; see why it stands still"
            )
        if hung and worker.in_flight_end:
            return (
                f"{name} was frozen at {rung.name}: it held {worker.in_flight_end} turns when their clients had given "
                "up, and no other worker held any; see why it stands still"
            )
    return None


def store_leak(ladder: Ladder, rung: Rung) -> Said:
    """Connections that grow with the turns end the run at some later time, and slow it until then."""
    grown, turns = rung.store_connections_delta, rung.attempts
    if not grown or not turns:
        return None
    per_1000 = 1000 * grown / turns
    if per_1000 >= threshold("leak_per_1000_turns") and grown > rung.c:
        return (
            f"{grown} store connections were left open by {turns} turns at {rung.name} ({per_1000:.0f} per 1,000 "
            "turns): they leak; the ladder would measure how many the store bears"
        )
    return None


def unmeasured_turns(ladder: Ladder, rung: Rung) -> Said:
    """A rung without latency or throughput can be neither healthy nor a miss."""
    if not rung.rate or rung.rate < threshold("success_floor"):
        return None
    for what, value in (("p95", rung.p95_ms), ("throughput", rung.made_throughput_tps)):
        if not value:  # successes that took no time were not measured either
            return f"{rung.name} has no {what}, so nobody can say whether it is healthy; measure it again"
    return None


# --- the whole ladder


def rungs_missing(ladder: Ladder) -> Said:
    """A rung that was planned and is not there was not measured, whatever the others say."""
    if not ladder.rungs:
        return "no rung was measured, so there is nothing to read"
    measured = {rung.name for rung in ladder.rungs}
    if absent := [name for name in ladder.planned or () if name not in measured]:
        return f"not all of the planned ladder was measured ({', '.join(absent)}): climb a new one, or adopt all of it"
    if ladder.complete is False:
        return "the ladder was not climbed to its end: further rungs were to be found; climb a new one"
    for rung in ladder.rungs:
        before = rung_name(rung.c, rung.repeat - 1)
        if rung.repeat > 1 and before not in measured:
            return f"{rung.name} is there and {before} is not: a repeat repeats something; measure what is missing"
    return None


def rungs_unplanned(ladder: Ladder) -> Said:
    """A rung that nobody planned is of another ladder."""
    planned = ladder.planned
    strange = [rung.name for rung in ladder.rungs if planned is not None and rung.name not in planned]
    if planned is not None and strange:
        return f"{', '.join(strange)} was measured and is not among the planned rungs ({', '.join(planned)}); plan it"
    return None


def success_under_floor(ladder: Ladder) -> Said:
    """Nothing is left of a ladder whose every rung is cut off; nor of one that is cut off at c=1."""
    floor = threshold("success_floor")
    rungs = [rung for rung in ladder.rungs if rung.attempts or rung.success_rate is not None]
    if rungs and all((rung.rate or 0) < floor for rung in rungs):
        which = "every rung" if len(rungs) > 1 else f"{rungs[0].name}, the only rung measured,"
        return f"{which} fell below the {floor:g} success-rate floor: there is no ladder left to read"
    first = [rung.rate or 0 for rung in rungs if rung.c == 1]
    if first and max(first) < floor:
        return (
            f"c=1 succeeded in {max(first):.2f} of its turns, below the {floor:g} floor: no rung can be held against it"
        )
    return None


def system_changed(ladder: Ladder) -> Said:
    """All rungs must be of one system under test."""
    seen: dict[str, tuple[str, str]] = {}
    for when, name, says in _told_of_system(ladder):
        first, place = seen.setdefault(name, (says, when))
        if says != first:
            return (
                f"the system under test changed: {name} was {first} at {place} and {says} at {when}; rungs of two "
                "systems are no ladder"
            )
    return None


def _told_of_system(ladder: Ladder) -> Iterator[tuple[str, str, str]]:
    """When, what, and what was said of it; the number of sandboxes is one of the things that must not change."""
    if ladder.pool is not None:
        yield "first", POOL, str(ladder.pool)
    for rung in ladder.rungs:
        for when, system in ((rung.name, rung.system), (f"the end of {rung.name}", rung.system_end)):
            yield from ((when, name, says) for name, says in (system or {}).items())
        if rung.pool is not None:
            yield rung.name, POOL, str(rung.pool)
