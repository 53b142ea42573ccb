"""Engines: targets, proxies and engines up, and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import FleetError
from harness.runs import RunFolder
from harness.stages import load
from harness.stages.places import fleet_of


def reads(folder: RunFolder) -> list[Path]:
    """The plan and the pins."""
    return [folder.plan, folder.pins]


def makes(folder: RunFolder) -> list[Path]:
    """Which address is which node."""
    return [folder.engines]


def intact(folder: RunFolder) -> str | None:
    """Why the fleet has to be started again: it is gone, and no load has begun on it."""
    if load.was_asked(folder) or fleet_of(folder).is_up():
        return None
    return "the fleet is gone, and no load has begun"


def work(folder: RunFolder) -> dict[str, Any]:
    """Start the fleet; every kind of part must be ready in the number that was asked for. Raises FleetError."""
    load.check_not_asked(folder)
    fleet = fleet_of(folder)
    if fleet.is_up():
        fleet.stop(cancel_load=False)
    swept = fleet.sweep()
    readiness = fleet.start()
    short = [f"{part.ready} of {part.wanted} {part.kind}" for part in readiness if part.ready != part.wanted]
    if short or not readiness:
        fleet.stop(cancel_load=True)
        raise FleetError(f"not ready: {', '.join(short) or 'nothing was started'}; the logs are in {folder.live}")
    return {
        "summary": ", ".join(f"{part.ready}/{part.wanted} {part.kind}" for part in readiness) + " ready",
        "ready": {part.kind: [part.ready, part.wanted] for part in readiness},
        "swept": swept,
    }
