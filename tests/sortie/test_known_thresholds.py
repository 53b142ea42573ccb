"""Thresholds on names that no engine tells are refused before the load; values per backend are told apart or not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.recorder import RAW, Recorder
from harness.errors import PlanError
from harness.plan.sortie_yaml import ZERO_FAILURES
from harness.sortie import names
from harness.sortie.durations import format_duration
from harness.sortie.thresholds import check_known, parse_threshold, split_actual


@pytest.mark.parametrize(
    "expr",
    [
        *ZERO_FAILURES,
        "rate:benchmark.http_2xx >= 17.82",
        "rate:http_2xx >= 17.82",
        "counter:http_5xx == 0",
        "counter:benchmark.stream_resets_remote_reset == 0",
        "counter:stream_resets_before_headers == 0",
        "latency_2xx.p99 < 500ms",
        "benchmark_http_client.latency_2xx.p99.5 < 500ms",
        "latency_xxx.count == 0",
        "request_to_response.p95 < 5ms",
        "queue_to_connect.p99 < 5ms",
        "queue_to_connect.p99.90 < 5ms",
        "queue_to_connect.p100 < 5ms",
        "callback.max < 1s",
        "send_delay.p95 < 5ms",
        "harness.send_delay.p99 < 5ms",
        "response_body_size.max <= 800",
        "response_body_size.p100 <= 800",
    ],
)
def test_what_an_engine_tells_is_accepted(expr: str) -> None:
    """Whole names and names by a dotted suffix."""
    check_known(parse_threshold(expr))


@pytest.mark.parametrize(
    ("expr", "says"),
    [
        ("counter:benchmark.http_5x == 0", r"did you mean benchmark\.http_5xx\?"),
        ("counter:http_5x == 0", r"did you mean http_5xx\?"),
        ("rate:benchmark.http_2x >= 1", r"did you mean benchmark\.http_2xx\?"),
        ("counter:benchmark.stream_resets_remote_rest == 0", r"did you mean benchmark\.stream_resets_remote_reset\?"),
        ("counter:benchmark.foo == 0", "the engine counts no 'benchmark.foo'; it counts: http_1xx, "),
        ("counter:upstream_cx_total == 5", "the engine counts no 'upstream_cx_total'"),
        ("counter:ssl.handshake == 5", "the engine counts no 'ssl.handshake'"),
        ("counter:benchmark.grpc_error == 0", "the engine counts no"),
        ("counter:5xx == 0", "the engine counts no '5xx'"),
        ("latency_2x.p99 < 1s", r"did you mean latency_2xx\?"),
        ("nosuch_stat.p99 < 5ms", "the engine measures no 'nosuch_stat'; it measures: latency_xxx, "),
        ("latency_grpc_ok.p99 < 5ms", "the engine measures no"),
        ("http_5xx.count == 0", "the engine measures no 'http_5xx'"),
        ("counter:latency_2xx == 0", "the engine counts no 'latency_2xx'"),
        ("response_body_size.p99 < 800", "has no percentiles"),
        ("queue_to_connect.p95 < 5ms", r"told at p50, p90, p99 and p99\.9 only"),
    ],
)
def test_what_no_engine_tells_is_refused_before_the_load(expr: str, says: str) -> None:
    """One of these would hold, or fail, whatever happened."""
    with pytest.raises(PlanError, match=says) as caught:
        check_known(parse_threshold(expr))
    assert repr(expr) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_names_are_those_of_the_engine() -> None:
    """Every statistic that a recorder gives, with and without a histogram, and no other."""
    recorder = Recorder()
    for status in (99, 100, 200, 300, 400, 500):
        recorder.connected(1)
        recorder.written(1)
        recorder.responded(status, due_ns=0, written_ns=1, done_ns=2, header_bytes=1, body_bytes=1)
    assert set(recorder.statistics()) == set(names.STATISTICS)
    assert set(names.SIZES) == RAW
    assert set(recorder.histograms()) == {name.rpartition(".")[2] for name in names.WITH_HISTOGRAM}
    assert set(recorder.counters()) < set(names.COUNTERS)


def test_no_short_name_means_two() -> None:
    """A suffix of a known name stands for that one only."""
    for known in ((*names.COUNTERS, *names.RESET_REASONS), names.STATISTICS):
        assert len({name.rpartition(".")[2] for name in known}) == len(known)


@pytest.mark.parametrize(
    ("expr", "actual", "backends", "split"),
    [
        ("latency_2xx.p99 < 500ms", "1.12ms, 4.894752767s", 2, [("1.12ms", True), ("4.894752767s", False)]),
        ("latency_2xx.p99 < 500ms", "1m2.5s", 1, [("1m2.5s", False)]),
        ("latency_2xx.count >= 5", "4, 5, 6", 3, [("4", False), ("5", True), ("6", True)]),
        ("response_body_size.mean <= 799.5", "799.5", 1, [("799.5", True)]),
        ("latency_2xx.p99 < 500ms", "1.12ms, 4.8s", 3, None),
        ("latency_2xx.p99 < 500ms", "1.12ms, 4.8", 2, None),
        ("latency_2xx.p99 < 500ms", "1.12ms, backend 10.0.0.1:1 has no statistic 'latency_2xx'", 2, None),
        ("latency_2xx.p99 < 500ms", "", 0, None),
        ("latency_2xx.count >= 5", "4ms", 1, None),
        ("counter:http_5xx == 0", "1", 1, None),
        ("rate:http_2xx >= 5", "1", 1, None),
        ("what nobody parses", "1", 1, None),
    ],
)
def test_actuals_are_told_apart_or_not_at_all(
    expr: str, actual: str, backends: int, split: list[tuple[str, bool]] | None
) -> None:
    """One readable value for each backend, of a threshold on each backend."""
    assert split_actual(expr, actual, backends) == split


@given(st.lists(st.integers(0, 10**14), min_size=1, max_size=8), st.integers(0, 10**14))
def test_values_as_the_driver_writes_them_are_told_apart(values_ns: list[int], limit_ns: int) -> None:
    """Each keeps its place and is judged as it was."""
    actual = ", ".join(format_duration(value) for value in values_ns)
    split = split_actual(f"latency_2xx.max < {limit_ns}ns", actual, len(values_ns))
    assert split is not None
    assert [holds for _, holds in split] == [value < limit_ns for value in values_ns]


@given(st.text(max_size=30), st.text(alphabet="0123456789.,msh e-", max_size=30), st.integers(0, 4))
def test_any_text_is_told_apart_or_not(expr: str, actual: str, backends: int) -> None:
    """Whatever a report holds, reading it does not fail."""
    for threshold in (expr, "latency_2xx.max < 1s", "latency_2xx.count < 1"):
        split = split_actual(threshold, actual, backends)
        assert split is None or len(split) == backends
