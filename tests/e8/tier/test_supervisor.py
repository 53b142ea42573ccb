"""What the supervisor does with a place that it cannot fill, and with what it was not told."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.e8.tier import launcher, supervisor
from harness.e8.tier.knobs import Knobs
from harness.e8.tier.process import SHUTDOWN_GRACE_S
from harness.e8.tier.supervisor import Supervisor, Worker

KNOBS = Knobs({"SH_TURNS_PER_WORKER": "1", "SH_WORKERS": "2", "PORT": "0", "SH_WORKER_RESTART_BACKOFF_MS": "1"})


@contextmanager
def made() -> Iterator[Supervisor]:
    """A supervisor that was not started."""
    of = Supervisor(KNOBS)
    try:
        yield of
    finally:
        of._listener.close()


def test_a_place_that_cannot_be_filled_now_is_tried_again_and_leaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def no_room(*_: Any, **__: Any) -> Any:
        tries.append(sum(1 for _ in Path("/proc/self/fd").iterdir()))
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    async def begin() -> int:
        monkeypatch.setattr(supervisor, "spawn", no_room)
        with made() as of:
            Worker(of, 0)._start_again()
            async with asyncio.timeout(10):
                while len(tries) < 4:
                    await asyncio.sleep(0.001)
            of.stopping = True
            return of.restarts

    assert asyncio.run(begin()) == 0
    assert len(set(tries)) == 1, "an end of the channel stays open"


@pytest.mark.parametrize(
    ("told", "saturation"),
    [
        ([{"leasesHeld": 3, "leasePoolSize": 2}, {"leasesHeld": 1}], 2.0),
        ([{"leasesHeld": 3, "leasePoolSize": 2}, {}], "NaN"),  # it may hold any number
        ([{"leasesHeld": 0}, {"leasesHeld": 0}], "NaN"),
    ],
)
def test_leases_that_nobody_told_of_are_unknown_not_0(told: list[dict[str, Any]], saturation: Any) -> None:
    async def metrics() -> Any:
        with made() as of:
            for worker, stats in zip(of._workers, told, strict=True):
                worker.stats = stats
            return of.metrics()["lease_saturation"]

    assert asyncio.run(metrics()) == saturation


def test_a_supervisor_has_the_time_to_end_its_workers_itself() -> None:
    assert SHUTDOWN_GRACE_S < launcher.SUPERVISOR_GRACE_S
