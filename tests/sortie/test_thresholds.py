"""Threshold expressions: what parses, what is refused, and how each is judged."""

from __future__ import annotations

import operator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import PlanError
from harness.sortie.percentiles import percentile
from harness.sortie.report import BackendResult
from harness.sortie.thresholds import format_number, judge, parse_threshold, parse_thresholds

LATENCY = "benchmark_http_client.latency_2xx"
SIZE = "benchmark_http_client.response_body_size"


def survivor(backend: str = "127.0.1.1:1", *, elapsed_ms: int = 60_000, **changes: Any) -> BackendResult:
    fields: dict[str, Any] = {
        "counters": {"benchmark.http_2xx": 540, "benchmark.http_5xx": 2},
        "statistics": {
            LATENCY: {"count": 540, "unit": "ns", "mean": 2214531.4, "min": 1000000, "p99": 3112447, "max": 6000000},
            "harness.send_delay": {"count": 540, "unit": "ns", "p99": 900_000},
            SIZE: {"count": 540, "unit": "raw", "mean": 799.5, "max": 800},
        },
    }  # fmt: skip
    return BackendResult(backend=backend, elapsed_ms=elapsed_ms, **fields | changes)


TWO = [survivor(), survivor("127.0.1.2:1", elapsed_ms=60_100, counters={"benchmark.http_2xx": 531})]


@pytest.mark.parametrize(
    ("expr", "passed", "scope", "actual"),
    [
        ("counter:benchmark.http_2xx == 1071", True, "pool", "1071"),
        ("counter:http_5xx == 0", False, "pool", "2"),
        ("counter:http_5xx <= 2", True, "pool", "2"),
        ("counter:http_5xx < 2", False, "pool", "2"),
        ("counter:http_5xx != 2", False, "pool", "2"),
        ("counter:http_5xx > 1", True, "pool", "2"),
        ("counter:benchmark.http_4xx == 0", True, "pool", "0"),
        ("counter:xx == 0", True, "pool", "0"),  # a suffix must start after a dot
        ("rate:benchmark.http_2xx >= 17.82", True, "pool", "17.820299500831947"),
        ("rate:http_2xx >= 17.83", False, "pool", "17.820299500831947"),
        ("rate:nothing >= 1", False, "pool", "0"),
        ("latency_2xx.p99 < 500ms", True, "per-backend", "3.112447ms, 3.112447ms"),
        (f"{LATENCY}.p99 < 3ms", False, "per-backend", "3.112447ms, 3.112447ms"),
        ("latency_2xx.p99 <= 3112447ns", True, "per-backend", "3.112447ms, 3.112447ms"),
        ("latency_2xx.mean < 1s", True, "per-backend", "2.214531ms, 2.214531ms"),
        ("latency_2xx.max == 6ms", True, "per-backend", "6ms, 6ms"),
        ("latency_2xx.p100 == 6ms", True, "per-backend", "6ms, 6ms"),
        ("latency_2xx.min >= 1ms", True, "per-backend", "1ms, 1ms"),
        ("latency_2xx.count >= 540", True, "per-backend", "540, 540"),
        ("harness.send_delay.p99 < 1ms", True, "per-backend", "900µs, 900µs"),
        ("send_delay.p99 < 500us", False, "per-backend", "900µs, 900µs"),
        ("response_body_size.mean <= 799.5", True, "per-backend", "799.5, 799.5"),
        ("response_body_size.max==800", True, "per-backend", "800, 800"),
    ],
)
def test_thresholds_are_judged(expr: str, passed: bool, scope: str, actual: str) -> None:
    result = judge(parse_threshold(expr), TWO)
    assert (result.passed, result.scope, result.actual) == (passed, scope, actual)
    assert result.expr == expr


@pytest.mark.parametrize(
    ("expr", "says"),
    [
        ("latency_5xx.p99 < 1s", "has no statistic 'latency_5xx'"),
        ("latency_2xx.pstdev < 1s", "has no pstdev of statistic"),
        ("latency_2xx.p95 < 1s", "has no p95 of statistic"),  # no histogram came along
        ("response_body.p99 < 1s", "has no statistic"),
    ],
)
def test_what_cannot_be_resolved_fails_and_says_why(expr: str, says: str) -> None:
    result = judge(parse_threshold(expr), TWO)
    assert not result.passed
    assert result.actual.count(says) == 2


