"""The supervisor's control socket: one JSON line asks, one JSON line answers, then the connection is closed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from harness.errors import FleetError

LINE_LIMIT_BYTES = 1 << 20
Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


async def serve(path: Path, handler: Handler) -> asyncio.Server:
    """Listen on ``path``. ``handler`` turns a request into an answer; a FleetError in it becomes ``ok: false``."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            writer.write(json.dumps(await _answer(line, handler)).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            pass  # the asker is gone or sent an endless line; there is nobody to tell
        finally:
            writer.close()

    return await asyncio.start_unix_server(answer, path=str(path), limit=LINE_LIMIT_BYTES)


async def _answer(line: bytes, handler: Handler) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except ValueError:
        return {"ok": False, "error": "the request is not one line of JSON"}
    if not isinstance(request, dict):
        return {"ok": False, "error": "the request is not a JSON object"}
    try:
        return {"ok": True} | await handler(request)
    except FleetError as error:
        return {"ok": False, "error": str(error)}


def ask(path: Path, request: dict[str, Any], *, limit_s: float) -> dict[str, Any]:
    """Send one request and return the answer. Raises FleetError when nobody answers in ``limit_s``."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(limit_s)
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with contextlib.closing(connection.makefile("rb")) as answers:
                answer: dict[str, Any] = json.loads(answers.readline())
                return answer
    except (OSError, ValueError) as error:
        raise FleetError(f"the supervisor does not answer on {path} ({error or 'no answer'})") from error
