"""What every step stands on: the calls, the clock, the log, and the notes of what must be put back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.errors import FleetError
from harness.fleet.kubernetes.churn.calls import Clock, ClusterCalls, Thing
from harness.fleet.kubernetes.churn.undo import Undo


class StepFailedError(FleetError):
    """A step could not be done, and has said so in the log; the schedule ends here."""


@dataclass(frozen=True)
class Ground:
    """``say`` writes one line of churn.log. ``t0_unix_s`` is T0, ``offset_s`` T0 in seconds after the load's start.

    ``destinations`` are the targets that a new ServiceAccount's pod asks: name → URL.
    """

    calls: ClusterCalls
    clock: Clock
    say: Callable[[str], None]
    undo: Undo
    namespace: str
    t0_unix_s: float
    offset_s: float
    destinations: dict[str, str]

    def at(self, step_s: float) -> str:
        """``at_s=`` of a step for its line: seconds after the load's start, as in schedule.tsv."""
        return f"at_s={step_s + self.offset_s:g}"

    def minute(self, step_s: float) -> str:
        """``T0+12m`` of a step."""
        return f"T0+{step_s / 60:g}m"

    def thing(self, kind: str, name: str) -> Thing:
        """An object of the run's own namespace."""
        return Thing(self.namespace, kind, name)
