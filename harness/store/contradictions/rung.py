"""What a rung's record says twice: figures, and the parts that they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import chain

from harness.e8.arms import threshold
from harness.e8.record import EMBEDDED, Ladder, Rung
from harness.e8.turns import ALL_TURNS, FAILURES, TIME_IS_UP

CPU_STEP_S, SHARE_STEP, RATE_STEP, SUCCESS_STEP, MS_STEP = 0.005, 0.05, 0.0005, 0.00005, 0.0005
"""Half a unit of the last digit in which recorders write CPU seconds, shares in %, turns per second, success rates."""
MOST_CPU_STEP_S, MOST_SHARE_STEP, MOST_SUCCESS_STEP, MOST_MS_STEP = 0.05, 0.5, 0.005, 0.5
MOST_RATE_STEP, MOST_RATE_SHARE = 0.005, 0.01
"""The coarsest that they are rounded to; turns per second to two decimals, or 1 %. By more, a figure is another one."""
TICKS_S = 2.5  # CPU time is told once a second: a rung's may hold what was spent shortly before and after it
OVERSHOOT = 1.1  # published rungs tell up to 105 % of their cores
LITTLE = 1.02  # times are told in whole ms by some recorders, and throughput to three decimals
CALL_TOKENS = 2  # deltas of an answer that calls a tool
SLEPT = 0.98  # a sleep is told by another clock than the turn that holds it
AHEAD_MS = 0.001  # times are told to the microsecond
RARELY = 10  # a stub's rate is of requests, and each of them decides by itself
LENT = 2  # a client between two turns may lend its lease
GROWN = {
    "over_admission": "over_admission_total",
    "spurious_refusals": "spurious_refusals_total",
    "store_connections": "store_connections",
    "descriptors": "descriptors",
}
"""What grows in a rung → what it is in all."""


def half_unit(value: float, least: float, most: float) -> float:
    """Half a unit of the last decimal that a figure shows, by which it may be rounded."""
    shown = 0.5 if float(value).is_integer() else 0.5 * 10.0 ** int(Decimal(repr(value)).as_tuple().exponent)
    return max(least, min(most, shown))


def rate_step(tps: float) -> float:
    """By how much rounding can have moved a throughput."""
    return half_unit(tps, RATE_STEP, max(MOST_RATE_STEP, MOST_RATE_SHARE * tps))


def ms_step(value_ms: float) -> float:
    """By how much rounding can have moved a time."""
    return half_unit(value_ms, MS_STEP, MOST_MS_STEP)


def of_rung(ladder: Ladder, rung: Rung) -> str | None:
    """The first contradiction of a rung's record with itself, None where all of it agrees."""
    found = chain(
        counts(rung), times(rung), programmed(ladder, rung), figures(ladder, rung), cpu(ladder, rung),
        execs(ladder, rung), capacities(ladder, rung), of_workers(ladder, rung),
    )  # fmt: skip
    return next((f"{rung.name} {what}" for what in found), None)


def counts(rung: Rung) -> Iterator[str]:
    """Attempts are successes and failures, as many as were planned where all were sent."""
    if rung.attempts is None or rung.ok is None:
        return
    kinds = [getattr(rung, name) for name in FAILURES]
    told, failed = sum(count or 0 for count in kinds), rung.attempts - rung.ok
    if told > failed or (told < failed and None not in kinds):
        yield f"counts {told} failures by their kinds, and {rung.ok} of {rung.attempts} attempts succeeded"
    step = half_unit(rung.success_rate or 0.0, SUCCESS_STEP, MOST_SUCCESS_STEP)
    if rung.attempts and _differ(rung.success_rate, rung.ok / rung.attempts, step):
        yield f"says success_rate {rung.success_rate:g}, and {rung.ok} of {rung.attempts} attempts succeeded"
    planned = rung.planned_turns
    if planned is not None and rung.ended == TIME_IS_UP:
        yield f"ended because its time was up, and its clients were to send {planned} turns, however long that takes"
    if planned is not None and rung.attempts > planned:
        yield f"counts {rung.attempts} attempts, and its clients were to send {planned} turns"
    if planned is not None and rung.ended == ALL_TURNS and rung.attempts != planned:
        yield f"ended by all turns, and {rung.attempts} of {planned} were attempted"


