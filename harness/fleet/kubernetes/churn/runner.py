"""One churn: the schedule from T0 to its end, a line in churn.log for everything, and nothing left changed.

A signal ends it within two seconds, wherever it is: a call in flight gets a moment, then counts as maybe applied;
what was changed is put back, from notes that were on disk before the change.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import harness
from harness.errors import HarnessError
from harness.files import LineLog, utc_stamp
from harness.fleet.kubernetes.churn import rss
from harness.fleet.kubernetes.churn.calls import Clock, ClusterCalls, InFlight, Kept
from harness.fleet.kubernetes.churn.ground import Ground, StepFailedError
from harness.fleet.kubernetes.churn.schedule import (
    NEW_ACCOUNT,
    NO_ROLLS,
    ROLL,
    SHRINK,
    TOGETHER,
    UDS_CSI,
    Schedule,
    Step,
)
from harness.fleet.kubernetes.churn.service_account import new_service_account
from harness.fleet.kubernetes.churn.steps import roll, roll_together, shrink
from harness.fleet.kubernetes.churn.uds_csi import uds_csi
from harness.fleet.kubernetes.churn.undo import Undo
from harness.fleet.kubernetes.config import ClusterConfig

FINISH_S = 0.7
UNDO_S = 1.1
ANNOUNCED = {NEW_ACCOUNT: "new-SA step", UDS_CSI: "uds-csi step", SHRINK: "SHRINK", NO_ROLLS: "no-roll window"}
STEPS: dict[str, Callable[[Ground, Step], Awaitable[None]]] = {
    ROLL: roll,
    TOGETHER: roll_together,
    NEW_ACCOUNT: new_service_account,
    UDS_CSI: uds_csi,
    SHRINK: shrink,
}


class Churn:
    """One run of a schedule. ``stop`` may be called at any moment, also from a signal handler of the loop."""

    def __init__(
        self,
        schedule: Schedule,
        calls: ClusterCalls,
        *,
        config: ClusterConfig,
        log: Path,
        t0_unix_s: float,
        offset_s: float,
        undo: Undo,
        clock: Clock | None = None,
    ) -> None:
        self._schedule = schedule
        self._flying = InFlight()
        self._calls = calls
        self._log = LineLog(log)
        self._rss = log.with_name(rss.FILE)
        self._context = config.context
        self._clock = clock or Clock()
        self._undo = undo
        self._samples: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._signal = 0
        self._complete = False
        self._ground = Ground(
            calls=Kept(calls, self._flying),
            clock=self._clock,
            say=self._say,
            undo=undo,
            namespace=config.namespace,
            t0_unix_s=t0_unix_s,
            offset_s=offset_s,
            destinations={target.name: target.url for target in config.targets},
        )

    def _say(self, text: str) -> None:
        self._log.write(f"{utc_stamp(self._clock.now())} {' '.join(text.split())}")

    def _try_say(self, text: str) -> None:
        """Once something went wrong, a full disk keeps nobody from putting back what was changed."""
        try:
            self._say(text)
        except OSError as error:
            print(f"{text} (not in {self._log.path.name}: {error})", file=sys.stderr, flush=True)

    def stop(self, number: int) -> None:
        """End it now, as signal ``number`` asks; a second signal changes nothing."""
        if not self._signal:
            self._signal = number
            if self._main is not None:
                self._main.cancel()

    async def run(self) -> int:
        """Do the schedule. 0: all of it was done; 1: it was aborted; 128 + n: signal n ended it.

        Raises OSError when the log cannot be written.
        """
        ground = self._ground
        self._say(f"churn driver start T0={utc_stamp(ground.t0_unix_s)} build={harness.__version__}")
        self._say(f"churn driver context={self._context} (pre-flight passed)")
        self._main = asyncio.get_running_loop().create_task(self._all())
        if self._signal:
            self._main.cancel()
        try:
            await self._main
        except asyncio.CancelledError:
            if not self._signal:
                raise
            await self._stopped()
            return 128 + self._signal
        except Exception as error:
            code = await self._aborted(error)
            if not isinstance(error, (HarnessError, OSError)):
                raise  # a fault of the program's own: everything is put back all the same
            return code
        finally:
            for task in self._samples:
                task.cancel()
            self._log.close()
        return 0

    async def _all(self) -> None:
        if self._undo:
            self._say("UNDO of what an earlier churn left")
            if not await self._undo.put_back(self._ground.calls, self._say):
                raise StepFailedError("what an earlier churn changed cannot be put back")
        self._announce()
        for at_s, _, act in self._acts():
            await self._clock.until(self._ground.t0_unix_s + at_s)
            await act()
        self._say(f"churn driver complete ({self._summary()})")
        self._complete = True
        while self._samples:
            await asyncio.wait(self._samples)

    def _announce(self) -> None:
        """Which steps of the rarer kinds are scheduled, and which are skipped."""
        for do in (*STEPS, NO_ROLLS):
            found = [step for step in self._schedule.steps if step.do == do]
            done = [step for step in found if not step.skip]
            name = ANNOUNCED.get(do, f"{do} step")
            if do in ANNOUNCED and done:
                minutes = ",".join(f"{step.at_s / 60:g}" for step in done)
                self._say(f"{name} scheduled at T0+{{{minutes}}}m ({len(done)})")
            if len(found) > len(done):
                self._say(f"{name} SKIPPED ({len(found) - len(done)}, by the schedule)")

    def _acts(self) -> list[tuple[int, int, Callable[[], Awaitable[None]]]]:
        """What is done when, a window without rolls as its two ends; stable in time."""
        acts: list[tuple[int, int, Callable[[], Awaitable[None]]]] = []
        for number, step in enumerate(self._schedule.done):
            if step.do == NO_ROLLS:
                acts.append((step.at_s, number, self._line(self._window_begins(step))))
                ends = f"no-roll window end {self._ground.minute(step.until_s)}"
                acts.append((step.until_s, number, self._line(ends)))
            else:
                acts.append((step.at_s, number, self._act(step)))
        return sorted(acts, key=lambda act: act[:2])

    def _window_begins(self, step: Step) -> str:
        return f"no-roll window begin {self._ground.minute(step.at_s)}; until {self._ground.minute(step.until_s)}"

    def _line(self, text: str) -> Callable[[], Awaitable[None]]:
        async def act() -> None:
            self._say(text)

        return act

    def _act(self, step: Step) -> Callable[[], Awaitable[None]]:
        async def act() -> None:
            await STEPS[step.do](self._ground, step)
            for thing in step.rss_samples:
                task = asyncio.get_running_loop().create_task(rss.sample(self._ground, step, thing, self._rss))
                self._samples.add(task)
                task.add_done_callback(self._sampled)

        return act

    def _sampled(self, task: asyncio.Task[None]) -> None:
        self._samples.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._say(f"RSS SAMPLE failed: {task.exception()}")

    def _summary(self) -> str:
        rolls: dict[str, int] = {}
        for step in self._schedule.done:
            for thing in step.things if step.do in (ROLL, TOGETHER, UDS_CSI) else ():
                rolls[thing.name] = rolls.get(thing.name, 0) + 1
        listed = ", ".join(f"{number} {name}" for name, number in sorted(rolls.items()))
        accounts = sum(step.do == NEW_ACCOUNT for step in self._schedule.done)
        return f"{sum(rolls.values())} rolls: {listed}; + {accounts} new-SA steps"

    async def _aborted(self, error: Exception) -> int:
        """Put back what a failed step changed, with patience; a signal cuts that short."""
        self._try_say(f"CHURN ABORTED: {error} (context={self._context})")
        self._main = asyncio.get_running_loop().create_task(self._put_back())
        try:
            await self._main
        except asyncio.CancelledError:
            if not self._signal:
                raise
            await self._stopped()
            return 128 + self._signal
        return 1

    async def _put_back(self) -> None:
        await self._undo.put_back(self._ground.calls, self._try_say)

    async def _stopped(self) -> None:
        """After a signal: calls in flight get a moment, then everything is put back, all within two seconds."""
        if self._complete:
            self._try_say(f"STOP: {len(self._samples)} memory samples are not taken")
        else:
            self._try_say(f"CHURN ABORTED: stopped by {signal.Signals(self._signal).name} (context={self._context})")
        for task in self._samples:
            task.cancel()
        self._calls.break_off()
        abandoned = await self._flying.finish(FINISH_S)
        for what in abandoned:
            self._try_say(f"STOP: abandoned after {FINISH_S:g}s, and may have been applied: {what}")
        if not self._undo:
            return
        unsure = any(not what.startswith(("read ", "list ", "memory ")) for what in abandoned)
        undoing = asyncio.get_running_loop().create_task(
            self._undo.put_back(self._calls.hurried(), self._try_say, unsure=unsure)
        )
        done, _ = await asyncio.wait([undoing], timeout=UNDO_S)
        if not done:
            undoing.cancel()
        elif undoing.exception() is not None:
            self._try_say(f"UNDO FAILED : {undoing.exception()}")
        for thing, replicas in self._undo.replicas.items():
            self._try_say(f"STOP: noted for the next start: {thing} replicas={replicas}")
        for thing in self._undo.made:
            self._try_say(f"STOP: noted for the next start: {thing} is to be deleted")
