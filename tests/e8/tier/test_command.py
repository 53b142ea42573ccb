"""A command in a sandbox that cannot be watched is not left behind."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from harness.e8.tier.command import Command


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_command_that_cannot_be_watched_is_ended_and_leaves_no_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def no_room(pid: int, flags: int = 0) -> int:
        seen.append(pid)
        raise OSError(errno.EMFILE, "Too many open files")

    async def begin() -> None:
        before = descriptors()
        with monkeypatch.context() as patched:
            patched.setattr(os, "pidfd_open", no_room)
            with pytest.raises(OSError, match="Too many open files"):
                Command("sleep 60", dict(os.environ), 60, lambda data: None, lambda code: None)
        assert descriptors() == before

    asyncio.run(begin())
    (pid,) = seen
    with pytest.raises(ChildProcessError):  # ended and reaped
        os.waitpid(pid, os.WNOHANG)
