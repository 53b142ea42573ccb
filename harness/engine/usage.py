"""What an engine uses of its container: CPU, throttling by a limit, and memory, as JSON lines on stdout.

A pod's log is all that a cluster keeps of it without further rights, so this is where the figures go. What cannot be
read is null: it was not seen, which is not zero.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from harness.files import utc_stamp

CGROUPS = Path("/sys/fs/cgroup")
KEY = "usage"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


async def report_usage(name: str, every_s: float) -> None:
    """Print ``usage_line`` now and every ``every_s`` until cancelled, and once more then."""
    try:
        while True:
            _quietly(usage_line(name))
            await asyncio.sleep(every_s)
    finally:
        _quietly(usage_line(name))


def usage_line(name: str) -> str:
    """``{"usage": name, "at", "pid", "cpu_s", "rss_bytes", "nr_periods", "nr_throttled", "throttled_s"}``.

    ``cpu_s`` is of this process since its start; the last three are of its cgroup, which is the container's.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    line: dict[str, Any] = {
        KEY: name,
        "at": utc_stamp(),
        "pid": os.getpid(),
        "cpu_s": (int(fields[11]) + int(fields[12])) / _TICKS_PER_S,
        "rss_bytes": int(fields[21]) * _PAGE_BYTES,
    }
    return json.dumps(line | throttling(CGROUPS))


def throttling(root: Path) -> dict[str, int | float | None]:
    """``nr_periods``, ``nr_throttled`` and ``throttled_s`` of the cgroup at ``root``, of either version.

    A cgroup without a limit counts no period; one whose files cannot be read, or lack a count, gives null for it.
    """
    found: dict[str, int] = {}
    for place in (root / "cpu.stat", root / "cpu" / "cpu.stat", root / "cpu,cpuacct" / "cpu.stat"):
        with contextlib.suppress(OSError, ValueError):
            found = {key: int(value) for key, value in map(str.split, place.read_text().splitlines())}
            break
    throttled_s = None
    if "throttled_usec" in found:
        throttled_s = found["throttled_usec"] / 1e6
    elif "throttled_time" in found:  # version 1 counts nanoseconds
        throttled_s = found["throttled_time"] / 1e9
    return {
        "nr_periods": found.get("nr_periods"),
        "nr_throttled": found.get("nr_throttled"),
        "throttled_s": throttled_s,
    }


def say(line: str) -> None:
    """One line on stdout, at once. Raises OSError."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _quietly(line: str) -> None:
    with contextlib.suppress(OSError):  # a log that nobody takes must not end a load
        say(line)
