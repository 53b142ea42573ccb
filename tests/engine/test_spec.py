"""What comes over the wire is taken exactly as written or refused with the field's name."""

from __future__ import annotations

import math
import socket
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.engine.spec import dial_address, parse_address, parse_execution, parse_start
from harness.errors import HarnessError, PlanError, SettingsError
from tests.engine.conftest import execution_json


def test_a_valid_execution_is_planned_to_the_request() -> None:
    spec = parse_execution(execution_json(rate_rps=9, duration_s=60, phase_s=0.1))
    assert (spec.planned, spec.rate_rps, spec.phase_s, spec.head) == (540, 9, 0.1, False)
    assert parse_execution(execution_json(rate_rps=0.1, duration_s=30)).planned == 3


@given(st.integers(1, 100_000), st.integers(1, 40_000))
@settings(deadline=None)
def test_planned_is_rate_times_duration(rate_rps: int, duration_s: int) -> None:
    spec = parse_execution(execution_json(rate_rps=rate_rps, duration_s=duration_s))
    assert spec.planned == rate_rps * duration_s


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rate_rps": 0}, "rate_rps"),
        ({"rate_rps": -1}, "rate_rps"),
        ({"rate_rps": True}, "rate_rps"),
        ({"rate_rps": "9"}, "rate_rps"),
        ({"rate_rps": math.nan}, "rate_rps"),
        ({"rate_rps": math.inf}, "rate_rps"),
        ({"rate_rps": 1e9}, "rate_rps"),
        ({"rate_rps": 10**400}, "rate_rps"),
        ({"rate_rps": 3, "duration_s": 0.5}, "whole number of requests"),
        ({"duration_s": 0}, "duration_s"),
        ({"duration_s": 1e9}, "duration_s"),
        ({"duration_s": None}, "duration_s"),
        ({"phase_s": -0.1}, "phase_s"),
        ({"phase_s": 0.01}, "phase_s"),
        ({"connections": 0}, "connections"),
        ({"connections": 1.5}, "connections"),
        ({"max_pending": -1}, "max_pending"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": 601}, "timeout_s"),
        ({"label": 1}, "label"),
        ({"label": None}, "label"),
        ({"url": "https://x/"}, "url"),
        ({"url": "http://u:p@x/"}, "url"),
        ({"url": "http://x:port/"}, "url"),
        ({"url": "http://x/a b"}, "url"),
        ({"url": "http://x/\r\nX: y"}, "url"),
        ({"url": "http:///nohost"}, "url"),
        ({"method": "GET /"}, "method"),
        ({"method": "CONNECT"}, "method"),
        ({"headers": "X: y"}, "headers"),
        ({"headers": ["no colon"]}, "header"),
        ({"headers": ["X: a\r\nY: b"]}, "header"),
        ({"headers": [1]}, "header"),
        ({"headers": ["Content-Length: 3"]}, "Content-Length"),
        ({"headers": ["X: " + "y" * 20_000]}, "bytes long"),
        ({"burst": 3}, "burst"),
    ],
)
def test_a_field_out_of_its_range_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(PlanError, match=named):
        parse_execution(execution_json(**changes))


@pytest.mark.parametrize("value", [None, [], "x", 1, {}])
def test_an_execution_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(PlanError):
        parse_execution(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.sampled_from(sorted(execution_json())), JSON)
@settings(deadline=None)
def test_no_value_of_a_field_ends_in_anything_but_a_spec_or_a_refusal(name: str, value: Any) -> None:
    try:
        spec = parse_execution(execution_json(**{name: value}))
    except PlanError:
        return
    assert spec.planned >= 1
    assert spec.request.endswith(b"\r\n\r\n")
    assert spec.request.count(b"\r\n") == 3


def test_a_start_message_holds_nothing_unknown() -> None:
    message = {"type": "start", "id": "1", "execution": execution_json()}
    assert parse_start(message)[1] is None
    assert parse_start(message | {"start_at_unix_ns": 5})[1] == 5
    for wrong in ({"start_at_unix_ns": 1.5}, {"start_at_unix_ns": -1}, {"start_at": 5}):
        with pytest.raises(PlanError):
            parse_start(message | wrong)


def test_addresses_are_of_this_machine_only() -> None:
    assert parse_address("127.0.1.3:80").target == ("127.0.1.3", 80)
    assert parse_address("unix:/run/x").family == socket.AF_UNIX
    for text in ("10.0.0.1:80", "127.0.0.1", "127.0.0.1:99999", "localhost:80", "unix:x", "unix:/" + "x" * 107, ":80"):
        with pytest.raises(SettingsError):
            parse_address(text)
    assert dial_address("http://127.0.0.1/").target == ("127.0.0.1", 80)
    with pytest.raises(HarnessError, match="no --proxy"):
        dial_address("http://svc-1.mesh.internal:18081/")


def test_phase_is_below_one_interval_so_that_all_are_due_before_the_end() -> None:
    spec = parse_execution(execution_json(rate_rps=3, duration_s=2, phase_s=0.333))
    last_due_s = Fraction(str(spec.phase_s)) + Fraction(spec.planned - 1) / spec.rate_rps
    assert last_due_s < spec.duration_s
