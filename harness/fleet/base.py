"""What a stage may ask of the place of a run. It knows nothing of gates; a stage knows nothing of processes or pods."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Check:
    """One line of a pre-flight: what was looked at, whether it holds, and what was seen."""

    name: str
    ok: bool
    seen: str


@dataclass(frozen=True)
class Readiness:
    """Counts, compared as numbers: ``ready`` of ``wanted`` per kind of part."""

    kind: str
    ready: int
    wanted: int


@dataclass(frozen=True)
class LoadState:
    """How the one load of a run stands.

    ``state`` is ``not_started``, ``running``, ``ended`` (a report is there and everything is down) or ``gone``
    (claimed, no longer running, and no report).
    """

    state: str
    detail: str = ""


class Place(Protocol):
    """Where a run takes place. Every method may be called again after the harness was killed."""

    def pins(self) -> dict[str, str]:
        """Name → version or digest of everything that takes part and can be pinned."""

    def preflight(self) -> list[Check]:
        """All checks; every one runs, none starts anything."""

    def start(self) -> list[Readiness]:
        """Start targets, proxies and engines, wait until they are ready. Raises FleetError."""

    def is_up(self) -> bool:
        """True while the fleet that ``start`` made still stands."""

    def load_state(self) -> LoadState:
        """How the load stands, read from outside: never from this process's memory."""

    def collect(self, target: Path) -> list[str]:
        """Copy every evidence file into ``target``, whole or not at all. Returns the names."""

    def stop(self, *, cancel_load: bool) -> None:
        """End the fleet in order. With ``cancel_load`` a running load is cancelled first and writes its report."""

    def sweep(self) -> list[str]:
        """End what a dead run left behind, by pid and start time. Returns a line for each thing ended."""


class Fleet(Place, Protocol):
    """The place of a soak: a fleet that carries its load by itself."""

    def start_load(self) -> None:
        """Start the driver, the churn and the faults of the plan, once. A second call changes nothing."""
