"""A ladder and its rungs as they are recorded: dataclasses, and the JSON they come from and go to.

A rung's record has the fields that recorders of this experiment share (``ok_n``, ``p95Ms``, ``worker_cpu_s`` …) and
ours beside them. Recorders write numbers as text too, and ``"NaN"`` for what they could not measure: both are read;
what is not known is None, and ``why_unknown`` says why where that is known. Nothing here divides by anything but what
was recorded, and nothing is guessed.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.e8.figures import utilisation_pct
from harness.e8.turns import ALL_TURNS, RUNG_DEADLINE

SCHEMA = 1

EMBEDDED = "embedded"
STOP_REASON = "stop reason"
"""How a success was told: by status 200 and a stop reason that is no error. By anything else is by less."""

PARTS: Mapping[str, str] = {
    "workers": "worker_cpu_s",
    "supervisor": "supervisor_cpu_s",
    "sandboxes": "sandbox_cpu_s",
    "stub": "stub_cpu_s",
    "relay": "relay_cpu_s",
    "store": "store_cpu_s",
    "generator": "generator_cpu_s",
}
"""Whose CPU time is measured on a target's host, where all of it runs there."""


@dataclass(frozen=True)
class Profile:
    """What the model stub was started with, as its ``/profile`` says it."""

    ttft_ms: float
    token_delay_ms: float
    output_tokens: float
    tool_call_rate: float


PROFILE_KEYS = {
    "ttft_ms": "ttftMs",
    "token_delay_ms": "tokenDelayMs",
    "output_tokens": "outputTokens",
    "tool_call_rate": "toolCallRate",
}


@dataclass(frozen=True)
class RungWorker:
    """One worker during one rung. Lag is the highest that was polled; ``cpu_s`` and counts are the rung's own."""

    pid: int | None = None
    lag_p99_ms: float | None = None
    lag_p99_median_ms: float | None = None
    rss_bytes: int | None = None
    cpu_s: float | None = None
    in_flight_max: int | None = None
    in_flight_end: int | None = None
    healthy_end: bool | None = None