def times(rung: Rung) -> Iterator[str]:
    """Percentiles and levels are in their order, and no client has two turns at once."""
    pairs = (
        ("p50_ms", rung.p50_ms, "p95_ms", rung.p95_ms),
        ("generator_lag_p99_ms", rung.generator_lag_p99_ms, "generator_lag_max_ms", rung.generator_lag_max_ms),
        ("in_flight_median", rung.in_flight_median, "in_flight_max", rung.in_flight_max),
        ("lease_saturation_median", rung.lease_saturation_median, "lease_saturation", rung.lease_saturation),
    )
    for low_name, low, high_name, high in pairs:
        if low is not None and high is not None and low > high + (_rounded(low, high) if low_name[-2:] == "ms" else 0):
            yield f"has {low_name} {low:g} above {high_name} {high:g}"
    for name, told in (("p50_ms", rung.p50_ms), ("p95_ms", rung.p95_ms)):
        if told and rung.ok == 0:
            yield f"has {name} {told:g}, and no turn of it succeeded"
    for name in GROWN:
        grown, total = getattr(rung, f"{name}_delta"), getattr(rung, GROWN[name])
        if grown is not None and total is not None and grown > total:
            yield f"has {name}_delta {grown}, and {total} in all"
    if rung.achieved_c is not None and rung.achieved_c > rung.c * (1 + AHEAD_MS):
        yield f"had {rung.achieved_c:g} turns in flight, and {rung.c} clients"
    yield from in_flight(rung)
    if (
        rung.p95_ms is not None
        and rung.wall_ms is not None
        and rung.p95_ms > rung.wall_ms + AHEAD_MS + _rounded(rung.p95_ms, rung.wall_ms)
    ):
        yield f"took {rung.wall_ms:g} ms, and has p95_ms {rung.p95_ms:g}"


def in_flight(rung: Rung) -> Iterator[str]:
    """Little's law: throughput by latency is turns in flight, and a closed loop has no more of them than clients."""
    tps, mean_ms = rung.made_throughput_tps, rung.mean_ms_least
    if tps is None or mean_ms is None:
        return
    if rung.ok is not None and rung.wall_s:
        tps = rung.ok / rung.wall_s
    step_ms = max(ms_step(told) for told in (rung.p50_ms, rung.p95_ms) if told is not None)
    least = (tps - rate_step(tps)) * max(0.0, mean_ms - step_ms) / 1000
    if least > LITTLE * rung.c:
        yield f"had at least {least:.4g} turns in flight by its throughput and latencies, more than clients ({rung.c})"
    elif rung.achieved_c is not None and least > LITTLE * rung.achieved_c:
        yield (
            f"had at least {least:.4g} turns in flight by its throughput and latencies, and says achieved_c "
            f"{rung.achieved_c:g}"
        )


def programmed(ladder: Ladder, rung: Rung) -> Iterator[str]:
    """No turn is shorter than the stub sleeps in it: two requests where a tool was called, else one.

    A stub that was changed under way is another rule's.
    """
    profile, told = ladder.profile, {(of or {}).get("profile") for of in (rung.system, rung.system_end)}
    told |= {(ladder.rungs[0].system or {}).get("profile")} if ladder.rungs else set()
    if profile is None or len(told - {None}) > 1:
        return
    text_ms = profile.ttft_ms + profile.output_tokens * profile.token_delay_ms
    call_ms = profile.ttft_ms + CALL_TOKENS * profile.token_delay_ms if _called_a_tool(rung) else 0.0
    for name, took_ms in (("p50_ms", rung.p50_ms), ("p95_ms", rung.p95_ms)):
        if took_ms is not None and rung.ok != 0 and took_ms + MOST_MS_STEP < SLEPT * (text_ms + call_ms):
            yield f"has {name} {took_ms:g}, and the stub's profile alone makes a turn last {text_ms + call_ms:g} ms"


