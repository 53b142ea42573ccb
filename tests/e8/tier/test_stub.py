"""The model stub as a process: its stream is Anthropic's, its pace is the programmed one, its refusals name names."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.e8.tier.process import EXIT_BAD_KNOB
from harness.e8.tier.settings import Profile

ASK = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
COMMAND = [sys.executable, "-m", "harness.e8.tier.stub"]


@contextmanager
def stub(**knobs: str) -> Iterator[str]:
    """A stub of its own; gives its URL."""
    process = subprocess.Popen(COMMAND, env=os.environ | {"PORT": "0"} | knobs, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.match(r"model-stub listening :(\d+) ", line)
        assert match, line
        yield f"http://127.0.0.1:{match[1]}"
    finally:
        process.terminate()
        process.communicate(timeout=10)


def events(base: str, path: str = "/v1/messages", ask: Any = ASK) -> list[tuple[str, dict[str, Any]]]:
    """Names and data of one answer's events."""
    connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=10)
    try:
        connection.request("POST", path, json.dumps(ask))
        response = connection.getresponse()
        assert response.headers["content-type"] == "text/event-stream"
        text = response.read().decode()
    finally:
        connection.close()
    found = []
    for event in text.removesuffix("\n\n").split("\n\n"):
        name, data = event.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


@pytest.fixture(scope="module")
def quick() -> Iterator[str]:
    """A stub without waiting that always calls its tool first."""
    knobs = {"SH_STUB_TTFT_MS": "0", "SH_STUB_TOKEN_DELAY_MS": "0", "SH_STUB_OUTPUT_TOKENS": "6"}
    tool = {"SH_STUB_TOOL_CALL_RATE": "0.5", "SH_STUB_TOOL_INPUT": '{"command":"printf \'é\\n\'"}'}
    with stub(**knobs, **tool) as base:
        yield base


def test_a_tool_call_comes_in_two_halves_that_make_the_input(quick: str) -> None:
    found = events(quick, "/some/prefix/v1/messages")
    assert [name for name, _ in found] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert all(name == data["type"] for name, data in found)
    assert found[1][1]["content_block"]["name"] == "bash"
    whole = "".join(data["delta"]["partial_json"] for name, data in found if name == "content_block_delta")
    assert json.loads(whole) == {"command": "printf 'é\n'"}
    assert found[-2][1]["delta"]["stop_reason"] == "tool_use"


def test_a_conversation_that_brings_its_result_gets_its_text(quick: str) -> None:
    call = events(quick)[1][1]["content_block"]["id"]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "ok"}]}
    found = events(quick, ask=ASK | {"messages": [*ASK["messages"], {"role": "assistant", "content": []}, result]})  # type: ignore[misc]
    deltas = [data["delta"]["text"] for name, data in found if name == "content_block_delta"]
    assert len(deltas) == 6
    assert found[-2][1]["delta"]["stop_reason"] == "end_turn"
    assert found[-2][1]["usage"]["output_tokens"] == 6


def test_what_is_no_conversation_is_refused(quick: str, request_to: Callable[..., Any]) -> None:
    for body in (b"{", b"[]", {}, {"messages": []}, {"messages": ["x"]}, {"messages": [{"content": ["x"]}]}):
        answer = request_to(quick, "POST", "/v1/messages", body)
        assert (answer.status, answer.body["error"]["type"]) == (400, "invalid_request_error")
    assert request_to(quick, "GET", "/v1/messages").status == 404
    assert request_to(quick, "GET", "/profile?x").status == 404
    assert request_to(quick, "GET", "/health").status == request_to(quick, "GET", "/healthz").status == 200


def test_the_profile_holds_the_resolved_values(request_to: Callable[..., Any]) -> None:
    with stub(SH_STUB_TTFT_MS="25") as base:
        expected = {"ttftMs": 25, "tokenDelayMs": 12, "outputTokens": 64, "toolCallRate": 0.5}
        assert request_to(base, "GET", "/profile").body == expected


def test_the_pace_is_never_faster_than_programmed() -> None:
    # text: ttft + tokens × delay; tool call: ttft + 2 × delay. No upper bound: that is the machine's
    with stub(**Profile(80, 10, 12, 0.5).to_environment()) as base:
        began_s = time.monotonic()
        events(base)
        tool_s = time.monotonic() - began_s
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1_0"}]}
        began_s = time.monotonic()
        events(base, ask=ASK | {"messages": [result]})
        assert tool_s >= 0.098
        assert time.monotonic() - began_s >= 0.198


def test_the_counter_is_shared_by_all_and_the_stats_show_it(request_to: Callable[..., Any]) -> None:
    knobs = {"SH_STUB_TTFT_MS": "0", "SH_STUB_TOKEN_DELAY_MS": "0", "SH_STUB_TOOL_CALL_RATE": "0.25"}
    with stub(**knobs, SH_STUB_SCHEDULE="counter") as base:
        stops = [events(base)[-2][1]["delta"]["stop_reason"] for _ in range(8)]
        assert stops == ["tool_use", "end_turn", "end_turn", "end_turn"] * 2
        stats = {"requests": 8, "toolCalls": 2, "turns": 6, "execsPerTurn": {"0": 6}, "open": 0}
        assert request_to(base, "GET", "/stats").body == stats


def test_a_client_that_goes_leaves_nothing_open(request_to: Callable[..., Any]) -> None:
    with stub(SH_STUB_TTFT_MS="60000") as base:
        connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=10)
        connection.request("POST", "/v1/messages", json.dumps(ASK))
        response = connection.getresponse()
        assert request_to(base, "GET", "/stats").body["open"] == 1
        response.close()
        connection.close()
        deadline_s = time.monotonic() + 5
        while request_to(base, "GET", "/stats").body["open"]:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SH_STUB_TTFT_MS", "60001"),
        ("SH_STUB_TOKEN_DELAY_MS", "-1"),
        ("SH_STUB_OUTPUT_TOKENS", "0"),
        ("SH_STUB_TOOL_CALL_RATE", "7"),
        ("SH_STUB_TOOL_INPUT", "{"),
        ("SH_STUB_SCHEDULE", "random"),
        ("PORT", "x"),
    ],
)
def test_a_variable_that_does_not_fit_ends_it_by_name(name: str, value: str) -> None:
    done = subprocess.run(
        COMMAND, env=os.environ | {"PORT": "0", name: value}, capture_output=True, text=True, timeout=20
    )
    assert done.returncode == EXIT_BAD_KNOB
    assert name in done.stderr and "Traceback" not in done.stderr
