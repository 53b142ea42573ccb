"""A server that misbehaves on demand, and an engine process with a driver's end of its wire."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.engine.execution import Execution
from harness.engine.spec import Address, parse_execution

ROOT = Path(__file__).resolve().parents[2]
Counters = dict[str, int]


@dataclass(frozen=True)
class Behaviour:
    """What the server does with one request: sends ``parts`` (each in a segment of its own), then ``then``.

    ``then``: ``keep`` the connection, ``fin``, ``rst``, or ``hang``. ``counts``: what the engine must count for it.
    """

    name: str
    parts: tuple[bytes, ...]
    then: str
    counts: tuple[str, ...]

    def __repr__(self) -> str:
        return self.name


def _resets(phase: str, reason: str) -> tuple[str, ...]:
    return ("stream_resets", f"stream_resets_{phase}", f"stream_resets_{reason}")


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_TWO = ("http_2xx",)
BEHAVIOURS = [
    Behaviour("ok", (OK,), "keep", _TWO),
    Behaviour("ok in pieces", (OK[:9], OK[9:30], OK[30:-1], OK[-1:]), "keep", _TWO),
    Behaviour(
        "chunked", (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", b"0\r\n\r\n"), "keep", _TWO
    ),
    Behaviour(
        "chunked with a trailer that looks like framing",
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nTransfer-Encoding: x\r\n", b"\r\n"),
        "keep",
        _TWO,
    ),
    Behaviour("empty", (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",), "keep", _TWO),
    Behaviour("says close", (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",), "hang", _TWO),
    Behaviour("http 1.0", (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",), "fin", _TWO),
    Behaviour("until close", (b"HTTP/1.1 200 OK\r\n\r\nsome", b"thing"), "fin", _TWO),
    Behaviour("gzip coding until close", (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nzz",), "fin", _TWO),
    Behaviour("keeps, then closes idle", (OK,), "fin", _TWO),
    Behaviour("keeps, then resets idle", (OK,), "rst", _TWO),
    Behaviour("bytes after the response", (OK + b"HTTP/1.1 2",), "keep", _TWO),
    Behaviour("second response", (OK + OK,), "keep", _TWO),
    Behaviour("garbage after the response", (OK + b"\0\1garbage",), "keep", _TWO),
    Behaviour("late bytes while idle", (OK, b"surprise"), "keep", _TWO),
    Behaviour("no content", (b"HTTP/1.1 204 No Content\r\n\r\n",), "keep", _TWO),
    Behaviour(
        "interim first",
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", OK),
        "keep",
        _TWO,
    ),
    Behaviour(
        "framed interim, then until close",
        (b"HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nsome"),
        "fin",
        _TWO,
    ),
    Behaviour(
        "switching", (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",), "keep", ("http_1xx",)
    ),
    Behaviour("not modified", (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",), "keep", ("http_3xx",)),
    Behaviour("not found", (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",), "keep", ("http_4xx",)),
    Behaviour("unavailable", (b"HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\nno!",), "keep", ("http_5xx",)),
    Behaviour("odd status", (b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",), "keep", ("http_xxx",)),
    Behaviour("closes before headers", (), "fin", _resets("before_headers", "connection_termination")),
    Behaviour(
        "closes inside headers",
        (b"HTTP/1.1 200 OK\r\nConte",),
        "fin",
        _resets("before_headers", "connection_termination"),
    ),
    Behaviour(
        "closes after an interim",
        (b"HTTP/1.1 100 Continue\r\n\r\n",),
        "fin",
        _resets("before_headers", "connection_termination"),
    ),
    Behaviour("resets before headers", (), "rst", _resets("before_headers", "remote_reset")),
    Behaviour(
        "closes inside the body",
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",),
        "fin",
        _resets("incomplete_body", "connection_termination"),
    ),
    Behaviour(
        "says close, closes inside the body",
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nok",),
        "fin",
        _resets("incomplete_body", "connection_termination"),
    ),
    Behaviour(
        "closes inside a chunk",
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok",),
        "fin",
        _resets("incomplete_body", "connection_termination"),
    ),
    Behaviour(
        "closes inside a trailer that looks like framing",
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nTransfer-Encoding: x\r\nA: b\r\n",),
        "fin",
        _resets("incomplete_body", "connection_termination"),
    ),
    Behaviour(
        "resets a body that lasts until close",
        (b"HTTP/1.1 200 OK\r\n\r\nsome",),
        "rst",
        _resets("incomplete_body", "remote_reset"),
    ),
    Behaviour("no http", (b"SSH-2.0-x\r\n",), "keep", _resets("before_headers", "protocol_error")),
    Behaviour(
        "bad chunk size",
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",),
        "keep",
        _resets("incomplete_body", "protocol_error"),
    ),
    Behaviour("never answers", (), "hang", ("http_inflight_lost",)),
    Behaviour(
        "stops inside the body", (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",), "hang", ("http_inflight_lost",)
    ),
]
BY_NAME = {behaviour.name: behaviour for behaviour in BEHAVIOURS}


@dataclass
class Server:
    """Takes one behaviour per request, in order of arrival; when they are used up, ``ok``."""

    script: list[Behaviour] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0

    @contextlib.asynccontextmanager
    async def listen(self, path: str | None = None) -> Any:
        """Serve on a free loopback port, or on a Unix socket at ``path``; yields the address."""
        if path is None:
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            address = Address(socket.AF_INET, server.sockets[0].getsockname()[:2])
        else:
            server = await asyncio.start_unix_server(self._serve, path)
            address = Address(socket.AF_UNIX, path)
        self._tasks: set[asyncio.Task[None]] = set()
        try:
            yield address
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0.01)  # transports close in a turn of their own

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            pass  # the test is over; asyncio would log a cancelled handler
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        behaviour = self.script.pop(0) if self.script else BY_NAME["ok"]
        for number, part in enumerate(behaviour.parts):
            if number:
                await asyncio.sleep(0.002)
            writer.write(part)
        if behaviour.then == "hang":
            await asyncio.Event().wait()
        if behaviour.then == "rst":
            await asyncio.sleep(0.002)  # what was written must arrive first
            linger_0 = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_0)
        return behaviour.then == "keep"


def execution_json(**changes: Any) -> dict[str, Any]:
    """A small valid execution: 10 requests in 0.1 s."""
    base = {
        "label": "mesh/svc",
        "url": "http://svc.mesh.internal:18081/",
        "rate_rps": 100,
        "duration_s": 0.1,
        "connections": 5,
        "max_pending": 100,
        "timeout_s": 0.5,
    }
    return base | changes


async def run_execution(address: Address, **changes: Any) -> dict[str, Any]:
    """Run one execution in this process and return its result, with every law of the accounting checked."""
    execution = Execution(
        parse_execution(execution_json(**changes)), address, start_at_unix_ns=None, on_progress=lambda _: None
    )
    result = await execution.run()
    check_accounting(result)
    return result


def check_accounting(result: dict[str, Any]) -> None:
    """released = sum of outcomes; each reset once in a phase and once in a reason; failures add up."""
    counters: Counters = {name.removeprefix("benchmark."): count for name, count in result["counters"].items()}
    harness, statistics = result["harness"], result["statistics"]
    assert all(counters.values())
    assert 0 <= harness["released"] <= harness["planned"]
    outcomes = sum(counters.get(f"http_{name}", 0) for name in ("1xx", "2xx", "3xx", "4xx", "5xx", "xxx"))
    outcomes += sum(
        counters.get(name, 0)
        for name in (
            "stream_resets",
            "pool_overflow",
            "pool_connection_failure",
            "pool_failure_timeout",
            "http_inflight_lost",
        )
    )
    assert harness["released"] == outcomes
    phases = ("stream_resets_before_headers", "stream_resets_incomplete_body")
    resets = counters.get("stream_resets", 0)
    assert resets == sum(counters.get(name, 0) for name in phases)
    assert resets == sum(
        count for name, count in counters.items() if name.startswith("stream_resets_") and name not in phases
    )
    assert counters.get("pool_connection_failure", 0) == sum(
        counters.get(f"pool_failure_{side}_connection_failure", 0) for side in ("local", "remote")
    )
    for name in ("1xx", "2xx", "3xx", "4xx", "5xx", "xxx"):
        statistic = statistics.get(f"benchmark_http_client.latency_{name}")
        assert (statistic["count"] if statistic else 0) == counters.get(f"http_{name}", 0)
    assert all(statistic["count"] > 0 for statistic in statistics.values())
    if outcomes:
        assert statistics["sequencer.callback"]["count"] == outcomes


class Driver:
    """The driver's end of an engine's wire, blocking, with a timeout on every read."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._file = self._socket.makefile("rwb")

    def send(self, message: dict[str, Any] | bytes) -> None:
        """One line."""
        self._file.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self._file.flush()

    def start(self, key: str | int = "1", **changes: Any) -> None:
        """Send a start."""
        self.send({"type": "start", "id": key, "execution": execution_json(**changes)})

    def read(self, *skip: str) -> dict[str, Any]:
        """The next message whose type is not in ``skip``. EOFError when the engine closed."""
        while True:
            line = self._file.readline()
            if not line:
                raise EOFError
            message: dict[str, Any] = json.loads(line)
            if message["type"] not in skip:
                return message

    def result(self) -> dict[str, Any]:
        """The next result, checked."""
        message = self.read("hello", "accepted", "progress")
        assert message["type"] == "result", message
        check_accounting(message)
        return message

    def close(self) -> None:
        """Drop the connection."""
        self._file.close()
        self._socket.close()


