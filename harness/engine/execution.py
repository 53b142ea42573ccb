"""One target's load on this node, from its start to its result."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from harness.engine.pacer import Pacer
from harness.engine.pool import Pool
from harness.engine.recorder import Recorder
from harness.engine.spec import Address, ExecutionSpec
from harness.engine.timerfd import NS_PER_S
from harness.files import utc_stamp

HEARTBEAT_S = 1.0
DRAIN_STEP_S = 0.005
CANCEL_DRAIN_S = 2.0  # what a cancelled execution waits for its open requests
_ONE_LOOK_S = 0.02  # lets the loop read what already lies in the sockets before anything is called lost

Report = dict[str, Any]


class Execution:
    """Paces, sends, waits, and gives one result. ``on_progress`` is called every second until then."""

    def __init__(
        self,
        spec: ExecutionSpec,
        address: Address,
        *,
        start_at_unix_ns: int | None,
        on_progress: Callable[[Report], None],
    ) -> None:
        self._spec = spec
        self._on_progress = on_progress
        self._recorder = Recorder()
        self._pool = Pool(spec, address, self._recorder)
        now_ns, now_unix_ns = time.monotonic_ns(), time.time_ns()
        # A start that is already past begins now: the time before this engine knew of it is not its load to catch up.
        wait_ns = max(0, (start_at_unix_ns or 0) - now_unix_ns)
        self._start_ns = now_ns + wait_ns
        self._started_at = utc_stamp((now_unix_ns + wait_ns) / NS_PER_S)
        self._drain_s = spec.timeout_s
        self._cancelled = False
        self._pacer = Pacer(
            self._pool.submit,
            planned=spec.planned,
            rate_rps=spec.rate_rps,
            start_ns=self._start_ns,
            phase_ns=int(spec.phase_s * NS_PER_S),
            end_ns=self._start_ns + int(spec.duration_s * NS_PER_S),
        )

    def cancel(self, drain_s: float = CANCEL_DRAIN_S) -> None:
        """Release nothing more, wait at most ``drain_s`` for what is open, then give a result marked as cancelled."""
        self._cancelled = True
        self._drain_s = min(self._drain_s, drain_s)
        self._pacer.stop()

    async def run(self) -> Report:
        """The fields of a ``result`` message but for its type and id."""
        heartbeat = asyncio.create_task(self._heartbeat())
        try:
            ended_ns = await self._pacer.ended
            await self._drain()
        finally:
            heartbeat.cancel()
            self._pacer.stop()
            self._pool.close()
        with contextlib.suppress(asyncio.CancelledError):
            await heartbeat
        started = ended_ns >= self._start_ns
        return {
            "elapsed_ms": self._elapsed_ms(ended_ns),
            "started_at": self._started_at if started else None,
            "counters": self._recorder.counters(),
            "statistics": self._recorder.statistics(),
            "harness": {
                "planned": self._spec.planned,
                "released": self._pacer.released,
                "cancelled": self._cancelled,
                "histograms": self._recorder.histograms(),
            },
        }

    def _elapsed_ms(self, now_ns: int) -> int:
        return max(0, now_ns - self._start_ns) // 1_000_000

    @property
    def _open(self) -> int:
        return self._pacer.released - self._recorder.outcomes

    async def _drain(self) -> None:
        began_s = time.monotonic()
        while self._open and time.monotonic() - began_s < self._drain_s:  # cancel() may shorten it meanwhile
            await asyncio.sleep(DRAIN_STEP_S)
        if self._open:
            await asyncio.sleep(_ONE_LOOK_S)

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            now_ns = self._pacer.ended.result() if self._pacer.ended.done() else time.monotonic_ns()
            self._on_progress(
                {
                    "elapsed_ms": self._elapsed_ms(now_ns),
                    "counters": self._recorder.counters(),
                    "interval": self._recorder.take_interval(),
                }
            )
