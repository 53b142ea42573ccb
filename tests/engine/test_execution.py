"""Start, end, cancellation and the statistics of one execution."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from harness.engine.execution import Execution
from harness.engine.spec import parse_execution
from tests.engine.conftest import BY_NAME, Server, check_accounting, execution_json, run_execution


def test_a_healthy_execution_sends_its_plan_to_the_request_and_lasts_its_duration() -> None:
    async def run() -> dict[str, Any]:
        async with Server().listen() as address:
            return await run_execution(address, rate_rps=100, duration_s=0.5, phase_s=0.009)

    result = asyncio.run(run())
    assert result["harness"] | {"histograms": None} == {
        "planned": 50,
        "released": 50,
        "cancelled": False,
        "histograms": None,
    }
    assert result["counters"] == {"benchmark.http_2xx": 50}
    assert 500 <= result["elapsed_ms"] < 1500
    assert result["started_at"].endswith("Z")
    assert set(result["statistics"]) == {
        "benchmark_http_client.latency_2xx",
        "benchmark_http_client.request_to_response",
        "benchmark_http_client.queue_to_connect",
        "benchmark_http_client.response_body_size",
        "benchmark_http_client.response_header_size",
        "sequencer.callback",
        "harness.send_delay",
    }
    latency = result["statistics"]["benchmark_http_client.latency_2xx"]
    assert latency["unit"] == "ns"
    assert latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]
    assert set(result["harness"]["histograms"]) == {"latency_2xx", "request_to_response", "send_delay"}
    assert HdrHistogram.decode(result["harness"]["histograms"]["latency_2xx"]).get_total_count() == 50


def test_latency_is_the_send_delay_plus_the_answer() -> None:
    async def run() -> dict[str, Any]:
        async with Server().listen() as address:
            return await run_execution(address)

    statistics = asyncio.run(run())["statistics"]
    latency, answer, delay = (
        statistics[name]["mean"]
        for name in (
            "benchmark_http_client.latency_2xx",
            "benchmark_http_client.request_to_response",
            "harness.send_delay",
        )
    )
    assert latency == pytest.approx(answer + delay)


def test_a_start_in_the_future_is_waited_for_and_a_past_one_begins_now() -> None:
    async def run(offset_s: float) -> tuple[float, dict[str, Any]]:
        async with Server().listen() as address:
            began = time.monotonic()
            execution = Execution(
                parse_execution(execution_json()),
                address,
                start_at_unix_ns=time.time_ns() + int(offset_s * 1e9),
                on_progress=lambda _: None,
            )
            return time.monotonic() - began, await execution.run()

    began = time.monotonic()
    _, later = asyncio.run(run(0.3))
    assert time.monotonic() - began >= 0.4
    _, past = asyncio.run(run(-3600))
    for result in (later, past):
        assert result["counters"] == {"benchmark.http_2xx": 10}
        assert 100 <= result["elapsed_ms"] < 1000


def test_the_wait_for_what_is_in_flight_is_bounded_and_not_in_the_elapsed_time() -> None:
    async def run() -> dict[str, Any]:
        async with Server([BY_NAME["never answers"]]).listen() as address:
            return await run_execution(address, timeout_s=0.8)

    began = time.monotonic()
    result = asyncio.run(run())
    assert time.monotonic() - began >= 0.9
    assert result["elapsed_ms"] < 800
    assert result["counters"] == {"benchmark.http_2xx": 9, "benchmark.http_inflight_lost": 1}


def test_cancelling_releases_nothing_more_and_keeps_what_was_measured() -> None:
    async def run(after_s: float, start_in_s: float = 0) -> dict[str, Any]:
        async with Server().listen() as address:
            execution = Execution(
                parse_execution(execution_json(duration_s=30)),
                address,
                start_at_unix_ns=time.time_ns() + int(start_in_s * 1e9),
                on_progress=lambda _: None,
            )
            asyncio.get_running_loop().call_later(after_s, execution.cancel)
            return await execution.run()

    result = asyncio.run(run(0.3))
    check_accounting(result)
    assert result["harness"]["cancelled"] is True
    assert 1 <= result["harness"]["released"] < 3000
    assert 300 <= result["elapsed_ms"] < 5000
    unstarted = asyncio.run(run(0.05, start_in_s=60))
    assert (unstarted["elapsed_ms"], unstarted["started_at"], unstarted["counters"]) == (0, None, {})
    assert unstarted["statistics"] == {}


def test_progress_comes_every_second_with_totals_and_the_interval_since_the_last() -> None:
    reports: list[dict[str, Any]] = []

    async def run() -> dict[str, Any]:
        async with Server([BY_NAME["unavailable"]] * 5).listen() as address:
            execution = Execution(
                parse_execution(execution_json(rate_rps=20, duration_s=2.5)),
                address,
                start_at_unix_ns=None,
                on_progress=reports.append,
            )
            return await execution.run()

    result = asyncio.run(run())
    assert len(reports) == 2
    first, second = reports
    assert first["elapsed_ms"] < second["elapsed_ms"]
    assert first["counters"]["benchmark.http_5xx"] == 5
    seen = [report["interval"]["count"] for report in reports]
    assert sum(seen) == second["counters"]["benchmark.http_2xx"]
    assert set(first["interval"]) == {"count", "p50_ns", "p99_ns", "max_ns"}
    assert result["statistics"]["benchmark_http_client.latency_2xx"]["count"] == 45
