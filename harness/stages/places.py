"""Where a run takes place: the one place where its kind, and a fleet's name, become something that can be asked."""

from __future__ import annotations

from harness.fleet.base import Fleet, Place
from harness.runs import RunFolder
from harness.store.columns import LADDER
from harness.store.kinds import kind_of_run


def place_of(folder: RunFolder) -> Place:
    """The place of a run, of whichever kind it is."""
    if kind_of_run(folder) == LADDER:
        from harness.fleet.tier import TierPlace

        return TierPlace(folder)
    return fleet_of(folder)


def fleet_of(folder: RunFolder) -> Fleet:
    """The fleet of a soak, as its run.json names it."""
    from harness.fleet.local import LocalFleet

    return LocalFleet(folder)
