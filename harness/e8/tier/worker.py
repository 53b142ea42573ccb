"""A worker: one event loop that takes sockets from the supervisor and runs turns on them.

It tells the supervisor the number of slots in use whenever one is given back, with the number of sockets it took so
far, so that what is still on its way is never forgotten; and its telemetry once per tick.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from typing import Any

from harness.e8.tier.channel import CHANNEL_VARIABLE, Channel
from harness.e8.tier.httpserver import Answer, Connection, Request
from harness.e8.tier.knobs import Knobs
from harness.e8.tier.leasing import Leasing
from harness.e8.tier.model import ModelClient
from harness.e8.tier.process import main, say
from harness.e8.tier.relayclient import RelayClient
from harness.e8.tier.storeclient import StoreClient
from harness.e8.tier.telemetry import Telemetry
from harness.e8.tier.turn import Turns
from harness.errors import SettingsError

FIRST_REQUEST_LIMIT_S = 10.0
TURN_PATHS = ("/turn", "/v1/turn")


class Worker:
    """Slots, turns and telemetry of one process."""

    def __init__(self, knobs: Knobs, channel: Channel, stop: asyncio.Event) -> None:
        store_address = knobs.address("SH_STORE_ADDR")
        ttl_ms = knobs.whole("KAGENTI_SANDBOX_LEASE_TTL_MS", 60_000, 100, 3_600_000)
        self._name = knobs.text("TIER_NAME", "worker")
        self._channel = channel
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._store = StoreClient(store_address)
        self._relay = RelayClient(knobs.address("SH_RELAY_ADDR"), knobs.text("SANDBOX_TOKEN"), self._name)
        self._telemetry = Telemetry(_lag_resolution_ms(knobs))
        self._tick_s = knobs.whole("SH_STATS_INTERVAL_MS", 1000, 50, 60_000) / 1000
        self._leasing = Leasing(self._store, knobs.whole("KAGENTI_SANDBOX_CAP", 20, 1, 10_000), ttl_ms)
        self._turns = Turns(
            ModelClient(
                knobs.text("ANTHROPIC_BASE_URL"), knobs.text("ANTHROPIC_MODEL", "stub"), knobs.text("ANTHROPIC_API_KEY")
            ),
            self._store,
            self._relay,
            self._leasing,
            retry_after_s=knobs.whole("KAGENTI_SYNC_SATURATION_RETRY_AFTER_S", 5, 0, 3600),
            file_ops_ms=self._telemetry.file_ops_ms,
        )
        self._leaks_per_turn = knobs.whole("SH_LEAK_CONNECTIONS_PER_TURN", 0, 0, 100)
        self._leaked: list[StoreClient] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._received = 0
        self._in_flight = 0
        self._draining = False
        self._untold = False

    async def run(self) -> None:
        """Take sockets until told to stop, or drained."""
        await self._store.open()
        await self._relay.open()
        self._loop.add_reader(self._channel.fileno(), self._read_channel)
        heartbeat = asyncio.create_task(self._leasing.heartbeat())
        self._channel.send({"type": "ready", "pid": os.getpid()})
        self._loop.call_later(self._tick_s, self._tick)
        await self._stop.wait()
        self._loop.remove_reader(self._channel.fileno())
        heartbeat.cancel()

    def later(self, work: Any) -> asyncio.Task[Any]:
        """Run a coroutine as a task that is not forgotten."""
        task: asyncio.Task[Any] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def turn(self, request: Request) -> Answer:
        """The answer to one turn."""
        try:
            document = request.json()
        except ValueError:
            return Answer(400, {"error": "read_error" if request.body is None else "invalid_json"})
        for _ in range(self._leaks_per_turn):
            client = StoreClient(self._store.address)
            await client.open()
            self._leaked.append(client)
        return await self._turns.run(document)

    # slots

    def take_slot(self) -> None:
        """A turn on a connection that was here already: nobody admitted it."""
        self._in_flight += 1
        self._tell()

    def give_slot(self) -> None:
        """A turn, or a connection without one, is over."""
        self._in_flight -= 1
        self._tell()
        self._end_when_drained()

    def _tell(self) -> None:
        load = {
            "type": "load",
            "in_flight": self._in_flight,
            "received": self._received,
            "at_ns": time.monotonic_ns(),
        }
        if not self._send(load) and not self._untold:
            self._untold = True
            self._loop.add_writer(self._channel.fileno(), self._tell_again)

    def _tell_again(self) -> None:
        self._loop.remove_writer(self._channel.fileno())
        self._untold = False
        self._tell()

    def _send(self, message: dict[str, Any]) -> bool:
        try:
            return self._channel.send(message)
        except OSError:
            self._stop.set()
            return True

    # the supervisor's side

    def _read_channel(self) -> None:
        try:
            for message, descriptor in self._channel.receive():
                if descriptor is not None:
                    self._received += 1
                    self._in_flight += 1
                    self.later(self._adopt(descriptor))
                elif message["type"] == "drain":
                    self._draining = True
                    self._send({"type": "draining"})
                    self._end_when_drained()
        except EOFError:
            say(f"{self._name} ends: the supervisor is gone")
            self._stop.set()

    async def _adopt(self, descriptor: int) -> None:
        connection = TurnConnection(self)
        try:
            sock = socket.socket(fileno=descriptor)
            await self._loop.connect_accepted_socket(lambda: connection, sock)
        except OSError as error:
            say(f"a socket was dead on arrival: {error}")
            connection.give_slot()

    def _end_when_drained(self) -> None:
        if self._draining and self._in_flight == 0:
            self._loop.call_later(0.05, self._stop.set)  # the last answer goes out first

    def _tick(self) -> None:
        self._send({"type": "stats", **self._telemetry.take(self._leasing.held, self._leasing.pool_size)})
        self._loop.call_later(self._tick_s, self._tick)


class TurnConnection(Connection):
    """A socket that the supervisor handed over. It has a slot until its first request is answered."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self._worker = worker
        self._has_slot = True
        self._task: asyncio.Task[Any] | None = None
        self._limit: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(
            FIRST_REQUEST_LIMIT_S, self._too_late
        )

    def received(self, request: Request) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
        if request.method == "POST" and request.target in TURN_PATHS:
            if not self._has_slot:
                self._has_slot = True
                self._worker.take_slot()
            self._task = self._worker.later(self._run(request))
            self._task.add_done_callback(lambda task: self.give_slot())  # also one that was cancelled before it began
            return
        self.give_slot()
        found = request.method == "GET" and request.target == "/health"
        self.respond(request, Answer(200, {"ok": True}) if found else Answer(404, {"error": "not_found"}))

    def lost(self) -> None:
        """The client is gone: its turn is of no use to anybody and ends."""
        if self._limit is not None:
            self._limit.cancel()
        if self._task is not None and not self._task.done():
            self._task.cancel()
        else:
            self.give_slot()

    def give_slot(self) -> None:
        """Once, whatever happens after."""
        if self._has_slot:
            self._has_slot = False
            self._worker.give_slot()

    async def _run(self, request: Request) -> None:
        answer = Answer(500, {"error": "internal"})
        try:
            answer = await self._worker.turn(request)
        except Exception as error:  # noqa: BLE001 - whatever a turn meets, its client gets an answer
            say(f"a turn failed: {error!r}")
        finally:
            self.give_slot()  # before the answer: whoever has it may ask for the slot at once
            self.respond(request, answer)

    def _too_late(self) -> None:
        if self.transport is not None:
            self.transport.close()


def _lag_resolution_ms(knobs: Knobs) -> int:
    """A bad value is taken as 1: this variable alone never keeps a worker from starting."""
    try:
        return knobs.whole("SH_LAG_RESOLUTION_MS", 1, 1, 1000)
    except SettingsError:
        return 1


async def serve(knobs: Knobs, stop: asyncio.Event) -> None:
    """Serve until told to stop."""
    channel = Channel(socket.socket(fileno=knobs.whole(CHANNEL_VARIABLE, None, 0, 1 << 20)))
    try:
        await Worker(knobs, channel, stop).run()
    finally:
        channel.close()


if __name__ == "__main__":
    sys.exit(main("worker", serve))
