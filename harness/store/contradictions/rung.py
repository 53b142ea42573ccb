"""What a rung's record says twice: figures, and the parts that they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from harness.e8.record import EMBEDDED, Ladder, Rung
from harness.e8.turns import ALL_TURNS, FAILURES, TIME_IS_UP

CPU_STEP_S, SHARE_STEP, RATE_STEP, SUCCESS_STEP = 0.005, 0.05, 0.0005, 0.00005
"""Half a unit of the last digit in which recorders write CPU seconds, shares in %, turns per second, success rates."""
TICKS_S = 2.5  # CPU time is told once a second: a rung's may hold what was spent shortly before and after it
OVERSHOOT = 1.1  # published rungs tell up to 105 % of their cores
LITTLE = 1.02  # times are told in whole ms by some recorders, and throughput to three decimals
CALL_TOKENS = 2  # deltas of an answer that calls a tool
SLEPT = 0.98  # a sleep is told by another clock than the turn that holds it
AHEAD_MS = 0.001  # times are told to the microsecond


def of_rung(ladder: Ladder, rung: Rung) -> str | None:
    """The first contradiction of a rung's record with itself, None where all of it agrees."""
    found = chain(
        counts(rung), times(rung), programmed(ladder, rung), figures(ladder, rung), cpu(ladder, rung),
        execs(ladder, rung),
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
    if rung.attempts and _differ(rung.success_rate, rung.ok / rung.attempts, SUCCESS_STEP):
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
        ("in_flight_median", rung.in_flight_median, "in_flight_max", rung.in_flight_max),
        ("lease_saturation_median", rung.lease_saturation_median, "lease_saturation", rung.lease_saturation),
    )
    for low_name, low, high_name, high in pairs:
        if low is not None and high is not None and low > high:
            yield f"has {low_name} {low:g} above {high_name} {high:g}"
    if rung.achieved_c is not None and rung.achieved_c > rung.c * (1 + AHEAD_MS):
        yield f"had {rung.achieved_c:g} turns in flight, and {rung.c} clients"
    yield from in_flight(rung)
    if rung.p95_ms is not None and rung.wall_ms is not None and rung.p95_ms > rung.wall_ms + AHEAD_MS:
        yield f"took {rung.wall_ms:g} ms, and has p95_ms {rung.p95_ms:g}"


def in_flight(rung: Rung) -> Iterator[str]:
    """Little's law: throughput by latency is turns in flight, and a closed loop has no more of them than clients."""
    took_ms, wall_s = rung.sum_ms_least, rung.wall_s
    if took_ms is None or not wall_s:
        return
    least = took_ms / 1000 / wall_s
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
    if profile is None or rung.p50_ms is None or len(told) > 1:
        return
    text_ms = profile.ttft_ms + profile.output_tokens * profile.token_delay_ms
    call_ms = profile.ttft_ms + CALL_TOKENS * profile.token_delay_ms if _called_a_tool(rung) else 0.0
    if rung.p50_ms < SLEPT * (text_ms + call_ms):
        yield f"has p50_ms {rung.p50_ms:g}, and the stub's profile alone makes a turn last {text_ms + call_ms:g} ms"


def _called_a_tool(rung: Rung) -> bool:
    """Whether more than half of its turns surely ran an exec, so that the median turn did."""
    counted = rung.execs_per_turn or {}
    return sum(turns for execs, turns in counted.items() if int(execs) >= 1) * 2 > (rung.attempts or 0) > 0


def figures(ladder: Ladder, rung: Rung) -> Iterator[str]:
    """What follows from other figures is what they come to, rounding apart."""
    made = ladder.settle(rung)
    if rung.wall_ms and rung.ok is not None:
        tps = rung.ok / (rung.wall_ms / 1000)
        if _differ(rung.throughput_tps, tps, RATE_STEP + tps * 0.5 / rung.wall_ms):
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
    """Where one counter told both, the execs are those of the turns that had so many."""
    if ladder.measured != EMBEDDED or rung.execs is None or rung.execs_per_turn is None:
        return
    total = sum(int(execs) * turns for execs, turns in rung.execs_per_turn.items())
    if total != rung.execs:
        yield _sentence("execs", rung.execs, total, "execs_per_turn")


def _steps(ladder: Ladder, rung: Rung) -> dict[str, float]:
    """Figure → by how much rounding alone can move it; only where the figure can be worked out."""
    wall_s, rate = rung.wall_s, rung.throughput_tps
    if not wall_s:
        return {}
    loose = RATE_STEP / rate if rate and rung.wall_ms is None else 0.0
    steps = {}
    if rung.worker_cpu_s is not None and rung.ok:
        steps["worker_cpu_ms_per_turn"] = SHARE_STEP + 1000 * CPU_STEP_S / rung.ok
    shares = {
        "sandbox_util_pct": (rung.sandbox_cpu_s, rung.pool or ladder.pool),
        "worker_cpu_util_pct": (rung.worker_cpu_s, ladder.tier_cores),
        "worker_cpu_util_box_pct": (rung.worker_cpu_s, ladder.cores),
        "host_cpu_util_pct": (rung.host_cpu_s, ladder.cores),
    }
    for name, (cpu_s, units) in shares.items():
        if cpu_s is not None and units:
            share = 100 * cpu_s / (wall_s * units)
            steps[name] = SHARE_STEP + 100 * CPU_STEP_S / (wall_s * units) + share * loose
    return steps


def _differ(recorded: float | None, made: float | None, step: float) -> bool:
    return recorded is not None and made is not None and abs(recorded - made) > step + 1e-6


def _sentence(name: str, recorded: float | None, made: float, of: str) -> str:
    return f"says {name} {recorded:g}, and {of} come to {made:.4g}; one of them was changed"
