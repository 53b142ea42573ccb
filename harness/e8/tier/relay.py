"""The relay: sandbox agents dial in and hold one stream each, workers ask for execs, frames go across.

Whoever does not say the right token first is refused and hung up on. A sandbox is present in the store while its agent
is connected. When an agent goes, every exec on it fails at once; when a worker goes, its execs are cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import itertools
import re
import sys
import typing
from dataclasses import dataclass
from typing import Any

from harness.e8.tier.knobs import Knobs
from harness.e8.tier.process import BACKLOG, LOOPBACK, announce, main, say
from harness.e8.tier.protocol import Decoder, Frame, FrameError, Kind, message
from harness.e8.tier.storeclient import StoreClient

PRESENCE_TTL_S = 15.0
PRESENCE_PERIOD_S = 5.0
HELLO_LIMIT_S = 5.0
SANDBOX_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(eq=False, slots=True)
class Exec:
    """One exec on its way: who asked under which number, who runs it under which number."""

    worker: Peer
    worker_stream: int
    agent: Peer
    agent_stream: int


class Relay:
    """What all connections share."""

    def __init__(self, token: str, store: StoreClient) -> None:
        self._token = token
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()
        self.agents: dict[str, Peer] = {}

    def welcome(self, peer: Peer, hello: Frame) -> None:
        """Let a peer in. Raises FrameError, with the reason, for one that may not."""
        document = hello.document() if hello.kind is Kind.HELLO else {}
        if not hmac.compare_digest(str(document.get("token", "")).encode(), self._token.encode()):
            raise FrameError("the token is not the relay's")
        role, name = document.get("role"), str(document.get("id", ""))
        if role == "agent":
            if not SANDBOX_ID.fullmatch(name):
                raise FrameError("a sandbox id is small letters, digits and hyphens")
            if name in self.agents:
                raise FrameError(f"{name} is connected already")
            self.agents[name] = peer
            self._later(self._announce(name))
        elif role == "worker":
            peer.send(message(Kind.WELCOME, 0))
        else:
            raise FrameError("the role is neither worker nor agent")
        peer.role, peer.name = str(role), name

    def gone(self, peer: Peer) -> None:
        """A peer's connection is lost."""
        for running in list(peer.execs.values()):
            if running.agent is peer:
                self.finish(running, message(Kind.FAILED, running.worker_stream, error=f"{peer.name} went away"))
            else:
                running.agent.send(Frame(Kind.CANCEL, running.agent_stream).encode())
        if self.agents.get(peer.name) is peer:
            del self.agents[peer.name]
            self._later(self._tell("withdraw", sandbox=peer.name))

    def handle(self, peer: Peer, frame: Frame) -> None:
        """One frame of a peer that is let in. Raises FrameError for one that makes no sense from it."""
        match peer.role, frame.kind:
            case "worker", Kind.EXEC:
                self._start(peer, frame)
            case "worker", Kind.CANCEL:
                if running := peer.execs.get(frame.stream):
                    running.agent.send(Frame(Kind.CANCEL, running.agent_stream).encode())
            case "worker", Kind.STATS:
                peer.send(message(Kind.STATS, frame.stream, sandboxes=self.stats()))
            case "agent", Kind.OUTPUT:
                if running := peer.execs.get(frame.stream):
                    running.worker.send(Frame(Kind.OUTPUT, running.worker_stream, frame.payload).encode())
            case "agent", Kind.EXIT | Kind.FAILED:
                if running := peer.execs.get(frame.stream):
                    self.finish(running, Frame(frame.kind, running.worker_stream, frame.payload).encode())
            case _:
                raise FrameError(f"{frame.kind.name} from a {peer.role}")

    def _start(self, worker: Peer, frame: Frame) -> None:
        if frame.stream in worker.execs:
            raise FrameError(f"stream {frame.stream} is in use")
        agent = self.agents.get(str(frame.document().get("sandbox")))
        if agent is None:
            worker.send(message(Kind.FAILED, frame.stream, error="no such sandbox is connected"))
            return
        running = Exec(worker, frame.stream, agent, next(agent.numbers))
        worker.execs[running.worker_stream] = agent.execs[running.agent_stream] = running
        agent.started += 1
        agent.send(Frame(Kind.EXEC, running.agent_stream, frame.payload).encode())

    def finish(self, running: Exec, last: bytes) -> None:
        """The exec is over; ``last`` tells the worker."""
        running.worker.execs.pop(running.worker_stream, None)
        running.agent.execs.pop(running.agent_stream, None)
        running.worker.send(last)

    def stats(self) -> dict[str, Any]:
        """Execs per sandbox since its agent connected."""
        return {
            name: {"execs": agent.started, "running": len(agent.execs)} for name, agent in sorted(self.agents.items())
        }

    async def keep_presence(self) -> None:
        """Say again and again who is there. Runs until cancelled."""
        while True:
            await asyncio.sleep(PRESENCE_PERIOD_S)
            for name in list(self.agents):
                await self._tell("announce", sandbox=name, ttl_ms=int(PRESENCE_TTL_S * 1000))

    async def _announce(self, name: str) -> None:
        """A sandbox is welcome only once the store knows it: from then on it can be leased."""
        await self._tell("announce", sandbox=name, ttl_ms=int(PRESENCE_TTL_S * 1000))
        if name in self.agents:
            self.agents[name].send(message(Kind.WELCOME, 0))

    async def _tell(self, op: str, **fields: Any) -> None:
        try:
            await self._store.call(op, **fields)
        except OSError as error:
            say(f"the store did not hear {op} {fields}: {error}")

    def _later(self, work: typing.Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Peer(asyncio.Protocol):
    """One connection, of a worker or of an agent."""

    def __init__(self, relay: Relay) -> None:
        self.role = ""
        self.name = ""
        self.execs: dict[int, Exec] = {}
        self.numbers = itertools.count(1)
        self.started = 0
        self._relay = relay
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None
        self._limit: asyncio.TimerHandle | None = None

    def send(self, data: bytes) -> None:
        """Send a frame; nothing happens when the peer is gone."""
        if self._transport is not None:
            self._transport.write(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = typing.cast(asyncio.Transport, transport)
        self._limit = asyncio.get_running_loop().call_later(HELLO_LIMIT_S, self._refuse, "no HELLO came")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._heard()
        self._relay.gone(self)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._decoder.feed(data):
                if self.role:
                    self._relay.handle(self, frame)
                    continue
                self._relay.welcome(self, frame)
                self._heard()
        except FrameError as error:
            self._refuse(str(error))

    def _heard(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _refuse(self, why: str) -> None:
        say(f"hung up on {self.name or 'a stranger'}: {why}")
        self.send(message(Kind.FAILED, 0, error=why))
        if self._transport is not None:
            self._transport.close()


async def serve(knobs: Knobs, stop: asyncio.Event) -> None:
    """Serve until told to stop."""
    store = StoreClient(knobs.address("SH_STORE_ADDR"))
    await store.open()
    relay = Relay(knobs.text("SANDBOX_TOKEN"), store)
    server = await asyncio.get_running_loop().create_server(
        lambda: Peer(relay), LOOPBACK, knobs.whole("PORT", 0, 0, 65_535), backlog=BACKLOG
    )
    presence = asyncio.create_task(relay.keep_presence())
    announce(f"relay listening :{server.sockets[0].getsockname()[1]}")
    await stop.wait()
    server.close()
    presence.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await presence


if __name__ == "__main__":
    sys.exit(main("relay", serve))
