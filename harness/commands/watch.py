"""``harness watch``: a live view of one load or ladder, for looking only."""

from __future__ import annotations

import time
from pathlib import Path

import click

from harness.commands.options import find_run, json_option, runs_option
from harness.commands.output import echo_json, printable
from harness.errors import EXIT_STAGE
from harness.history.climbs import CLOSED, PREPARING, SAVED, again, climb_word, is_going_on
from harness.history.inventory import load_is_running
from harness.progress import progress_line, read_object
from harness.runs import RunFolder
from harness.store.columns import LADDER
from harness.store.kinds import kind_of_run
from harness.terminal import LiveLine

LOOK_EVERY_S = 1.0
PLAIN_EVERY_S = 10.0
START_TIMEOUT_S = 300.0
END_MARGIN_S = 300.0
QUIET_S = 900.0  # a turn may take ten minutes, and while a rung is prepared nothing is counted


@click.command()
@click.argument("run")
@click.option("--timeout-s", type=click.FloatRange(min=0), help="Give up after this long. Default: its own end.")
@runs_option
@json_option
def watch(run: str, timeout_s: float | None, runs_folder: Path, as_json: bool) -> int:
    """Watch the load of a run, or its ladder, until it ends.

    Shows 2xx of plan, failures by class, time left, next roll and silent engines; of a ladder its arm and rung, turns
    of planned ones, failures, and rungs done of planned. It is for looking; the verdict comes from the saved files.
    With --json, the state is printed once.

    \b
    Example:
      harness watch quick-20261008T101500Z
    """
    folder = find_run(runs_folder, run)
    is_ladder = kind_of_run(folder) == LADDER
    if as_json:
        state = climb_word(folder) if is_ladder else load_word(folder)
        progress = read_object(folder.progress_json)
        if is_ladder and "complete" in progress:  # of the plan: the ladder itself may have rungs to climb
            progress["plan_complete"] = progress.pop("complete")
        echo_json({"schema": 1, "run": run, "state": state, "progress": progress or None})
        return 0
    return follow_ladder(folder, timeout_s) if is_ladder else follow(folder, timeout_s)


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


def follow_ladder(folder: RunFolder, timeout_s: float | None) -> int:
    """Show a line per look until the ladder was saved (0), or until nobody climbs it or the time is up (4).

    Without ``timeout_s`` the time is up when nothing was counted for ``QUIET_S``.
    """
    began = changed = time.monotonic()
    line, before = LiveLine("ladder", plain_every_s=PLAIN_EVERY_S), ""
    while True:
        word = climb_word(folder)
        if word == SAVED:
            line.close()
            click.echo(f"The ladder is saved; `harness gate {folder.run}` grades it.")
            return 0
        if not is_going_on(word):
            line.close()
            click.echo(f"harness: {_left(folder, word)}", err=True)
            return EXIT_STAGE
        now = printable(progress_line(folder) if word != PREPARING else word)
        line.show(now)
        before, changed = now, changed if now == before else time.monotonic()
        if time.monotonic() > (changed + QUIET_S if timeout_s is None else began + timeout_s):
            line.close()
            click.echo(f"harness: the ladder is {word} and the time to watch is up.", err=True)
            return EXIT_STAGE
        time.sleep(LOOK_EVERY_S)


def _left(folder: RunFolder, word: str) -> str:
    if word == CLOSED:
        about = read_object(folder.closed)
        told = [about[name] for name in ("reason", "saved") if isinstance(about.get(name), str)]
        return printable(f"the ladder was given up: {'; '.join(told) or f'see {folder.closed}'}.")
    return f"nobody climbs the ladder ({word}); {again(folder)} goes on with it."


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
