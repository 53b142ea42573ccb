"""Child processes of the supervisor: started so that they die with it, and watched without threads or polling."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness.processes import TOKEN_VARIABLE, Identity, alive, identify, send

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_set_death_signal = _libc.prctl


@dataclass(eq=False)
class Child:
    """One process that the supervisor started.

    ``expected`` is set before it is ended on purpose, so that its exit is not taken for a crash. ``exit_status`` is
    None while it runs; a negative number is the signal that ended it.
    """

    name: str
    kind: str
    node: str | None
    identity: Identity
    popen: subprocess.Popen[bytes]
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    epoch: int | None = None
    expected: bool = False
    exit_status: int | None = None

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
        self.expected = True
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if not await self.wait(grace_s):
            self.signal(signal.SIGKILL)
            await self.wait(5.0)

    async def end_at_once(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.expected = True
        self.signal(signal.SIGKILL)
        await self.wait(5.0)


def python_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this project in this interpreter; ``-P``: not of the current folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def child_environment(token: str) -> dict[str, str]:
    """This process's environment, with the run's mark and with this project importable."""
    root = str(Path(harness.__file__).resolve().parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {TOKEN_VARIABLE: token, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


def spawn(
    command: list[str],
    *,
    name: str,
    kind: str,
    node: str | None,
    token: str,
    log: Path,
    on_exit: Callable[[Child], None],
    dies_with_us: bool = True,
) -> Child:
    """Start ``command`` with stdout and stderr appended to ``log``. Raises OSError when it cannot be started.

    ``on_exit`` is called once in the event loop. With ``dies_with_us`` the kernel kills the child when the calling
    process ends in any way, SIGKILL included.
    """

    parent = os.getpid()

    def follow_parent() -> None:
        _set_death_signal(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died between the fork and the line above
            os._exit(1)

    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            env=child_environment(token),
            # the supervisor runs no other thread, so nothing can hold a lock across this fork
            preexec_fn=follow_parent if dies_with_us else None,
        )
    finally:
        os.close(descriptor)
    identity = identify(popen.pid) or Identity(popen.pid, 0)  # already a zombie: the exit is about to be seen
    child = Child(name, kind, node, identity, popen)
    _watch(child, on_exit)
    return child


def _watch(child: Child, on_exit: Callable[[Child], None]) -> None:
    loop = asyncio.get_running_loop()
    descriptor = os.pidfd_open(child.popen.pid)  # cannot fail: the child is not reaped before this descriptor is ready

    def exited() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        child.exit_status = child.popen.wait()
        child.gone.set()
        on_exit(child)

    loop.add_reader(descriptor, exited)


def recorded(child: Child) -> dict[str, object]:
    """The child's entry in fleet.json."""
    return {
        "name": child.name,
        "kind": child.kind,
        "node": child.node,
        **child.identity.to_json(),
        "state": "running" if child.running and alive(child.identity) else "ended",
        "epoch": child.epoch,
        "exit": child.exit_status,
    }
