"""The HTTP/1.1 server that stub, workers, metrics and control share: one request at a time per connection."""

from __future__ import annotations

import asyncio
import json
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httptools

from harness.e8.tier.process import BACKLOG, LOOPBACK

MAX_BODY_BYTES = 1 << 20
JSON_TYPE = "application/json"


@dataclass(slots=True)
class Request:
    """One whole request. ``body`` is None when it was longer than MAX_BODY_BYTES."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None
    keep_alive: bool = True

    def json(self) -> Any:
        """The parsed body. Raises ValueError, also for a body over the limit."""
        if self.body is None:
            raise ValueError(f"a body of more than {MAX_BODY_BYTES} bytes")
        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


@dataclass(slots=True)
class Answer:
    """A whole response with a JSON body."""

    status: int
    value: Any
    headers: dict[str, str] = field(default_factory=dict)

    def encode(self, *, keep_alive: bool) -> bytes:
        """The bytes of the response."""
        body = json.dumps(self.value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
        headers = {"Content-Type": JSON_TYPE, "Content-Length": str(len(body)), **self.headers}
        return head(self.status, headers, keep_alive=keep_alive) + body


def head(status: int, headers: dict[str, str], *, keep_alive: bool) -> bytes:
    """Status line and header lines with the empty line at the end."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    if not keep_alive:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Connection(asyncio.Protocol):
    """One connection. A subclass answers in ``received``, at once or later, with ``respond`` or ``write`` and ``done``.

    A request that comes before the last one was answered is a protocol error: nobody here pipelines.
    """

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._busy = False
        self._start_request()

    def received(self, request: Request) -> None:
        """A whole request has come."""
        raise NotImplementedError

    def lost(self) -> None:
        """The connection is gone; nothing can be answered any more."""

    # answers

    def respond(self, request: Request, answer: Answer) -> None:
        """Send a whole response."""
        self.write(answer.encode(keep_alive=request.keep_alive))
        self.done(request)

    def write(self, data: bytes) -> None:
        """Send bytes of a response; nothing happens when the client is gone."""
        if self.transport is not None:
            self.transport.write(data)

    def done(self, request: Request) -> None:
        """The response is whole; close if the client wants that."""
        self._busy = False
        if not request.keep_alive and self.transport is not None:
            self.transport.close()

    # what the transport and the parser call

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = typing.cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.lost()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse()
        except httptools.HttpParserError:
            self._refuse()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, part: bytes) -> None:
        self._length += len(part)
        if self._length <= MAX_BODY_BYTES:
            self._body.append(part)

    def on_message_complete(self) -> None:
        if self._busy:
            self._refuse()
            return
        self._busy = True
        request = Request(
            method=self._parser.get_method().decode("latin-1"),
            target=self._target.decode("latin-1"),
            headers=self._headers,
            body=b"".join(self._body) if self._length <= MAX_BODY_BYTES else None,
            keep_alive=self._parser.should_keep_alive(),
        )
        self._start_request()
        self.received(request)

    def _start_request(self) -> None:
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._length = 0

    def _refuse(self) -> None:
        if self.transport is not None:
            if not self._busy:
                self.transport.write(Answer(400, {"error": "bad_request"}).encode(keep_alive=False))
            self.transport.close()


class Routes(Connection):
    """A connection whose requests are answered by plain functions: ``"GET /metrics"`` → function of the request."""

    def __init__(self, routes: dict[str, Callable[[Request], Answer]]) -> None:
        super().__init__()
        self._routes = routes

    def received(self, request: Request) -> None:
        route = self._routes.get(f"{request.method} {request.target}")
        self.respond(request, route(request) if route else Answer(404, {"error": "not_found"}))


async def listen(make: Callable[[], Connection], port: int) -> tuple[asyncio.Server, int]:
    """Listen on loopback; port 0 is any free one. Returns the server and its port. Raises OSError."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(make, LOOPBACK, port, backlog=BACKLOG)
    return server, server.sockets[0].getsockname()[1]
