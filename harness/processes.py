"""Processes by identity: a pid alone may be somebody else's by now, a pid with its start time may not.

Everything a run starts carries ``HARNESS_TOKEN=<the run's token>`` in its environment, so that a process whose pid
was never written down (the harness died between the start and the note) is still found as this run's own.
"""

from __future__ import annotations

import os
import signal
import time
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TOKEN_VARIABLE = "HARNESS_TOKEN"  # noqa: S105 - a mark, not a secret


@dataclass(frozen=True, order=True)
class Identity:
    """A process: its pid and its start time in clock ticks since boot (field 22 of /proc/PID/stat)."""

    pid: int
    start_ticks: int

    def to_json(self) -> dict[str, int]:
        """The form that stands in a run's files."""
        return {"pid": self.pid, "start_ticks": self.start_ticks}

    @classmethod
    def from_json(cls, value: dict[str, int]) -> Identity:
        """Inverse of ``to_json``. Raises KeyError or ValueError on another shape."""
        return cls(int(value["pid"]), int(value["start_ticks"]))


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()  # the name in parentheses may hold spaces


def identify(pid: int) -> Identity | None:
    """The identity of a live process, None when there is none (a zombie is none)."""
    fields = _stat_fields(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return Identity(pid, int(fields[19]))


def alive(process: Identity) -> bool:
    """True while that very process runs; a zombie or a reused pid is not alive."""
    return identify(process.pid) == process


def own_identity() -> Identity:
    """The identity of the calling process."""
    return typing.cast(Identity, identify(os.getpid()))  # the caller is alive


def find_marked(token: str, variable: str = TOKEN_VARIABLE) -> list[Identity]:
    """Every live process whose environment carries the token, but for the caller."""
    mark = f"{variable}={token}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if mark in environment.split(b"\0"):
            process = identify(int(entry.name))
            if process is not None:
                found.append(process)
    return sorted(found)


def send(process: Identity, number: int) -> bool:
    """Send a signal to that very process. False when it is gone.

    Goes through a pidfd, so that a pid reused between the look and the signal is never hit.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except (ProcessLookupError, OSError):
        return False
    try:
        if not alive(process):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)
    return True


def end(processes: Iterable[Identity], *, grace_s: float) -> list[Identity]:
    """SIGTERM (after SIGCONT, a stopped process hears nothing), then SIGKILL after ``grace_s``.

    Returns those that had to be killed. Waits until all are gone, at most 5 s beyond the grace.
    """
    waiting = [process for process in processes if alive(process)]
    for process in waiting:
        send(process, signal.SIGTERM)
        send(process, signal.SIGCONT)
    waiting = _wait_gone(waiting, grace_s)
    killed = list(waiting)
    for process in killed:
        send(process, signal.SIGKILL)
    _wait_gone(waiting, 5.0)
    return killed


def _wait_gone(processes: list[Identity], limit_s: float) -> list[Identity]:
    deadline = time.monotonic() + limit_s
    left = [process for process in processes if alive(process)]
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [process for process in left if alive(process)]
    return left
