"""Rungs that went wrong on the real embedded tier, each known by its right name from its record alone."""

from __future__ import annotations

import dataclasses
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.e8 import rules, rung_rules
from harness.e8.arms import CAPACITY, NO_BASIS
from harness.e8.compose import RungPlan
from harness.e8.driver import run_rung
from harness.e8.metrics import read_metrics
from harness.e8.record import Ladder, Rung
from harness.e8.target import embedded
from harness.e8.tier.handle import Tier, start
from harness.e8.tier.settings import Profile, TierSettings
from harness.processes import identify, send

pytestmark = pytest.mark.fleet
MARK = "test-wrong-runs"
FAST = Profile(10, 1, 16, 0.5)
SETTINGS = TierSettings(
    workers=2, turns_per_worker=16, sandboxes=2, cap=16, profile=FAST, tool_command="true", lifetime_s=90
)
PLAN = RungPlan(
    c=4, arm=CAPACITY, duty_basis=NO_BASIS, turns_per_client=15, turn_timeout_s=5, deadline_s=30, settle_s=1.2
)
StartTier = Callable[..., Tier]


@pytest.fixture
def tier_of(tmp_path: Path) -> Iterator[StartTier]:
    tiers: list[Tier] = []

    def begin(**more: Any) -> Tier:
        tiers.append(start(dataclasses.replace(SETTINGS, **more), state=tmp_path / "tier.json", mark=MARK))
        return tiers[-1]

    yield begin
    for tier in tiers:
        tier.stop()


def measure(tier: Tier, folder: Path, **more: Any) -> Rung:
    return run_rung(embedded(tier), dataclasses.replace(PLAN, **more), folder, mark=MARK)


def ladder_of(*rungs: Rung) -> Ladder:
    return Ladder(arm=CAPACITY, measured="embedded", pool=2, workers=2, cores=2, rungs=rungs)


def test_a_frozen_worker_is_named(tier_of: StartTier, tmp_path: Path) -> None:
    tier = tier_of()
    target = embedded(tier)
    worker = identify(read_metrics(target.admin).pids[1] or 0)
    assert worker is not None
    freezing = threading.Timer(2.5, send, (worker, signal.SIGSTOP))  # warm-up and settling take about 2 s
    freezing.start()
    try:
        rung = measure(tier, tmp_path, turns_per_client=40, turn_timeout_s=2, deadline_s=15)
    finally:
        freezing.join()
        send(worker, signal.SIGCONT)
    said = str(rung_rules.worker_frozen(ladder_of(rung), rung))
    assert rung.timed_out
    assert rung.workers[1].in_flight_end
    assert rung.workers[1].healthy_end is True, "it goes on reading healthy"
    if rung.workers[1].cpu_s == 0:  # else it was frozen in the middle of the rung, after it had used some
        assert f"worker 2 (pid {worker.pid}) was frozen at c4" in said


def test_a_worker_frozen_before_the_rung_is_named(tier_of: StartTier, tmp_path: Path) -> None:
    tier = tier_of()
    measure(tier, tmp_path, c=1, turns_per_client=3)  # the worker has told of itself
    worker = identify(read_metrics(embedded(tier).admin).pids[0] or 0)
    assert worker is not None
    send(worker, signal.SIGSTOP)
    try:
        rung = measure(tier, tmp_path, warmup_turns=0, turn_timeout_s=1, deadline_s=12)
    finally:
        send(worker, signal.SIGCONT)
    assert f"worker 1 (pid {worker.pid}) was frozen at c4" in str(rung_rules.worker_frozen(ladder_of(rung), rung))


def test_a_killed_worker_makes_its_cpu_time_unknown_and_another_system(tier_of: StartTier, tmp_path: Path) -> None:
    tier = tier_of()
    before = measure(tier, tmp_path, c=1)
    worker = identify(read_metrics(embedded(tier).admin).pids[0] or 0)
    assert worker is not None
    killing = threading.Timer(2.5, send, (worker, signal.SIGKILL))
    killing.start()
    try:
        rung = measure(tier, tmp_path, turns_per_client=60)
    finally:
        killing.join()
    assert rung.worker_cpu_s is None
    assert rung.why_unknown["worker_cpu_s"]
    assert "the system under test changed: worker was" in str(rung_rules.system_changed(ladder_of(before, rung)))


def test_a_dead_model_endpoint_is_no_success(tier_of: StartTier, tmp_path: Path) -> None:
    tier = tier_of()
    send(tier.identities("stub")[0], signal.SIGKILL)
    rung = measure(tier, tmp_path, c=1, turns_per_client=3, turn_timeout_s=20, deadline_s=60)
    assert (rung.attempts, rung.ok, rung.errors_in_200) == (3, 0, 3)
    assert "ZERO successful turns at c=1 (3 × 200 with an error)" in str(rules.no_success(ladder_of(rung)))


def test_a_lease_cap_ends_a_rung_with_its_signature(tier_of: StartTier, tmp_path: Path) -> None:
    slow = Profile(250, 1, 16, 0.5)  # a refusal is to be quick beside a turn
    rung = measure(tier_of(sandboxes=1, cap=2, profile=slow), tmp_path, c=8, turns_per_client=8)
    assert rung.attempts == 8 * 8
    assert rung.refused_503 == rung.attempts - (rung.ok or 0)
    assert rung.ok == pytest.approx(1 * 2 * 8, abs=2), "sandboxes × cap × turns per client"
    assert rung.lease_saturation == 2


def test_admission_refuses_before_hand_off(tier_of: StartTier, tmp_path: Path) -> None:
    rung = measure(tier_of(workers=1, turns_per_worker=2), tmp_path, c=8)
    assert rung.refused_429
    assert rung.refused_503 == 0
    assert rung.in_flight_max in (1, 2)


def test_another_stub_between_two_rungs_is_another_system(tier_of: StartTier, tmp_path: Path) -> None:
    tier = tier_of()
    first = measure(tier, tmp_path, c=1, turns_per_client=3)
    tier.change_stub(profile="20/1/16/0.5")
    second = measure(tier, tmp_path, c=2, turns_per_client=3)
    said = str(rung_rules.system_changed(ladder_of(first, second)))
    assert said.startswith("the system under test changed: ")
    assert {"profile", "stub"} <= {
        name for name in first.system or {} if (second.system or {})[name] != first.system[name]
    }


def test_a_rung_bound_by_its_generator_is_refused(tier_of: StartTier, tmp_path: Path) -> None:
    tier = tier_of()
    fine = measure(tier, tmp_path)
    bound = measure(tier, tmp_path, burn_ms=60.0, turns_per_client=8)  # four clients want 240 ms of a core per turn
    assert rung_rules.generator_bound(ladder_of(fine), fine) is None
    assert bound.ok == bound.attempts
    assert "the generator used or waited for" in str(rung_rules.generator_bound(ladder_of(bound), bound))


def test_a_leak_of_store_connections_is_refused(tier_of: StartTier, tmp_path: Path) -> None:
    rung = measure(tier_of(leak_connections=1), tmp_path)
    assert rung.store_connections_delta == pytest.approx(60, abs=2)
    assert "store connections were left open by 60 turns" in str(rung_rules.store_leak(ladder_of(rung), rung))
