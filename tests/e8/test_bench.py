"""Workloads on a target: prepared on the embedded tier, checked on anybody else's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.e8 import chain
from harness.e8.arms import CAPACITY, REALISM
from harness.e8.bench import check, prepare
from harness.e8.driver import measure_rest_pct
from harness.e8.target import Target, somebodys
from harness.e8.tier.handle import start
from harness.e8.tier.settings import Profile, TierSettings
from harness.errors import PreflightError
from tests.e8.standin import GOOD, StandIn, standing


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with standing() as state:
        state.delay_s = 0.02
        yield state


def target_of(stand_in: StandIn, **hooks: str) -> Target:
    given = {"sandbox_cpu": "", "host_cpu": "", "exec_count": ""} | hooks
    return somebodys(stand_in.url, stand_in.url, stand_in.url, **given)


def adding(folder: Path, name: str, step: str) -> str:
    """A hook that prints a number which grows by ``step`` each time."""
    counter, script = folder / f"{name}.txt", folder / f"{name}.sh"
    counter.write_text("0")
    script.write_text(f'n=$(cat {counter}); echo "$n"; awk "BEGIN{{print $n + {step}}}" > {counter}\n')
    return f"sh {script}"


def test_duty_on_somebodys_target_is_counted_and_measured_by_hooks(stand_in: StandIn, tmp_path: Path) -> None:
    target = target_of(
        stand_in, exec_count=adding(tmp_path, "execs", "10"), sandbox_cpu=adding(tmp_path, "cpu", "0.05")
    )
    made = check(target, REALISM, "e6-ocp")
    assert len(stand_in.turns) == 20, "two probes of ten turns"
    assert made.execs_per_turn == 1.0
    assert made.mean_turn_ms is not None
    assert made.duty == pytest.approx(0.05 / (made.mean_turn_ms / 100), abs=0.001)
    assert made.duty_second is not None
    assert made.reason is None
    assert made.command is None
    assert made.tool_call_rate == 0.5


def test_where_nothing_counts_execs_duty_reads_not_measured(stand_in: StandIn) -> None:
    made = check(target_of(stand_in), REALISM, "e6-ocp")
    assert (made.duty, made.duty_second, made.execs_per_turn) == (None, None, None)
    assert made.duty_text == "not measured"
    assert made.reason == "the stub tells no usable count of execs and e8.exec_count_cmd is not set"
    assert len(stand_in.turns) == 10


def test_execs_without_cpu_time_are_counted_and_no_duty(stand_in: StandIn, tmp_path: Path) -> None:
    made = check(target_of(stand_in, exec_count=adding(tmp_path, "execs", "10")), CAPACITY, "")
    assert made.execs_per_turn == 1.0
    assert made.duty is None
    assert made.reason == "e8.sandbox_cpu_cmd is not set"
    assert made.basis == "none (capacity arm)"


def test_a_target_whose_turns_reach_no_sandbox_is_refused(stand_in: StandIn) -> None:
    with pytest.raises(PreflightError, match="no sandbox exec was counted in 10 turns"):
        check(target_of(stand_in, exec_count="echo 7"), REALISM, "e6-ocp")


def test_a_target_whose_turns_fail_is_refused(stand_in: StandIn) -> None:
    stand_in.reply = lambda number: (200, GOOD | {"stopReason": "error", "errorMessage": "Connection error."})
    with pytest.raises(PreflightError, match=r"a probe turn failed \(code 200, stop reason error, Connection error"):
        check(target_of(stand_in), REALISM, "e6-ocp")


@pytest.mark.fleet
def test_the_embedded_tier_is_prepared_for_capacity(tmp_path: Path) -> None:
    settings = TierSettings(workers=1, turns_per_worker=4, sandboxes=2, cap=8, profile=Profile(10, 1, 64, 0.5))
    tier = start(settings, state=tmp_path / "tier.json", mark="test-bench")
    try:
        made = prepare(tier, CAPACITY, "")
        left = tier.run("sandbox-0", "ls -A; ls -A repo | wc -l").output
    finally:
        tier.stop()
    assert made.command == chain.TRIVIAL
    assert made.execs_per_turn == 1.0
    assert made.duty is not None
    assert 0 < made.duty < 0.2
    assert tier.state["settings"]["tool_command"] == chain.TRIVIAL
    assert chain.EXECS_FILE not in left, "nothing that counts is left behind"
    assert left.split() == ["repo", "17"]


@pytest.mark.fleet
def test_a_tier_behind_its_addresses_alone_is_checked_and_its_host_is_found_to_be_this_machine(tmp_path: Path) -> None:
    settings = TierSettings(workers=1, turns_per_worker=4, sandboxes=1, cap=8, profile=Profile(10, 1, 16, 0.5))
    tier = start(settings, state=tmp_path / "tier.json", mark="test-bench")
    try:
        urls = tier.urls
        target = somebodys(urls["base"], urls["metrics"], urls["stub"], sandbox_cpu="", host_cpu="", exec_count="")
        made = check(target, REALISM, "e6-ocp")
        rest = measure_rest_pct(target, wait_s=0.3)
    finally:
        tier.stop()
    assert target.measured == urls["base"]
    assert made.execs_per_turn == 1.0, "counted by the stub"
    assert (made.duty, made.reason) == (None, "e8.sandbox_cpu_cmd is not set")
    assert rest.value is not None


@pytest.mark.fleet
@pytest.mark.sweep
def test_the_embedded_tier_is_calibrated_to_its_basis_row(tmp_path: Path) -> None:
    tier = start(TierSettings(), state=tmp_path / "tier.json", mark="test-bench")
    try:
        made = prepare(tier, REALISM, "e6-ocp")
    finally:
        tier.stop()
    for duty in (made.duty, made.duty_second):
        assert duty is not None
        assert 0.061 <= duty <= 0.079
    assert made.execs_per_turn == 1.0
    assert tier.state["settings"]["tool_command"] == made.command
