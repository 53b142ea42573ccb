"""The engine's side of the wire: JSON lines over TCP, one connection per driver, executions told apart by ``id``.

The engine speaks first (``hello``). A driver sends ``start`` and ``cancel``; the engine answers a start with
``accepted``, ``refused`` or ``failed``, then sends ``progress`` every second and at the end one ``result``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import time
from collections.abc import Callable
from typing import Any

from harness import __version__
from harness.engine.execution import Execution
from harness.engine.spec import Address, dial_address, parse_start
from harness.engine.timerfd import NS_PER_S
from harness.errors import FleetError, PlanError

MAX_LINE_BYTES = 8 << 20
MAX_UNSENT_BYTES = 1 << 20  # a driver that does not read gets no more heartbeats, only results
MAX_START_WAIT_S = 3600
STOP_S = 5.0  # for cancelled executions to give their results when the engine ends
GC_S = 10.0

Message = dict[str, Any]
Log = Callable[[str], None]


class Engine:
    """Listens for drivers and runs at most ``max_executions`` executions over all of them.

    Without ``proxy`` each request goes where its URL points: to this machine alone, or with ``network`` to any host.
    """

    def __init__(
        self, *, name: str, proxy: Address | None, max_executions: int, log: Log, network: bool = False
    ) -> None:
        self.name = name
        self.proxy = proxy
        self.network = network
        self.max_executions = max_executions
        self.running = 0
        self.log = log
        self._stop = asyncio.Event()
        self._sessions: set[_Session] = set()

    def stop(self, why: str) -> None:
        """Let ``serve`` end: cancel what runs, deliver the results, close."""
        if not self._stop.is_set():
            self.log(f"ending: {why}")
            self._stop.set()

    async def serve(self, host: str, port: int, *, lifetime_s: float, on_listening: Callable[[str], None]) -> None:
        """Serve until ``stop`` or the end of the lifetime. ``on_listening`` gets ``ip:port``.

        Raises FleetError when the address cannot be listened on.
        """
        try:
            server = await asyncio.start_server(self._on_driver, host, port, limit=MAX_LINE_BYTES)
        except OSError as error:
            raise FleetError(f"engine {self.name} cannot listen on {host}:{port}: {error.strerror}") from error
        bound_host, bound_port = server.sockets[0].getsockname()[:2]
        on_listening(f"{bound_host}:{bound_port}")
        self.log(f"listening on {bound_host}:{bound_port} for at most {lifetime_s:g} s")
        lifetime = asyncio.get_running_loop().call_later(lifetime_s, self.stop, "its lifetime is over")
        collector = asyncio.create_task(_collect_garbage())
        await self._stop.wait()
        lifetime.cancel()
        collector.cancel()
        server.close()
        await asyncio.gather(*(session.end() for session in self._sessions))
        self.log("ended")

    async def _on_driver(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = _Session(self, reader, writer)
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)


class _Session:
    """One driver's connection. When it drops, its executions end: a load nobody listens to must not go on."""

    def __init__(self, engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._engine = engine
        self._reader = reader
        self._writer = writer
        self._executions: dict[str | int, Execution] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        engine, heard = self._engine, False
        self._send(
            {
                "type": "hello",
                "name": engine.name,
                "version": __version__,
                "max_executions": engine.max_executions,
                "pid": os.getpid(),
            }
        )
        while line := await self._read_line():
            if not heard:  # who connects and says nothing, like a readiness probe, is not worth a line
                engine.log("driver connected")
                heard = True
            self._handle(line)
        if heard:
            engine.log(f"driver gone, {len(self._executions)} executions cancelled with it")
        for execution in self._executions.values():
            execution.cancel(drain_s=0)
        await asyncio.gather(*self._tasks)
        self._writer.close()

    async def _read_line(self) -> bytes | None:
        """The next whole line; None when the driver is gone, or sent a line over the limit and must go."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        except ValueError:  # readline's word for a line over the limit
            self._fail(None, f"a line of more than {MAX_LINE_BYTES} bytes")
            return None
        return line if line.endswith(b"\n") else None

    async def end(self) -> None:
        """Cancel, deliver the results within STOP_S, close."""
        for execution in self._executions.values():
            execution.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_S)
        self._writer.close()

    def _handle(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._fail(None, "a line that is not JSON")
            return
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == "start":
            self._start(message)
        elif kind == "cancel":
            self._engine.log(f"cancel, {len(self._executions)} executions running")
            for execution in self._executions.values():
                execution.cancel()
        else:
            self._fail(None, f"a message of type {kind!r}; this engine knows start and cancel")

    def _start(self, message: Message) -> None:
        engine, key = self._engine, message.get("id")
        if not isinstance(key, (str, int)) or isinstance(key, bool):
            self._fail(None, "a start whose id is neither text nor a whole number")
            return
        if key in self._executions:
            self._fail(key, f"id {key!r} is running already")
            return
        if engine.running >= engine.max_executions:
            why = (
                f"engine {engine.name} refused a start because the engine is at its cap of "
                f"{engine.max_executions} concurrent executions"
            )
            engine.log(why)
            self._send({"type": "refused", "id": key, "reason": "execution_cap", "error": why})
            return
        try:
            spec, start_at_unix_ns = parse_start(message)
            if (start_at_unix_ns or 0) > time.time_ns() + MAX_START_WAIT_S * NS_PER_S:
                raise PlanError(f"start_at_unix_ns is more than {MAX_START_WAIT_S} s ahead")
            execution = Execution(
                spec,
                engine.proxy or dial_address(spec.url, network=engine.network),
                start_at_unix_ns=start_at_unix_ns,
                on_progress=lambda report: self._send_progress(key, report),
            )
        except PlanError as error:
            self._fail(key, error.message)
            return
        except OSError as error:
            self._fail(key, f"no timer for another execution: {error.strerror}")
            return
        engine.log(f"start {key!r} {spec.label}: {spec.planned} requests in {float(spec.duration_s):g} s")
        engine.running += 1
        self._executions[key] = execution
        task = asyncio.create_task(self._run(key, execution))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._send({"type": "accepted", "id": key})

    async def _run(self, key: str | int, execution: Execution) -> None:
        try:
            result = await execution.run()
        except Exception as error:  # noqa: BLE001 - whatever ended an execution, its driver must hear that it did
            self._fail(key, f"the execution ended early: {error!r}")
        else:
            self._engine.log(f"result {key!r}: {json.dumps(result['counters'])}")
            self._send({"type": "result", "id": key, **result})
        finally:
            self._engine.running -= 1
            del self._executions[key]

    def _send_progress(self, key: str | int, report: Message) -> None:
        if self._writer.transport.get_write_buffer_size() < MAX_UNSENT_BYTES:
            self._send({"type": "progress", "id": key, **report})

    def _fail(self, key: str | int | None, why: str) -> None:
        self._engine.log(f"failed {key!r}: {why}")
        self._send({"type": "failed", "id": key, "error": f"engine {self._engine.name}: {why}"})

    def _send(self, message: Message) -> None:
        if not self._writer.transport.is_closing():
            self._writer.write(json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n")


async def _collect_garbage() -> None:
    """Collect at moments of our choosing: a collection in the middle of a burst would delay requests."""
    while True:
        await asyncio.sleep(GC_S)
        gc.collect()
