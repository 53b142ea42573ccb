"""What goes over the wire, and what of it is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.driver.link import Interval
from harness.driver.progress import merge
from harness.driver.protocol import decode, encode, phases_s, read_counters, read_result, start_message
from harness.plan.model import Plan, PlannedTarget

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
RESULT_KEYS = st.sampled_from(["elapsed_ms", "counters", "statistics", "harness", "started_at"])


def plan(rates_rps: list[int], *, duration_s: int = 10, **changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "scenario": "mesh", "pool": "p", "dns": "p:1", "rate_rps": sum(rates_rps), "duration_s": duration_s,
        "concurrency": 1, "max_pending": None, "connections": None, "timeout_s": None, "headers": (), "thresholds": (),
        "targets": tuple(PlannedTarget(f"t{i}", f"http://t{i}/", rate) for i, rate in enumerate(rates_rps)),
    }  # fmt: skip
    return Plan(**fields | changes)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=16), st.integers(1, 12))
def test_no_two_streams_share_a_phase_and_all_requests_are_due_in_time(rates_rps: list[int], backends: int) -> None:
    load = plan(rates_rps)
    fractions = set()
    for index in range(backends):
        for target, phase_s in zip(load.targets, phases_s(load, index, backends), strict=True):
            last_due_s = phase_s + (load.planned_per_node(target) - 1) / target.rate_rps
            assert 0 <= phase_s < 1 / target.rate_rps
            assert last_due_s < load.duration_s
            fractions.add(round(phase_s * target.rate_rps * len(rates_rps) * backends))
    assert fractions == set(range(len(rates_rps) * backends))


def test_a_targets_nodes_and_a_nodes_targets_are_spread_over_the_period() -> None:
    load = plan([9] * 8)
    grid = [[phase_s * 9 for phase_s in phases_s(load, node, 5)] for node in range(5)]
    for fractions in [*grid, *zip(*grid, strict=True)]:
        ordered = sorted(fractions)
        gaps = [b - a for a, b in zip(ordered, [*ordered[1:], ordered[0] + 1], strict=True)]
        assert max(gaps) <= 1.5 / len(fractions)


@pytest.mark.parametrize(
    ("concurrency", "max_pending", "connections", "expected"),
    [(1, 18, 100, (100, 18)), (2, 18, 50, (100, 36)), (1, None, 100, (100, 1)), (2, 0, 1, (2, 2))],
)
def test_an_engine_of_one_worker_gets_the_sum_of_what_the_plan_gives_each(
    concurrency: int, max_pending: int | None, connections: int, expected: tuple[int, int]
) -> None:
    load = plan([4], concurrency=concurrency, max_pending=max_pending)
    message = start_message(
        load, load.targets[0], phase_s=0.0, start_at_unix_ns=1, connections=connections, timeout_s=30.0
    )
    execution = message["execution"]
    assert (execution["connections"], execution["max_pending"]) == expected


def test_a_message_is_one_line() -> None:
    line = encode({"type": "cancel", "text": "a\nb"})
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == {"type": "cancel", "text": "a\nb"}


@given(st.binary(max_size=40))
def test_no_bytes_break_the_reader(line: bytes) -> None:
    assert decode(line) is None or isinstance(decode(line), dict)


def test_nesting_without_end_is_no_message() -> None:
    assert decode(b"[" * 100_000) is None


def test_only_benchmark_counters_that_moved_are_kept() -> None:
    told = {"benchmark.http_2xx": 3, "benchmark.x": 0, "cluster.y": 4, "benchmark.a": True, "benchmark.b": 1.5,
            "benchmark.c": -1, "benchmark.d": "7", "benchmark.e": 2**70}  # fmt: skip
    assert read_counters(told) == {"benchmark.http_2xx": 3}
    assert read_counters(None) == {}


@given(st.dictionaries(RESULT_KEYS, JSON))
def test_no_answer_breaks_the_reader_and_what_is_believed_can_be_reported(message: dict[str, Any]) -> None:
    result = read_result(message, "b")
    if result is not None:
        json.dumps(result.to_json(), allow_nan=False)


@given(JSON)
def test_no_interval_breaks_the_reader(told: Any) -> None:
    interval = Interval.read({"count": 1, "p50_ns": told, "max_ns": told} if not isinstance(told, dict) else told)
    assert interval.count >= 0


def test_intervals_merge_into_what_can_be_said_of_them_together() -> None:
    assert merge([]) is None
    assert merge([Interval(0), Interval(0)]) == Interval(0)
    told = [Interval(9, 100, 500, 600, 200), Interval(0, 7, 7, 7, 7), Interval(1, 900, 900, 900, 1200)]
    assert merge(told) == Interval(10, 100, 900, 900, 300)
