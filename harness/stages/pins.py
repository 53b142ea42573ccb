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
from harness.stages.places import place_of
from harness.store.columns import LADDER
from harness.store.kinds import kind_of_run


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
    ladder = kind_of_run(folder) == LADDER
    wanted = (read_ladder_pins if ladder else read_pins)(pin_file(folder))
    found = place_of(folder).pins()
    wrong = compare(wanted, found)
    if wrong:
        raise PinError(
            f"{'; '.join(wrong)}; install what {pin_file(folder).name} names (./doit does, from the lock file), "
            "or change the pin on purpose"
        )
    write_json(folder.pins, {"schema": 1, "at": utc_stamp(), "machine": platform.machine(), "pins": found})
    shown = f"python {found['python']}, git {found['git']}" if ladder else f"envoy {found.get('envoy', '')[:19]}…"
    count = len(wanted)
    held = (
        f"{count} pin{'s hold' if count > 1 else ' holds'}"
        if wanted
        else f"{pin_file(folder).name} pins nothing of a ladder, seen"
    )
    return {"summary": f"{held}: {shown}", "pins": found}


def read_ladder_pins(path: Path) -> dict[str, str]:
    """What a ladder is pinned to, which may be nothing. Raises PinError when the file cannot be read."""
    pins = _document(path).get("ladder", {})
    if not isinstance(pins, dict):
        raise PinError(f"{path}: ladder is no table of pins")
    return _texts(path, pins)


def read_pins(path: Path) -> dict[str, str]:
    """The pins for this kind of machine. Raises PinError when there are none, or when the file cannot be read."""
    document = _document(path)
    versions, binaries = document.get("versions"), document.get("binaries", {})
    machine = platform.machine()
    digests = binaries.get(machine) if isinstance(binaries, dict) else None
    if not isinstance(versions, dict) or not isinstance(digests, dict) or not versions or not digests:
        raise PinError(f"{path}: names no versions, or no binaries for {machine}; add a table [binaries.{machine}]")
    return _texts(path, {**versions, **digests})


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PinError(
            f"{path}: the pin file cannot be read ({reason}); pin_file= names it, pins.toml ships"
        ) from error


def _texts(path: Path, pins: dict[str, Any]) -> dict[str, str]:
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
