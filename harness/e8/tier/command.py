"""One command in a sandbox: ``bash -c`` in a session of its own, its output as it comes, its end as it was."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable

MAX_OUTPUT_BYTES = 64 << 10
READ_BYTES = 64 << 10
BASH = shutil.which("bash") or "/bin/bash"


class Command:
    """Runs in the current folder. ``on_output`` hears bytes, ``on_exit`` the exit code, once; both in the event loop.

    ``command_ms`` is the time from its start to its end, ``truncated`` says that output over the limit was dropped.
    """

    def __init__(
        self,
        text: str,
        environment: dict[str, str],
        limit_s: float,
        on_output: Callable[[bytes], None],
        on_exit: Callable[[int], None],
    ) -> None:
        """Start it. Raises OSError when the system has no room for another process or pipe."""
        self.command_ms = 0.0
        self.truncated = False
        self._on_output = on_output
        self._on_exit = on_exit
        self._room = MAX_OUTPUT_BYTES
        self._loop = asyncio.get_running_loop()
        self._running = True
        started_s = time.perf_counter()
        self._pipe, writer = os.pipe2(os.O_CLOEXEC)
        try:
            os.set_blocking(self._pipe, False)  # this end only: the command may expect its own to block
            self._pid = os.posix_spawn(
                BASH,
                ["bash", "-c", text],
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, writer, 1),
                    (os.POSIX_SPAWN_DUP2, writer, 2),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them, a command should not
            )
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(writer)
        try:
            self._pidfd = os.pidfd_open(self._pid)
        except OSError:  # nobody would see its end
            self.kill()
            os.waitpid(self._pid, 0)
            os.close(self._pipe)
            raise
        self._loop.add_reader(self._pipe, self._read)
        self._loop.add_reader(self._pidfd, self._exited, started_s)
        self._limit = self._loop.call_later(limit_s, self.kill)

    def kill(self) -> None:
        """End it and everything in its session's first group. The exit is told as any other."""
        if self._running:  # not reaped yet, so the number is still its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)

    def _read(self) -> bool:
        """Take what is in the pipe; False when there is nothing (more)."""
        try:
            data = os.read(self._pipe, READ_BYTES)
        except BlockingIOError:
            return False
        kept = data[: self._room]
        self._room -= len(kept)
        self.truncated |= len(kept) < len(data)
        if kept:
            self._on_output(kept)
        if not data:
            self._loop.remove_reader(self._pipe)
        return bool(data)

    def _exited(self, started_s: float) -> None:
        self.command_ms = (time.perf_counter() - started_s) * 1000
        self._limit.cancel()
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        _, status = os.waitpid(self._pid, 0)
        self._running = False
        while self._read():  # what a process left behind still writes later is not waited for
            pass
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        self._on_exit(os.waitstatus_to_exitcode(status))