def test_one_backend_that_fails_fails_the_threshold() -> None:
    slow = survivor("127.0.1.2:1", statistics={LATENCY: {"count": 1, "unit": "ns", "p99": 900_000_000}})
    result = judge(parse_threshold("latency_2xx.p99 < 500ms"), [survivor(), slow])
    assert (result.passed, result.actual) == (False, "3.112447ms, 900ms")
    missing = survivor("127.0.1.2:1", statistics={})
    result = judge(parse_threshold("latency_2xx.p99 < 500ms"), [survivor(), missing])
    assert not result.passed
    assert result.actual.startswith("3.112447ms, backend 127.0.1.2:1 has no statistic")


def test_a_name_that_two_metrics_end_in_is_ambiguous() -> None:
    twice = survivor(counters={"a.hits": 1, "b.hits": 1}, statistics={
        "a.wait": {"count": 1, "unit": "ns", "max": 1}, "b.wait": {"count": 1, "unit": "ns", "max": 1}})  # fmt: skip
    for expr in ("counter:hits == 0", "rate:hits >= 0", "wait.max < 1s"):
        result = judge(parse_threshold(expr), [twice])
        assert not result.passed
        assert "ambiguous" in result.actual
    assert judge(parse_threshold("counter:a.hits == 1"), [twice]).passed


def test_a_whole_name_means_itself_even_where_it_ends_another() -> None:
    result = judge(parse_threshold("counter:hits == 1"), [survivor(counters={"hits": 1, "b.hits": 5})])
    assert (result.passed, result.actual) == (True, "1")


def test_a_unit_that_does_not_fit_the_statistic_fails() -> None:
    odd = survivor(
        statistics={"odd": {"count": 1, "unit": "raw", "max": 1}, "odd_size": {"count": 1, "unit": "ns", "max": 1}}
    )
    assert "a plain number" in judge(parse_threshold("odd.max < 1s"), [odd]).actual
    assert "a duration" in judge(parse_threshold("odd_size.max < 1"), [odd]).actual


def test_without_a_survivor_nothing_holds() -> None:
    for expr in ("counter:http_5xx == 0", "rate:http_2xx >= 0", "latency_2xx.p99 < 1s"):
        result = judge(parse_threshold(expr), [])
        assert (result.passed, result.actual) == (False, "no backend survived")


def test_a_rate_over_no_time_fails() -> None:
    assert not judge(parse_threshold("rate:http_2xx >= 0"), [survivor(elapsed_ms=0)]).passed


@pytest.mark.parametrize(
    "expr",
    [
        "", "counter:http_5xx", "counter:http_5xx = 0", "counter:http_5xx => 0", "counter:http_5xx == ", "== 0",
        "counter: == 0", "counter:http_5xx == 0s", "counter:http_5xx == many", "counter:http_5xx == -1",
        "counter:http_5xx == 0 0", "counter:a b == 0", "counter:http_5xx == 1e999", "counter:.a == 0",
        "counter:a. == 0",
        "gauge:x == 0", "latency_2xx < 1s", "latency_2xx.p0 < 1s", "latency_2xx.p101 < 1s", "latency_2xx.p < 1s",
        "latency_2xx.p99 < 500", "latency_2xx.p99 < 0", "latency_2xx.p99 < fast", "latency_2xx.median < 1s",
        "latency_2xx.count > 1s", "response_body_size.max < 1s", ".p99 < 1s", "latency_2xx.p99 < 1s < 2s",
        "latency_2xx.p99 ! 1s", "latency_2xx.p-1 < 1s", "rate:http_2xx >= inf", "rate:http_2xx >= nan",
    ],
)  # fmt: skip
def test_bad_syntax_is_refused_before_the_load(expr: str) -> None:
    with pytest.raises(PlanError, match="threshold"):
        parse_threshold(expr)


