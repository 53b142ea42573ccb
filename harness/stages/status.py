"""Status: what the last runs came to, and what to type next. Starts nothing, writes nothing."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.files import read_json
from harness.graph import lock, receipts
from harness.graph.invocation import Invocation, newest_runs
from harness.history.inventory import NEVER, newness, run_state
from harness.runs import RunFolder

SHOWN = 5


def task(invocation: Invocation) -> dict[str, Any]:
    """The task that bare ``doit`` runs."""

    def show() -> None:
        sys.stdout.write(text(invocation))

    return {"actions": [show], "verbosity": 2, "uptodate": [False]}


def text(invocation: Invocation) -> str:
    """The last runs in the order of ``harness runs``, and the next step, of the run that was touched last."""
    runs = newest_runs(invocation.runs)
    unfinished = lock.unfinished(invocation.runs)
    again = invocation.again
    count = f"{len(runs)} run{'s' if len(runs) > 1 else ''} in {invocation.runs}"
    lines = [count if runs else f"no runs in {invocation.runs} yet"]
    lines += [f"  {folder.run:<28} {state(folder)}" for folder in sorted(runs, key=_age, reverse=True)[:SHOWN]]
    if unfinished is not None:
        lines.append(f"next: {invocation.goes_on(unfinished)}    goes on with the unfinished run")
        lines.append(f"      {again(f'teardown:{unfinished.run}')}    ends it and saves what it has")
    elif runs and not receipts.read(runs[0], "gate") and runs[0].adopted.exists():
        lines.append(f"next: {again(f'gate:{runs[0].run}')}    grades the run that was adopted")
    elif runs and not receipts.read(runs[0], "gate") and not runs[0].closed.exists() and runs[0].run_json.exists():
        lines.append(f"next: {invocation.goes_on(runs[0])}    goes on where it stopped")
        lines.append(f"      {again('soak')}    a new run, 60 s")
    elif runs and receipts.read(runs[0], "gate"):
        lines.append(f"next: {again(f'gate:{runs[0].run}')}    grades its saved data again, or repeats the verdict")
        lines.append(f"      {again('soak')}    a new run, 60 s")
    else:
        lines.append(f"next: {again('soak')}    a run of 60 s on this machine, from pins to verdict")
        lines.append(f"      {again('e8')}    two ladders of concurrent turns on this machine, 6 to 8 minutes")
    return "\n".join(lines) + "\n"


def _age(folder: RunFolder) -> tuple[datetime, str]:
    """By what ``harness runs`` has the newest first; of what cannot be read that is not known."""
    try:
        return newness(run_state(folder))
    except OSError:
        return NEVER, folder.run


def state(folder: RunFolder) -> str:
    """One line on how far a run has come."""
    try:
        return _state(folder)
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _state(folder: RunFolder) -> str:
    from harness.gate import store

    graded = receipts.read(folder, "gate")
    if graded is not None:
        try:
            return str(store.read(folder.verdicts / str(graded.outcome["verdict"]))["verdict_line"])
        except (EvidenceError, KeyError):
            return "graded, but its verdict is not as it was stored: grade it again"
    if folder.adopted.exists():
        return "adopted"
    done = receipts.done(folder)
    if folder.closed.exists():
        return f"ended without a verdict: {_reason(folder.closed)}"
    if folder.failed.exists():
        return f"stopped: {_reason(folder.failed)}"
    return f"stands after {done[-1]}" if done else "has only begun"


def _reason(path: Path) -> str:
    try:
        return str(read_json(path)["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return "the reason cannot be read"
