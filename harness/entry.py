"""The entry point: settings are checked, the folder is held, doit runs the tasks, the verdict decides the exit code."""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn, TextIO

from harness.errors import EXIT_INTERNAL, EXIT_USAGE, BusyError, HarnessError
from harness.graph import invocation as invocations
from harness.graph import lock
from harness.graph.receipts import PROJECT
from harness.runs import RunFolder


class Interrupted(BaseException):
    """A signal asked this process to stop. Not an Exception, so that no task can take it for a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Patient(io.TextIOBase):
    """stdout that outlives its reader: ``./doit soak | head -3`` still finishes its run, unheard."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.heard = True

    def write(self, text: str) -> int:
        """Write, until nobody reads any more."""
        if self.heard:
            try:
                return self.stream.write(text)
            except BrokenPipeError:
                self._silence()
        return len(text)

    def flush(self) -> None:
        """Flush, until nobody reads any more."""
        if self.heard:
            try:
                self.stream.flush()
            except BrokenPipeError:
                self._silence()

    def _silence(self) -> None:
        self.heard = False
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())

    def isatty(self) -> bool:
        """As the stream below."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """As the stream below."""
        return self.stream.fileno()


def main(arguments: list[str] | None = None) -> int:
    """Run doit with our settings, state and reporter. Returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    os.chdir(PROJECT)
    sys.stdout = Patient(sys.stdout)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return _run(words)
    except HarnessError as error:
        return complain(error)
    except Interrupted as stop:
        return _stopped(stop)
    except Exception:  # noqa: BLE001 - the last door: a sentence and a file instead of a traceback
        return crash(traceback.format_exc())


def enter_from_plain_doit() -> NoReturn:
    """``doit …`` typed directly is handed to this entry: same words, same process."""
    os.execv(sys.executable, [sys.executable, "-m", "harness.entry", *sys.argv[1:]])  # noqa: S606


def complain(error: HarnessError) -> int:
    """One sentence on stderr, and the error's exit code."""
    place = " ".join(part for part in (error.run, error.stage) if part)
    sys.stdout.flush()
    sys.stderr.write(f"error: {place + ': ' if place else ''}{error}\n")
    return error.exit_code


def crash(text: str) -> int:
    """A fault of ours: the details into a file, one sentence on stderr."""
    descriptor, name = tempfile.mkstemp(prefix="harness-crash-", suffix=".txt")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    last = text.strip().splitlines()[-1]
    sys.stderr.write(f"error: a fault in the harness itself ({last}); details are in {name}\n")
    return EXIT_INTERNAL


def _interrupt(number: int, frame: object) -> NoReturn:
    raise Interrupted(number)


def _stopped(stop: Interrupted) -> int:
    """Say what goes on without us, and how to get back to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name = signal.Signals(stop.number).name
    run = lock.unfinished(invocations.current().runs) if invocations.entered() else None
    again = invocations.current().again if run else str
    sys.stdout.flush()
    if run is None:
        sys.stderr.write(f"\nstopped by {name}\n")
    else:
        sys.stderr.write(
            f"\nstopped by {name}; run {run.run} is unfinished and what it started goes on: "
            f"continue with {again(f'soak run={run.run}')}, end it with {again(f'teardown:{run.run}')}\n"
        )
    return 128 + stop.number


def _run(words: list[str]) -> int:
    invocation = invocations.parse(words, os.environ, Path("harness.toml"))
    invocations.set_current(invocation)
    with lock.hold(invocation.runs) if invocation.wants_load else nullcontext():
        if invocation.wants_load:
            _begin(invocation)
        try:
            code = _doit(invocation)
        finally:
            if invocation.wants_load:
                _finish_if_nothing_lives(invocation)
    return _last_word(invocation, code)


def _begin(invocation: invocations.Invocation) -> None:
    folder = invocation.soak_run
    assert folder is not None  # noqa: S101 - wants_load says so
    other = lock.unfinished(invocation.runs)
    if other is not None and other != folder:
        raise BusyError(
            f"run {other.run} is unfinished: continue it with {invocation.again(f'soak run={other.run}')}, "
            f"or end it with {invocation.again(f'teardown:{other.run}')}"
        )
    from harness.stages import plan

    if not folder.run_json.exists():
        plan.check(invocation.settings)
    lock.begin(folder)
    sys.stdout.write(f"run        {folder.run}\n")
    sys.stdout.flush()


def _finish_if_nothing_lives(invocation: invocations.Invocation) -> None:
    """An unfinished mark stays only where something outside this process still goes on, or was killed half-way."""
    from harness.stages.fleets import fleet_of

    folder = invocation.soak_run
    assert folder is not None  # noqa: S101 - wants_load says so
    if isinstance(sys.exc_info()[1], Interrupted):
        return
    if not folder.run_json.exists() or not fleet_of(folder).is_up():
        lock.finish(folder)


def _doit(invocation: invocations.Invocation) -> int:
    from doit.doit_cmd import DoitMain

    extra = {
        "GLOBAL": {"dodoFile": str(PROJECT / "dodo.py"), "backend": "receipts", "dep_file": str(invocation.runs)},
        "BACKEND": {"receipts": "harness.graph.backend:ReceiptBackend"},
    }
    DoitMain.BIN_NAME = "./doit"
    code = DoitMain(config_filenames=(), extra_config=extra).run(list(invocation.doit_arguments))
    return int(code or 0)


def _last_word(invocation: invocations.Invocation, code: int) -> int:
    """Errors first; then, for every run that was graded or whose grade was kept, its verdict and exit code."""
    for error in invocation.errors[:1]:
        if isinstance(error, HarnessError):
            return complain(error)
        return crash(str(error))
    if code or invocation.command != "run":
        return EXIT_USAGE if code == 3 else code
    from harness.stages import gate

    graded = [
        RunFolder(invocation.runs / item.partition(":")[2]) for item in invocation.selected if item.startswith("gate:")
    ]
    if "soak" in invocation.selected and invocation.soak_run is not None:
        graded.append(invocation.soak_run)
    return max((gate.announce(folder) for folder in graded), default=0)


if __name__ == "__main__":
    sys.exit(main())
