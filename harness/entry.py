"""The entry point: settings are checked, the folder is held, doit runs the tasks, the verdict decides the exit code."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

from harness.errors import EXIT_INTERNAL, EXIT_REFUSED, EXIT_USAGE, BusyError, HarnessError, LoadError, UsageError
from harness.files import read_json
from harness.graph import invocation as invocations
from harness.graph import lock, receipts, rungs, usage
from harness.graph.receipts import PROJECT
from harness.runs import RunFolder
from harness.store.columns import LADDER, SOAK
from harness.terminal import open_streams


class Interrupted(BaseException):
    """A signal asked this process to stop. Not an Exception, so that no task can take it for a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(arguments: list[str] | None = None) -> int:
    """Run doit with our settings, state and reporter. Returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    os.chdir(PROJECT)
    open_streams()
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
    sys.stdout.flush()
    if run is None:
        sys.stderr.write(f"\nstopped by {name}\n")
    else:
        now = invocations.current()
        what = "what it started goes on" if now.kind_of(run) != LADDER else _waits(run)
        sys.stderr.write(
            f"\nstopped by {name}; run {run.run} is unfinished and {what}: "
            f"continue with {now.goes_on(run)}, end it with {now.again(f'teardown:{run.run}')}\n"
        )
    return 128 + stop.number


def _waits(run: RunFolder) -> str:
    from harness.stages.places import place_of

    return "its tier waits" if place_of(run).is_up() else "nothing of it runs"


def _run(words: list[str]) -> int:
    if {"--help", "-h"} & set(words):
        sys.stdout.write(usage.text([word for word in words if not word.startswith("-")]))
        return 0
    invocation = invocations.parse(words, os.environ, Path("harness.toml"))
    invocations.set_current(invocation)
    if invocation.live_run is None or invocation.command != "run":
        return _last_word(invocation, _doit(invocation))
    for one in invocation.per_run():
        _check(one)
    codes = []
    with lock.hold(invocation.runs):
        for one in invocation.per_run():
            invocations.set_current(one)
            codes.append(_last_word(one, _climb_or_load(one, one.live_run)))
    return max(codes)


def _check(invocation: invocations.Invocation) -> None:
    """Refuse what can never be, before anything is waited for or written. Raises UsageError."""
    from harness.stages import ladder, plan

    if invocation.live_run is not None and not invocation.live_run.run_json.exists():
        (ladder.plan if invocation.kind == LADDER else plan).check(invocation.settings)


def _climb_or_load(invocation: invocations.Invocation, folder: RunFolder | None) -> int:
    """Do what was asked of the live run. A ladder's graph is drawn again as long as rungs are added to it."""
    if folder is None:
        return _doit(invocation)
    try:
        _begin(invocation, folder)
        code = _doit(invocation)
        while code == 0 and LADDER in invocation.selected and _is_unfinished(invocation, folder):
            before = rungs.planned(folder), receipts.done(folder)
            code = _doit(invocation)
            if code == 0 and before == (rungs.planned(folder), receipts.done(folder)):
                raise RuntimeError(f"the graph of {folder.run} was drawn twice and nothing came of it")
        return code
    finally:
        _finish_if_nothing_lives(folder)


def _is_unfinished(invocation: invocations.Invocation, folder: RunFolder) -> bool:
    """Whether the ladder has rungs, or stages after them, that were not drawn yet."""
    return invocation.is_open(folder) or receipts.read(folder, "report") is None


def _begin(invocation: invocations.Invocation, folder: RunFolder) -> None:
    other = lock.unfinished(invocation.runs)
    if other is not None and other != folder:
        raise BusyError(
            f"run {other.run} is unfinished: continue it with {invocation.goes_on(other)}, "
            f"or end it with {invocation.again(f'teardown:{other.run}')}"
        )
    if folder.closed.exists():
        raise LoadError(
            _closed(folder)
            + f"; a load is never started twice: start a new run with {invocation.again(invocation.kind)}"
        )
    lock.begin(folder)
    sys.stdout.write(f"run        {folder.run}\n")
    sys.stdout.flush()


