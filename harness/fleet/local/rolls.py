"""Rolls: a proxy is hot restarted, a target is replaced replica by replica. Neither may lose a request.

A replica is taken out of the endpoints, every proxy is seen to have dropped it, then it drains and ends; its successor
is put back only once it listens. One roll at a time: a proxy that still drains would hide a late look at its endpoints.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.errors import FleetError
from harness.fleet.local.endpoints import wait_in_use
from harness.fleet.local.ground import Ground
from harness.fleet.local.proxies import Proxy
from harness.fleet.local.targets import Replica, Target

UNDISTURBED_LIMIT_S = 60.0
ENDPOINTS_LIMIT_S = 30.0
POLL_S = 0.05


class Rolls:
    """Does rolls one after another."""

    def __init__(self, ground: Ground, proxies: dict[str, Proxy], targets: dict[str, Target]) -> None:
        self._ground = ground
        self._proxies = proxies
        self._targets = targets
        self._one_at_a_time = asyncio.Lock()

    async def roll(self, kind: str, name: str) -> dict[str, Any]:
        """Roll one thing. Returns what was done, with times in ms. Raises FleetError when it failed or is unknown."""
        async with self._one_at_a_time:
            if kind == "proxy" and name in self._proxies:
                return await self._roll_proxy(self._proxies[name])
            if kind == "target" and name in self._targets:
                return await self._roll_target(self._targets[name])
        raise FleetError(f"there is no {kind} {name!r} to roll")

    async def _roll_proxy(self, proxy: Proxy) -> dict[str, Any]:
        await _wait_until(lambda: proxy.ready and not proxy.frozen, f"the proxy of {proxy.node.name} is not serving")
        return await proxy.hot_restart()

    async def _roll_target(self, target: Target) -> dict[str, Any]:
        if len(target.replicas) < 2:
            raise FleetError(f"{target.name} has one replica and is not rolled without losing requests; set replicas=2")
        await _wait_until(lambda: not target.stopped, f"{target.name} is stopped")
        return {"replicas": [await self._replace(target, replica) for replica in target.replicas]}

    async def _replace(self, target: Target, replica: Replica) -> dict[str, Any]:
        clock = _Clock()
        replica.in_service = False
        try:
            target.publish()
            await wait_in_use(self._admins, target.name, target.addresses, limit_s=ENDPOINTS_LIMIT_S)
            clock.lap("dropped_ms")
            old = replica.child
            await target.end_replica(replica)
            clock.lap("drained_ms")
            await target.start_replica(replica)
        finally:
            replica.in_service = True
        target.publish()
        await wait_in_use(self._admins, target.name, target.addresses, limit_s=ENDPOINTS_LIMIT_S)
        clock.lap("back_ms")
        return {
            "replica": replica.index,
            "old_pid": old.identity.pid if old else None,
            "old_exit": old.exit_status if old else None,
            "new_pid": replica.child.identity.pid if replica.child else None,
            **clock.laps,
        }

    def _admins(self) -> dict[str, Path]:
        return {name: proxy.admin for name, proxy in self._proxies.items()}


class _Clock:
    def __init__(self) -> None:
        self.laps: dict[str, int] = {}
        self._last_s = time.monotonic()

    def lap(self, name: str) -> None:
        now_s = time.monotonic()
        self.laps[name] = round((now_s - self._last_s) * 1000)
        self._last_s = now_s


async def _wait_until(holds: Callable[[], bool], why_not: str) -> None:
    deadline = time.monotonic() + UNDISTURBED_LIMIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise FleetError(f"{why_not}, also after {UNDISTURBED_LIMIT_S:g} s")
        await asyncio.sleep(POLL_S)