def _called_a_tool(rung: Rung) -> bool:
    """Whether more than half of its turns surely ran an exec, so that the median turn did."""
    counted = rung.execs_per_turn or {}
    return sum(turns for execs, turns in counted.items() if int(execs) >= 1) * 2 > (rung.attempts or 0) > 0


def figures(ladder: Ladder, rung: Rung) -> Iterator[str]:
    """What follows from other figures is what they come to, rounding apart."""
    made = ladder.settle(rung)
    if rung.wall_ms and (ok := rung.turns_ok) is not None:
        tps = ok / (rung.wall_ms / 1000)
        step = rate_step(rung.throughput_tps or 0.0) + tps * ms_step(rung.wall_ms) / rung.wall_ms
        if rung.ok is None and rung.success_rate:  # so many turns succeeded as its rate says, rounding apart
            step += tps * (half_unit(rung.success_rate, SUCCESS_STEP, MOST_SUCCESS_STEP) / rung.success_rate + 0.5 / ok)
        if _differ(rung.throughput_tps, tps, step):
            yield _sentence("throughput", rung.throughput_tps, tps, "ok and wall time")
    for name, step in _steps(ladder, rung).items():
        value = getattr(made, name)
        if _differ(getattr(rung, name), value, step):
            yield _sentence(name, getattr(rung, name), value, "its parts")
    if ladder.workers is not None and ladder.cores is not None and rung.worker_tier_cores is not None:
        tier_cores = min(ladder.workers, ladder.cores)
        if rung.worker_tier_cores != tier_cores:
            yield _sentence("worker_tier_cores", rung.worker_tier_cores, tier_cores, "workers and cores")


def cpu(ladder: Ladder, rung: Rung) -> Iterator[str]:
    """Nobody spends more CPU time than there was: wall time by cores."""
    if rung.wall_s is None:
        return
    here = ladder.cores if ladder.measured == EMBEDDED else None
    cores = {
        "worker_cpu_s": ladder.tier_cores,
        "host_cpu_s": ladder.cores,
        **dict.fromkeys(("supervisor_cpu_s", "sandbox_cpu_s", "stub_cpu_s", "relay_cpu_s", "store_cpu_s"), here),
        "generator_cpu_s": 1,
        "generator_wait_s": 1,
    }
    for name, units in cores.items():
        spent_s = getattr(rung, name)
        if spent_s is not None and units is not None:
            most_s = OVERSHOOT * (rung.wall_s + TICKS_S) * units
            if spent_s > most_s:
                yield f"says {name} {spent_s:g}, and {units:g} cores had {rung.wall_s * units:.4g} s in it"
    for number, worker in enumerate(rung.workers if ladder.cores else (), start=1):
        had_s = rung.wall_s * (ladder.cores or 0)
        if (worker.cpu_s or 0) > OVERSHOOT * (had_s + TICKS_S * (ladder.cores or 0)):
            yield f"says cpu_s {worker.cpu_s:g} of worker {number}, and {ladder.cores} cores had {had_s:.4g} s in it"