def _closed(folder: RunFolder) -> str:
    try:
        document = read_json(folder.closed)
        return f"run {folder.run} is over: {document['reason']}; {document['saved']}"
    except (OSError, ValueError, KeyError, TypeError):
        return f"run {folder.run} is over, and {folder.closed} does not say why"


def _finish_if_nothing_lives(folder: RunFolder) -> None:
    """An unfinished mark stays only where something outside this process still goes on, or was killed half-way."""
    from harness.stages.places import place_of

    if isinstance(sys.exc_info()[1], Interrupted):
        return
    if not folder.run_json.exists() or not place_of(folder).is_up():
        lock.finish(folder)


def _doit(invocation: invocations.Invocation) -> int:
    from doit.doit_cmd import DoitMain

    class Main(DoitMain):  # type: ignore[misc]
        BIN_NAME = "./doit"
        DOIT_CMDS = tuple(
            _guarded(command, invocation)
            for command in DoitMain.DOIT_CMDS
            if command.get_name() in invocations.COMMANDS
        )

    extra = {
        "GLOBAL": {"dodoFile": str(PROJECT / "dodo.py"), "backend": "receipts", "dep_file": str(invocation.runs)},
        "BACKEND": {"receipts": "harness.graph.backend:ReceiptBackend"},
    }
    sys.modules.pop("dodo", None)  # its tasks are those of the invocation that stands now
    code = Main(config_filenames=(), extra_config=extra).run(list(invocation.doit_arguments))
    return int(code or 0)


def _guarded(command: Any, invocation: invocations.Invocation) -> Any:
    """A command of doit whose faults come to ``_last_word`` as errors, not to the terminal as tracebacks."""

    class Guarded(command):  # type: ignore[misc]
        name = command.get_name()

        def parse_execute(self, in_args: list[str]) -> int:
            from doit.cmdparse import CmdParseError
            from doit.exceptions import InvalidCommand, InvalidDodoFile, InvalidTask

            try:
                return int(super().parse_execute(in_args) or 0)
            except (CmdParseError, InvalidCommand, InvalidDodoFile, InvalidTask):
                raise
            except HarnessError as error:
                invocation.errors.append(error)
            except Exception as error:  # noqa: BLE001 - becomes a sentence and a file in _last_word
                if isinstance(error, KeyError) and self.name == "info":  # doit looks the task up unguarded
                    error = UsageError(f"there is no task {error}; ./doit list --all shows those there are")
                    invocation.errors.append(error)
                else:
                    invocation.errors.append(RuntimeError(traceback.format_exc()))
            return EXIT_INTERNAL

    return Guarded


def _last_word(invocation: invocations.Invocation, code: int) -> int:
    """Errors first; then, for every run that was graded or whose grade was kept, its verdict and exit code."""
    for error in invocation.errors[:1]:
        if isinstance(error, HarnessError):
            return complain(error)
        return crash(str(error))
    if code or invocation.command != "run":
        return EXIT_USAGE if code == 3 else code
    from harness.stages import gate

    codes = [0]
    for item in invocation.selected:
        stage, _, run = item.partition(":")
        folder = invocation.live_run if item in (SOAK, LADDER) else RunFolder(invocation.runs / run)
        if (item in (SOAK, LADDER) or stage in ("gate", "report")) and folder is not None:
            codes.append(gate.announce(folder))
        elif stage == "tables" and folder is not None:
            codes.append(_tables_word(folder))
    return max(codes)


def _tables_word(folder: RunFolder) -> int:
    receipt = receipts.read(folder, "tables")
    refused = receipt.outcome.get("refused") if receipt else "no tables were made"
    if not refused:
        return 0
    sys.stderr.write(f"error: {folder.run} tables: {refused}\n")
    return EXIT_REFUSED


if __name__ == "__main__":
    sys.exit(main())
