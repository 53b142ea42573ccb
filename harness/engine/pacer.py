"""The limiter: releases every request of a schedule at its moment and never waits for an answer.

The schedule is absolute, so a pause of the process (a freeze, a slow loop) shifts nothing: what fell due meanwhile is
released at once, each request still with its own intended time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from fractions import Fraction

from harness.engine.timerfd import NS_PER_S, Timer

# Requests due within this of each other may share one wake-up; above about 10,000 rps that halves the loop's work,
# below it nothing changes.
COALESCE_NS = 50_000


class Pacer:
    """Calls ``release(due_ns)`` for k = 0 … planned−1 at ``start_ns + phase_ns + k / rate``, then ends at ``end_ns``.

    ``ended`` resolves to the CLOCK_MONOTONIC moment (ns) at which the end was noticed or ``stop`` was called.
    """

    def __init__(
        self,
        release: Callable[[int], None],
        *,
        planned: int,
        rate_rps: Fraction,
        start_ns: int,
        phase_ns: int,
        end_ns: int,
    ) -> None:
        self.released = 0
        self._release = release
        self._planned = planned
        self._first_due_ns = start_ns + phase_ns
        self._interval_numerator = NS_PER_S * rate_rps.denominator
        self._interval_denominator = rate_rps.numerator
        self._end_ns = end_ns
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self._timer = Timer()
        self._loop.add_reader(self._timer.fd, self._on_timer)
        self._timer.arm(self._first_due_ns if planned else end_ns)

    def stop(self) -> None:
        """Release nothing more. A second call does nothing."""
        if not self.ended.done():
            self._finish(time.monotonic_ns())

    def _on_timer(self) -> None:
        if self.ended.done():
            return
        now_ns = time.monotonic_ns()
        due_ns = self._due_ns()
        while self.released < self._planned and due_ns <= now_ns:
            self.released += 1
            self._release(due_ns)
            due_ns = self._due_ns()
        if self.released < self._planned:
            self._timer.arm(max(due_ns, now_ns + COALESCE_NS))
        elif now_ns < self._end_ns:
            self._timer.arm(self._end_ns)
        else:
            self._finish(now_ns)

    def _due_ns(self) -> int:
        return self._first_due_ns + self.released * self._interval_numerator // self._interval_denominator

    def _finish(self, now_ns: int) -> None:
        self._loop.remove_reader(self._timer.fd)
        self._timer.close()
        self.ended.set_result(now_ns)
