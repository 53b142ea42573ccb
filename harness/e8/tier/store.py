"""The store: leases, presence and sessions in a process of its own. JSON lines over TCP, answered in order.

    {"op": "announce", "sandbox", "ttl_ms"}     {"op": "withdraw", "sandbox"}
    {"op": "acquire", "cap", "ttl_ms"}          → {"lease", "sandbox", "pool"} or {"refused": "empty"|"saturated",
                                                                                   "pool"}
    {"op": "renew", "leases", "ttl_ms"}         → {"lost": […]}
    {"op": "release", "lease"}                  → {"held": bool}
    {"op": "append", "session", "messages"}     {"op": "session", "session"} → {"messages": […] or null}
    {"op": "info"}                              → connections (without the asking one), connections_total, leases, …

A line that is none of these gets {"error"} and the connection is closed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import typing
from collections import OrderedDict
from pathlib import Path
from typing import Any

from harness.e8.tier.knobs import Knobs
from harness.e8.tier.leases import Granted, LeaseBook
from harness.e8.tier.process import BACKLOG, LOOPBACK, announce, main

MAX_LINE_BYTES = 8 << 20
MAX_SESSIONS = 512  # more than any ladder has in flight; older ones are forgotten, so that memory stays level


class Store:
    """What all connections share."""

    def __init__(self) -> None:
        self.leases = LeaseBook()
        self.sessions: OrderedDict[str, list[Any]] = OrderedDict()
        self.connections: set[StoreConnection] = set()
        self.connections_total = 0
        self.operations = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request. Raises ValueError for what is none."""
        self.operations += 1
        now_s = time.monotonic()
        match request:
            case {"op": "acquire", "cap": int(cap), "ttl_ms": int(ttl_ms)}:
                found = self.leases.acquire(cap, ttl_ms / 1000, now_s)
                if isinstance(found, Granted):
                    return {"lease": found.lease, "sandbox": found.sandbox, "pool": found.pool}
                return {"refused": found.why, "pool": found.pool}
            case {"op": "release", "lease": int(lease)}:
                return {"held": self.leases.release(lease)}
            case {"op": "renew", "leases": list(leases), "ttl_ms": int(ttl_ms)}:
                return {"lost": self.leases.renew(leases, ttl_ms / 1000, now_s)}
            case {"op": "announce", "sandbox": str(sandbox), "ttl_ms": int(ttl_ms)}:
                self.leases.announce(sandbox, ttl_ms / 1000, now_s)
            case {"op": "withdraw", "sandbox": str(sandbox)}:
                self.leases.withdraw(sandbox)
            case {"op": "append", "session": str(session), "messages": list(messages)}:
                self._append(session, messages)
            case {"op": "session", "session": str(session)}:
                return {"messages": self.sessions.get(session)}
            case {"op": "info"}:
                return self._info()
            case _:
                raise ValueError(f"no operation of this store: {str(request)[:200]}")
        return {}

    def _append(self, session: str, messages: list[Any]) -> None:
        self.sessions.setdefault(session, []).extend(messages)
        self.sessions.move_to_end(session)
        while len(self.sessions) > MAX_SESSIONS:
            self.sessions.popitem(last=False)

    def _info(self) -> dict[str, Any]:
        return {
            "connections": len(self.connections) - 1,
            "connections_total": self.connections_total - 1,
            "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()) - 2,  # without the listing's and the asker's
            "leases": self.leases.held,
            "granted": self.leases.granted,
            "refused": self.leases.refused,
            "expired": self.leases.expired,
            "sessions": len(self.sessions),
            "operations": self.operations,
        }


class StoreConnection(asyncio.Protocol):
    """One client."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._transport: asyncio.Transport | None = None
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = typing.cast(asyncio.Transport, transport)
        self._store.connections.add(self)
        self._store.connections_total += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._store.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        answers = []
        for line in lines:
            try:
                answers.append(self._store.answer(json.loads(line)))
            except (ValueError, RecursionError, TypeError) as error:
                answers.append({"error": str(error)})
                self._send(answers)
                self._close()
                return
        self._send(answers)
        if len(self._rest) > MAX_LINE_BYTES:
            self._close()

    def _send(self, answers: list[dict[str, Any]]) -> None:
        if self._transport is not None and answers:
            self._transport.write(b"".join(json.dumps(a, separators=(",", ":")).encode() + b"\n" for a in answers))

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def serve(knobs: Knobs, stop: asyncio.Event) -> None:
    """Serve until told to stop."""
    store = Store()
    server = await asyncio.get_running_loop().create_server(
        lambda: StoreConnection(store), LOOPBACK, knobs.whole("PORT", 0, 0, 65_535), backlog=BACKLOG
    )
    announce(f"store listening :{server.sockets[0].getsockname()[1]}")
    await stop.wait()
    server.close()


if __name__ == "__main__":
    sys.exit(main("store", serve))