def execs(ladder: Ladder, rung: Rung) -> Iterator[str]:
    """The execs are those of the turns that had so many, and those turns are the rung's.

    One counter tells both on the embedded tier. Elsewhere turns may have been under way when the other was read.
    """
    if rung.execs_per_turn is not None:
        total = sum(int(execs) * turns for execs, turns in rung.execs_per_turn.items())
        turns, most = sum(rung.execs_per_turn.values()), max(map(int, rung.execs_per_turn), default=0)
        under_way = 0 if ladder.measured == EMBEDDED else rung.c
        if rung.execs is not None and abs(total - rung.execs) > under_way * max(1, most):
            yield _sentence("execs", rung.execs, total, "execs_per_turn")
        if ladder.probed:  # of its own turns a harness counts those too that the warm-up or a deadline left behind
            return
        if rung.attempts is not None and turns > rung.attempts + under_way:
            yield f"tells execs_per_turn of {turns} turns, and {rung.attempts} were attempted"
        if rung.ok is not None and turns + under_way < rung.ok:
            yield f"tells execs_per_turn of {turns} turns, and {rung.ok} succeeded"
    profile, mean = ladder.profile, rung.mean_execs
    if profile is not None and mean and 0 < profile.tool_call_rate < 1 and rung.rate:
        called = profile.tool_call_rate / (1 - profile.tool_call_rate)
        if mean > RARELY * called:
            yield (
                f"ran {mean:.3g} execs a turn, and the stub's toolCallRate {profile.tool_call_rate:g} calls "
                f"{called:.3g} tools in one"
            )


def capacities(ladder: Ladder, rung: Rung) -> Iterator[str]:
    """What holds so many turns, leases or cores holds no more, and refuses the others.

    Where a harness measured it, this is what the files beside the record say.
    """
    if ladder.probed:
        return
    workers, cap, pool = ladder.workers, ladder.cap, rung.pool if rung.pool is not None else ladder.pool
    if cap is not None and rung.lease_saturation is not None and rung.lease_saturation > cap + SHARE_STEP:
        yield f"has lease_saturation {rung.lease_saturation:g}, and a sandbox gives {cap} leases"
    if not (rung.rate or 0) < threshold("success_floor") and rung.attempts != 0:
        admitted = None if workers is None or ladder.turns_per_worker is None else workers * ladder.turns_per_worker
        over = rung.over_admission_delta or rung.over_admission_total
        if admitted is not None and rung.c > admitted and not rung.refused_429 and not over:
            yield f"tells of no turn refused at admission, and {rung.c} clients are more than the {admitted} admitted"
        leases = None if cap is None or pool is None else cap * pool
        if leases is not None and rung.c >= LENT * leases and rung.c > leases and not rung.refused_503:
            yield f"tells of no turn refused for want of a lease, and {rung.c} clients shared {leases} leases"
    used = ("worker_cpu_s", "worker_cpu_util_pct"), ("worker_cpu_s", "worker_cpu_util_box_pct")
    for seconds, name in (*used, ("host_cpu_s", "host_cpu_util_pct")):
        share = getattr(rung, name)
        if share is not None and getattr(rung, seconds) is None and share > 100 * OVERSHOOT:
            yield f"says {name} {share:g}, and all of its cores are 100"
    box, tier, cores = rung.worker_cpu_util_box_pct, rung.worker_cpu_util_pct, ladder.tier_cores
    if rung.worker_cpu_s is None and None not in (box, tier, cores, ladder.cores):
        steps = [half_unit(each or 0.0, SHARE_STEP, MOST_SHARE_STEP) for each in (box, tier)]
        made = (tier or 0.0) * (cores or 0.0) / (ladder.cores or 1)
        if _differ(box, made, steps[0] + steps[1]):
            yield _sentence("worker_cpu_util_box_pct", box, made, "worker_cpu_util_pct")
    if rung.host_cpu_s is not None and (rung.worker_cpu_s or 0) > OVERSHOOT * rung.host_cpu_s + TICKS_S:
        yield f"says worker_cpu_s {rung.worker_cpu_s:g}, and host_cpu_s {rung.host_cpu_s:g}, of which it is a part"


