"""Teardown: the only command that ends the live processes of an unfinished run."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from doit.exceptions import TaskFailed

from harness.e8.record import EMBEDDED
from harness.errors import BusyError, FleetError, HarnessError
from harness.files import read_json, utc_stamp, write_json
from harness.graph import lock, receipts
from harness.graph.invocation import Invocation
from harness.processes import alive, send
from harness.runs import RunFolder
from harness.stages import save
from harness.stages.places import place_of
from harness.store.columns import LADDER
from harness.store.kinds import kind_of_run

STOP_LIMIT_S = 30.0
POLL_S = 0.1


def tasks(invocation: Invocation) -> Iterator[dict[str, Any]]:
    """A task for every run that has not been graded."""
    for folder in invocation.shown():
        if folder.run_json.exists() and (folder in invocation.named or receipts.read(folder, "save") is None):
            yield {"name": folder.run, "actions": [_action(invocation, folder)], "verbosity": 2, "uptodate": [False]}


def _action(invocation: Invocation, folder: RunFolder) -> Callable[[], TaskFailed | None]:
    def teardown() -> TaskFailed | None:
        try:
            end(folder)
        except HarnessError as error:
            error.run, error.stage = folder.run, "teardown"
            invocation.errors.append(error)
            return TaskFailed(str(error))
        return None

    return teardown


def end(folder: RunFolder) -> None:
    """Cancel the load if one runs, end the fleet, save what there is, and give the run up.

    A run that is saved is over already: what a killed command left of it is ended, and nothing else happens.
    """
    if folder.saved.exists():
        _already_over(folder)
        return
    if kind_of_run(folder) == LADDER:
        _stop_climbing(folder)
    fleet = place_of(folder)
    with suppress(FleetError):  # a supervisor that does not answer is ended by the sweep
        fleet.stop(cancel_load=True)
    for line in fleet.sweep():
        sys.stdout.write(f"teardown   {line}\n")
    if lock.is_held(folder.root.parent) and lock.unfinished(folder.root.parent) == folder:
        sys.stdout.write(f"teardown   {folder.run} is down; the ./doit that follows it saves and grades it\n")
        return
    try:
        saved = f"saved {_save(folder)}; grade it with ./doit gate:{folder.run}"
    except HarnessError as error:
        saved = str(error)
    write_json(
        folder.closed, {"schema": 1, "run": folder.run, "at": utc_stamp(), "reason": "torn down", "saved": saved}
    )
    lock.finish(folder)
    failed = _failed(folder)
    sys.stdout.write(f"teardown   {folder.run} {_is_down(folder)}{f'; {failed}' if failed else ''}; {saved}\n")


def _save(folder: RunFolder) -> str:
    """Save what there is, with the receipt of it: without one nothing says that the evidence is what was saved."""
    started_at, outcome = utc_stamp(), save.work(folder)
    inputs, outputs = (receipts.digests(paths(folder), folder) for paths in (save.reads, save.makes))
    receipts.write(folder, "save", inputs=inputs, outputs=outputs, outcome=outcome, started_at=started_at)
    return str(outcome["summary"])


def _already_over(folder: RunFolder) -> None:
    runs = folder.root.parent
    if not lock.is_held(runs):  # who holds it grades it, or is at another run
        for line in place_of(folder).sweep():
            sys.stdout.write(f"teardown   {line}\n")
        lock.finish(folder)
    sys.stdout.write(
        f"teardown   {folder.run} is saved, and nothing of it runs: nothing to tear down; ./doit gate:{folder.run} "
        "tells its verdict\n"
    )


def _is_down(folder: RunFolder) -> str:
    """Of a deployment nothing was started, and nothing is ended."""
    outside = kind_of_run(folder) == LADDER and read_json(folder.run_json).get("measured") != EMBEDDED
    return "is over, and the deployment is left as it is" if outside else "is down"


def _failed(folder: RunFolder) -> str | None:
    """What the run stopped at, where a stage could not do its work."""
    try:
        document = read_json(folder.failed)
        return f"it stopped in {document['stage']}: {document['reason']}"
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _stop_climbing(folder: RunFolder) -> None:
    """Ask the ./doit that climbs the ladder to stop, as Ctrl-C does: the rung that it measures is then cut off.

    Raises BusyError when it does not.
    """
    runs = folder.root.parent
    climber = lock.holder(runs) if lock.unfinished(runs) == folder else None
    if climber is None:
        return
    sys.stdout.write(f"teardown   stopping the ./doit that climbs {folder.run} (pid {climber.pid})\n")
    send(climber, signal.SIGTERM)
    end_s = time.monotonic() + STOP_LIMIT_S
    while alive(climber):
        if time.monotonic() > end_s:
            raise BusyError(f"the ./doit that climbs it (pid {climber.pid}) does not stop: end it, and tear down again")
        time.sleep(POLL_S)
