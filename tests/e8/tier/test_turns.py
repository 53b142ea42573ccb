"""Turns through all processes of a tier that is well."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.e8.tier.settings import ECHOED

pytestmark = pytest.mark.fleet


def test_a_turn_from_end_to_end(tier: Any) -> None:
    stub_before, relay_before = tier.stub("/stats"), tier.tier.stats()["relay"]
    answer = tier.turn()
    assert answer.status == 200
    assert answer.body["stopReason"] == "stop"
    assert answer.body["response"] == "word word word word "
    assert answer.body["usage"]["output_tokens"] == 4 + 2
    assert "errorMessage" not in answer.body
    stub_after, relay_after = tier.stub("/stats"), tier.tier.stats()["relay"]
    assert stub_after["toolCalls"] - stub_before["toolCalls"] == 1
    assert stub_after["requests"] - stub_before["requests"] == 2
    assert set(stub_after["execsPerTurn"]) == {"1"}
    assert sum(each["execs"] for each in relay_after.values()) == sum(e["execs"] for e in relay_before.values()) + 1


def test_turns_open_no_connections_that_stay(tier: Any) -> None:
    tier.turn()
    before = tier.tier.stats()["store"]
    for turn in [*tier.turns(6), *tier.turns(2)]:
        assert turn.result().status == 200
    after = tier.tier.stats()["store"]
    for name in ("connections", "connections_total", "descriptors", "leases"):
        assert after[name] == before[name]


def test_every_turn_without_a_session_is_a_new_one_and_a_known_one_goes_on(tier: Any) -> None:
    first, second = tier.turn().body, tier.turn().body
    assert first["sessionId"] != second["sessionId"]
    again = tier.turn({"prompt": "and now?", "sessionId": first["sessionId"]}).body
    assert again["sessionId"] == first["sessionId"]
    assert again["usage"]["input_tokens"] > first["usage"]["input_tokens"]  # the history went along


def test_what_is_no_turn_is_refused_by_name(tier: Any, request_to: Callable[..., Any]) -> None:
    for body, status, error in [
        ({"prompt": ""}, 400, "prompt_required"),
        ({"prompt": 3}, 400, "prompt_required"),
        (b"[]", 400, "prompt_required"),
        (b"{", 400, "invalid_json"),
        (b" " * (1 << 20) + b" {}", 400, "read_error"),
        ({"prompt": "x", "sessionId": "nobody's"}, 404, "session_not_found"),
    ]:
        answer = tier.turn(body)
        assert (answer.status, answer.body["error"]) == (status, error)
    base = tier.tier.urls["base"]
    for method, path, status in [
        ("POST", "/turn?x=1", 404),
        ("GET", "/turn", 404),
        ("POST", "/v1/turn", 200),
        ("GET", "/health", 200),
    ]:
        assert request_to(base, method, path, {"prompt": "x"}).status == status
    tier.wait(lambda metrics: all(worker["inFlight"] == 0 for worker in metrics["workers"]))


def test_a_connection_may_be_kept_and_its_second_turn_was_not_admitted(tier: Any) -> None:
    before = tier.metrics()["over_admission"]
    connection = http.client.HTTPConnection(tier.tier.urls["base"].removeprefix("http://"), timeout=20)
    try:
        for _ in range(2):
            connection.request("POST", "/turn", json.dumps({"prompt": "x"}))
            assert json.loads(connection.getresponse().read())["stopReason"] == "stop"
    finally:
        connection.close()
    tier.wait(lambda metrics: metrics["over_admission"] == before + 1)


@pytest.mark.parametrize(
    "data", [b"", b"POST /turn HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{", b"\x00\xff nonsense\r\n\r\n"]
)
def test_a_connection_that_never_becomes_a_turn_gives_its_slot_back(tier: Any, data: bytes) -> None:
    host, port = tier.tier.urls["base"].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as sock:
        tier.wait(lambda metrics: sum(worker["inFlight"] for worker in metrics["workers"]) == 1)
        sock.sendall(data)
    tier.wait(lambda metrics: all(worker["inFlight"] == 0 for worker in metrics["workers"]))


def test_the_metrics_have_their_shape(tier: Any, request_to: Callable[..., Any]) -> None:
    tier.turn()
    metrics = tier.wait(lambda found: "NaN" not in (found["sandbox_pool_size"], found["file_op_p95_ms"]))
    assert set(metrics) == {
        *("workers", "restarts", "handoff_retries", "handoff_failures", "over_admission", "spurious_refusals"),
        *("head_truncations", "lease_saturation", "sandbox_pool_size", "cores", "lag_resolution_ms"),
        *("file_op_p95_ms", "env"),
    }
    assert [worker["id"] for worker in metrics["workers"]] == [0, 1]
    for worker in metrics["workers"]:
        assert set(worker) == {
            *("id", "pid", "inFlight", "healthy", "loop_lag_p99_ms", "rss_bytes", "cpu_seconds"),
        }
        assert worker["healthy"] is True
        assert worker["loop_lag_p99_ms"] > 0.5 and worker["rss_bytes"] > 1 << 20 and worker["cpu_seconds"] > 0
    assert metrics["sandbox_pool_size"] == 2
    assert metrics["lag_resolution_ms"] == 1
    assert metrics["file_op_p95_ms"] > 0
    assert metrics["cores"] >= 1
    assert set(metrics["env"]) <= set(ECHOED)
    assert metrics["env"]["ANTHROPIC_BASE_URL"] == tier.tier.urls["stub"]
    assert metrics["env"]["PORT"] == tier.tier.urls["base"].rpartition(":")[2]
    assert metrics["env"] == tier.tier.state["env"]
    assert request_to(tier.tier.urls["metrics"], "GET", "/healthz").status == 404
    assert request_to(tier.tier.urls["base"], "GET", "/metrics").status == 404


def test_a_command_runs_for_real_and_its_cpu_is_the_sandboxs(tier: Any) -> None:
    sandbox = next(each for each in tier.tier.state["processes"] if each["name"] == "sandbox-0")

    def cpu_ticks() -> int:
        text = Path(f"/proc/{sandbox['pid']}/stat").read_text()
        return sum(map(int, text[text.rindex(")") + 2 :].split()[11:15]))

    before = cpu_ticks()
    done = tier.tier.run("sandbox-0", "for ((i = 0; i < 300000; i++)); do :; done; pwd; echo $WORKSPACE; exit 3")
    assert done.exit_code == 3
    assert done.output.splitlines() == [tier.tier.state["sandboxes"][0]["workspace"]] * 2
    assert (cpu_ticks() - before) / os.sysconf("SC_CLK_TCK") >= 0.05
    assert done.round_trip_ms >= done.command_ms > 0


@pytest.mark.parametrize(
    ("command", "exit_code", "output"),
    [
        ("kill -9 $$", -9, ""),
        ("cat", 0, ""),
        ("echo out; echo err >&2", 0, "out\nerr\n"),
        ("printf '\\377'", 0, "\N{REPLACEMENT CHARACTER}"),
        ("yes | head -1; (sleep 600 & ); exit 0", 0, "y\n"),
        ("definitely-no-command", 127, "bash: line 1: definitely-no-command: command not found\n"),
    ],
)
def test_a_command_ends_as_it_ends(tier: Any, command: str, exit_code: int, output: str) -> None:
    done = tier.tier.run("sandbox-1", command)
    assert (done.exit_code, done.output, done.truncated) == (exit_code, output, False)


def test_a_command_over_its_limits_is_cut(tier: Any) -> None:
    long = tier.tier.run("sandbox-1", "sleep 600", limit_s=0.2)
    assert (long.exit_code, long.output) == (-9, "")
    loud = tier.tier.run("sandbox-1", "head -c 300000 /dev/zero | tr '\\0' x")
    assert (loud.exit_code, loud.output, loud.truncated) == (0, "x" * 65_536, True)
