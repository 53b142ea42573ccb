"""The store as its clients see it: one connection, requests answered in order."""

from __future__ import annotations

import asyncio
import json
import typing
from collections import deque
from typing import Any

ANSWER_LIMIT_S = 10.0


class StoreClient(asyncio.Protocol):
    """Dials on first use and again after a loss. Not for threads."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self._transport: asyncio.Transport | None = None
        self._dialing = asyncio.Lock()
        self._waiting: deque[asyncio.Future[dict[str, Any]]] = deque()
        self._rest = b""

    async def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """One operation. Raises OSError (TimeoutError included) when the store gave no answer."""
        async with asyncio.timeout(ANSWER_LIMIT_S):
            if self._transport is None:
                await self.open()
            transport = self._transport
            if transport is None:
                raise ConnectionError("the store closed the connection")
            answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            self._waiting.append(answer)
            transport.write(json.dumps({"op": op, **fields}, separators=(",", ":")).encode() + b"\n")
            found = await answer
        if "error" in found:
            raise ConnectionError(f"the store refused {op}: {found['error']}")
        return found

    async def open(self) -> None:
        """Connect, unless that is done. Raises OSError."""
        async with self._dialing:
            if self._transport is None:
                await asyncio.get_running_loop().create_connection(lambda: self, *self.address)

    def close(self) -> None:
        """Hang up; calls that wait fail."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = typing.cast(asyncio.Transport, transport)
        self._rest = b""

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(ConnectionError("the store closed the connection"))

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            waiting = self._waiting.popleft()
            if not waiting.done():  # a caller that was cancelled left its place behind
                waiting.set_result(json.loads(line))
