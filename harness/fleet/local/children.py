"""Processes of the embedded fleet: started by its supervisor with the run's mark, and ended with it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import children
from harness.children import module_environment, watch
from harness.processes import TOKEN_VARIABLE, alive

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_set_death_signal = _libc.prctl


@dataclass(eq=False, kw_only=True)
class Child(children.Child):
    """One process that the supervisor started.

    ``expected`` is set before it is ended on purpose, so that its exit is not taken for a crash.
    """

    node: str | None
    epoch: int | None = None
    expected: bool = False

    async def end(self, grace_s: float) -> None:
        """As of every child, and expected."""
        self.expected = True
        await super().end(grace_s)

    async def end_at_once(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.expected = True
        self.signal(signal.SIGKILL)
        await self.wait(5.0)


def child_environment(token: str) -> dict[str, str]:
    """This process's environment, with the run's mark and with this project importable."""
    return module_environment() | {TOKEN_VARIABLE: token}


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
    child = Child(name=name, kind=kind, node=node, popen=popen)
    watch(child, on_exit)
    return child


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