@dataclass(frozen=True)
class Rung:
    """One rung, or one repeat of it. ``ok`` of ``attempts`` turns succeeded; failures are counted by kind.

    ``cut_tries`` is how often an earlier try of it was cut off because the harness was killed in it; what is recorded
    is of the last try alone. CPU seconds are the rung's own, of the processes that the name says. ``lease_saturation``
    is leases per sandbox (its highest while the rung ran, of other recorders the last). The ``…_delta`` are differences
    over the rung. ``execs_per_turn`` is number of execs → turns that had that many. ``system`` and ``system_end`` say
    what was measured, before and after: name (``boot id``, ``worker pids`` …) → text. The utilisations are as recorded,
    see ``Ladder.settle``.
    """

    c: int
    repeat: int = 1
    arm: str | None = None
    duty_basis: str | None = None
    ended: str | None = None
    cut_tries: int | None = None
    turns_per_client: int | None = None
    attempts: int | None = None
    ok: int | None = None
    success_rate: float | None = None
    refused_429: int | None = None
    refused_503: int | None = None
    errors_in_200: int | None = None
    timed_out: int | None = None
    failed_otherwise: int | None = None
    connections_per_turn: float | None = None
    wall_ms: float | None = None
    throughput_tps: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    achieved_c: float | None = None
    execs: int | None = None
    execs_per_turn: Mapping[str, int] | None = None
    worker_cpu_s: float | None = None
    supervisor_cpu_s: float | None = None
    sandbox_cpu_s: float | None = None
    stub_cpu_s: float | None = None
    relay_cpu_s: float | None = None
    store_cpu_s: float | None = None
    host_cpu_s: float | None = None
    generator_cpu_s: float | None = None
    generator_wait_s: float | None = None
    generator_lag_p99_ms: float | None = None
    generator_lag_max_ms: float | None = None
    sandbox_util_pct: float | None = None
    worker_cpu_util_pct: float | None = None
    worker_cpu_util_box_pct: float | None = None
    host_cpu_util_pct: float | None = None
    worker_cpu_ms_per_turn: float | None = None
    worker_tier_cores: float | None = None
    lag_resolution_ms: float | None = None
    lag_p99_worst_ms: float | None = None
    lease_saturation: float | None = None
    lease_saturation_median: float | None = None
    in_flight_max: int | None = None
    in_flight_median: float | None = None
    pool: int | None = None
    file_op_p95_ms: float | None = None
    over_admission_total: int | None = None
    spurious_refusals_total: int | None = None
    over_admission_delta: int | None = None
    spurious_refusals_delta: int | None = None
    store_connections: int | None = None
    store_connections_delta: int | None = None
    descriptors: int | None = None
    descriptors_delta: int | None = None
    load1: float | None = None
    system: Mapping[str, str] | None = None
    system_end: Mapping[str, str] | None = None
    workers: tuple[RungWorker, ...] = ()
    why_unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``c32``, or ``c32.r2`` for a repeat."""
        return rung_name(self.c, self.repeat)

    @property
    def rate(self) -> float | None:
        """Successes per attempt; as recorded where the counts are not. None where nothing was attempted."""
        if self.attempts is None or self.ok is None:
            return self.success_rate
        return self.ok / self.attempts if self.attempts else None

    @property
    def wall_s(self) -> float | None:
        """How long it took; where only the throughput was recorded, what follows from that."""
        if self.wall_ms is not None:
            return self.wall_ms / 1000 if self.wall_ms > 0 else None
        return self.ok / self.throughput_tps if self.ok and self.throughput_tps else None

    @property
    def made_throughput_tps(self) -> float | None:
        """Successes per second; as recorded where it was."""
        if self.throughput_tps is not None or self.ok is None or self.wall_s is None:
            return self.throughput_tps
        return self.ok / self.wall_s

    @property
    def mean_ms(self) -> float | None:
        """How long a turn took on the mean: so many in flight, over so many in so long a time (Little's law)."""
        if self.achieved_c is None or not self.attempts or self.wall_s is None:
            return None
        return self.achieved_c * 1000 * self.wall_s / self.attempts

    @property
    def late(self) -> bool:
        """Whether it ended by its deadline, with turns unsent."""
        return self.ended == RUNG_DEADLINE

    @property
    def planned_turns(self) -> int | None:
        """How many turns its clients were to send."""
        return None if self.turns_per_client is None else self.c * self.turns_per_client

    @property
    def mean_execs(self) -> float | None:
        """Execs per turn, over the turns that were counted; over the successes where only execs were."""
        if counted := sum((self.execs_per_turn or {}).values()):
            return sum(int(execs) * turns for execs, turns in (self.execs_per_turn or {}).items()) / counted
        return self.execs / self.ok if self.execs is not None and self.ok else None

    @property
    def made_cpu_ms_per_turn(self) -> float | None:
        """CPU of the workers per success."""
        return 1000 * self.worker_cpu_s / self.ok if self.worker_cpu_s is not None and self.ok else None

    @property
    def turns_ok(self) -> int | None:
        """How many turns succeeded; where only their share is told, that of those that were attempted or to be sent."""
        sent = self.attempts
        if sent is None and self.ended in (None, ALL_TURNS):
            sent = self.planned_turns
        if self.ok is not None or sent is None or self.success_rate is None:
            return self.ok
        return round(sent * self.success_rate)

    @property
    def slow_share(self) -> float:
        """The least share of its successes that took p95 or longer, by nearest rank; of unknown many a twentieth."""
        return _share_from(self.turns_ok, 95)

    @property
    def mean_ms_least(self) -> float | None:
        """What its successes took on the mean at the very least: so many of them took p50 or longer, or p95."""
        slow = self.slow_share if self.p95_ms is not None else 0.0
        half = max(slow, _share_from(self.turns_ok, 50)) if self.p50_ms is not None else slow
        if self.turns_ok == 0 or not half:
            return None
        return (half - slow) * (self.p50_ms or 0.0) + slow * (self.p95_ms or 0.0)

    @property
    def held_most(self) -> float | None:
        """Turns in flight, if none took longer than p95 on the mean; no more than there were turns."""
        if self.attempts is None or self.p95_ms is None or not self.wall_s:
            tps = self.made_throughput_tps
            return tps * self.p95_ms / 1000 / self.rate if tps and self.p95_ms is not None and self.rate else None
        return min(self.attempts, self.attempts * self.p95_ms / 1000 / self.wall_s)

    def made_util_pct(self, cpu_s: float | None, units: float | None) -> float | None:
        """CPU seconds of this rung as a share of what ``units`` cores or sandboxes could have spent."""
        return utilisation_pct(cpu_s, self.wall_s, units)

    def to_json(self) -> dict[str, Any]:
        """The record, all of its fields; null is not measured."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["workers"] = [dataclasses.asdict(worker) for worker in self.workers]
        return {RUNG_KEYS.get(name, name): value for name, value in values.items()}


def _share_from(turns: int | None, percent: int) -> float:
    """Which share of so many turns took a percentile or longer, by nearest rank."""
    if not turns:
        return 1 - percent / 100
    return (turns - max(1, math.ceil(turns * percent / 100)) + 1) / turns


def rung_name(c: int, repeat: int = 1) -> str:
    """``c32``, or ``c32.r2`` for a repeat."""
    return f"c{c}" if repeat == 1 else f"c{c}.r{repeat}"


RUNG_KEYS: Mapping[str, str] = {
    "ok": "ok_n",
    "refused_429": "spurious_429",
    "connections_per_turn": "conns_per_turn",
    "throughput_tps": "throughput",
    "p50_ms": "p50Ms",
    "p95_ms": "p95Ms",
    "sandbox_cpu_s": "sandbox_cpu",
    "sandbox_util_pct": "sandbox_util",
    "worker_cpu_util_pct": "worker_cpu_util",
    "worker_cpu_util_box_pct": "worker_cpu_util_box",
    "host_cpu_util_pct": "host_cpu_util",
    "file_op_p95_ms": "file_op_ms",
    "over_admission_total": "over_admission",
    "spurious_refusals_total": "spurious_refusals",
    "load1": "contention_load1",
}
"""Field → its key in a record, where recorders have a name of their own for it."""


@dataclass(frozen=True)
class Ladder:
    """All rungs of one arm, and what has to be known of the target to judge them. None is not known.

    ``measured`` is ``embedded`` or the target's base URL; where it is None, the record is somebody else's, and nobody
    asked the target anything. ``cap`` is leases per sandbox, ``pool`` sandboxes, ``cores`` the target's.
    ``stub_url_echoed`` is the model endpoint that the target says it uses. ``duty`` was measured before the ladder,
    ``duty_second`` by a second probe. ``host_rest_pct`` is how busy the target's cores were without load.
    ``lag_discriminates``: it was shown that a starved worker's lag differs from an idle one's. ``planned`` names every
    rung that was to be measured; ``complete``: no further one was to be found.
    ``unusable`` is field → what stood there instead of a value.
    """

    arm: str | None = None
    measured: str | None = None
    workers: int | None = None
    turns_per_worker: int | None = None
    cap: int | None = None
    pool: int | None = None
    cores: int | None = None
    stub_url: str | None = None
    stub_url_echoed: str | None = None
    profile: Profile | None = None
    basis: str | None = None
    duty: float | None = None
    duty_second: float | None = None
    execs_per_turn: float | None = None
    turns_per_client: int | None = None
    success_by: str | None = None
    lag_resolution_ms: float | None = None
    lag_discriminates: bool | None = None
    host_rest_pct: float | None = None
    rss_budget_bytes: int | None = None
    degrade_x: float | None = None
    min_c: int | None = None
    planned: tuple[str, ...] | None = None
    complete: bool | None = None
    source_title: str | None = None
    source_where: str | None = None
    source_said: str | None = None
    unusable: Mapping[str, str] = field(default_factory=dict)
    rungs: tuple[Rung, ...] = ()

    @property
    def probed(self) -> bool:
        """Whether a harness asked the target itself: then what is not known is a refusal, not a gap in a record."""
        return self.measured is not None

    @property
    def top(self) -> int:
        """The highest rung that was planned or measured; 0 of none."""
        planned = [int(name[1:].partition(".")[0]) for name in self.planned or ()]
        return max([*planned, *(rung.c for rung in self.rungs)], default=0)

    @property
    def rest_pct(self) -> float | None:
        """Use of the target's cores without load: as it was measured, but no more than with a single client.

        What was busier before the ladder than at c=1 had gone by then, and is no part of what the rungs found.
        """
        if self.host_rest_pct is None:
            return None
        first = [self.settle(rung).host_cpu_util_pct for rung in self.rungs if rung.c == 1]
        known = [used for used in first if used is not None]
        return min(self.host_rest_pct, statistics.median(known)) if known else self.host_rest_pct

    @property
    def tier_cores(self) -> float | None:
        """Cores that the workers can use: min(W, cores); as recorded by the rungs where that is not known."""
        if self.workers is not None and self.cores is not None:
            return min(self.workers, self.cores)
        return next((rung.worker_tier_cores for rung in self.rungs if rung.worker_tier_cores), None)

    def settle(self, rung: Rung) -> Rung:
        """The rung with all that follows from what was measured worked out; else as recorded.

        Sandboxes are the denominator of the sandboxes' CPU, the target's cores of the host's, and the cores that the
        workers can use of theirs.
        """
        made = {
            "ok": rung.turns_ok,
            "success_rate": rung.rate,
            "wall_ms": rung.wall_ms if rung.wall_ms is not None or rung.wall_s is None else 1000 * rung.wall_s,
            "throughput_tps": rung.made_throughput_tps,
            "worker_cpu_ms_per_turn": rung.made_cpu_ms_per_turn,
            "sandbox_util_pct": rung.made_util_pct(rung.sandbox_cpu_s, rung.pool or self.pool),
            "worker_cpu_util_pct": rung.made_util_pct(rung.worker_cpu_s, self.tier_cores),
            "worker_cpu_util_box_pct": rung.made_util_pct(rung.worker_cpu_s, self.cores),
            "host_cpu_util_pct": rung.made_util_pct(rung.host_cpu_s, self.cores),
        }
        known: dict[str, Any] = {name: value for name, value in made.items() if value is not None}
        return dataclasses.replace(rung, **known)

    def to_json(self) -> dict[str, Any]:
        """The document, all of its fields; null is not known. A profile is written as ``/profile`` has it."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in _NOT_WRITTEN}
        if self.profile is not None:
            values["profile"] = {key: getattr(self.profile, name) for name, key in PROFILE_KEYS.items()}
        values["planned"] = None if self.planned is None else list(self.planned)
        return {"schema": SCHEMA, **values, "rungs": [rung.to_json() for rung in self.rungs]}


TARGET_FACTS = (
    "measured", "workers", "turns_per_worker", "cap", "pool", "cores", "stub_url", "stub_url_echoed", "profile",
    "lag_resolution_ms", "success_by", "lag_discriminates", "host_rest_pct",
)  # fmt: skip
"""What of a ladder the target told before it, or was measured of it then."""
WORKLOAD_FACTS = ("duty", "duty_second", "execs_per_turn")
"""What of a ladder was measured when its workload was prepared."""

_NOT_WRITTEN = frozenset({"unusable", "source_title", "source_where", "source_said", "rungs"})
