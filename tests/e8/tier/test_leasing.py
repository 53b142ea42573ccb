"""A worker's leases: one that was granted to a turn that is over by then goes back at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.e8.tier.leasing import Leasing
from harness.e8.tier.storeclient import StoreClient


class SlowStore(StoreClient):
    """Grants lease 7, or says no, once ``answer`` is set; ``asked`` are the operations in order."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 1))
        self.answer = asyncio.Event()
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._found = found

    async def call(self, op: str, **fields: Any) -> dict[str, Any]:
        self.asked.append((op, fields))
        if op == "acquire":
            await self.answer.wait()
            return self._found
        return {"held": True}


@pytest.mark.parametrize(
    ("found", "released"),
    [
        ({"lease": 7, "sandbox": "sandbox-0", "pool": 1}, [("release", {"lease": 7})]),
        ({"refused": "saturated", "pool": 1}, []),
    ],
)
@pytest.mark.parametrize("answered_first", [False, True])
def test_a_turn_that_ends_while_it_asks_for_a_lease_keeps_none(
    found: dict[str, Any], released: list[Any], answered_first: bool
) -> None:
    async def ask_and_go() -> SlowStore:
        store = SlowStore(found)
        leasing = Leasing(store, cap=1, ttl_ms=60_000)

        async def turn() -> None:
            async with leasing.sandbox():
                raise AssertionError("it was cancelled before")

        task = asyncio.create_task(turn())
        while not store.asked:
            await asyncio.sleep(0)
        if answered_first:
            store.answer.set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.answer.set()
        for _ in range(10):
            await asyncio.sleep(0)
        assert leasing.held == 0
        return store

    assert asyncio.run(ask_and_go()).asked[1:] == released
