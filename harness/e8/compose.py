"""The record of one rung from what was seen of it: turns, the target before and after, what was polled meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.e8.client import BODY, Load
from harness.e8.figures import nearest_rank, utilisation_pct
from harness.e8.metrics import Measured, between, difference, spent, worker_cpu_difference
from harness.e8.readings import Polled, Reading, WorkerReading, total_in_flight
from harness.e8.record import Rung, RungWorker, rung_name
from harness.e8.target import Snapshot
from harness.e8.turns import Turn, failures

TICKS_S = 0.1  # CPU time of a host, and of processes that ended, is told in ticks of 10 ms
TOLERANCE = 1.05  # counters and clock are not read at one moment
LONGEST_SPAN = 2.0  # × the rung's time, between two readings: beyond it most of what they differ by may be no turn's
SETTLE_S = 1.2  # a tick of the workers' telemetry: their CPU time is then told as of a moment at which nothing moved


@dataclass(frozen=True)
class RungPlan:
    """What one rung sends.

    ``cut_tries``: how many tries of it were cut off before this one. ``burn_ms`` is the generator's fault, see
    ``client.Load``.
    """

    c: int
    arm: str
    duty_basis: str
    turns_per_client: int
    turn_timeout_s: float
    deadline_s: float
    repeat: int = 1
    cut_tries: int = 0
    warmup_turns: int = 1
    body: str = BODY
    burn_ms: float = 0.0
    settle_s: float = SETTLE_S

    @property
    def name(self) -> str:
        """``c8``, or ``c8.r2``."""
        return rung_name(self.c, self.repeat)

    def load(self, base: str) -> Load:
        """For the generator."""
        return Load(
            base=base,
            c=self.c,
            turn_timeout_s=self.turn_timeout_s,
            deadline_s=self.deadline_s,
            turns_per_client=self.turns_per_client,
            warmup_turns=self.warmup_turns,
            body=self.body,
            burn_ms=self.burn_ms,
        )


def compose(
    plan: RungPlan,
    turns: Sequence[Turn],
    done: Mapping[str, Any],
    before: Snapshot,
    after: Snapshot,
    polled: Polled,
) -> Rung:
    """The record: ``done`` is what the generator said of itself, ``before`` and ``after`` are the target at rest."""
    why: dict[str, str] = {}

    def known(name: str, measured: Measured) -> float | None:
        if measured.value is None and measured.reason:
            why[name] = measured.reason
        return measured.value

    def cpu(name: str, part: str) -> float | None:
        what = f"{part} CPU time"
        return known(name, spent(between(before.cpu_s[part], after.cpu_s[part], what), what, len(ok)))

    def at_most(name: str, cpu_s: float | None, cores: float | None) -> float | None:
        if cpu_s is None or cores is None or cpu_s <= TOLERANCE * cores * wall_s + TICKS_S:
            return cpu_s
        could = f"{cores:g} cores could spend {cores * wall_s:.2f} s in the rung"
        return known(name, Measured(None, f"{cpu_s:g} s of CPU were told, and {could}: they are of a longer time"))

    def counted(name: str, key: str) -> int | None:
        one, other = before.reading.counters.get(key), after.reading.counters.get(key)
        return _whole(known(name, difference(one, other, key)))

    ok = [turn for turn in turns if turn.ok]
    wall_s = done["wall_ms"] / 1000
    latencies = [turn.ms for turn in ok]
    pool = _first(polled.maximum(lambda reading: reading.pool_size), after.reading.pool_size)
    cores = after.reading.cores
    tier_cores = min(len(after.reading.workers), cores) if cores and after.reading.workers else None
    told = worker_cpu_difference(before.reading, after.reading, len(ok))
    if told.value is not None and (span_s := after.at_s - before.at_s) > LONGEST_SPAN * wall_s:
        told = Measured(
            None,
            f"the workers' CPU time was told over {span_s:.1f} s and the rung took {wall_s:.1f} s: what they did "
            "without its turns may be most of it; send more turns per rung",
        )
    what = "the workers' CPU time"
    seen = spent(between(before.cpu_s["worker"], after.cpu_s["worker"], what), what, len(ok))
    worker_cpu_s = at_most("worker_cpu_s", known("worker_cpu_s", told if seen.value is None else seen), cores)
    sandbox_cpu_s, host_cpu_s = cpu("sandbox_cpu_s", "sandbox"), at_most("host_cpu_s", cpu("host_cpu_s", "host"), cores)
    lease_saturation = polled.most_held(lambda reading: reading.lease_saturation)
    in_flight_max = _whole(polled.most_held(total_in_flight))
    execs, execs_per_turn = _execs(before, after)
    rung = Rung(
        c=plan.c,
        repeat=plan.repeat,
        arm=plan.arm,
        duty_basis=plan.duty_basis,
        ended=done["ended"],
        cut_tries=plan.cut_tries,
        turns_per_client=plan.turns_per_client,
        attempts=len(turns),
        ok=len(ok),
        success_rate=round(len(ok) / len(turns), 4) if turns else None,
        **failures(turns),
        connections_per_turn=1,
        wall_ms=done["wall_ms"],
        throughput_tps=round(len(ok) / wall_s, 3) if wall_s > 0 else 0.0,
        p50_ms=nearest_rank(latencies, 50),
        p95_ms=nearest_rank(latencies, 95),
        achieved_c=round(sum(turn.ms for turn in turns) / done["wall_ms"], 3) if wall_s > 0 else None,
        execs=_whole(known("execs", execs)),
        execs_per_turn=execs_per_turn,
        worker_cpu_s=worker_cpu_s,
        supervisor_cpu_s=cpu("supervisor_cpu_s", "supervisor"),
        sandbox_cpu_s=sandbox_cpu_s,
        stub_cpu_s=cpu("stub_cpu_s", "stub"),
        relay_cpu_s=cpu("relay_cpu_s", "relay"),
        store_cpu_s=cpu("store_cpu_s", "store"),
        host_cpu_s=host_cpu_s,
        generator_cpu_s=done["cpu_s"],
        generator_wait_s=done["wait_s"],
        generator_lag_p99_ms=done["lag_p99_ms"],
        generator_lag_max_ms=done["lag_max_ms"],
        sandbox_util_pct=_share_pct(sandbox_cpu_s, wall_s, pool),
        worker_cpu_util_pct=_share_pct(worker_cpu_s, wall_s, tier_cores),
        worker_cpu_util_box_pct=_share_pct(worker_cpu_s, wall_s, cores),
        host_cpu_util_pct=_share_pct(host_cpu_s, wall_s, cores),
        worker_cpu_ms_per_turn=round(1000 * worker_cpu_s / len(ok), 1) if worker_cpu_s is not None and ok else None,
        worker_tier_cores=tier_cores,
        lag_resolution_ms=after.reading.lag_resolution_ms,
        lag_p99_worst_ms=polled.maximum(_worst_lag),
        lease_saturation=lease_saturation,
        lease_saturation_median=lease_saturation and polled.median(lambda reading: reading.lease_saturation),
        in_flight_max=in_flight_max,
        in_flight_median=in_flight_max and polled.median(total_in_flight),
        pool=_whole(pool),
        file_op_p95_ms=polled.maximum(lambda reading: reading.file_op_p95_ms),
        over_admission_total=_whole(after.reading.counters.get("over_admission")),
        spurious_refusals_total=_whole(after.reading.counters.get("spurious_refusals")),
        over_admission_delta=counted("over_admission_delta", "over_admission"),
        spurious_refusals_delta=counted("spurious_refusals_delta", "spurious_refusals"),
        store_connections=_whole(known("store_connections", after.store_connections)),
        store_connections_delta=_grown(before.store_connections, after.store_connections),
        descriptors=_whole(known("descriptors", after.descriptors)),
        descriptors_delta=_grown(before.descriptors, after.descriptors),
        system={**before.system, **_told_of([before.reading])},
        system_end={**after.system, **_told_of([before.reading, *polled.readings, *polled.tail, after.reading])},
        workers=_workers(before.reading, after.reading, polled),
    )
    return dataclasses.replace(rung, why_unknown=why | _why_else(rung, polled, after.reading))


def _execs(before: Snapshot, after: Snapshot) -> tuple[Measured, dict[str, int] | None]:
    """Execs of the rung, and how many turns had how many; that only while no count went down."""
    execs = between(before.execs, after.execs, "the count of execs")
    if before.execs_per_turn is None or after.execs_per_turn is None:
        return execs, None
    grown = {
        name: count - before.execs_per_turn.get(name, 0)
        for name, count in sorted(after.execs_per_turn.items(), key=lambda item: int(item[0]))
    }
    if min(grown.values(), default=0) < 0:
        return execs, None
    return execs, {name: count for name, count in grown.items() if count}


def _told_of(readings: Iterable[Reading]) -> dict[str, str]:
    """How many workers and sandboxes there were, over all readings: one number each, while none came or went."""
    told = [reading for reading in readings if reading.problem is None]
    counts: dict[str, list[float]] = {
        "workers told of": [len(reading.workers) for reading in told],
        "sandboxes told of": [reading.pool_size for reading in told if reading.pool_size is not None],
    }
    return {
        name: f"{min(found):g}" if min(found) == max(found) else f"{min(found):g} to {max(found):g}"
        for name, found in counts.items()
        if found
    }


def _workers(before: Reading, after: Reading, polled: Polled) -> tuple[RungWorker, ...]:
    """One entry for each worker that the target tells of now; one of its predecessors was another process."""
    alike = before.pids == after.pids  # then one without a pid is the one at its place, as in the sum of them all
    known: dict[int | None, float | None] = {one.pid: one.cpu_seconds for one in before.workers if one.pid is not None}
    return tuple(
        RungWorker(
            pid=worker.pid,
            lag_p99_ms=polled.worker_maximum(worker.pid, _lag),
            lag_p99_median_ms=polled.worker_median(worker.pid, _lag),
            rss_bytes=_whole(polled.worker_maximum(worker.pid, lambda each: each.rss_bytes)),
            cpu_s=difference(
                before.workers[place].cpu_seconds if alike else known.get(worker.pid), worker.cpu_seconds, "CPU time"
            ).value,
            in_flight_max=_whole(polled.worker_most_held(worker.pid, lambda each: each.in_flight)),
            in_flight_end=_whole(worker.in_flight),
            healthy_end=worker.healthy,
        )
        for place, worker in enumerate(after.workers)
    )


def _why_else(rung: Rung, polled: Polled, reading: Reading) -> dict[str, str]:
    """Reasons for what is missing elsewhere than at a difference."""
    told = "the target does not tell it" if reading.problem is None else reading.problem
    polls = told if polled.readings or polled.tail else "no poll of /metrics was answered during the rung"
    held = (
        "no poll of /metrics that was answered during the rung saw any held: it was too short for them"
        if polled.readings or polled.tail
        else polls
    )
    reasons = {
        "p50_ms": "no turn succeeded",
        "p95_ms": "no turn succeeded",
        "execs_per_turn": "the stub does not count execs by turn, or began anew",
        "pool": "no worker has selected a sandbox yet" if reading.problem is None else reading.problem,
        "worker_tier_cores": told,
        "lag_resolution_ms": told,
        "lag_p99_worst_ms": polls,
        "lease_saturation": held,
        "lease_saturation_median": held,
        "in_flight_max": held,
        "in_flight_median": held,
        "file_op_p95_ms": f"{polls}: nothing there measures it" if polls == told else polls,
    }
    unknown = {name: reason for name, reason in reasons.items() if getattr(rung, name) is None}
    if any(worker.pid is None for worker in rung.workers):
        unknown["workers"] = "a worker does not tell its pid, so no poll of /metrics tells which one a figure is of"
    return unknown


def _share_pct(cpu_s: float | None, wall_s: float, units: float | None) -> float | None:
    """A utilisation as records have it: one decimal."""
    share = utilisation_pct(cpu_s, wall_s, units)
    return None if share is None else round(share, 1)


def _lag(worker: WorkerReading) -> float | None:
    return worker.loop_lag_p99_ms


def _worst_lag(reading: Reading) -> float | None:
    return max((lag for lag in map(_lag, reading.workers) if lag is not None), default=None)


def _grown(before: Measured, after: Measured) -> int | None:
    return None if before.value is None or after.value is None else round(after.value - before.value)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
