"""Cluster DNS: ``SERVICE.NAMESPACE.svc.cluster.local`` is every ready endpoint of the Service, headless or not.

There is no kube-proxy, so a Service with a cluster address is answered by its endpoints too; its port must then be its
target's. ``python -m tests.cluster.dns KUBECONFIG`` serves on the bridge's address. Nothing is passed on to anybody.
"""

from __future__ import annotations

import contextlib
import socketserver
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.cluster.api import Api, ApiError
from tests.cluster.netns import GATEWAY

PORT = 53
A, ANY, IN = 1, 255, 1
NO_ERROR, FORMAT_ERROR, SERVER_FAILURE, NO_NAME = 0, 1, 2, 3
TTL_S = 1
FRESH_S = 0.5
UDP_BYTES = 1232
DOMAIN = ["svc", "cluster", "local"]
HEADER = struct.Struct("!6H")


class Names:
    """What names resolve to, read from the API at most every ``FRESH_S`` for each."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[float, list[str] | None]] = {}

    def addresses(self, labels: list[str]) -> list[str] | None:
        """The addresses of a name; None when there is no such name. Raises OSError when the API does not answer."""
        if len(labels) != 5 or labels[2:] != DOMAIN:
            return None
        service = (labels[1], labels[0])
        with self._lock:
            read_s, found = self._known.get(service, (float("-inf"), None))
            if time.monotonic() - read_s > FRESH_S:
                found = self._read(*service)
                self._known[service] = (time.monotonic(), found)
            return found

    def _read(self, namespace: str, name: str) -> list[str] | None:
        try:
            document = self._api.get(f"/api/v1/namespaces/{namespace}/endpoints/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise OSError(str(error)) from error
        subsets = document.get("subsets") or []
        return sorted(address["ip"] for subset in subsets for address in subset.get("addresses") or [])


def answer(query: bytes, names: Names) -> bytes:
    """The answer to one query. Raises ValueError for what is no query."""
    try:
        number, flags, questions, *_ = HEADER.unpack_from(query)
        labels, end = _name(query, HEADER.size)
        kind, group = struct.unpack_from("!2H", query, end)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError("no DNS query") from error
    if questions != 1 or flags & 0x8000:
        raise ValueError("no DNS query")
    addresses: list[str] = []
    code = NO_ERROR
    try:
        found = names.addresses([label.lower() for label in labels])
        if found is None:
            code = NO_NAME
        elif kind in (A, ANY) and group == IN:
            addresses = found
    except OSError:
        code = SERVER_FAILURE
    records = b"".join(
        struct.pack("!3HIH", 0xC000 | HEADER.size, A, IN, TTL_S, 4) + bytes(map(int, address.split(".")))
        for address in addresses
    )
    head = HEADER.pack(number, 0x8480 | flags & 0x0100 | code, 1, len(addresses), 0, 0)
    return head + query[HEADER.size : end + 4] + records


def _name(query: bytes, at: int) -> tuple[list[str], int]:
    labels = []
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode("ascii"))
        at += 1 + length
    return labels, at + 1


class Udp(socketserver.BaseRequestHandler):
    """One query in a datagram; an answer too long for one is asked for again over TCP."""

    server: Any

    def handle(self) -> None:
        """Answer it."""
        query, socket = self.request
        with contextlib.suppress(ValueError):
            full = answer(query, self.server.names)
            if len(full) > UDP_BYTES:
                head = bytearray(full[: HEADER.size])
                head[2] |= 0x02
                head[6:8] = b"\0\0"
                full = bytes(head) + query[HEADER.size : _name(query, HEADER.size)[1] + 4]
            socket.sendto(full, self.client_address)


class Tcp(socketserver.StreamRequestHandler):
    """Queries on a connection, each after its length."""

    timeout = 10
    server: Any

    def handle(self) -> None:
        """Answer them."""
        with contextlib.suppress(ValueError, OSError):
            while len(length := self.rfile.read(2)) == 2:
                full = answer(self.rfile.read(int.from_bytes(length, "big")), self.server.names)
                self.wfile.write(len(full).to_bytes(2, "big") + full)


class TcpServer(socketserver.ThreadingTCPServer):
    """Started again at once after it was killed."""

    allow_reuse_address = True
    daemon_threads = True


def main() -> int:
    """Serve until killed."""
    names = Names(Api.of(Path(sys.argv[1])))
    servers: list[Any] = [socketserver.ThreadingUDPServer((GATEWAY, PORT), Udp), TcpServer((GATEWAY, PORT), Tcp)]
    for server in servers:
        server.names = names
        threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
