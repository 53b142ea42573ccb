"""The model endpoint as a worker sees it: streamed answers over connections that are kept and used again."""

from __future__ import annotations

import asyncio
import json
import typing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httptools

from harness.errors import SettingsError

ANSWER_LIMIT_S = 120.0
TOOLS = [
    {
        "name": "bash",
        "description": "Run a command in the sandbox.",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    }
]


class ModelError(Exception):
    """No usable answer; the message is what a turn's ``errorMessage`` says."""


@dataclass
class ModelReply:
    """One answer. ``content`` is the assistant's message as it goes back into the conversation."""

    stop_reason: str = ""
    content: list[dict[str, Any]] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def text(self) -> str:
        """All text of it."""
        return "".join(block["text"] for block in self.content if block["type"] == "text")

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """What it wants run: blocks with ``id``, ``name`` and ``input``."""
        return [block for block in self.content if block["type"] == "tool_use"]


class ModelClient:
    """Asks one endpoint. Raises SettingsError for a base URL that is no ``http://host:port``."""

    def __init__(self, base_url: str, model: str, key: str) -> None:
        parts = urlsplit(base_url)
        if parts.scheme != "http" or not parts.hostname:
            raise SettingsError(f"ANTHROPIC_BASE_URL is {base_url!r}; give http://host:port")
        self._host, self._port = parts.hostname, parts.port or 80
        self._model = model
        self._idle: list[_Exchange] = []
        self._head = (
            f"POST {parts.path.rstrip('/')}/v1/messages HTTP/1.1\r\nhost: {parts.netloc}\r\n"
            f"content-type: application/json\r\nx-api-key: {key}\r\nanthropic-version: 2023-06-01\r\ncontent-length: "
        ).encode("latin-1")

    async def complete(self, messages: list[dict[str, Any]]) -> ModelReply:
        """The endpoint's answer to a conversation. Raises ModelError; nothing is tried twice."""
        ask = {"model": self._model, "max_tokens": 4096, "stream": True, "tools": TOOLS, "messages": messages}
        body = json.dumps(ask, separators=(",", ":")).encode()
        request = self._head + f"{len(body)}\r\n\r\n".encode() + body
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                while True:
                    exchange = await self._connection()
                    reused = exchange.answers > 0
                    try:
                        reply = await exchange.ask(request)
                    except _StaleError:
                        if reused:  # the endpoint had closed a kept connection: this was no try
                            continue
                        raise
                    if exchange.usable:
                        self._idle.append(exchange)
                    return reply
        except TimeoutError as error:
            raise ModelError("Request timed out.") from error
        except OSError as error:
            raise ModelError("Connection error.") from error

    async def _connection(self) -> _Exchange:
        while self._idle:
            exchange = self._idle.pop()
            if exchange.usable:
                return exchange
        _, exchange = await asyncio.get_running_loop().create_connection(_Exchange, self._host, self._port)
        return exchange


class _StaleError(ConnectionError):
    """The connection ended before a byte of the answer came."""


class _Exchange(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.answers = 0
        self.usable = False
        self._transport: asyncio.Transport | None = None
        self._reply: asyncio.Future[ModelReply] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._reset()

    def _reset(self) -> None:
        self._found = ModelReply()
        self._pieces: list[str] = []
        self._block: dict[str, Any] | None = None
        self._rest = b""
        self._refusal = b""
        self._begun = self._ended = False

    async def ask(self, request: bytes) -> ModelReply:
        """Raises ModelError, and OSError when the connection ends first. Cancelled, it closes the connection."""
        if self._transport is None:
            raise _StaleError("closed")
        self._reset()
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._reply
        except BaseException:
            self.usable = False
            if self._transport is not None:
                self._transport.abort()
            raise

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = typing.cast(asyncio.Transport, transport)
        self.usable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.usable = False
        self._fail(ConnectionError("the stream broke off") if self._begun else _StaleError("closed"))

    def data_received(self, data: bytes) -> None:
        self._begun = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ModelError(f"The endpoint speaks no HTTP: {error}"))

    # called by the parser; what is raised in here reaches data_received as HttpParserCallbackError

    def on_body(self, part: bytes) -> None:
        if self._parser.get_status_code() != 200:
            self._refusal += part[:200]
            return
        *events, self._rest = (self._rest + part).split(b"\n\n")
        for event in events:
            _, found, data = event.partition(b"data: ")
            if found:
                self._take(json.loads(data))

    def on_message_complete(self) -> None:
        self.answers += 1
        status = self._parser.get_status_code()
        self.usable = self._parser.should_keep_alive()
        if status != 200:
            self._fail(ModelError(f"{status} {self._refusal[:200].decode('utf-8', 'replace')}"))
        elif not self._ended:
            self._fail(ModelError("The stream ended before the message did."))
        elif self._reply is not None and not self._reply.done():
            self._reply.set_result(self._found)

    def _take(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "content_block_delta":
                delta = event["delta"]
                self._pieces.append(delta["text"] if delta["type"] == "text_delta" else delta["partial_json"])
            case "message_start":
                self._found.input_tokens = event["message"]["usage"]["input_tokens"]
            case "content_block_start":
                self._block, self._pieces = event["content_block"], []
            case "content_block_stop" if self._block is not None:
                whole = "".join(self._pieces)
                if self._block["type"] == "text":
                    self._block["text"] = whole
                else:
                    self._block["input"] = json.loads(whole or "{}")
                self._found.content.append(self._block)
            case "message_delta":
                self._found.stop_reason = event["delta"]["stop_reason"]
                self._found.output_tokens = event["usage"]["output_tokens"]
            case "message_stop":
                self._ended = True
            case "error":
                self._fail(ModelError(str(event.get("error"))[:200]))

    def _fail(self, error: Exception) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error)