def of_workers(ladder: Ladder, rung: Rung) -> Iterator[str]:
    """What single workers tell is what is told of all of them; of a harness's, see what it polled."""
    if ladder.probed:
        return
    spent = [worker.cpu_s for worker in rung.workers]
    if spent and None not in spent and rung.worker_cpu_s is not None:
        told_s, loose_s = sum(each or 0.0 for each in spent), TICKS_S * len(spent)
        if max(told_s, rung.worker_cpu_s) > OVERSHOOT * min(told_s, rung.worker_cpu_s) + loose_s:
            yield _sentence("worker_cpu_s", rung.worker_cpu_s, told_s, "cpu_s of its workers")
    pids = [worker.pid for worker in rung.workers if worker.pid]
    if len(set(pids)) < len(pids):
        yield f"has two workers of pid {max(pids, key=pids.count)}"
    quiet = rung.attempts is not None and rung.attempts == rung.ok  # a turn that was given up may be held on to
    for number, worker in enumerate(rung.workers, start=1):
        low, high = worker.lag_p99_median_ms, worker.lag_p99_ms
        if low is not None and high is not None and low > high + _rounded(low, high):
            yield f"has lag_p99_median_ms {low:g} of worker {number} above its lag_p99_ms {high:g}"
        if quiet and (worker.in_flight_max or 0) > rung.c:
            yield f"has in_flight_max {worker.in_flight_max} of worker {number}, and {rung.c} clients"
    # each worker tells at a time of its own, so that a turn may be counted by each of them
    if quiet and ladder.workers is not None and (rung.in_flight_max or 0) > rung.c * max(1, ladder.workers):
        yield f"has in_flight_max {rung.in_flight_max}, and {rung.c} clients"
    lags = [worker.lag_p99_ms for worker in rung.workers]
    worst = rung.lag_p99_worst_ms
    if worst is None or not lags or None in lags:
        return
    highest = max(lag or 0.0 for lag in lags)
    if abs(worst - highest) > _rounded(worst, highest):
        yield _sentence("lag_p99_worst_ms", worst, highest, "the lags of its workers")


def _steps(ladder: Ladder, rung: Rung) -> dict[str, float]:
    """Figure → by how much rounding alone can move it; only where the figure can be worked out."""
    wall_s, rate = rung.wall_s, rung.throughput_tps
    if not wall_s:
        return {}
    loose = rate_step(rate) / rate if rate and rung.wall_ms is None else 0.0
    if rung.wall_ms:
        loose = ms_step(rung.wall_ms) / rung.wall_ms
    steps = {}
    if rung.worker_cpu_s is not None and rung.ok and (each_ms := rung.worker_cpu_ms_per_turn) is not None:
        spent_s = half_unit(rung.worker_cpu_s, CPU_STEP_S, MOST_CPU_STEP_S)
        steps["worker_cpu_ms_per_turn"] = half_unit(each_ms, SHARE_STEP, MOST_MS_STEP) + 1000 * spent_s / rung.ok
    shares = {
        "sandbox_util_pct": (rung.sandbox_cpu_s, rung.pool or ladder.pool),
        "worker_cpu_util_pct": (rung.worker_cpu_s, ladder.tier_cores),
        "worker_cpu_util_box_pct": (rung.worker_cpu_s, ladder.cores),
        "host_cpu_util_pct": (rung.host_cpu_s, ladder.cores),
    }
    for name, (cpu_s, units) in shares.items():
        if cpu_s is not None and units:
            share = 100 * cpu_s / (wall_s * units)
            spent_s = half_unit(cpu_s, CPU_STEP_S, MOST_CPU_STEP_S)
            shown = half_unit(getattr(rung, name) or 0.0, SHARE_STEP, MOST_SHARE_STEP)
            steps[name] = shown + 100 * spent_s / (wall_s * units) + share * loose
    return steps


def _rounded(*values_ms: float) -> float:
    return sum(map(ms_step, values_ms))


def _differ(recorded: float | None, made: float | None, step: float) -> bool:
    return recorded is not None and made is not None and abs(recorded - made) > step + 1e-6


def _sentence(name: str, recorded: float | None, made: float, of: str) -> str:
    return f"says {name} {recorded:g}, and {of} come to {made:.4g}; one of them was changed"
