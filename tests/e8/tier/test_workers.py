"""Workers that are frozen, killed and started again, while turns go on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.processes import alive, send

pytestmark = pytest.mark.fleet


def in_flight(*expected: int) -> Callable[[dict[str, Any]], bool]:
    """A condition on the metrics."""
    return lambda metrics: [worker["inFlight"] for worker in metrics["workers"]] == list(expected)


def log(tier: Any, name: str) -> str:
    return (Path(tier.tier.state["root"]) / "log" / f"{name}.log").read_text()


def test_a_frozen_worker_keeps_its_slots_and_counts_as_healthy(holding: Callable[..., Any]) -> None:
    tier = holding(workers=2, turns_per_worker=2)
    frozen = tier.worker(0)
    send(frozen, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            tier.turn(limit_s=0.5)  # nobody answers, and nobody notices that the client gave up
        tier.wait(in_flight(1, 0))
        good = tier.held_turns(1)  # the fewest in flight is the other one
        hung = tier.turns(1)
        tier.wait(in_flight(2, 1))
        good += tier.held_turns(1)
        tier.wait(in_flight(2, 2))
        assert tier.turn().status == 429
        tier.let_go()
        assert [turn.result().status for turn in good] == [200, 200]
        metrics = tier.wait(in_flight(2, 0))
        assert [worker["healthy"] for worker in metrics["workers"]] == [True, True]
        assert not hung[0].done()
    finally:
        send(frozen, signal.SIGCONT)
    assert hung[0].result().status == 200
    assert tier.wait(in_flight(0, 0))["restarts"] == 0
    assert alive(frozen)


def test_a_killed_worker_starts_again_with_nothing_known_of_it(holding: Callable[..., Any]) -> None:
    tier = holding(workers=2, stats_interval_ms=1000, restart_backoff_ms=400)
    before = tier.wait(lambda metrics: all(worker["cpu_seconds"] != "NaN" for worker in metrics["workers"]))
    turn = tier.held_turns(1)[0]
    send(tier.worker(0), signal.SIGKILL)
    with pytest.raises(OSError):
        turn.result()
    metrics = tier.wait(lambda found: not found["workers"][0]["healthy"])
    assert metrics["workers"][0]["inFlight"] == 0
    assert metrics["workers"][0]["cpu_seconds"] == "NaN"
    tier.let_go()
    assert tier.turn().status == 200  # the other one

    metrics = tier.wait(lambda found: found["workers"][0]["healthy"])
    again = metrics["workers"][0]
    assert again["pid"] != before["workers"][0]["pid"]
    assert metrics["restarts"] == 1
    assert {again[name] for name in ("cpu_seconds", "loop_lag_p99_ms", "rss_bytes")} == {"NaN"}
    assert tier.turn().status == 200
    metrics = tier.wait(lambda found: found["workers"][0]["cpu_seconds"] != "NaN")
    text = Path(f"/proc/{again['pid']}/stat").read_text()
    own_ticks = sum(map(int, text[text.rindex(")") + 2 :].split()[11:13])) + 2  # both are cut to whole ticks
    assert 0 < metrics["workers"][0]["cpu_seconds"] <= own_ticks / os.sysconf("SC_CLK_TCK")


def test_the_pause_before_a_restart_doubles(make_tier: Callable[..., Any]) -> None:
    tier = make_tier(workers=1, restart_backoff_ms=50)
    for round_ in range(3):
        send(tier.worker(0), signal.SIGKILL)
        tier.wait(lambda metrics, restarts=round_ + 1: metrics["restarts"] == restarts)  # type: ignore[misc]
        tier.wait(lambda metrics: metrics["workers"][0]["healthy"])
    pauses = [line.rpartition("again in ")[2] for line in log(tier, "supervisor").splitlines() if "again in" in line]
    assert pauses == ["0.05 s", "0.1 s", "0.2 s"]
    assert tier.turn().status == 200


def test_without_a_worker_every_turn_is_refused(make_tier: Callable[..., Any]) -> None:
    tier = make_tier(workers=1, restart_backoff_ms=30_000)
    send(tier.worker(0), signal.SIGKILL)
    tier.wait(lambda metrics: not metrics["workers"][0]["healthy"])
    assert tier.turn().status == 429


def test_the_lease_of_a_killed_worker_ends_with_its_ttl(holding: Callable[..., Any]) -> None:
    tier = holding(lease_ttl_ms=800)
    turn = tier.held_turns(1)[0]
    assert tier.tier.stats()["store"]["leases"] == 1
    send(tier.worker(0), signal.SIGKILL)
    assert turn.exception() is not None
    tier.let_go()
    tier.wait(lambda metrics: metrics["restarts"] == 1 and metrics["workers"][0]["healthy"])
    time.sleep(0.8)
    assert tier.turn().status == 200  # expiry is seen at the next selection
    assert tier.tier.stats()["store"]["expired"] == 1
    assert tier.tier.stats()["store"]["leases"] == 0


def test_a_turn_longer_than_its_leases_ttl_keeps_it(holding: Callable[..., Any]) -> None:
    tier = holding(lease_ttl_ms=300)
    turn = tier.held_turns(1)[0]
    time.sleep(1)
    tier.let_go()
    assert turn.result().status == 200
    assert tier.turn().status == 200
    assert tier.tier.stats()["store"]["expired"] == 0


def test_the_loop_lag_stands_on_its_resolution(make_tier: Callable[..., Any]) -> None:
    tier = make_tier(lag_resolution_ms=10)
    metrics = tier.wait(lambda found: found["workers"][0]["loop_lag_p99_ms"] != "NaN")
    assert metrics["lag_resolution_ms"] == 10
    assert metrics["env"]["SH_LAG_RESOLUTION_MS"] == "10"
    assert metrics["workers"][0]["loop_lag_p99_ms"] >= 9


def test_a_starved_loop_shows_in_its_lag(make_tier: Callable[..., Any]) -> None:
    tier = make_tier(workers=1, stats_interval_ms=500)
    worker = tier.worker(0)
    for _ in range(10):  # a tenth of each second is enough to be seen at p99
        send(worker, signal.SIGSTOP)
        time.sleep(0.06)
        send(worker, signal.SIGCONT)
        time.sleep(0.02)
    tier.wait(lambda found: found["workers"][0]["loop_lag_p99_ms"] > 50, limit_s=3)
