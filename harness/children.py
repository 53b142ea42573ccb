"""Child processes of an asyncio program: watched without threads or polling, ended by pid and start time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import harness
from harness.processes import Identity, identify, send


@dataclass(eq=False, kw_only=True)
class Child:
    """One process. ``exit_status`` is None while it runs; a negative number is the signal that ended it."""

    name: str
    kind: str
    popen: subprocess.Popen[bytes]
    identity: Identity = field(init=False)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    exit_status: int | None = None

    def __post_init__(self) -> None:
        # 0 when it is a zombie already: its exit is about to be seen
        self.identity = identify(self.popen.pid) or Identity(self.popen.pid, 0)

    @property
    def running(self) -> bool:
        """True until its exit was seen."""
        return self.exit_status is None

    def signal(self, number: int) -> bool:
        """Send it a signal; False when it is already gone."""
        return self.running and send(self.identity, number)

    async def wait(self, limit_s: float) -> bool:
        """Wait for its exit, at most ``limit_s``. True when it is gone."""
        try:
            await asyncio.wait_for(self.gone.wait(), limit_s)
        except TimeoutError:
            return False
        return True

    async def end(self, grace_s: float) -> None:
        """SIGTERM (and SIGCONT: a stopped process hears nothing), SIGKILL after ``grace_s``."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if not await self.wait(grace_s):
            self.signal(signal.SIGKILL)
            await self.wait(5.0)


C = TypeVar("C", bound=Child)


def watch(child: C, on_exit: Callable[[C], None]) -> None:
    """Note the child's exit as soon as it happens, then call ``on_exit`` once in the event loop.

    Raises OSError when the system has no descriptor left; the child is ended then: nobody would see its exit.
    """
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(child.popen.pid)
    except OSError:
        child.popen.kill()
        child.popen.wait()
        raise

    def exited() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        child.exit_status = child.popen.wait()
        child.gone.set()
        on_exit(child)

    loop.add_reader(descriptor, exited)


def python_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this project in this interpreter; ``-P``: not of the current folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """This process's environment, with this project importable and nothing held back in buffers."""
    root = str(Path(harness.__file__).resolve().parent.parent)
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"}
