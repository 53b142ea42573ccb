"""The relay as a worker sees it: one connection, many execs at once."""

from __future__ import annotations

import asyncio
import itertools
import time
import typing
from dataclasses import dataclass, field
from typing import Any

from harness.e8.tier.protocol import Decoder, Frame, FrameError, Kind, message

SPARE_S = 5.0  # beyond the command's own limit, for relay and agent to tell of its end


class ExecError(Exception):
    """The command did not run to an end that anybody knows of."""


@dataclass(frozen=True)
class ExecResult:
    """How a command ended. ``round_trip_ms`` is what the asker waited, ``command_ms`` what the command took."""

    exit_code: int
    output: str
    command_ms: float
    round_trip_ms: float
    truncated: bool


@dataclass(eq=False)
class _Waiting:
    answer: asyncio.Future[Frame]
    output: list[bytes] = field(default_factory=list)


class RelayClient(asyncio.Protocol):
    """Dials on first use and again after a loss."""

    def __init__(self, address: tuple[str, int], token: str, name: str) -> None:
        self._address = address
        self._token = token
        self._name = name
        self._transport: asyncio.Transport | None = None
        self._decoder = Decoder()
        self._dialing = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._welcome: asyncio.Future[None] | None = None

    async def run(self, sandbox: str, command: str, *, limit_s: float) -> ExecResult:
        """Run a command. Raises ExecError. When the caller is cancelled, so is the command."""
        began_s = time.perf_counter()
        ask = {"sandbox": sandbox, "command": command, "timeout_ms": int(limit_s * 1000)}
        frame, output = await self._ask(Kind.EXEC, ask, limit_s + SPARE_S)
        round_trip_ms = (time.perf_counter() - began_s) * 1000
        document = frame.document()
        if frame.kind is not Kind.EXIT:
            raise ExecError(str(document.get("error", "the exec failed")))
        return ExecResult(
            exit_code=int(document["exit_code"]),
            output=output.decode("utf-8", "replace"),
            command_ms=float(document["command_ms"]),
            round_trip_ms=round_trip_ms,
            truncated=bool(document["truncated"]),
        )

    async def stats(self) -> dict[str, Any]:
        """Sandbox → {"execs", "running"}. Raises ExecError."""
        frame, _ = await self._ask(Kind.STATS, {}, SPARE_S)
        return dict(frame.document()["sandboxes"])

    async def _ask(self, kind: Kind, fields: dict[str, Any], limit_s: float) -> tuple[Frame, bytes]:
        stream = next(self._numbers)
        waiting = self._waiting[stream] = _Waiting(asyncio.get_running_loop().create_future())
        sent = False
        try:
            async with asyncio.timeout(limit_s):
                await self.open()
                self._send(message(kind, stream, **fields))
                sent = True
                return await waiting.answer, b"".join(waiting.output)
        except OSError as error:  # TimeoutError is one
            raise ExecError(f"the relay gave no answer: {error or 'too late'}") from error
        finally:
            del self._waiting[stream]
            if sent and not (waiting.answer.done() and not waiting.answer.cancelled()):
                self._send(Frame(Kind.CANCEL, stream).encode())

    async def open(self) -> None:
        """Connect and be let in, unless that is done. Raises OSError."""
        async with self._dialing:
            if self._transport is None:
                self._welcome = asyncio.get_running_loop().create_future()
                await asyncio.get_running_loop().create_connection(lambda: self, *self._address)
                await self._welcome

    def close(self) -> None:
        """Hang up; execs that wait fail."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = typing.cast(asyncio.Transport, transport)
        self._decoder = Decoder()
        self._send(message(Kind.HELLO, 0, role="worker", id=self._name, token=self._token))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail("the relay closed the connection")

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._decoder.feed(data):
                self._handle(frame)
        except FrameError as error:
            self._fail(str(error))
            if self._transport is not None:
                self._transport.close()

    def _handle(self, frame: Frame) -> None:
        if frame.stream == 0:
            if frame.kind is not Kind.WELCOME:
                raise FrameError(f"the relay refused: {frame.document().get('error')}")
            if self._welcome is not None and not self._welcome.done():
                self._welcome.set_result(None)
            return
        waiting = self._waiting.get(frame.stream)
        if waiting is None or waiting.answer.done():
            return  # nobody waits for it any more
        if frame.kind is Kind.OUTPUT:
            waiting.output.append(frame.payload)
        else:
            waiting.answer.set_result(frame)

    def _fail(self, why: str) -> None:
        for future in (self._welcome, *(waiting.answer for waiting in self._waiting.values())):
            if future is not None and not future.done():
                future.set_exception(ConnectionError(why))

    def _send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
