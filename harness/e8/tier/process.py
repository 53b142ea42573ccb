"""What every process of the tier does first and last: die with its parent, keep its deadline, end when told to."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from harness.e8.tier.knobs import Knobs
from harness.errors import SettingsError
from harness.files import utc_stamp

LOOPBACK = "127.0.0.1"
BACKLOG = 1024
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SHUTDOWN_GRACE_S = 2.0
"""How long a worker has for the turns that it has begun, once its supervisor is told to end; then it is killed."""
PARENT_VARIABLE = "TIER_PARENT_PID"
LIFETIME_VARIABLE = "TIER_LIFETIME_S"
MARK_VARIABLE = "TIER_MARK"  # a tier's own: the run's mark is on others as well
MAX_LIFETIME_S = 7 * 86_400
PR_SET_PDEATHSIG = 1
EXIT_BAD_KNOB = 2

Serve = Callable[[Knobs, asyncio.Event], Coroutine[Any, Any, None]]


def say(text: str) -> None:
    """One line with a UTC stamp into the process's log; a full disk ends no process."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{utc_stamp()} {text}\n")
        sys.stderr.flush()


def announce(text: str) -> None:
    """The one line on stdout that says the process is ready, for whoever started it."""
    with contextlib.suppress(OSError):  # nobody listens any more
        print(text, flush=True)


def main(name: str, serve: Serve) -> int:
    """Run ``serve`` until it returns; its event is set by SIGTERM, SIGINT and the deadline.

    Returns 0 after an orderly end, 2 when an environment variable does not fit, 1 when the system refused something.
    """
    knobs = Knobs(os.environ)
    try:
        _follow_parent(knobs)
        lifetime_s = knobs.number(LIFETIME_VARIABLE, 3600, 0.1, MAX_LIFETIME_S)
        _allow_descriptors()
        _run(_live(name, serve, knobs, lifetime_s))
    except SettingsError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return EXIT_BAD_KNOB
    except OSError as error:
        say(f"{name} cannot go on: {error}")
        return 1
    return 0


def _run(work: Coroutine[Any, Any, None]) -> None:
    import uvloop

    uvloop.run(work)


async def _live(name: str, serve: Serve, knobs: Knobs, lifetime_s: float) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def end(why: str) -> None:
        if not stop.is_set():
            say(f"{name} ends: {why}")
            stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number.name)
    deadline = loop.call_later(lifetime_s, end, "its time is over")
    try:
        await serve(knobs, stop)
    finally:
        deadline.cancel()


def _follow_parent(knobs: Knobs) -> None:
    """From now on the kernel kills this process when its parent ends in any way. Without a parent named: nothing."""
    parent = knobs.whole(PARENT_VARIABLE, 0, 0, 1 << 30)
    if parent:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            raise OSError(f"the parent, pid {parent}, was gone before this process began")


def _allow_descriptors() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
