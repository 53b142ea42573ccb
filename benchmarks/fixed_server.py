"""A server cheap enough not to be what is measured: one fixed 200 per request head, keep-alive, one process.

Prints one JSON line ``{"port": …, "control": …, "pid": …}``. A connection to the control port gets one JSON line with
the requests counted so far and the process's CPU seconds, and is closed. Ends when its standard input closes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

import uvloop

BODY = b"ok" * 64
RESPONSE = (
    b"HTTP/1.1 200 OK\r\nServer: fixed\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
)
END_OF_HEAD = b"\r\n\r\n"


class Fixed(asyncio.Protocol):
    """Answers every request head; bodies are not expected."""

    requests = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep the transport."""
        self._transport = transport
        self._tail = b""

    def data_received(self, data: bytes) -> None:
        """Answer as many heads as have ended; a head cut by a read is completed by the next one."""
        data = self._tail + data
        heads = data.count(END_OF_HEAD)
        self._tail = data[data.rfind(END_OF_HEAD) + 4 :] if heads else data
        Fixed.requests += heads
        self._transport.write(RESPONSE * heads)


async def _control(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(json.dumps({"requests": Fixed.requests, "cpu_s": time.process_time()}).encode() + b"\n")
    await writer.drain()
    writer.close()


async def main() -> None:
    """Serve on two free loopback ports until standard input closes."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Fixed, "127.0.0.1", 0, backlog=1024)
    control = await asyncio.start_server(_control, "127.0.0.1", 0)
    ports = [item.sockets[0].getsockname()[1] for item in (server, control)]
    sys.stdout.write(json.dumps({"port": ports[0], "control": ports[1], "pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main())
