"""The plan of a run as data. What a target gets per node, and for how long."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedTarget:
    """One target: its name, its URL, and the requests per second that every node sends it."""

    name: str
    url: str
    rate_rps: int


@dataclass(frozen=True)
class Roll:
    """One planned roll: when (seconds after the load's start), of what (``proxy`` or ``target``), by name."""

    at_s: float
    kind: str
    name: str


@dataclass(frozen=True)
class Plan:
    """One open-loop, constant-rate scenario over one pool, as a plan file says it.

    ``rate_rps`` is per node and the sum of the targets' rates. ``max_pending`` None means that the plan is silent
    and the engine's own queue of one applies.
    """

    scenario: str
    pool: str
    dns: str
    rate_rps: int
    duration_s: int
    concurrency: int
    max_pending: int | None
    connections: int | None
    timeout_s: float | None
    headers: tuple[str, ...]
    targets: tuple[PlannedTarget, ...]
    thresholds: tuple[str, ...]

    def planned_per_node(self, target: PlannedTarget) -> int:
        """Requests that one node sends to ``target`` over the whole load."""
        return target.rate_rps * self.duration_s
