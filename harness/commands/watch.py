"""``harness watch``: a live view of one load, for looking only."""

from __future__ import annotations

import time
from pathlib import Path

import click

from harness.commands.options import find_run, json_option, runs_option
from harness.commands.output import echo_json, printable
from harness.errors import EXIT_STAGE
from harness.history.inventory import load_is_running
from harness.progress import progress_line, read_object
from harness.runs import RunFolder
from harness.terminal import LiveLine

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

    Shows 2xx of plan, failures by class, time left, next roll and silent engines. It is for looking; the verdict
    comes from the saved files. With --json, the state is printed once.

    \b
    Example:
      harness watch quick-20261008T101500Z
    """
    folder = find_run(runs_folder, run)
    if as_json:
        echo_json(
            {"schema": 1, "run": run, "state": load_word(folder), "progress": read_object(folder.progress_json) or None}
        )
        return 0
    return follow(folder, timeout_s)


def follow(folder: RunFolder, timeout_s: float | None) -> int:
    """Show a line per look until the load ended (0) or the time is up (4). Every wait here is bounded."""
    began = time.monotonic()
    line = LiveLine("load", plain_every_s=PLAIN_EVERY_S)
    while True:
        word = load_word(folder)
        line.show(printable(progress_line(folder) if folder.progress_json.exists() else word))
        if word.startswith("ended"):
            line.close()
            click.echo(f"The load {word}{_afterwards(folder, word)}")
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
    load = read_object(folder.load_json)
    if not load:
        fleet = read_object(folder.fleet_json).get("state")
        return "never started" if fleet in ("failed", "stopped") or folder.closed.exists() else "not started"
    return "running" if load_is_running(load) else "ended without a report"


def _afterwards(folder: RunFolder, word: str) -> str:
    if word == "ended":
        return f"; `harness gate {folder.run}` grades what was saved."
    kept = "is" if folder.evidence.is_dir() else f"will be, after `./doit soak run={folder.run}`,"
    return (
        f", so nothing can be graded. What was kept {kept} in {folder.evidence}, and a new run is needed: ./doit soak"
    )


def _patience_s(folder: RunFolder, began: float) -> float:
    ends = read_object(folder.load_json).get("ends_unix_s")
    if not isinstance(ends, (int, float)):
        return START_TIMEOUT_S
    return time.monotonic() - began + ends - time.time() + END_MARGIN_S
