"""Faults at work: each at its moment after the load's start, each with a line in faults.log when it begins and ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable

from harness.errors import FleetError
from harness.files import LineLog, utc_stamp
from harness.fleet.local.children import Child
from harness.fleet.local.engines import Engine
from harness.fleet.local.faults import Fault
from harness.fleet.local.ground import Ground
from harness.fleet.local.proxies import Proxy
from harness.fleet.local.targets import Target

# a starved engine runs 20 ms of every 500 ms: enough to keep its connections, far too little to send in time
STARVE_STOPPED_S = 0.48
STARVE_RUNNING_S = 0.02


class Injection:
    """Does the faults of one load."""

    def __init__(
        self,
        ground: Ground,
        proxies: dict[str, Proxy],
        targets: dict[str, Target],
        engines: dict[str, Engine],
    ) -> None:
        self._ground = ground
        self._proxies = proxies
        self._targets = targets
        self._engines = engines
        self._doers: dict[str, Callable[[Fault], Awaitable[str]]] = {
            "kill-engine": self._kill_engine,
            "freeze-engine": self._freeze_engine,
            "freeze-proxy": self._freeze_proxy,
            "stop-target": self._stop_target,
            "slow": self._slow,
            "crash-proxy": self._crash_proxy,
            "starve-engine": self._starve_engine,
            "kill-churn": lambda fault: self._signal_kind("churn", signal.SIGKILL),
            "kill-driver": lambda fault: self._signal_kind("driver", signal.SIGKILL),
            "stop-driver": lambda fault: self._signal_kind("driver", signal.SIGTERM),
            "kill-supervisor": self._kill_supervisor,
        }

    async def run(self, faults: list[Fault], load_start_unix_s: float) -> None:
        """Do them all; returns when the last is over. Raises OSError when faults.log cannot be written."""
        log = LineLog(self._ground.config.live / "faults.log")
        try:
            async with asyncio.TaskGroup() as group:
                for fault in faults:
                    group.create_task(self._do(fault, load_start_unix_s + fault.at_s, log))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        finally:
            log.close()

    async def _do(self, fault: Fault, at_unix_s: float, log: LineLog) -> None:
        await asyncio.sleep(max(0.0, at_unix_s - time.time()))
        log.write(f"{utc_stamp()} FAULT {fault.text} : begins")
        try:
            effect = await self._doers[fault.verb](fault)
        except FleetError as error:
            effect = f"failed: {error}"
        log.write(f"{utc_stamp()} FAULT {fault.text} : {effect}")

    async def _kill_engine(self, fault: Fault) -> str:
        child = _part(self._engines[fault.name].child, fault)
        child.expected = True
        child.signal(signal.SIGKILL)
        return f"SIGKILL sent to pid {child.identity.pid}"

    async def _freeze_engine(self, fault: Fault) -> str:
        child = _part(self._engines[fault.name].child, fault)
        return await self._freeze([child], fault)

    async def _freeze_proxy(self, fault: Fault) -> str:
        proxy = self._proxies[fault.name]
        children = [child for child in (proxy.old, proxy.current) if child is not None and child.running]
        proxy.frozen = True
        try:
            return await self._freeze(children, fault)
        finally:
            proxy.frozen = False

    async def _freeze(self, children: list[Child], fault: Fault) -> str:
        frozen = [child for child in children if child.signal(signal.SIGSTOP)]
        if not frozen:
            raise FleetError(f"{fault.name} has no running process to freeze")
        try:
            await asyncio.sleep(fault.for_s or 0.0)
        finally:
            for child in frozen:
                child.signal(signal.SIGCONT)
        return f"pid {', '.join(str(child.identity.pid) for child in frozen)} thawed after {fault.for_s:g} s"

    async def _starve_engine(self, fault: Fault) -> str:
        child = _part(self._engines[fault.name].child, fault)
        ends_s = time.monotonic() + (fault.for_s or 0.0)
        try:
            while time.monotonic() < ends_s and child.signal(signal.SIGSTOP):
                await asyncio.sleep(STARVE_STOPPED_S)
                child.signal(signal.SIGCONT)
                await asyncio.sleep(STARVE_RUNNING_S)
        finally:
            child.signal(signal.SIGCONT)
        share = STARVE_RUNNING_S / (STARVE_RUNNING_S + STARVE_STOPPED_S)
        return f"pid {child.identity.pid} ran for {share:.0%} of {fault.for_s:g} s"

    async def _stop_target(self, fault: Fault) -> str:
        target = self._targets[fault.name]
        await target.stop_all()
        await asyncio.sleep(fault.for_s or 0.0)
        await target.start_all_again()
        return f"{len(target.replicas)} replicas are back after {fault.for_s:g} s"

    async def _slow(self, fault: Fault) -> str:
        target = self._targets[fault.name]
        target.set_delay(fault.delay_ms or 0)
        if fault.for_s is None:
            return f"every answer of {fault.name} waits {fault.delay_ms} ms from here on"
        await asyncio.sleep(fault.for_s)
        target.set_delay(0)
        return f"{fault.name} answers at once again after {fault.for_s:g} s"

    async def _crash_proxy(self, fault: Fault) -> str:
        child = _part(self._proxies[fault.name].current, fault)
        child.signal(signal.SIGKILL)
        return f"SIGKILL sent to pid {child.identity.pid}"

    async def _signal_kind(self, kind: str, number: signal.Signals) -> str:
        running = self._ground.running(kind)
        if not running:
            raise FleetError(f"no {kind} runs")
        running[0].signal(number)
        return f"{number.name} sent to pid {running[0].identity.pid}"

    async def _kill_supervisor(self, fault: Fault) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return "unreachable"


def _part(child: Child | None, fault: Fault) -> Child:
    if child is None or not child.running:
        raise FleetError(f"{fault.name} has no running process")
    return child
