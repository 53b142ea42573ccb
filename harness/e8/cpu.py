"""Cumulative CPU seconds: of processes on this machine, of the machine, and of what a command outside tells.

A reading is None with a reason when there is none; nothing here raises for a process that is gone or a command that
fails.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from harness.e8.metrics import Measured
from harness.e8.readings import MOST, PLAIN_DECIMAL
from harness.errors import SettingsError
from harness.processes import Identity, alive

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # user nice system irq softirq steal; guest time stands in user already
CORE_LINE = re.compile(r"^cpu[0-9]+ ", re.MULTILINE)
HOOK_LIMIT_S = 15.0
MAX_HOOK_BYTES = 64 << 10
CUTIME, CSTIME = 13, 14  # places after the name in /proc/PID/stat
CPUCLOCK_SCHED = 2  # with a pid the clock that clock_getcpuclockid gives; /proc/PID/stat tells only ticks of 10 ms


def processes_cpu_s(processes: Iterable[Identity], what: str, *, with_children: bool = False) -> Measured:
    """User and system time of the processes; ``with_children`` also of their ended and of their living descendants.

    Unknown as soon as one of them is gone: what it had spent went with it.
    """
    total = 0.0
    wanted = list(processes)
    if not wanted:
        return Measured(None, f"no process of {what} is known")
    for process in wanted:
        spent_s = _spent_s(process.pid, with_children) if alive(process) else None
        if spent_s is None:
            return Measured(None, f"a process of {what} is gone (pid {process.pid})")
        total += spent_s
    return Measured(round(total, 6))


def _spent_s(pid: int, with_children: bool) -> float | None:
    try:
        own_s = time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)
        if not with_children:
            return own_s
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name in parentheses may hold spaces
    ended_s = sum(map(int, fields[CUTIME : CSTIME + 1])) / TICKS_PER_S
    return own_s + ended_s + sum(_spent_s(child, True) or 0.0 for child in _children(pid))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    except OSError:
        return found
    return found


def host_cpu_s() -> Measured:
    """CPU seconds this machine was busy since it began: neither idle nor waiting for a disk."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        return Measured(sum(int(fields[place]) for place in BUSY_FIELDS) / TICKS_PER_S)
    except (OSError, ValueError, IndexError):
        return Measured(None, "this machine's /proc/stat cannot be read")


def host_cores() -> int | None:
    """Cores of which ``host_cpu_s`` is the sum: those of the machine, whatever part of it a container may use."""
    try:
        return len(CORE_LINE.findall(Path("/proc/stat").read_text())) or None
    except OSError:
        return None


def descriptors(processes: Iterable[Identity]) -> int | None:
    """Open file descriptors of the processes; None when one of them cannot be looked at, or there is none."""
    wanted = list(processes)
    total = 0
    for process in wanted:
        try:
            total += sum(1 for _ in Path(f"/proc/{process.pid}/fd").iterdir()) if alive(process) else _gone(process)
        except OSError:
            return None
    return total if wanted else None


def rss_bytes(processes: Iterable[Identity]) -> int | None:
    """Resident memory of the processes; None when one of them cannot be looked at, or there is none."""
    wanted = list(processes)
    total = 0
    for process in wanted:
        try:
            pages = Path(f"/proc/{process.pid}/statm").read_text().split()[1] if alive(process) else _gone(process)
        except OSError:
            return None
        total += int(pages) * os.sysconf("SC_PAGE_SIZE")
    return total if wanted else None


def _gone(process: Identity) -> int:
    raise ProcessLookupError(process.pid)


class Hook:
    """A command of the user's that prints bare numbers. It is run without a shell and its words are parsed, never
    evaluated: what needs a pipe stands in a script, or in ``sh -c '…'``.
    """

    def __init__(self, key: str, command: str) -> None:
        """Raises SettingsError when the command cannot be split into words."""
        self.key = key
        try:
            self.words = shlex.split(command)
        except ValueError as error:
            raise SettingsError(f"{key}={command} is no command ({error})") from error
        if not self.words:
            raise SettingsError(f"{key}= is empty; leave it out instead")

    def read(self, *, several: bool = False) -> Measured:
        """The one number it printed, or with ``several`` the sum of its lines; unknown for anything else."""
        try:
            done = _run(self.words, HOOK_LIMIT_S)
        except subprocess.TimeoutExpired:
            return Measured(None, f"{self.key} gave nothing in {HOOK_LIMIT_S:g} s")
        except OSError as error:
            return Measured(None, f"{self.key} cannot be run: {error.strerror} ({self.words[0]})")
        if done.returncode:
            return Measured(None, f"{self.key} ended with {done.returncode}: {_last_line(done.stderr)}")
        if len(done.stdout) > MAX_HOOK_BYTES:
            return Measured(None, f"{self.key} printed more than {MAX_HOOK_BYTES >> 10} KiB")
        lines = done.stdout.decode("utf-8", "replace").split()
        if not lines or not all(PLAIN_DECIMAL.fullmatch(line) for line in lines) or (len(lines) > 1 and not several):
            wanted = "bare numbers, one a line" if several else "one bare number"
            return Measured(None, f"{self.key} must print {wanted}; it printed {_first_line(done.stdout)!r}")
        numbers = tuple(map(float, lines))
        if not all(0 <= each <= MOST for each in numbers):
            return Measured(None, f"{self.key} printed a number that is no count: {_first_line(done.stdout)!r}")
        return Measured(sum(numbers), parts=numbers if several else ())


def _run(words: list[str], limit_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run it in a session of its own: when its time is up, all that it started ends with it. Raises OSError and
    TimeoutExpired.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True) as process:
        try:
            output, errors = process.communicate(timeout=limit_s)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def _first_line(output: bytes) -> str:
    return _lines(output)[0][:80] if _lines(output) else ""


def _last_line(output: bytes) -> str:
    """Where an error is named: a traceback begins with other things."""
    return _lines(output)[-1][:80] if _lines(output) else ""


def _lines(output: bytes) -> list[str]:
    return [line for line in output.decode("utf-8", "replace").strip().splitlines() if line.strip()]
