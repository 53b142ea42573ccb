"""Pins: what is installed must be what the pin file names, or no run starts."""

from __future__ import annotations

import platform
import tomllib
from pathlib import Path
from typing import Any

from harness.errors import PinError
from harness.files import utc_stamp, write_json
from harness.graph.invocation import run_settings
from harness.graph.receipts import PROJECT
from harness.runs import RunFolder
from harness.stages.fleets import fleet_of


def pin_file(folder: RunFolder) -> Path:
    """The pin file of this run."""
    return PROJECT / run_settings(folder).pin_file


def reads(folder: RunFolder) -> list[Path]:
    """The pin file."""
    return [pin_file(folder)] if folder.run_json.exists() else []


def makes(folder: RunFolder) -> list[Path]:
    """What was found installed."""
    return [folder.pins]


def work(folder: RunFolder) -> dict[str, Any]:
    """Compare; record what was found. Raises PinError with every difference in one sentence."""
    wanted = read_pins(pin_file(folder))
    found = fleet_of(folder).pins()
    wrong = compare(wanted, found)
    if wrong:
        raise PinError(
            f"{'; '.join(wrong)}; install what {pin_file(folder).name} names (./doit does, from the lock file), "
            "or change the pin on purpose"
        )
    write_json(folder.pins, {"schema": 1, "at": utc_stamp(), "machine": platform.machine(), "pins": found})
    return {"summary": f"{len(wanted)} pins hold: envoy {found.get('envoy', '')[:19]}…", "pins": found}


def read_pins(path: Path) -> dict[str, str]:
    """The pins for this kind of machine. Raises PinError when there are none, or when the file cannot be read."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PinError(
            f"{path}: the pin file cannot be read ({reason}); pin_file= names it, pins.toml ships"
        ) from error
    versions, binaries = document.get("versions"), document.get("binaries", {})
    machine = platform.machine()
    digests = binaries.get(machine) if isinstance(binaries, dict) else None
    if not isinstance(versions, dict) or not isinstance(digests, dict) or not versions or not digests:
        raise PinError(f"{path}: names no versions, or no binaries for {machine}; add a table [binaries.{machine}]")
    pins = {**versions, **digests}
    if not all(isinstance(value, str) and value for value in pins.values()):
        raise PinError(f"{path}: every pin must be text")
    return pins


def compare(wanted: dict[str, str], found: dict[str, str]) -> list[str]:
    """A phrase for every pin that does not hold."""
    return [
        f"{name} is {found.get(name, 'not installed')}, pinned is {pin}"
        for name, pin in sorted(wanted.items())
        if found.get(name) != pin
    ]
