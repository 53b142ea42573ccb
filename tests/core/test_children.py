"""Children of an asyncio program are seen when they end, and none is left behind that nobody watches."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess

import pytest

from harness.children import Child, watch

SLEEP = ["sleep", "60"]


def test_its_exit_is_seen_once_with_the_signal_that_ended_it() -> None:
    seen: list[int | None] = []

    async def scene() -> bool:
        child = Child(name="c", kind="sleep", popen=subprocess.Popen(SLEEP))
        watch(child, lambda gone: seen.append(gone.exit_status))
        assert child.running and child.signal(0)
        await child.end(grace_s=5)
        return child.signal(signal.SIGTERM)

    assert asyncio.run(scene()) is False
    assert seen == [-signal.SIGTERM]


def test_a_child_that_cannot_be_watched_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def scene() -> subprocess.Popen[bytes]:
        child = Child(name="c", kind="sleep", popen=subprocess.Popen(SLEEP))
        monkeypatch.setattr(os, "pidfd_open", none_left)
        with pytest.raises(OSError, match="Too many open files"):
            watch(child, lambda _: None)
        return child.popen

    assert asyncio.run(scene()).returncode == -signal.SIGKILL
