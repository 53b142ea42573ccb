"""Which fleet a run uses: the one place where a fleet's name becomes a fleet."""

from __future__ import annotations

from harness.fleet.base import Fleet
from harness.runs import RunFolder


def fleet_of(folder: RunFolder) -> Fleet:
    """The fleet of a run, as its run.json names it."""
    from harness.fleet.local import LocalFleet

    return LocalFleet(folder)
