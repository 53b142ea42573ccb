"""What a tier refuses, and how: admission, leases, an empty pool, a dead model endpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from harness.e8.tier.settings import Profile
from harness.processes import end

pytestmark = pytest.mark.fleet


def test_beyond_w_times_s_a_turn_is_refused_before_a_worker_sees_it(holding: Callable[..., Any]) -> None:
    tier = holding(workers=2, turns_per_worker=2)
    running = tier.held_turns(4)
    assert [worker["inFlight"] for worker in tier.metrics()["workers"]] == [2, 2]
    for _ in range(3):
        answer = tier.turn()
        assert (answer.status, answer.body) == (429, {"error": "overloaded"})
        assert answer.headers["Retry-After"] == "1"
        assert answer.headers["Connection"] == "close"
    tier.let_go()
    assert [turn.result().status for turn in running] == [200] * 4
    assert tier.turn().status == 200
    assert tier.stub("/stats")["turns"] == 5  # a refused turn reached no model
    assert tier.metrics()["handoff_failures"] == 0


def test_exactly_w_times_s_clients_are_never_refused(make_tier: Callable[..., Any]) -> None:
    tier = make_tier(workers=2, turns_per_worker=2)
    for _ in range(30):
        assert [turn.result().status for turn in tier.turns(4)] == [200] * 4
    metrics = tier.metrics()
    assert (metrics["over_admission"], metrics["spurious_refusals"]) == (0, 0)


def test_beyond_k_times_cap_a_turn_is_refused_at_once(holding: Callable[..., Any]) -> None:
    tier = holding(sandboxes=2, cap=2, turns_per_worker=8)
    running = tier.held_turns(4)
    for _ in range(3):
        answer = tier.turn()
        assert (answer.status, answer.body) == (503, {"error": "sandbox_pool_saturated"})
        assert answer.headers["Retry-After"] == "5"
    tier.let_go()
    assert [turn.result().status for turn in running] == [200] * 4
    store = tier.tier.stats()["store"]
    assert (store["granted"], store["refused"], store["leases"]) == (4, 3, 0)


def test_a_lease_is_held_for_the_whole_turn_and_the_saturation_shows_it(make_tier: Callable[..., Any]) -> None:
    tier = make_tier(sandboxes=2, profile=Profile(60_000, 0, 1, 0))  # a model that does not answer, and calls no tool
    assert tier.metrics()["lease_saturation"] == "NaN"
    assert tier.metrics()["sandbox_pool_size"] == "NaN"
    running = tier.turns(3)
    metrics = tier.wait(lambda found: found["lease_saturation"] == 1.5)  # 3 leases on 2 sandboxes
    assert metrics["sandbox_pool_size"] == 2
    tier.tier.change_stub(profile="1/0/1/0")
    assert [turn.result().body["stopReason"] for turn in running] == ["error"] * 3
    tier.wait(lambda found: found["lease_saturation"] == 0)


def test_without_a_sandbox_every_turn_is_refused(make_tier: Callable[..., Any]) -> None:
    answer = make_tier(sandboxes=0).turn()
    assert (answer.status, answer.body) == (503, {"error": "sandbox_pool_empty"})
    assert answer.headers["Retry-After"] == "5"


def test_a_sandbox_that_dies_leaves_the_pool(holding: Callable[..., Any]) -> None:
    tier = holding(sandboxes=2)
    turn = tier.held_turns(1)[0]
    end(tier.tier.identities("sandbox")[:1], grace_s=0)
    assert turn.result().status == 500
    assert turn.result().body["error"] == "exec_failed"
    tier.let_go()
    assert tier.turn().status == 200
    assert tier.wait(lambda metrics: metrics["sandbox_pool_size"] == 1)
    assert tier.tier.stats()["relay"].keys() == {"sandbox-1"}


def test_a_dead_model_endpoint_is_a_200_with_an_error(make_tier: Callable[..., Any]) -> None:
    tier = make_tier()
    assert tier.turn().body["stopReason"] == "stop"
    end(tier.tier.identities("stub"), grace_s=0)
    for _ in range(2):
        answer = tier.turn()
        assert answer.status == 200
        assert (answer.body["stopReason"], answer.body["errorMessage"]) == ("error", "Connection error.")
    assert tier.tier.stats()["store"]["leases"] == 0
    assert tier.tier.identities("stub") == []
    assert next(p for p in tier.tier.state["processes"] if p["kind"] == "stub")["exit_status"] in (0, -9)
    tier.tier.change_stub()
    assert tier.turn().body["stopReason"] == "stop"


def test_a_stub_that_dies_in_the_middle_of_its_answer_is_an_error_too(make_tier: Callable[..., Any]) -> None:
    tier = make_tier(profile=Profile(ttft_ms=5000, token_delay_ms=0, output_tokens=4, tool_call_rate=0.5))
    turn = tier.turns(1)[0]
    deadline_s = time.monotonic() + 10
    while not tier.stub("/stats")["open"]:
        assert time.monotonic() < deadline_s
    end(tier.tier.identities("stub"), grace_s=0)
    assert (turn.result().status, turn.result().body["stopReason"]) == (200, "error")


def test_another_stub_on_the_same_port_is_another_process_with_another_profile(make_tier: Callable[..., Any]) -> None:
    tier = make_tier()
    before = tier.tier.identities("stub")
    assert tier.turn().status == 200  # the workers now keep a connection to the old one
    tier.tier.change_stub(profile="1/0/9/0", schedule="counter")
    assert tier.turn().body["response"] == "word " * 9
    assert tier.tier.identities("stub") != before
    assert tier.stub("/profile") == tier.tier.state["profile"]
    assert tier.tier.state["stub_generation"] == 2
    tier.tier.refresh()
    assert tier.tier.state["profile"]["outputTokens"] == 9


def test_the_shared_counter_spreads_execs_over_turns_unevenly(make_tier: Callable[..., Any]) -> None:
    tier = make_tier(turns_per_worker=8, profile=Profile(20, 1, 20, 0.5))
    for schedule, even in (("conversation", True), ("counter", False)):
        tier.tier.change_stub(schedule=schedule)
        for _ in range(6):
            assert {turn.result().status for turn in tier.turns(7)} == {200}
        stats = tier.stub("/stats")
        assert stats["turns"] == 42
        assert (stats["execsPerTurn"] == {"1": 42}) is even


def test_a_client_that_gives_up_frees_its_slot_its_lease_and_its_command(holding: Callable[..., Any]) -> None:
    tier = holding()
    with pytest.raises(TimeoutError):
        tier.turn(limit_s=1)
    tier.wait(lambda metrics: all(worker["inFlight"] == 0 for worker in metrics["workers"]))
    deadline_s = time.monotonic() + 5
    while tier.tier.stats()["store"]["leases"] or tier.tier.stats()["relay"]["sandbox-0"]["running"]:
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_leak_of_connections_shows_at_the_store_and_in_the_descriptors(make_tier: Callable[..., Any]) -> None:
    tier = make_tier(leak_connections=2)
    before = tier.tier.stats()["store"]
    for _ in range(10):
        assert tier.turn().status == 200
    after = tier.tier.stats()["store"]
    for name in ("connections", "connections_total", "descriptors"):
        assert after[name] - before[name] == 20
