"""Unknown stays None: whatever a target says, or does not say, of itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.e8.figures import nearest_rank, utilisation_pct
from harness.e8.http import Answer, parse_base
from harness.e8.metrics import (
    Measured,
    between,
    difference,
    read_metrics,
    read_profile,
    spent,
    worker_cpu_difference,
)
from harness.e8.readings import Polled, number, parse_reading, total_in_flight
from harness.errors import SettingsError
from tests.e8.standin import metrics_document, standing

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["workers", "cpu_seconds", "pid", "env", "lease_saturation", "SH_WORKERS", "inFlight", "x"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(ANYTHING)
def test_any_document_is_read_without_an_error_and_without_a_number_that_is_none(document: object) -> None:
    reading = parse_reading(document)
    for value in (reading.lease_saturation, reading.pool_size, reading.worker_cpu_s, *reading.counters.values()):
        assert value is None or value == value


@pytest.mark.parametrize(
    "unknown", ["NaN", None, True, [], "1e3", "inf", " 1", "1_000", float("nan"), float("inf"), "", 1e300, 2**60]
)
def test_what_is_no_plain_number_is_unknown(unknown: object) -> None:
    assert number(unknown) is None


def test_numbers_may_come_as_text() -> None:
    assert number("0.33") == 0.33
    assert number(0) == 0


def test_a_value_never_observed_is_not_zero() -> None:
    reading = parse_reading(metrics_document(sandbox_pool_size="NaN", lease_saturation=0, lag_resolution_ms="NaN"))
    assert reading.pool_size is None
    assert reading.lease_saturation == 0
    assert reading.lag_resolution_ms is None


def test_the_environment_is_only_what_is_listed() -> None:
    reading = parse_reading(metrics_document(env={"SH_WORKERS": 2, "ANTHROPIC_API_KEY": "secret", "PORT": []}))
    assert reading.environment == {"SH_WORKERS": "2"}


def test_a_listener_that_is_not_there_gives_a_reading_of_nothing_with_the_reason() -> None:
    with standing() as target:
        url = target.url
    reading = read_metrics(parse_base(url, "e8.metrics"))
    assert reading.workers == ()
    assert reading.problem is not None
    assert "gave no answer" in reading.problem


def test_metrics_and_profile_come_over_the_wire() -> None:
    with standing() as target:
        base = parse_base(target.url, "e8.metrics")
        reading = read_metrics(base)
        profile = read_profile(base)
        target.metrics = lambda: b"not json"
        broken = read_metrics(base)
    assert (reading.pids, reading.cores, reading.worker_cpu_s) == ((100, 101), 2, 2.0)
    assert reading.file_op_p95_ms is None
    assert total_in_flight(reading) == 2
    assert profile == {"ttftMs": 300, "tokenDelayMs": 12, "outputTokens": 64, "toolCallRate": 0.5}
    assert broken.problem == "the answer of /metrics is no JSON object"


def test_differences_are_unknown_at_a_reset_and_say_why() -> None:
    assert difference(3517, 3518, "over_admission").value == 1
    fell = difference(100, 3, "over_admission")
    assert fell.value is None
    assert fell.reason == "over_admission went down from 100 to 3: it was reset during the rung"
    assert difference(None, 3, "x").reason == "x was not known before the rung"
    assert difference(3, None, "x").reason == "x was not known after the rung"


def test_a_sum_of_which_a_part_went_down_is_unknown() -> None:
    one, other = Measured(10.0, parts=(4.0, 6.0)), Measured(12.0, parts=(9.0, 3.0))
    assert between(one, Measured(12.0, parts=(5.0, 7.0)), "CPU time").value == 2
    assert between(one, other, "CPU time").reason == (
        "CPU time (number 2 of 2) went down from 6 to 3: it was reset during the rung"
    )
    fewer = between(one, Measured(12.0, parts=(12.0,)), "CPU time")
    assert (fewer.value, fewer.reason) == (None, "CPU time was told in 2 numbers before and 1 after")


def test_a_clock_that_stands_while_turns_succeed_tells_nothing() -> None:
    assert spent(Measured(0.0), "host CPU time", 0).value == 0
    assert spent(Measured(0.001), "host CPU time", 9).value == 0.001
    found = spent(Measured(0.0), "host CPU time", 9)
    assert found.value is None
    assert str(found.reason).startswith("host CPU time did not rise although turns succeeded")


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_a_number_that_is_not_finite_is_null_in_an_answer(text: str) -> None:
    assert Answer(200, f'{{"ttftMs": {text}, "x": [1.5]}}'.encode()).json() == {"ttftMs": None, "x": [1.5]}


def _workers(*cpu: object, pids: tuple[int, ...] = (1, 2)) -> object:
    workers = [{"pid": pid, "cpu_seconds": seconds} for pid, seconds in zip(pids, cpu, strict=True)]
    return metrics_document(workers=workers)


@pytest.mark.parametrize(
    ("before", "after", "succeeded", "value", "reason"),
    [
        (_workers(1.0, 2.0), _workers(1.5, 2.25), 9, 0.75, None),
        (_workers(1.0, 2.0), _workers(1.5, "NaN"), 9, None, "CPU time of worker pid 2 was not known after the rung"),
        (_workers(9.0, 1.0), _workers(0.5, 30.0), 9, None, "CPU time of worker pid 1 went down"),
        (_workers(1.0, 1.0), _workers(5.0, 5.0, pids=(1, 3)), 9, None, "workers changed during the rung"),
        (_workers(1.0, 2.0), _workers(1.0, 2.0), 9, None, "shorter than their reporting period"),
        (_workers(1.0, 2.0), _workers(1.0, 2.0), 0, 0.0, None),
    ],
)
def test_worker_cpu(before: object, after: object, succeeded: int, value: float | None, reason: str | None) -> None:
    found = worker_cpu_difference(parse_reading(before), parse_reading(after), succeeded)
    assert found.value == value
    assert (found.reason or "").startswith(reason or "") or (reason or "") in (found.reason or "")
    assert (found.reason is None) == (reason is None)


@pytest.mark.parametrize(
    ("cpu_s", "wall_s", "units", "expected"),
    [(2.35, 1, 3, 78.3), (0.15, 30, 3, 0.2), (None, 1, 3, None), (1, 0, 3, None), (1, 1, 0, None), (1, 1, None, None)],
)
def test_utilisation(cpu_s: float | None, wall_s: float, units: float | None, expected: float | None) -> None:
    found = utilisation_pct(cpu_s, wall_s, units)
    assert (found if found is None else round(found, 1)) == expected


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=200), st.sampled_from([50, 95, 99]))
def test_a_percentile_is_a_value_with_enough_at_or_below_it(values: list[int], percent: int) -> None:
    found = nearest_rank(values, percent)
    assert found in values
    at_or_below = sum(value <= found for value in values)
    below = sum(value < found for value in values)
    assert at_or_below >= percent * len(values) / 100
    assert below < percent * len(values) / 100 + 1e-4 * len(values) + 1e-9


def test_a_percentile_of_nothing_is_unknown() -> None:
    assert nearest_rank([], 95) is None
    assert nearest_rank([7], 95) == 7


def test_a_poll_that_saw_nothing_has_no_maximum() -> None:
    polled = Polled()
    polled.add(parse_reading("nothing"))
    assert polled.failed == 1
    assert polled.maximum(lambda reading: reading.lease_saturation) is None
    assert polled.worker_maximum(100, lambda worker: worker.loop_lag_p99_ms) is None


def test_the_worst_of_a_rung_is_kept_not_its_last() -> None:
    polled = Polled()
    for saturation, lag in ((0.3, 1.0), (3.9, 9.0), (0.0, "NaN")):
        document = metrics_document(lease_saturation=saturation)
        document["workers"][1]["loop_lag_p99_ms"] = lag
        polled.add(parse_reading(json.loads(json.dumps(document))))
    assert polled.maximum(lambda reading: reading.lease_saturation) == 3.9
    assert polled.median(lambda reading: reading.lease_saturation) == 0.3
    assert polled.worker_maximum(101, lambda worker: worker.loop_lag_p99_ms) == 9.0
    polled.add(parse_reading(metrics_document(lease_saturation=5.0)), tail=True)
    assert polled.maximum(lambda reading: reading.lease_saturation) == 5.0
    assert polled.median(lambda reading: reading.lease_saturation) == 0.3, "the tail is not the rung's middle"


def test_what_turns_hold_is_seen_only_while_they_run() -> None:
    polled = Polled()
    idle, busy = metrics_document(lease_saturation=0), metrics_document(lease_saturation=1.5)
    for worker in idle["workers"]:
        worker["inFlight"] = 0
    busy["workers"][1]["inFlight"] = 0
    polled.add(parse_reading(idle))
    polled.add(parse_reading(busy), tail=True)
    assert polled.most_held(total_in_flight) is None
    assert polled.most_held(lambda reading: reading.lease_saturation) is None
    assert polled.worker_most_held(100, lambda worker: worker.in_flight) is None
    polled.add(parse_reading(busy))
    assert polled.most_held(total_in_flight) == 1
    assert polled.most_held(lambda reading: reading.lease_saturation) == 1.5
    assert [polled.worker_most_held(pid, lambda worker: worker.in_flight) for pid in (100, 101)] == [1, 0]


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8080", "ftp://x", "http://", "http://a b", "http://h:99999", "http://h?x=1",
     "http://foo..bar:8081", f"http://{'a' * 64}.test", "http://.x"],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_by_its_setting(url: str) -> None:
    with pytest.raises(SettingsError, match=r"e8\.base"):
        parse_base(url, "e8.base")


def test_an_address_is_taken_apart() -> None:
    base = parse_base("http://[::1]:8080/api/", "e8.base")
    assert (base.host, base.port, base.prefix, base.authority, base.is_loopback) == (
        "::1",
        8080,
        "/api",
        "[::1]:8080",
        True,
    )
