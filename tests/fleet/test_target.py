"""A target's server as its own process: what it answers, its delay, and how it ends without losing a request."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.files import write_json

Until = Callable[[Callable[[], bool], float], None]


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    config: Path
    address: str

    def connect(self) -> http.client.HTTPConnection:
        ip, _, port = self.address.rpartition(":")
        return http.client.HTTPConnection(ip, int(port), timeout=10)


@pytest.fixture
def start(tmp_path: Path, until: Until) -> Iterator[Callable[..., Server]]:
    started: list[subprocess.Popen[bytes]] = []

    def run(listen: str = "127.0.2.1:0", drain_s: float = 1.0) -> Server:
        config, address_file = tmp_path / "config.json", tmp_path / "address"
        write_json(config, {"delay_ms": 0})
        process = subprocess.Popen(
            [
                sys.executable, "-m", "harness.fleet.local.target", "--name", "svc-1", "--replica", "1",
                "--listen", listen, "--config", str(config), "--address-file", str(address_file),
                "--drain-s", str(drain_s),
            ]
        )  # fmt: skip
        started.append(process)
        until(address_file.exists, 20)
        return Server(process, config, address_file.read_text())

    yield run
    for process in started:
        process.kill()
        process.wait()


def get(connection: http.client.HTTPConnection) -> tuple[int, str | None, bytes]:
    connection.request("GET", "/")
    response = connection.getresponse()
    return response.status, response.getheader("Connection"), response.read()


def test_it_answers_many_requests_on_one_connection(start: Callable[..., Server]) -> None:
    connection = start().connect()
    assert [get(connection) for _ in range(20)] == [(200, None, b"svc-1 1\n")] * 20
    connection.close()


def test_a_body_is_taken_and_answered(start: Callable[..., Server]) -> None:
    connection = start().connect()
    connection.request("POST", "/", body=b"x" * 100_000)
    response = connection.getresponse()
    assert (response.status, response.read()) == (200, b"svc-1 1\n")
    connection.close()


def test_the_delay_is_read_again_on_sighup(start: Callable[..., Server], until: Until) -> None:
    server = start()
    connection = server.connect()
    get(connection)
    write_json(server.config, {"delay_ms": 150})
    server.process.send_signal(signal.SIGHUP)

    def slow() -> bool:
        began_s = time.monotonic()
        assert get(connection)[0] == 200
        return time.monotonic() - began_s >= 0.15

    until(slow, 5)
    connection.close()


def test_sigterm_goes_on_serving_with_close_until_the_last_connection_is_gone(start: Callable[..., Server]) -> None:
    """A proxy may still hold a connection for a moment after it was told: that request must be answered."""
    server = start(drain_s=5)
    kept, other = server.connect(), server.connect()
    get(kept)
    get(other)
    server.process.terminate()
    time.sleep(0.2)
    assert get(kept) == (200, "close", b"svc-1 1\n")
    late = server.connect()  # also a new connection
    assert get(late)[0] == 200
    for connection in (kept, other, late):
        connection.close()
    assert server.process.wait(4) == 0


def test_what_is_in_flight_is_answered_even_past_the_drain(start: Callable[..., Server]) -> None:
    server = start(drain_s=0.1)
    write_json(server.config, {"delay_ms": 600})
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.1)
    seen: list[int] = []
    connection = server.connect()
    asker = threading.Thread(target=lambda: seen.append(get(connection)[0]))
    asker.start()
    time.sleep(0.1)
    server.process.terminate()
    assert server.process.wait(5) == 0
    asker.join(5)
    connection.close()
    assert seen == [200]


def test_an_idle_connection_does_not_keep_it_past_the_drain(start: Callable[..., Server]) -> None:
    server = start(drain_s=0.2)
    connection = server.connect()
    get(connection)
    server.process.terminate()
    assert server.process.wait(3) == 0
    connection.close()


def test_a_unix_socket_is_served_and_removed(start: Callable[..., Server], tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    server = start(f"unix:{path}")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while block := connection.recv(4096):
            answer += block
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"svc-1 1\n")
    server.process.terminate()
    assert server.process.wait(5) == 0
    assert not path.exists()


def test_an_address_that_is_taken_is_a_sentence_and_exit_1(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.2.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        write_json(tmp_path / "c", {"delay_ms": 0})
        ended = subprocess.run(
            [
                sys.executable, "-m", "harness.fleet.local.target", "--name", "svc-1", "--replica", "0",
                "--listen", f"127.0.2.1:{port}", "--config", tmp_path / "c", "--address-file", tmp_path / "a",
            ],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    assert ended.returncode == 1
    assert "cannot serve" in ended.stderr and "Traceback" not in ended.stderr