@dataclass
class EngineProcess:
    """A running engine."""

    process: subprocess.Popen[bytes]
    address: str


@pytest.fixture
def start_engine(tmp_path: Path) -> Iterator[Callable[..., EngineProcess]]:
    """Start engine processes; each is ended after the test."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*extra: str, lifetime_s: float = 60) -> EngineProcess:
        file = tmp_path / f"engine-{len(running)}.address"
        command = [sys.executable, "-m", "harness.engine", "--listen", "127.0.0.1:0", "--name", "node-a"]
        command += ["--lifetime-s", str(lifetime_s), "--address-file", str(file), *extra]
        process = subprocess.Popen(command, cwd=ROOT)
        running.append(process)
        deadline = time.monotonic() + 20
        while not file.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        return EngineProcess(process, file.read_text())

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def connect() -> Iterator[Callable[[EngineProcess], Driver]]:
    """Connect drivers to engines; each is closed after the test."""
    drivers: list[Driver] = []

    def to(engine: EngineProcess) -> Driver:
        drivers.append(Driver(engine.address))
        return drivers[-1]

    yield to
    for driver in drivers:
        driver.close()


@dataclass
class FixedServer:
    """A server process of its own, which a test may freeze."""

    pid: int
    port: int
    control: int

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}/"

    def requests(self) -> int:
        """Requests it has counted so far."""
        with socket.create_connection(("127.0.0.1", self.control), timeout=20) as connection:
            return int(json.loads(connection.makefile("rb").readline())["requests"])


@pytest.fixture
def fixed_server() -> Iterator[FixedServer]:
    """``benchmarks/fixed_server.py`` in a process of its own."""
    command = [sys.executable, str(ROOT / "benchmarks" / "fixed_server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None
        yield FixedServer(**json.loads(process.stdout.readline()))
        process.kill()
