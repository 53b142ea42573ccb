"""The load of a run as the supervisor sees it: the driver, the churn and the faults beside it, and their end."""

from __future__ import annotations

import asyncio
import time

from harness.children import python_module
from harness.errors import FleetError
from harness.files import read_json
from harness.fleet.local.children import Child
from harness.fleet.local.engines import Engine
from harness.fleet.local.faults import Fault
from harness.fleet.local.ground import Ground, last_line
from harness.fleet.local.injection import Injection
from harness.plan.build import POOL_ADDRESS

CLAIM_LIMIT_S = 30.0
CANCEL_LIMIT_S = 45.0  # the driver waits up to 30 s for what its engines still say, then writes
CHURN_END_LIMIT_S = 30.0
CHURN_GRACE_S = 2.0
DRIVER_OUTPUT = "driver.err"
CHURN_OUTPUT = "churn.err"
POLL_S = 0.02


class Load:
    """The one load. ``run`` starts it and returns when driver and churn have ended."""

    def __init__(self, ground: Ground, engines: list[Engine], injection: Injection, faults: list[Fault]) -> None:
        self._ground = ground
        self._engines = engines
        self._injection = injection
        self._faults = faults
        self.driver: Child | None = None
        self.churn: Child | None = None

    @property
    def runs(self) -> bool:
        """True while the driver runs."""
        return self.driver is not None and self.driver.running

    async def run(self) -> None:
        """Start driver, churn and faults; return when the driver has ended.

        Raises FleetError when it passes its deadline (it is then cancelled by ``cancel``), OSError when the fault
        log cannot be written.
        """
        self.driver = self._start_driver()
        self.churn = self._start_churn()
        misfortune = asyncio.create_task(self._do_faults(self.driver))
        ended = asyncio.create_task(self.driver.gone.wait())
        limit_s = self._ground.config.load_limit_s
        try:
            deadline = time.monotonic() + limit_s
            waiting = {misfortune, ended}
            while not ended.done():
                left_s = deadline - time.monotonic()
                done, _ = await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    raise FleetError(f"the driver has not ended {limit_s:g} s after its start, its deadline")
                waiting -= done
                for task in done:
                    task.result()
        finally:
            misfortune.cancel()
            ended.cancel()
            await asyncio.gather(misfortune, ended, return_exceptions=True)

    async def cancel(self) -> None:
        """SIGTERM to a running driver, which then writes its report; SIGKILL when it does not end."""
        if self.driver is not None and self.driver.running:
            await self.driver.end(CANCEL_LIMIT_S)

    async def end_churn(self) -> None:
        """Let the churn finish the roll it is at, then end it."""
        if self.churn is not None and self.churn.running and not await self.churn.wait(CHURN_END_LIMIT_S):
            self._ground.note("the churn did not end with the load and is stopped")
            await self.churn.end(CHURN_GRACE_S)

    def outcome(self) -> str:
        """Empty when the driver left a report; else why there is none."""
        if self.driver is None:
            return "the load was never started"
        if self._ground.config.folder.report_json.exists():
            return ""
        said = last_line(self._ground.log_tail(DRIVER_OUTPUT))
        return f"the driver ended with status {self.driver.exit_status} and left no report; it said: {said}"

    def _start_driver(self) -> Child:
        config = self._ground.config
        backends = ",".join(str(engine.backend) for engine in self._engines)
        return self._ground.spawn(
            python_module(
                "harness.driver",
                "--plan", str(config.folder.plan),
                "--out", str(config.live),
                "--resolve", f"{POOL_ADDRESS}={backends}",
                "--progress", f"{config.progress_s:g}",
                "--grace-s", f"{config.engine_grace_s:g}",
                "--drain-s", f"{config.engine_drain_s:g}",
                "--timeout-s", f"{config.request_timeout_s:g}",
                "--connections", str(config.connections),
            ),
            name="driver",
            kind="driver",
            log=DRIVER_OUTPUT,
            on_exit=lambda child: None,
            dies_with_us=False,  # without its supervisor it still writes what it has
        )  # fmt: skip

    def _start_churn(self) -> Child | None:
        config = self._ground.config
        schedule = config.folder.schedule
        if not schedule.exists() or not schedule.stat().st_size:
            return None
        return self._ground.spawn(
            python_module("harness.churn", "--run-dir", str(config.folder.root)),
            name="churn",
            kind="churn",
            log=CHURN_OUTPUT,
            on_exit=lambda child: None,
            dies_with_us=False,
        )

    async def _do_faults(self, driver: Child) -> None:
        if not self._faults:
            return
        claim = self._ground.config.folder.load_json
        deadline = time.monotonic() + CLAIM_LIMIT_S
        while not claim.exists():
            if not driver.running or time.monotonic() > deadline:
                self._ground.note("no fault was done: the load did not start")
                return
            await asyncio.sleep(POLL_S)
        start_unix_s = read_json(claim)["start_unix_ns"] / 1e9
        await self._injection.run(self._faults, start_unix_s)
