"""One HTTP/1.1 request on a TCP connection of its own: what the generator sends, and how metrics are fetched."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import ssl
import typing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httptools

from harness.errors import SettingsError

MAX_BODY_BYTES = 8 << 20
CONNECT_LIMIT_S = 2.0
BODYLESS = frozenset({204, 304})


@dataclass(frozen=True)
class Base:
    """Where a server is: parsed once, its name looked up once, so that no turn waits for a name server."""

    url: str
    host: str
    port: int
    tls: bool
    prefix: str

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether the address is this machine's own by its name; a tunnel may still lead elsewhere."""
        return self.host in {"127.0.0.1", "localhost", "::1"}


def parse_base(url: str, key: str) -> Base:
    """``http[s]://host[:port][/path]``. Raises SettingsError naming ``key``, the setting it stands in."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    usable = parts.scheme in {"http", "https"} and not (parts.query or parts.fragment or "@" in url)
    is_plain = all(" " < character <= "~" for character in url)
    if not (usable and is_plain and parts.hostname and _is_name(parts.hostname)):
        raise SettingsError(f"{key}={url} must be an address like http://127.0.0.1:8080")
    tls = parts.scheme == "https"
    return Base(url, parts.hostname or "", port or (443 if tls else 80), tls, parts.path.rstrip("/"))


def _is_name(host: str) -> bool:
    """Whether it can be looked up: one with an empty or too long label makes ``getaddrinfo`` raise no OSError."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


@dataclass(frozen=True)
class Answer:
    """A whole response."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body parsed; None when it is no JSON. A number that is not finite is null in it."""
        try:
            return json.loads(self.body, parse_float=_finite, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            return None


def _finite(text: str) -> float | None:
    found = float(text)
    return found if math.isfinite(found) else None


class Client:
    """Sends requests to one server; ``open`` looks its name up, ``send`` opens a connection each time."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self._address: tuple[Any, ...] = ()
        self._family = socket.AF_UNSPEC
        self._tls = ssl.create_default_context() if base.tls else None

    async def open(self) -> None:
        """Look the server's name up; of several addresses keep the first that connects. Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self.base.host, self.base.port, type=socket.SOCK_STREAM)
        chosen = found[0]
        for each in found if len(found) > 1 else ():
            if await _connects(each[0], each[4]):
                chosen = each
                break
        self._family, _, _, _, self._address = chosen

    def request(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
        """The bytes of a request."""
        lines = [f"{method} {self.base.prefix}{path} HTTP/1.1", f"host: {self.base.authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body:
            lines.append(f"content-length: {len(body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body

    async def send(self, request: bytes, limit_s: float) -> Answer:
        """Connect, send, read the answer, close. Raises OSError (TimeoutError included) without a whole answer."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(limit_s):
            if not self._address:
                await self.open()
            transport, exchange = await loop.create_connection(
                lambda: _Exchange(loop, request),
                self._address[0],
                self._address[1],
                family=self._family,
                ssl=self._tls,
                server_hostname=self.base.host if self._tls else None,
            )
            try:
                return await exchange.done
            finally:
                transport.close() if exchange.done.done() else transport.abort()


async def _connects(family: int, address: tuple[Any, ...]) -> bool:
    """Whether something listens there; ``localhost`` is ::1 too, where a server may not be."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as tried:  # which a machine without IPv6 refuses already
            tried.setblocking(False)
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(tried, address), CONNECT_LIMIT_S)
    except OSError:
        return False
    return True


class _Exchange(asyncio.Protocol):
    """Writes one request when it is connected and collects the one answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, request: bytes) -> None:
        self.done: asyncio.Future[Answer] = loop.create_future()
        self._request = request
        self._parser = httptools.HttpResponseParser(self)
        self._status = 0
        self._framed = False  # the headers say where the body ends; without that the server's close does
        self._body = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        typing.cast(asyncio.WriteTransport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"no HTTP answer ({error})")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._status and not self._framed and exc is None:
            self._finish()
        self._fail(str(exc) if exc else "the connection was closed before the answer was whole")

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._framed = True

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, part: bytes) -> None:
        self._body += part
        if len(self._body) > MAX_BODY_BYTES:
            self._fail(f"an answer of more than {MAX_BODY_BYTES >> 20} MB")

    def on_message_complete(self) -> None:
        if self._status >= 200 and (self._framed or self._status in BODYLESS):
            self._finish()
        elif self._status < 200:  # 100 Continue and its kind: the answer is still to come
            self._status, self._framed = 0, False

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(Answer(self._status, bytes(self._body)))

    def _fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError(why))


def fetch(base: Base, path: str, *, limit_s: float) -> Answer:
    """GET ``path``, for callers without an event loop. Raises OSError without a whole answer in ``limit_s``."""

    async def get() -> Answer:
        client = Client(base)
        return await client.send(client.request("GET", path, {"accept": "application/json"}), limit_s)

    return asyncio.run(get())
