"""A worker's leases: taken in the store, kept alive while the turn goes on, given back at its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from harness.e8.tier.process import say
from harness.e8.tier.storeclient import StoreClient

LONGEST_HEARTBEAT_S = 20.0


class NoSandboxError(Exception):
    """Every sandbox is at its cap, or there is none; ``why`` is ``saturated`` or ``empty``."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Leasing:
    """``pool_size`` is what the last selection saw, None before the first."""

    def __init__(self, store: StoreClient, cap: int, ttl_ms: int) -> None:
        self.pool_size: int | None = None
        self._store = store
        self._cap = cap
        self._ttl_ms = ttl_ms
        self._held: set[int] = set()
        self._returns: set[asyncio.Task[None]] = set()

    @property
    def held(self) -> int:
        """Leases of this worker."""
        return len(self._held)

    @asynccontextmanager
    async def sandbox(self) -> AsyncIterator[str]:
        """A slot on a sandbox for as long as the block runs. Raises NoSandboxError, and OSError without a store."""
        asked = asyncio.ensure_future(self._store.call("acquire", cap=self._cap, ttl_ms=self._ttl_ms))
        try:
            found = await asyncio.shield(asked)
        except asyncio.CancelledError:  # the store has been asked, and grants it all the same
            returning = asyncio.create_task(self._give_back(asked))
            self._returns.add(returning)
            returning.add_done_callback(self._returns.discard)
            raise
        self.pool_size = int(found["pool"])
        if "refused" in found:
            raise NoSandboxError(str(found["refused"]))
        lease = int(found["lease"])
        self._held.add(lease)
        try:
            yield str(found["sandbox"])
        finally:
            self._held.discard(lease)
            await self._store.call("release", lease=lease)

    async def _give_back(self, asked: asyncio.Future[dict[str, Any]]) -> None:
        """Return the lease of a turn that is over before it got one."""
        try:
            found = await asked
            if "lease" in found:
                await self._store.call("release", lease=int(found["lease"]))
        except OSError as error:
            say(f"a lease that nobody waits for was not given back: {error}")

    async def heartbeat(self) -> None:
        """Renew what is held, three times within its TTL. Runs until cancelled."""
        while True:
            await asyncio.sleep(min(LONGEST_HEARTBEAT_S, self._ttl_ms / 3000))
            if not self._held:
                continue
            try:
                found = await self._store.call("renew", leases=sorted(self._held), ttl_ms=self._ttl_ms)
            except OSError as error:
                say(f"leases were not renewed: {error}")
                continue
            if found["lost"]:
                say(f"leases expired under their turns: {found['lost']}")