def test_a_fraction_of_a_percent_is_a_percentile() -> None:
    threshold = parse_threshold("  latency_2xx.p99.9 < 500ms ")
    assert (threshold.expr, threshold.percent) == ("latency_2xx.p99.9 < 500ms", Decimal("99.9"))
    assert (threshold.name, threshold.value) == ("latency_2xx", 500_000_000)


def test_all_of_a_plan_keep_their_order() -> None:
    assert [t.name for t in parse_thresholds(["counter:b == 0", "counter:a == 0"])] == ["b", "a"]


OPERATORS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


@given(
    name=st.from_regex(r"[a-z0-9_]{1,8}(\.[a-z0-9_]{1,8}){0,2}", fullmatch=True),
    op=st.sampled_from(sorted(OPERATORS)),
    value=st.integers(0, 10**12),
    actual=st.integers(0, 10**12),
    space=st.sampled_from(["", " ", "  "]),
)
def test_any_counter_expression_parses_and_compares(name: str, op: str, value: int, actual: int, space: str) -> None:
    threshold = parse_threshold(f"counter:{name}{space}{op}{space}{value}")
    assert (threshold.kind, threshold.name, threshold.op, threshold.value) == ("counter", name, op, value)
    result = judge(threshold, [survivor(counters={name: actual})])
    assert result.passed is OPERATORS[op](actual, value)
    assert result.actual == str(actual)


@given(percent=st.decimals(Decimal("0.001"), 100, places=3), value_ns=st.integers(0, 10**13))
def test_any_percentile_expression_parses(percent: Decimal, value_ns: int) -> None:
    threshold = parse_threshold(f"a.b.p{percent} <= {value_ns}ns")
    assert (threshold.name, threshold.percent, threshold.value) == ("a.b", percent, value_ns)


@given(st.text(alphabet="abp.:<>=! 019msxcounterate-", max_size=30))
def test_any_text_parses_or_is_refused_in_a_sentence(text: str) -> None:
    try:
        threshold = parse_threshold(text)
    except PlanError as error:
        assert "\n" not in str(error)
    else:
        assert threshold.expr == text.strip()


@given(st.floats(0, 1e15, allow_nan=False))
def test_numbers_print_plainly_and_read_back(value: float) -> None:
    text = format_number(value)
    assert float(text) == value
    assert not text.endswith(".0")


@settings(max_examples=20, deadline=None)
@given(
    values_ns=st.lists(st.integers(1, 59_000_000_000), min_size=1, max_size=60),
    percent=st.decimals(Decimal("0.1"), Decimal("99.9"), places=1),
)
def test_a_percentile_off_the_reported_ones_comes_from_the_histogram(values_ns: list[int], percent: Decimal) -> None:
    from hdrh.histogram import HdrHistogram

    histogram = HdrHistogram(1, 60_000_000_000, 4)
    for value in values_ns:
        histogram.record_value(value)
    rank = -(-int(percent * 10 * len(values_ns)) // 1000)
    truth = sorted(values_ns)[rank - 1]
    found = percentile({"max": max(values_ns)}, histogram.encode().decode(), percent)
    assert found is not None
    assert truth <= found <= truth * 1.0001 + 1


def test_a_threshold_on_any_percentile_is_answered_from_the_histogram() -> None:
    from hdrh.histogram import HdrHistogram

    histogram = HdrHistogram(1, 60_000_000_000, 4)
    for number in range(1, 101):
        histogram.record_value(number * 1_000_000)
    encoded = histogram.encode().decode()
    for key in ("latency_2xx", LATENCY):
        told = survivor(
            statistics={LATENCY: {"count": 100, "unit": "ns", "max": 100_000_000}}, histograms={key: encoded}
        )
        result = judge(parse_threshold("latency_2xx.p95 < 96ms"), [told])
        assert result.passed
        assert result.actual.startswith("95.00")


@pytest.mark.parametrize("encoded", ["", "!", "aGVsbG8=", "HISTFAAA"])
def test_an_unreadable_histogram_answers_nothing(encoded: str) -> None:
    assert percentile({}, encoded, Decimal(95)) is None
