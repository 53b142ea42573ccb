"""``harness watch``: a live view of one load, for looking only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from harness.commands.options import find_run, json_option, runs_option
from harness.commands.output import echo_json, printable
from harness.errors import EXIT_STAGE
from harness.files import read_json
from harness.history.inventory import load_is_running
from harness.runs import RunFolder

LOOK_EVERY_S = 1.0
PLAIN_EVERY_S = 10.0
START_TIMEOUT_S = 300.0
END_MARGIN_S = 300.0


@click.command()
@click.argument("run")
@click.option("--timeout-s", type=click.FloatRange(min=0), help="Give up after this long. Default: the load's own end.")
@runs_option
@json_option
def watch(run: str, timeout_s: float | None, runs_folder: Path, as_json: bool) -> int:
    """Watch the load of a run until it ends.

    Shows time, 2xx of plan, failures by class and silent backends. It is for looking; the verdict comes from the
    saved files. With --json, the state is printed once.

    \b
    Example:
      harness watch quick-20261008T101500Z
    """
    folder = find_run(runs_folder, run)
    if as_json:
        echo_json({"schema": 1, "run": run, "state": load_word(folder), "progress": progress(folder)})
        return 0
    return follow(folder, timeout_s, show=_line_writer())


def follow(folder: RunFolder, timeout_s: float | None, show: Callable[[str], None]) -> int:
    """Show a line per look until the load ended (0) or the time is up (4). Every wait here is bounded."""
    began = time.monotonic()
    while True:
        word = load_word(folder)
        seen = progress(folder)
        show(describe(seen) if seen else f"load {word}")
        if word.startswith("ended"):
            click.echo(f"\nThe load {word}; `harness gate {folder.run}` grades what was saved.")
            return 0
        if word == "never started":
            click.echo(f"harness: the load {word}; `./doit soak run={folder.run}` goes on with the run.", err=True)
            return EXIT_STAGE
        if time.monotonic() - began > (timeout_s if timeout_s is not None else _patience_s(folder, began)):
            click.echo(f"harness: the load is {word} and the time to watch is up.", err=True)
            return EXIT_STAGE
        time.sleep(LOOK_EVERY_S)


def load_word(folder: RunFolder) -> str:
    """``not started``, ``running``, ``ended``, ``ended without a report`` or ``never started`` (the fleet is gone)."""
    if folder.report_json.exists() or (folder.evidence / "report.json").exists():
        return "ended"
    load = _read(folder.load_json)
    if load is None:
        fleet = (_read(folder.fleet_json) or {}).get("state")
        return "never started" if fleet in ("failed", "stopped") or folder.closed.exists() else "not started"
    return "running" if load_is_running(load) else "ended without a report"


def progress(folder: RunFolder) -> dict[str, Any] | None:
    """The newest counts, None before the first."""
    return _read(folder.progress_json)


def describe(seen: dict[str, Any]) -> str:
    """One line: elapsed of planned time, 2xx of plan, failures by class, backends that fell silent."""
    failures = {name: n for name, n in (seen.get("failures") or {}).items() if n}
    silent = [
        f"{name} ({state.get('silent_s', 0):.0f} s)"
        for name, state in (seen.get("backends") or {}).items()
        if (state.get("silent_s") or 0) > 5
    ]
    parts = [
        f"{_number(seen.get('elapsed_s'))} of {_number(seen.get('duration_s'))} s",
        f"2xx {_number(seen.get('http_2xx'))} of {_number(seen.get('planned'))}",
        "failures " + (", ".join(f"{name} {n:,}" for name, n in sorted(failures.items())) or "none"),
    ]
    if silent:
        parts.append("silent " + ", ".join(silent))
    return printable(" · ".join(parts))


def _patience_s(folder: RunFolder, began: float) -> float:
    load = _read(folder.load_json)
    ends = (load or {}).get("ends_unix_s")
    if not isinstance(ends, (int, float)):
        return START_TIMEOUT_S
    return time.monotonic() - began + ends - time.time() + END_MARGIN_S


def _line_writer() -> Callable[[str], None]:
    """On a terminal one line that is rewritten; elsewhere a plain line every 10 s."""
    if sys.stdout.isatty():
        return lambda text: click.echo(f"\r\x1b[2K{text}", nl=False)
    last = [float("-inf")]

    def plain(text: str) -> None:
        if time.monotonic() - last[0] >= PLAIN_EVERY_S:
            last[0] = time.monotonic()
            click.echo(text)

    return plain


def _number(value: Any) -> str:
    return f"{value:,.0f}" if isinstance(value, (int, float)) else "?"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = read_json(path)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
