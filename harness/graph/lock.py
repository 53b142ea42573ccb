"""One load at a time: who holds the runs folder now, and which run is unfinished."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import BusyError, UsageError
from harness.files import read_json, write_json
from harness.processes import Identity, identify
from harness.runs import RUN_ID, RunFolder

LOCK = ".lock"
UNFINISHED = ".unfinished.json"
TRIES, TRY_EVERY_S = 20, 0.02


@contextmanager
def hold(runs: Path) -> Iterator[None]:
    """Hold the folder for as long as the block lasts. The kernel lets go when the process dies, however it dies.

    Raises BusyError, with the run that is live, when another process holds it.
    """
    try:
        runs.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(runs / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UsageError(
            f"runs={runs} cannot hold runs ({error.strerror}): name a folder that can be written, or mend its {LOCK}"
        ) from error
    try:
        try:
            _take(descriptor)
        except BlockingIOError as error:
            run = unfinished(runs)
            name = f"run {run.run}" if run else "a run"
            raise BusyError(
                f"{name} is live under another ./doit (pid {_holder(descriptor)}): wait for it"
                + (f", look at it with harness watch {run.run}" if run else "")
            ) from error
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> None:
    """Raises BlockingIOError when it stays taken: whoever only asks (``is_held``) has it for a moment, too."""
    for _ in range(TRIES - 1):
        with suppress(BlockingIOError):
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(TRY_EVERY_S)
    return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _holder(descriptor: int) -> str:
    for _ in range(TRIES):  # it may hold the lock and not yet have written its pid
        if text := os.pread(descriptor, 20, 0).decode("ascii", "replace").strip():
            return text
        time.sleep(TRY_EVERY_S)
    return "unknown"


@contextmanager
def one_at_a_time(folder: RunFolder) -> Iterator[None]:
    """Wait until no other process makes tables, grades or reports of this run. Raises OSError."""
    folder.stages.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder.stages / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def holder(runs: Path) -> Identity | None:
    """The process that holds the folder; None when nobody does, or when it does not say who it is."""
    if not is_held(runs):
        return None
    descriptor = os.open(runs / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pid = _holder(descriptor)
    finally:
        os.close(descriptor)
    return identify(int(pid)) if pid.isdecimal() else None


def is_held(runs: Path) -> bool:
    """True while another process holds the folder. Nothing is written: who asks must not be taken for who holds.

    Raises UsageError when the folder cannot be asked.
    """
    try:
        descriptor = os.open(runs / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UsageError(f"{runs / LOCK} cannot be read ({error.strerror}): mend it, or ask as its owner") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def unfinished(runs: Path) -> RunFolder | None:
    """The run that was begun and has neither ended nor been given up, None when there is none."""
    try:
        run = read_json(runs / UNFINISHED)["run"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(run, str) or not RUN_ID.fullmatch(run):
        return None
    folder = RunFolder(runs / run)
    return folder if folder.run_json.exists() else None  # killed before its first file: it has not begun


def begin(folder: RunFolder) -> None:
    """Note that this run has begun; before anything of it is on disk."""
    write_json(folder.root.parent / UNFINISHED, {"run": folder.run})


def finish(folder: RunFolder) -> None:
    """Note that this run has ended, however it ended."""
    if unfinished(folder.root.parent) == folder:
        (folder.root.parent / UNFINISHED).unlink(missing_ok=True)
