"""The few HTTP requests that the supervisor itself makes: proxies' admin pages and readiness probes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any


async def get(address: str | Path, path: str, *, host: str = "localhost", limit_s: float = 5.0) -> tuple[int, bytes]:
    """One HTTP/1.1 request on a connection of its own; ``address`` is ``ip:port`` or the path of a Unix socket.

    Returns status and body. Raises OSError (TimeoutError included) when there is no whole answer in ``limit_s``.
    """
    try:
        async with asyncio.timeout(limit_s):
            return await _exchange(address, path, host)
    except (asyncio.IncompleteReadError, ValueError, IndexError) as error:
        raise ConnectionError(f"{address} sent no whole HTTP answer") from error


async def _exchange(address: str | Path, path: str, host: str) -> tuple[int, bytes]:
    if isinstance(address, Path):
        reader, writer = await asyncio.open_unix_connection(str(address))
    else:
        ip, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(ip, int(port))
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split(" ")[1])
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        if headers.get("transfer-encoding") == "chunked":
            return status, await _chunks(reader)
        if "content-length" in headers:
            return status, await reader.readexactly(int(headers["content-length"]))
        return status, await reader.read()
    finally:
        writer.close()


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    return body


async def get_json(address: str | Path, path: str, *, limit_s: float = 5.0) -> Any:
    """The JSON body of a 200 answer. Raises OSError for any other answer."""
    status, body = await get(address, path, limit_s=limit_s)
    if status != 200:
        raise ConnectionError(f"{address} answered {status} for {path}")
    try:
        return json.loads(body)
    except ValueError as error:
        raise ConnectionError(f"{address} sent no JSON for {path}") from error
