"""One load from the first dial to the report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.driver import outcome, protocol
from harness.driver.evidence import Evidence
from harness.driver.link import EngineLink
from harness.driver.progress import History, snapshot
from harness.plan.model import Plan
from harness.sortie import log
from harness.sortie.durations import format_duration_ms
from harness.sortie.report import Execution
from harness.sortie.thresholds import Threshold

START_LEAD_S = 1.0  # every engine must have its starts before the common start time; a slow fsync of the claim fits in
TICK_S = 1.0


@dataclass(frozen=True)
class Limits:
    """How long what is waited for, in seconds.

    A backend's deadline is lead + duration + timeout + drain + grace after the dispatch. Then ``answer_s`` for an
    answer already on its way, then a cancellation and ``cancel_s`` for its answer.
    """

    timeout_s: float = 30.0
    drain_s: float = 1.0
    grace_s: float = 120.0
    reach_s: float = 30.0
    answer_s: float = 10.0
    cancel_s: float = 30.0


class Load:
    """Drives one plan over its backends and writes what came of it. Used once.

    ``connections`` per engine holds where the plan names none; ``progress_s`` 0 means no progress lines.
    """

    def __init__(
        self,
        plan: Plan,
        thresholds: Sequence[Threshold],
        backends: Sequence[str],
        evidence: Evidence,
        *,
        limits: Limits,
        connections: int,
        progress_s: float,
    ) -> None:
        self.plan = plan
        self.thresholds = thresholds
        self.evidence = evidence
        self.limits = limits
        self.connections = plan.connections or connections
        self.progress_s = progress_s
        self.timeout_s = plan.timeout_s or limits.timeout_s
        self.deadline_s = plan.duration_s + self.timeout_s + limits.drain_s + limits.grace_s
        self.cancelled_by: str | None = None
        self._stop = asyncio.Event()
        self.links = [
            EngineLink(
                backend,
                [protocol.label_of(plan, target) for target in plan.targets],
                planned_ms=plan.duration_s * 1000,
                stalled_after_ms=round(self.deadline_s * 1000),
                on_refused=self._stop.set,
            )
            for backend in backends
        ]
        self._history = History(self.links)
        self._start_s = self._dispatched_s = time.monotonic()
        self._dispatched_unix_ms = time.time_ns() // 1_000_000

    def cancel(self, who: str) -> None:
        """Stop the load early; ``who`` stands in the report. May be called at any time, the first call counts."""
        self.cancelled_by = self.cancelled_by or who
        self._stop.set()

    async def run(self) -> list[Execution]:
        """The whole load. Raises LoadError when it was claimed before, StageError when a file cannot be written.

        However it ends, no engine goes on: each is told to cancel, and its connection is closed.
        """
        try:
            await self._connect()
            self._claim_and_dispatch()
            await self._await_answers()
            return self._write_outcome()
        except ExceptionGroup as group:
            raise group.exceptions[0] from group  # of tasks side by side, the first that failed ended the others
        finally:
            for link in self.links:
                if link.open_slots:
                    link.cancel()
            await asyncio.gather(*(link.close() for link in self.links))

    async def _connect(self) -> None:
        """Dial all engines at once; a stop ends the dialling, and with it every execution."""
        async with asyncio.TaskGroup() as group:
            dials = [group.create_task(link.connect(self.limits.reach_s)) for link in self.links]
            stopper = group.create_task(self._cancel_when_stopped(dials))
            await asyncio.wait(dials)
            stopper.cancel()
        if self._stop.is_set():
            self._give_up()

    async def _cancel_when_stopped(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        await self._stop.wait()
        for task in tasks:
            task.cancel()

    def _claim_and_dispatch(self) -> None:
        """Claim first: whatever happens from here on, no second load is started for this run.

        With nobody to dispatch to, the executions began with the first dial.
        """
        start_at_unix_ns = time.time_ns() + round(START_LEAD_S * 1e9)
        self._start_s = time.monotonic() + START_LEAD_S
        self.evidence.claim(start_unix_ns=start_at_unix_ns, duration_s=self.plan.duration_s)
        self.evidence.log(*map(log.running_line, outcome.announced(self.plan, self.links)))
        if any(link.connected for link in self.links):
            self._dispatched_s, self._dispatched_unix_ms = time.monotonic(), time.time_ns() // 1_000_000
        for index, link in enumerate(self.links):
            if not link.connected or not link.open_slots:
                continue
            phases = protocol.phases_s(self.plan, index, len(self.links))
            link.start(
                protocol.start_message(
                    self.plan,
                    target,
                    phase_s=phase_s,
                    start_at_unix_ns=start_at_unix_ns,
                    connections=self.connections,
                    timeout_s=self.timeout_s,
                )
                for target, phase_s in zip(self.plan.targets, phases, strict=True)
            )

    async def _await_answers(self) -> None:
        """Until every slot has ended: answered, lost, given up at its deadline, or cancelled by a stop."""
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(link.listen()) for link in self.links]
            beside += [group.create_task(self._tick()), group.create_task(self._cancel_load_when_stopped())]
            await asyncio.wait([group.create_task(self._watch(link)) for link in self.links])
            for task in beside:
                task.cancel()

    async def _cancel_load_when_stopped(self) -> None:
        await self._stop.wait()
        for link in self.links:
            link.cancel()
        await asyncio.sleep(self.limits.cancel_s)
        self._give_up()

    def _give_up(self) -> None:
        for link in self.links:
            link.give_up()

    async def _watch(self, link: EngineLink) -> None:
        """One backend up to its deadline, then an answer on its way, then a cancellation."""
        if await link.all_ended(START_LEAD_S + self.deadline_s) or await link.all_ended(self.limits.answer_s):
            return
        waited = format_duration_ms(round(time.monotonic() - self._dispatched_s) * 1000)
        for slot in link.open_slots:
            slot.blame(f"no result {waited} after dispatch: the engine went silent or is far behind")
        link.cancel()
        await link.all_ended(self.limits.cancel_s)
        link.give_up()

    async def _tick(self) -> None:
        """Progress each second, and rows and lines each ``progress_s``. Raises StageError."""
        next_s = self.progress_s
        while True:
            elapsed_s = self._elapsed_s()
            self.evidence.progress(snapshot(self.plan, self.links, elapsed_s=elapsed_s))
            if self.progress_s and elapsed_s >= next_s:
                next_s = (elapsed_s // self.progress_s + 1) * self.progress_s
                self._write_history(elapsed_s)
            await asyncio.sleep(TICK_S)

    def _elapsed_s(self) -> float:
        """Seconds since the common start time, the load's zero for schedules and for people."""
        return max(0.0, time.monotonic() - self._start_s)

    def _write_history(self, elapsed_s: float) -> None:
        rows, lines = self._history.emit(elapsed_s)
        self.evidence.progress_rows(rows)
        self.evidence.log(*lines)

    def _write_outcome(self) -> list[Execution]:
        """Everything the load left; the report last, because it says that all the rest is there."""
        executions = outcome.executions(
            self.plan,
            self.thresholds,
            self.links,
            dispatched_s=self._dispatched_s,
            dispatched_unix_ms=self._dispatched_unix_ms,
            cancelled=self.cancelled_by,
        )
        elapsed_s = self._elapsed_s()
        if self.progress_s:
            self._write_history(elapsed_s)
        self.evidence.progress(snapshot(self.plan, self.links, elapsed_s=elapsed_s))
        for link in self.links:
            self.evidence.histograms(outcome.histogram_rows(link.slots.values()))
        self.evidence.stream(executions)
        self.evidence.log(*map(log.verdict_line, executions), "")
        for execution in executions:
            self.evidence.log(*log.summary_lines(execution))
        self.evidence.log(log.last_line(executions))
        self.evidence.report(executions)
        return executions
