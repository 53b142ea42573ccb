"""A stand-in for a target: a real HTTP server on loopback that answers turns as a test tells it to.

It has the surface of a supervisor, its admin listener and its stub on one port, and none of their work.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, Any] | bytes]
GOOD: dict[str, Any] = {"sessionId": "s", "response": "done", "stopReason": "stop"}


class StandIn:
    """What the server answers, and what it was asked."""

    def __init__(self) -> None:
        self.turns: list[dict[str, str]] = []
        self.reply: Callable[[int], Reply] = lambda number: (200, GOOD)
        self.delay_s = 0.005
        self.metrics: Callable[[], Any] = metrics_document
        self.profile: Any = {"ttftMs": 300, "tokenDelayMs": 12, "outputTokens": 64, "toolCallRate": 0.5}
        self.connections = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.lock = threading.Lock()
        self.url = ""

    def turn(self, headers: dict[str, str]) -> Reply:
        """One turn, after the delay."""
        with self.lock:
            self.turns.append(headers)
            number = len(self.turns)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        time.sleep(self.delay_s)
        with self.lock:
            self.in_flight -= 1
        return self.reply(number)


def metrics_document(**more: Any) -> dict[str, Any]:
    """Metrics of two healthy workers."""
    worker = {"inFlight": 1, "healthy": True, "loop_lag_p99_ms": 1.2, "rss_bytes": 1000, "cpu_seconds": 1.0}
    return {
        "workers": [{"id": number, "pid": 100 + number, **worker} for number in range(2)],
        "restarts": 0,
        "handoff_retries": 0,
        "handoff_failures": 0,
        "over_admission": 0,
        "spurious_refusals": 0,
        "lease_saturation": 0.5,
        "sandbox_pool_size": 2,
        "cores": 2,
        "lag_resolution_ms": 1,
        "file_op_p95_ms": "NaN",
        "env": {"SH_WORKERS": "2", "SH_TURNS_PER_WORKER": "4", "KAGENTI_SANDBOX_CAP": "13"},
        **more,
    }


@contextmanager
def standing() -> Iterator[StandIn]:
    """A stand-in that listens until the block ends."""
    state = StandIn()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            with state.lock:
                state.connections += 1

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.path == "/turn":
                self._answer(*state.turn({name.lower(): value for name, value in self.headers.items()}))
            else:
                self._answer(404, {"error": "not_found"})

        def do_GET(self) -> None:
            pages = {"/metrics": state.metrics, "/profile": lambda: state.profile, "/health": lambda: {"ok": True}}
            page = pages.get(self.path)
            self._answer(200, page()) if page else self._answer(404, {"error": "not_found"})

        def _answer(self, status: int, document: Any) -> None:
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that went away at its deadline

    server = Server(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
