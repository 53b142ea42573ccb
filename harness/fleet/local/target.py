"""A target's server: one replica, HTTP/1.1, answers 200 to everything, after a delay when told so.

Run as ``python -m harness.fleet.local.target --name svc-1 --replica 0 --listen 127.0.2.1:0 --config FILE
--address-file FILE [--drain-s 1]``. FILE holds ``{"delay_ms": n}``; SIGHUP reads it again. SIGTERM drains: it goes on
serving, with ``Connection: close``, until its last connection is gone or ``--drain-s`` is over, then finishes what is
in flight and exits. The imports are few on purpose: a fleet runs sixteen of these.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import httptools

POLL_S = 0.02
LONGEST_DELAY_S = 60.0


class Replica:
    """What all connections of this process share."""

    def __init__(self, name: str, replica: int, config: Path) -> None:
        self.config = config
        self.delay_s = 0.0
        self.draining = False
        self.served = 0
        self.in_flight = 0
        self.connections: set[Connection] = set()
        body = f"{name} {replica}\n".encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n" % len(body)
        self.answer = head + b"\r\n" + body
        self.last_answer = head + b"Connection: close\r\n\r\n" + body
        self.read_config()

    def read_config(self) -> None:
        """Take the delay from the file; an unreadable file leaves the delay as it is and says so."""
        try:
            self.delay_s = min(float(json.loads(self.config.read_bytes())["delay_ms"]) / 1000, LONGEST_DELAY_S)
        except (OSError, ValueError, KeyError, TypeError) as error:
            say(f"kept a delay of {self.delay_s:g} s: {self.config} cannot be read ({error})")


class Connection(asyncio.Protocol):
    """One connection; requests on it are answered in order, one at a time."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.parser = httptools.HttpRequestParser(self)
        self.transport: asyncio.Transport | None = None
        self.waiting = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's transports are not asyncio.Transport
        self.replica.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.replica.connections.discard(self)
        self.replica.in_flight -= self.waiting
        self.waiting = 0

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            say(f"closed a connection that does not speak HTTP/1.1: {error}")
            if self.transport is not None:
                self.transport.close()

    def on_message_complete(self) -> None:
        """A whole request has come (called by the parser)."""
        self.waiting += 1
        self.replica.in_flight += 1
        if self.replica.delay_s:
            asyncio.get_running_loop().call_later(self.replica.delay_s, self.answer)
        else:
            self.answer()

    def answer(self) -> None:
        """Answer one request that waits, unless its connection is gone."""
        if self.transport is None:
            return
        self.waiting -= 1
        self.replica.in_flight -= 1
        self.replica.served += 1
        keep = self.parser.should_keep_alive() and not self.replica.draining
        self.transport.write(self.replica.answer if keep else self.replica.last_answer)
        if not keep and not self.waiting:
            self.transport.close()


def say(text: str) -> None:
    """One line with a UTC stamp into the log."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stderr.write(f"{stamp} {text}\n")
    sys.stderr.flush()


async def listen(replica: Replica, address: str) -> tuple[asyncio.Server, str]:
    """Listen on ``ip:port`` (port 0: any free one) or ``unix:/path``; the second value is the address in use."""
    loop = asyncio.get_running_loop()
    if address.startswith("unix:"):
        server = await loop.create_unix_server(lambda: Connection(replica), address.removeprefix("unix:"), backlog=512)
        return server, address
    ip, _, port = address.rpartition(":")
    server = await loop.create_server(lambda: Connection(replica), ip, int(port), backlog=512)
    return server, f"{ip}:{server.sockets[0].getsockname()[1]}"


async def drain(replica: Replica, server: asyncio.Server, drain_s: float) -> None:
    """Serve until the last connection is gone, at most ``drain_s``; then only what is in flight."""
    replica.draining = True
    deadline = time.monotonic() + drain_s
    while replica.connections and time.monotonic() < deadline:
        await asyncio.sleep(POLL_S)
    server.close()
    for connection in list(replica.connections):
        if not connection.waiting and connection.transport is not None:
            connection.transport.close()
    deadline = time.monotonic() + LONGEST_DELAY_S
    while replica.in_flight and time.monotonic() < deadline:
        await asyncio.sleep(POLL_S)


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT, then drain."""
    loop = asyncio.get_running_loop()
    replica = Replica(arguments.name, arguments.replica, arguments.config)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, replica.read_config)
    server, address = await listen(replica, arguments.listen)
    unfinished = arguments.address_file.with_suffix(".tmp")
    unfinished.write_text(address)
    unfinished.replace(arguments.address_file)
    say(f"{arguments.name} replica {arguments.replica} pid {os.getpid()} listens on {address}")
    await stop.wait()
    await drain(replica, server, arguments.drain_s)
    if address.startswith("unix:"):
        with contextlib.suppress(FileNotFoundError):
            Path(address.removeprefix("unix:")).unlink()
    say(f"{arguments.name} replica {arguments.replica} pid {os.getpid()} ends after {replica.served} requests")


def main() -> int:
    """The process's entry point. Exit 0 after an orderly end, 1 when it cannot listen."""
    parser = argparse.ArgumentParser(prog="python -m harness.fleet.local.target")
    parser.add_argument("--name", required=True)
    parser.add_argument("--replica", type=int, required=True)
    parser.add_argument("--listen", required=True, help="ip:port or unix:/path")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--address-file", type=Path, required=True)
    parser.add_argument("--drain-s", type=float, default=1.0)
    arguments = parser.parse_args()

    import uvloop

    try:
        uvloop.run(serve(arguments))
    except OSError as error:
        say(f"{arguments.name} replica {arguments.replica} cannot serve on {arguments.listen}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
