"""The schedule is absolute: exact moments, nothing early, nothing skipped, a late loop catches up at once."""

from __future__ import annotations

import asyncio
import select
import time
from fractions import Fraction

import pytest

from harness.engine.pacer import Pacer
from harness.engine.timerfd import NS_PER_S, Timer


def pace(
    rate_rps: Fraction, planned: int, *, phase_ns: int = 0, block_s: float = 0
) -> tuple[list[int], list[int], int]:
    """Due moments relative to the start, lateness of each release, and when the end was noticed (ns)."""
    due: list[int] = []
    late: list[int] = []

    async def run() -> int:
        start_ns = time.monotonic_ns() + 5_000_000

        def release(due_ns: int) -> None:
            due.append(due_ns - start_ns)
            late.append(time.monotonic_ns() - due_ns)
            if block_s and len(due) == 2:
                time.sleep(block_s)

        end_ns = start_ns + int(planned / rate_rps * NS_PER_S)
        pacer = Pacer(release, planned=planned, rate_rps=rate_rps, start_ns=start_ns, phase_ns=phase_ns, end_ns=end_ns)
        return await pacer.ended - start_ns

    return due, late, asyncio.run(run())


@pytest.mark.parametrize("rate_rps", [Fraction(7), Fraction(333), Fraction(20_000), Fraction("12.5")])
def test_every_request_is_released_once_at_its_exact_moment_or_later(rate_rps: Fraction) -> None:
    planned = max(2, int(rate_rps * Fraction("0.2")))
    due, late, ended_ns = pace(rate_rps, planned)
    assert due == [int(k / rate_rps * NS_PER_S) for k in range(planned)]
    assert min(late) >= 0
    assert ended_ns >= int(planned / rate_rps * NS_PER_S)


def test_phase_shifts_every_moment_and_not_the_end() -> None:
    due, _, ended_ns = pace(Fraction(100), 10, phase_ns=9_000_000)
    assert due == [9_000_000 + k * 10_000_000 for k in range(10)]
    assert due[-1] < 100_000_000 <= ended_ns


def test_a_blocked_loop_releases_its_backlog_at_once_with_the_intended_moments() -> None:
    due, late, _ = pace(Fraction(100), 20, block_s=0.1)
    assert due == [k * 10_000_000 for k in range(20)]
    assert late[2] >= 85_000_000  # due 10 ms after the block began, released when it ended
    assert late[2] > late[6] > late[10]


def test_stop_ends_the_schedule() -> None:
    async def run() -> tuple[int, int]:
        now_ns = time.monotonic_ns()
        pacer = Pacer(
            lambda _: None, planned=100, rate_rps=Fraction(100), start_ns=now_ns, phase_ns=0, end_ns=now_ns + NS_PER_S
        )
        await asyncio.sleep(0.05)
        pacer.stop()
        pacer.stop()
        released = pacer.released
        await asyncio.sleep(0.05)
        return released, pacer.released

    before, after = asyncio.run(run())
    assert 1 <= before == after < 100


def test_a_timer_is_readable_at_its_moment_and_at_once_for_a_past_one() -> None:
    timer = Timer()
    try:
        for ahead_ns in (20_000_000, 0, -NS_PER_S):
            at_ns = time.monotonic_ns() + ahead_ns
            timer.arm(at_ns)
            assert select.select([timer.fd], [], [], 5)[0] == [timer.fd]
            assert time.monotonic_ns() >= at_ns
        timer.arm(time.monotonic_ns() + 60 * NS_PER_S)
        assert select.select([timer.fd], [], [], 0)[0] == []
    finally:
        timer.close()
