"""Real stalls: a frozen server's wait is in the latencies, a frozen engine's own delay is in its results."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.engine.conftest import Driver, EngineProcess, FixedServer

pytestmark = pytest.mark.fleet
StartEngine = Callable[..., EngineProcess]
Connect = Callable[[EngineProcess], Driver]
MS = 1_000_000


def freeze(pid: int, after_s: float, for_s: float) -> None:
    """SIGSTOP and SIGCONT one process."""
    time.sleep(after_s)
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(for_s)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_stalled_server_is_seen_in_full_and_the_load_does_not_wait_for_it(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer
) -> None:
    """100 rps for 3 s on 5 connections, 1 s of it frozen: all 300 sent, a third of them late by up to 1 s."""
    driver = connect(start_engine())
    driver.start(url=fixed_server.url, rate_rps=100, duration_s=3, connections=5, max_pending=1000, timeout_s=10)
    driver.read("hello")
    freeze(fixed_server.pid, after_s=1, for_s=1)
    result = driver.result()
    assert result["counters"] == {"benchmark.http_2xx": 300}
    assert fixed_server.requests() == 300
    latency = result["statistics"]["benchmark_http_client.latency_2xx"]
    # Of 300, about 100 waited, evenly from 1,000 down to 0 ms: p90 leaves 30 above it, so 700; p99 leaves 3, so 970.
    assert 600 * MS < latency["p90"] < 900 * MS
    assert 900 * MS < latency["p99"] < 1500 * MS
    assert result["statistics"]["benchmark_http_client.request_to_response"]["p50"] < 500 * MS
    assert 3000 <= result["elapsed_ms"] < 4000


def test_a_frozen_engine_releases_its_backlog_at_once_with_latencies_from_the_intended_moments(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer
) -> None:
    engine = start_engine()
    driver = connect(engine)
    driver.start(url=fixed_server.url, rate_rps=100, duration_s=2, connections=100, max_pending=1000, timeout_s=10)
    driver.read("hello")
    freeze(engine.process.pid, after_s=0.5, for_s=1)
    result = driver.result()
    assert result["counters"] == {"benchmark.http_2xx": 200}
    delay = result["statistics"]["harness.send_delay"]
    assert 800 * MS < delay["max"] < 1900 * MS
    assert result["statistics"]["benchmark_http_client.latency_2xx"]["max"] >= delay["max"]
    assert result["elapsed_ms"] < 3000


def test_a_backlog_larger_than_the_queue_overflows_as_it_would_in_any_limiter(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer
) -> None:
    engine = start_engine()
    driver = connect(engine)
    driver.start(url=fixed_server.url, rate_rps=200, duration_s=2, connections=5, max_pending=10, timeout_s=10)
    driver.read("hello")
    freeze(engine.process.pid, after_s=0.5, for_s=1)
    result = driver.result()
    assert result["harness"]["released"] == 400
    assert result["counters"]["benchmark.pool_overflow"] >= 100


def test_an_engine_frozen_past_its_end_says_how_long_it_really_lasted(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer
) -> None:
    engine = start_engine()
    driver = connect(engine)
    driver.start(url=fixed_server.url, rate_rps=100, duration_s=1, max_pending=1000, timeout_s=10)
    driver.read("hello")
    freeze(engine.process.pid, after_s=0.5, for_s=2)
    result = driver.result()
    assert result["counters"] == {"benchmark.http_2xx": 100}
    assert result["elapsed_ms"] >= 2300


def test_answers_that_arrived_while_the_engine_was_frozen_in_its_last_wait_are_not_lost(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer
) -> None:
    """Server frozen over the end, engine frozen until its wait is over: the answers lie in the sockets by then."""
    engine = start_engine()
    driver = connect(engine)
    driver.start(url=fixed_server.url, rate_rps=100, duration_s=0.5, max_pending=1000, timeout_s=1)
    driver.read("hello")
    os.kill(fixed_server.pid, signal.SIGSTOP)
    try:
        time.sleep(0.9)
        os.kill(engine.process.pid, signal.SIGSTOP)
    finally:
        os.kill(fixed_server.pid, signal.SIGCONT)
    time.sleep(1.2)
    os.kill(engine.process.pid, signal.SIGCONT)
    assert driver.result()["counters"] == {"benchmark.http_2xx": 50}
