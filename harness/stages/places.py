"""Where a run takes place: the one place where its kind, and a fleet's name, become something that can be asked."""

from __future__ import annotations

from harness.files import read_json
from harness.fleet.base import Fleet, Place
from harness.runs import RunFolder
from harness.settings import LOCAL
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
    if is_local(folder):
        from harness.fleet.local import LocalFleet

        return LocalFleet(folder)
    from harness.fleet.kubernetes.fleet import KubernetesFleet

    return KubernetesFleet(folder)


def is_local(folder: RunFolder) -> bool:
    """Whether a soak runs on this machine; so does one of which run.json does not say where."""
    try:
        return read_json(folder.run_json).get("fleet", LOCAL) == LOCAL
    except (OSError, ValueError, AttributeError):
        return True
