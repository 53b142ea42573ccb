"""An HTTP server of the test that answers as it was told: for what a real API server cannot be made to do on purpose.

It is no Kubernetes. What is real in a test with it: the client, the kubeconfig, and the sockets on 127.0.0.1.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Document = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """One answer. ``cut_at`` ends it after so many bytes; ``every_s`` sends a byte at a time; ``pause_s`` comes first.

    ``reset`` sends nothing and resets the connection.
    """

    body: Any = field(default_factory=dict)
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    pause_s: float = 0.0
    cut_at: int | None = None
    every_s: float = 0.0
    reset: bool = False

    @property
    def raw(self) -> bytes:
        """The bytes of the body."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def refusal(status: int, message: str = "so told", **headers: str) -> Answer:
    """An error in the form of the API; header names with ``_`` for ``-``."""
    body = {"kind": "Status", "status": "Failure", "code": status, "message": message}
    return Answer(body, status, tuple((name.replace("_", "-"), value) for name, value in headers.items()))


def listed(*items: Document, version: str = "1") -> Answer:
    """A list of objects."""
    return Answer({"kind": "List", "metadata": {"resourceVersion": version}, "items": list(items)})


def events(*told: tuple[str, Document]) -> Answer:
    """The events of a watch that the server ends then."""
    return Answer(b"".join(json.dumps({"type": kind, "object": thing}).encode() + b"\n" for kind, thing in told))


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class Told:
    """The server. ``answer(method, path, …)`` tells it what to answer in turn; the last one is repeated."""

    def __init__(self) -> None:
        self.requests: list[Asked] = []
        self._answers: dict[tuple[str, str], deque[Answer]] = {}
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self._connections: set[socket.socket] = set()
        self.port = 0

    @property
    def url(self) -> str:
        """Where it listens, or listened."""
        return f"http://127.0.0.1:{self.port}"

    def answer(self, method: str, path: str, *answers: Answer | Document) -> None:
        """What to answer to ``method`` and ``path`` (without its query), one after another."""
        whole = [found if isinstance(found, Answer) else Answer(found) for found in answers]
        with self._lock:
            self._answers[method, path] = deque(whole)

    def asked(self, method: str, path: str) -> list[Asked]:
        """The requests that came for ``method`` and ``path``."""
        with self._lock:
            return [request for request in self.requests if (request.method, request.path) == (method, path)]

    def open(self) -> None:
        """Listen; on the port of before, when there was one."""
        told = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                told._connections.add(self.connection)

            def finish(self) -> None:
                told._connections.discard(self.connection)
                with suppress(OSError):  # a reset connection has nothing to flush to
                    super().finish()

            def _any(self) -> None:
                told._handle(self)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _any  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections from now on, and end those that are open."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
            for connection in list(self._connections):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        raw = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        asked = Asked(
            handler.command,
            parts.path,
            query,
            {key.lower(): value for key, value in handler.headers.items()},
            json.loads(raw) if raw else None,
        )
        with self._lock:
            self.requests.append(asked)
            waiting = self._answers.get((asked.method, asked.path))
            answer = (waiting.popleft() if len(waiting) > 1 else waiting[0]) if waiting else None
        _send(handler, answer or refusal(404, f"{asked.method} {asked.path}: nothing was told of it"))


def _send(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    time.sleep(answer.pause_s)
    handler.close_connection = answer.cut_at is not None or answer.reset
    try:
        if answer.reset:
            # close() then sends RST
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()
            return
        handler.send_response(answer.status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(answer.raw)))
        for name, value in answer.headers:
            handler.send_header(name, value)
        handler.end_headers()
        for part in _parts(answer):
            handler.wfile.write(part)
            handler.wfile.flush()
    except OSError:
        handler.close_connection = True  # the client had enough


def _parts(answer: Answer) -> Iterator[bytes]:
    raw = answer.raw[: answer.cut_at]
    if not answer.every_s:
        yield raw
        return
    for index in range(len(raw)):
        yield raw[index : index + 1]
        time.sleep(answer.every_s)


@contextmanager
def told_server() -> Iterator[Told]:
    """A server that listens, and is closed afterwards."""
    told = Told()
    told.open()
    try:
        yield told
    finally:
        told.close()


def write_kubeconfig(path: Path, url: str, *, context: str = "test", bearer: str = "first") -> None:
    """A kubeconfig with one context, and a current context that nothing may use."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "somebody-elses",
        "clusters": [
            {"name": "cluster", "cluster": {"server": url}},
            {"name": "elsewhere", "cluster": {"server": "http://127.0.0.1:1"}},
        ],
        "users": [{"name": "user", "user": {"token": bearer}}],
        "contexts": [
            {"name": context, "context": {"cluster": "cluster", "user": "user"}},
            {"name": "somebody-elses", "context": {"cluster": "elsewhere", "user": "user"}},
        ],
    }
    path.write_text(json.dumps(document))
