"""What becomes of requests that get no connection, each exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.engine.connection import Connection
from harness.engine.execution import Execution
from harness.engine.spec import Address, parse_execution
from tests.engine.conftest import BY_NAME, OK, Behaviour, Server, execution_json, run_execution


def counters(result: dict[str, Any]) -> dict[str, int]:
    return dict(result["counters"])


def closed_port() -> Address:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Address(socket.AF_INET, probe.getsockname())


REFUSED = {"benchmark.pool_connection_failure": 10, "benchmark.pool_failure_remote_connection_failure": 10}


def test_a_refused_connect_ends_one_request() -> None:
    result = asyncio.run(run_execution(closed_port()))
    assert counters(result) == REFUSED
    assert "harness.send_delay" not in result["statistics"]
    assert result["harness"]["histograms"] == {}


def test_a_missing_unix_socket_is_a_remote_failure_too(tmp_path: Path) -> None:
    result = asyncio.run(run_execution(Address(socket.AF_UNIX, str(tmp_path / "nobody"))))
    assert counters(result) == REFUSED


def test_running_out_of_descriptors_is_a_local_failure() -> None:
    async def run() -> dict[str, Any]:
        execution = Execution(
            parse_execution(execution_json()), closed_port(), start_at_unix_ns=None, on_progress=lambda _: None
        )
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest_free = os.open("/dev/null", os.O_RDONLY)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            return await execution.run()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert counters(asyncio.run(run())) == {
        "benchmark.pool_connection_failure": 10,
        "benchmark.pool_failure_local_connection_failure": 10,
    }


def test_a_connect_that_hangs_times_out_and_is_no_connection_failure() -> None:
    async def run() -> dict[str, Any]:
        with socket.socket() as listener, socket.socket() as filler_1, socket.socket() as filler_2:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)  # a full backlog drops further connects without a word
            for filler in (filler_1, filler_2):
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            await asyncio.sleep(0.05)
            return await run_execution(Address(socket.AF_INET, listener.getsockname()), timeout_s=0.3)

    result = counters(asyncio.run(run()))
    assert set(result) <= {"benchmark.pool_failure_timeout", "benchmark.http_inflight_lost"}
    assert result["benchmark.pool_failure_timeout"] >= 1
    assert sum(result.values()) == 10


def test_a_full_queue_overflows_and_the_rest_is_lost_in_flight_when_nothing_answers() -> None:
    async def run() -> dict[str, Any]:
        async with Server([BY_NAME["never answers"]]).listen() as address:
            return await run_execution(address, connections=1, max_pending=2, timeout_s=0.2)

    result = asyncio.run(run())
    assert counters(result) == {"benchmark.pool_overflow": 7, "benchmark.http_inflight_lost": 3}
    assert result["statistics"]["harness.send_delay"]["count"] == 1


def test_a_queue_of_zero_is_a_queue_of_one() -> None:
    async def run() -> dict[str, Any]:
        async with Server().listen() as address:
            return await run_execution(address, rate_rps=20, duration_s=0.1, max_pending=0)

    assert counters(asyncio.run(run())) == {"benchmark.http_2xx": 2}


def test_queued_requests_are_served_in_order_by_whichever_connection_comes_free() -> None:
    slow_start = Behaviour("slow", BY_NAME["ok in pieces"].parts, "keep", ())

    async def run() -> tuple[dict[str, Any], int]:
        server = Server([slow_start] * 40)
        async with server.listen() as address:
            return await run_execution(address, rate_rps=2000, duration_s=0.02, connections=2), server.connections

    result, connections = asyncio.run(run())
    assert counters(result) == {"benchmark.http_2xx": 40}
    assert connections == 2
    wait, latency = (
        result["statistics"][f"benchmark_http_client.{name}"] for name in ("queue_to_connect", "latency_2xx")
    )
    assert wait["max"] > 20_000_000  # 40 requests, 2 at a time, 6 ms each
    assert latency["max"] >= wait["max"]


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("says close", {"benchmark.http_2xx": 10}),
        (
            "closes before headers",
            {
                "benchmark.http_2xx": 5,
                "benchmark.stream_resets": 5,
                "benchmark.stream_resets_before_headers": 5,
                "benchmark.stream_resets_connection_termination": 5,
            },
        ),
    ],
)
def test_a_connection_that_ended_makes_room_for_the_queue(first: str, expected: dict[str, int]) -> None:
    async def run() -> dict[str, Any]:
        async with Server([BY_NAME[first]] * 5).listen() as address:
            return await run_execution(address, rate_rps=10_000, duration_s=0.001, connections=1)

    assert counters(asyncio.run(run())) == expected


def test_a_connect_that_succeeded_while_this_process_was_frozen_is_no_timeout() -> None:
    """After a thaw the timers come first; what the kernel finished meanwhile must still count."""
    events: list[str] = []

    class Listener:
        def opened(self, _: Connection) -> None:
            events.append("opened")

        def dial_failed(self, _: Connection, counter: str) -> None:
            events.append(counter)

        def responded(self, *_: object) -> None: ...
        def reset(self, *_: object) -> None: ...
        def lost_idle(self, *_: object) -> None: ...

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            connection = Connection(
                asyncio.get_running_loop(), parse_execution(execution_json(timeout_s=0.1)), Listener()
            )
            connection.dial(Address(socket.AF_INET, listener.getsockname()))
            time.sleep(0.2)
            connection._on_dial_timeout()  # what the loop does first when both are ready
            await asyncio.sleep(0.05)
            connection.close()

    asyncio.run(run())
    assert events == ["opened"]


def test_a_connection_the_peer_closed_while_this_process_slept_is_not_used() -> None:
    """The engine's own lateness must not show as resets of the mesh."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=close_each_connection_after_30_ms_of_idleness, args=(listener,), daemon=True)
        server.start()

        async def run() -> dict[str, Any]:
            asyncio.get_running_loop().call_later(0.055, time.sleep, 0.2)
            address = Address(socket.AF_INET, listener.getsockname())
            return await run_execution(address, rate_rps=50, duration_s=0.4, connections=1)

        assert counters(asyncio.run(run())) == {"benchmark.http_2xx": 20}
        listener.shutdown(socket.SHUT_RDWR)
        server.join(10)


def close_each_connection_after_30_ms_of_idleness(listener: socket.socket) -> None:
    with contextlib.suppress(OSError), ThreadPoolExecutor() as threads:
        while True:
            threads.submit(answer_until_idle, listener.accept()[0])


def answer_until_idle(connection: socket.socket) -> None:
    with connection, contextlib.suppress(TimeoutError):
        connection.settimeout(0.03)
        while connection.recv(4096):
            connection.sendall(OK)
