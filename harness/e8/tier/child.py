"""Child processes: started so that they die with their parent, and watched without threads or polling."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import harness
from harness.e8.tier.process import PARENT_VARIABLE
from harness.processes import Identity, identify, send


@dataclass(eq=False)
class Child:
    """One process. ``exit_status`` is None while it runs; a negative number is the signal that ended it."""

    name: str
    kind: str
    identity: Identity
    popen: subprocess.Popen[bytes]
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    exit_status: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The form that stands in the state file."""
        about = {"name": self.name, "kind": self.kind, "exit_status": self.exit_status}
        return about | self.identity.to_json()

    def signal(self, number: int) -> None:
        """Send it a signal, unless it is gone."""
        if self.exit_status is None:
            send(self.identity, number)

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


def spawn(
    module: str,
    *,
    name: str,
    kind: str,
    environment: Mapping[str, str],
    on_exit: Callable[[Child], None],
    log: Path | None = None,
    descriptors: Sequence[int] = (),
) -> Child:
    """Start a module of this project as a child, with this process's environment and the given variables.

    With a ``log`` its stderr is appended there and its stdout is a pipe (``child.popen.stdout``); without, both are
    this process's stderr. ``on_exit`` is called once in the event loop. Raises OSError.
    """
    root = str(Path(harness.__file__).resolve().parent.parent)
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    own = {PARENT_VARIABLE: str(os.getpid()), "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"}
    file: IO[bytes] | None = log.open("ab") if log else None
    try:
        popen = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if file else sys.stderr,
            stderr=file or sys.stderr,
            env={**os.environ, **own, **environment},
            pass_fds=descriptors,
        )
    finally:
        if file:
            file.close()
    child = Child(name, kind, identify(popen.pid) or Identity(popen.pid, 0), popen)
    _watch(child, on_exit)
    return child


def _watch(child: Child, on_exit: Callable[[Child], None]) -> None:
    loop = asyncio.get_running_loop()
    descriptor = os.pidfd_open(child.popen.pid)  # cannot fail: the child is not reaped before this is ready

    def exited() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        child.exit_status = child.popen.wait()
        child.gone.set()
        on_exit(child)

    loop.add_reader(descriptor, exited)
