"""A rung from warm-up to record: against a stand-in that misbehaves, and against the embedded tier itself."""

from __future__ import annotations

import dataclasses
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.e8 import driver, rung_rules
from harness.e8 import target as target_module
from harness.e8.arms import CAPACITY, NO_BASIS
from harness.e8.compose import RungPlan
from harness.e8.driver import measure_rest_pct, run_rung, rung_deadline_s
from harness.e8.reading import parse_rung
from harness.e8.record import Ladder, Rung
from harness.e8.target import Target, embedded, facts, somebodys
from harness.e8.tier.handle import start
from harness.e8.tier.settings import Profile, TierSettings
from harness.e8.turns import Turn, failures, read_turns
from harness.errors import LoadError
from harness.files import read_json
from harness.processes import Identity, send
from tests.e8.standin import GOOD, StandIn, metrics_document, standing

PLAN = RungPlan(
    c=2,
    arm=CAPACITY,
    duty_basis=NO_BASIS,
    turns_per_client=10,
    turn_timeout_s=5,
    deadline_s=20,
    settle_s=0.05,
)


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with standing() as state:
        state.delay_s = 0.06
        yield state


def target_of(stand_in: StandIn, **hooks: str) -> Target:
    given = {"sandbox_cpu": "", "host_cpu": "", "exec_count": ""} | hooks
    return somebodys(stand_in.url, stand_in.url, stand_in.url, **given)


def test_a_rung_leaves_turns_metrics_and_last_its_record(stand_in: StandIn, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    rung = run_rung(target_of(stand_in), PLAN, tmp_path, mark="m", progress=lambda *counts: told.append(counts))
    assert (rung.name, rung.ended, rung.attempts, rung.ok, rung.rate) == ("c2", "all turns", 20, 20, 1.0)
    assert len(stand_in.turns) == 22, "the warm-up's turns are sent and do not count"
    assert rung.wall_ms is not None
    assert rung.p50_ms is not None
    assert 60 <= rung.p50_ms < 400
    assert rung.achieved_c == pytest.approx(2, abs=0.5)
    assert rung.throughput_tps == pytest.approx(20_000 / rung.wall_ms, abs=0.01)
    assert len(read_turns(tmp_path / "c2.turns.jsonl")) == 20
    polled = [json.loads(line) for line in (tmp_path / "c2.metrics.jsonl").read_text().splitlines()]
    assert polled[0]["metrics"]["sandbox_pool_size"] == 2
    assert told
    assert parse_rung(read_json(tmp_path / "c2.json")) == rung


def test_what_a_target_does_not_tell_is_unknown_with_the_reason(stand_in: StandIn, tmp_path: Path) -> None:
    rung = run_rung(target_of(stand_in), PLAN, tmp_path, mark="m")
    for name in ("sandbox_cpu_s", "host_cpu_s", "stub_cpu_s", "execs", "store_connections", "file_op_p95_ms"):
        assert getattr(rung, name) is None
        assert rung.why_unknown[name]
    assert rung.why_unknown["sandbox_cpu_s"] == "e8.sandbox_cpu_cmd is not set"
    assert "shorter than their reporting period" in rung.why_unknown["worker_cpu_s"]
    assert rung.worker_cpu_ms_per_turn is None
    assert rung.sandbox_util_pct is None


def test_another_pin_between_two_rungs_is_another_system(stand_in: StandIn, tmp_path: Path) -> None:
    target = target_of(stand_in)
    plan = dataclasses.replace(PLAN, turns_per_client=1)
    rungs = [
        run_rung(dataclasses.replace(target, pins={"git": version}), plan, tmp_path / version, mark="m")
        for version in ("2.39", "2.40")
    ]
    assert rungs[0].system is not None and json.loads(rungs[0].system["pins"]) == {"git": "2.39"}
    assert rung_rules.system_changed(Ladder(rungs=(rungs[0],))) is None
    said = str(rung_rules.system_changed(Ladder(rungs=tuple(rungs))))
    assert said.startswith("the system under test changed: pins was ")
    unpinned = run_rung(target, plan, tmp_path / "unpinned", mark="m")
    assert "pins" not in (unpinned.system or {}), "nobody looked"


def test_hooks_tell_cpu_seconds_and_execs(stand_in: StandIn, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    script = tmp_path / "add.sh"
    script.write_text(f"n=$(cat {counter}); echo $n; echo $((n + $1)) > {counter}\n")
    target = target_of(stand_in, sandbox_cpu=f"sh {script} 1", host_cpu="echo 41.5", exec_count="echo 7")
    rung = run_rung(target, PLAN, tmp_path, mark="m")
    assert rung.sandbox_cpu_s == 1
    assert rung.wall_s is not None
    assert rung.sandbox_util_pct == pytest.approx(100 / (rung.wall_s * 2), abs=0.1)
    assert rung.host_cpu_s is None, "a clock that stands is no idle host"
    assert "host CPU time did not rise although turns succeeded" in rung.why_unknown["host_cpu_s"]
    assert rung.execs == 0


def test_a_worker_that_was_replaced_makes_its_cpu_time_unknown(stand_in: StandIn, tmp_path: Path) -> None:
    def metrics() -> dict[str, Any]:
        document = metrics_document()
        if len(stand_in.turns) > 10:
            document["workers"][1] |= {"pid": 999, "cpu_seconds": "NaN"}
        return document

    stand_in.metrics = metrics
    rung = run_rung(target_of(stand_in), PLAN, tmp_path, mark="m")
    assert rung.worker_cpu_s is None
    assert "workers changed during the rung" in rung.why_unknown["worker_cpu_s"]
    assert rung.system != rung.system_end
    assert [worker.pid for worker in rung.workers] == [100, 999]


def test_the_worst_of_a_rung_is_recorded_even_when_it_is_over_at_the_end(stand_in: StandIn, tmp_path: Path) -> None:
    def metrics() -> dict[str, Any]:
        busy = stand_in.in_flight > 0
        document = metrics_document(lease_saturation=3.5 if busy else 0)
        document["workers"][1]["loop_lag_p99_ms"] = 40.0 if busy else 1.0
        return document

    stand_in.metrics = metrics
    rung = run_rung(target_of(stand_in), PLAN, tmp_path, mark="m")
    assert rung.lease_saturation == 3.5
    assert rung.lag_p99_worst_ms == 40.0
    assert rung.workers[1].lag_p99_ms == 40.0


def test_a_target_that_tells_nothing_is_measured_by_its_clients_alone(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.metrics = lambda: b"nothing"
    rung = run_rung(target_of(stand_in), PLAN, tmp_path, mark="m")
    assert rung.ok == 20
    assert rung.workers == ()
    assert rung.pool is None
    assert rung.lease_saturation is None
    assert rung.why_unknown["lease_saturation"] == "no poll of /metrics was answered during the rung"
    ladder = Ladder(arm=CAPACITY, measured=stand_in.url, workers=2, rungs=(rung,))
    assert "no worker told of itself at c2" in str(rung_rules.workers_miscounted(ladder, rung))
    assert "no exec was counted at c2 (the stub tells no usable count" in str(rung_rules.execs_off(ladder, rung))


def test_what_no_poll_saw_in_a_rung_is_unknown_and_not_nothing(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.delay_s = 0.001
    rung = run_rung(target_of(stand_in), dataclasses.replace(PLAN, turns_per_client=2), tmp_path, mark="m")
    polled = [json.loads(line) for line in (tmp_path / "c2.metrics.jsonl").read_text().splitlines()]
    assert polled and all(line["tail"] for line in polled), "it was over before it was polled"
    for name in ("in_flight_max", "in_flight_median", "lease_saturation", "lease_saturation_median"):
        assert getattr(rung, name) is None
        assert "it was too short for them" in rung.why_unknown[name]
    assert {worker.in_flight_max for worker in rung.workers} == {None}


def changed(rung: Rung) -> str:
    return str(rung_rules.system_changed(Ladder(rungs=(rung,))))


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ({"sandbox_pool_size": 1}, "sandboxes told of was 2 at c2 and 1 to 2 at the end of c2"),
        ({"workers": metrics_document()["workers"][:1]}, "workers told of was 2 at c2 and 1 to 2 at the end of c2"),
    ],
)
def test_what_came_and_went_inside_a_rung_is_another_system(
    stand_in: StandIn, tmp_path: Path, inside: dict[str, Any], said: str
) -> None:
    stand_in.metrics = lambda: metrics_document(**inside) if stand_in.in_flight else metrics_document()
    assert said in changed(run_rung(target_of(stand_in), PLAN, tmp_path, mark="m"))


def test_workers_without_a_pid_that_were_restarted_are_another_system(stand_in: StandIn, tmp_path: Path) -> None:
    def metrics() -> dict[str, Any]:
        document = metrics_document(restarts=3 if len(stand_in.turns) > 10 else 0)
        for worker in document["workers"]:
            worker["pid"] = None
        return document

    stand_in.metrics = metrics
    rung = run_rung(target_of(stand_in), PLAN, tmp_path, mark="m")
    assert "restarts of workers was 0 at c2 and 3 at the end of c2" in changed(rung)


def test_a_profile_that_goes_away_is_another_system(stand_in: StandIn, tmp_path: Path) -> None:
    def reply(number: int) -> tuple[int, dict[str, Any]]:
        stand_in.profile = b"gone"
        return 200, GOOD

    stand_in.reply = reply
    rung = run_rung(target_of(stand_in), dataclasses.replace(PLAN, warmup_turns=0), tmp_path, mark="m")
    assert "profile was {" in changed(rung)
    assert "not to be had at the end of c2" in changed(rung)


def test_cpu_that_no_host_can_have_spent_is_unknown(stand_in: StandIn, tmp_path: Path) -> None:
    def metrics() -> dict[str, Any]:
        document = metrics_document()
        for worker in document["workers"]:
            worker["cpu_seconds"] += 5 * len(stand_in.turns)
        return document

    stand_in.metrics = metrics
    rung = run_rung(target_of(stand_in), PLAN, tmp_path, mark="m")
    assert rung.worker_cpu_s is None
    assert rung.worker_cpu_util_pct is None
    assert rung.why_unknown["worker_cpu_s"].startswith("200 s of CPU were told, and 2 cores could spend")


def test_worker_cpu_that_was_told_over_a_longer_time_than_the_rungs_is_unknown(
    stand_in: StandIn, tmp_path: Path
) -> None:
    def metrics() -> dict[str, Any]:
        document = metrics_document()
        for worker in document["workers"]:
            worker["cpu_seconds"] = 0.3 * time.monotonic()
        return document

    stand_in.metrics = metrics
    rung = run_rung(target_of(stand_in), dataclasses.replace(PLAN, settle_s=1.5), tmp_path, mark="m")
    assert rung.worker_cpu_s is None
    assert "the workers' CPU time was told over" in rung.why_unknown["worker_cpu_s"]


@pytest.mark.parametrize(
    "counts", [{"9" * 5000: 1}, {"1": -1}, {"1": True}, {"1": 10**30}, {"٣": 1}, {"-1": 1}, {"": 1}, {"1": 1.5}]
)
def test_counts_that_are_none_are_not_counted(counts: dict[str, Any]) -> None:
    assert target_module._counts(json.loads(json.dumps(counts))) is None
    assert target_module._counts({"0": 3, "12": 4}) == {"0": 3, "12": 4}


def test_a_generator_that_stood_still_measured_itself(stand_in: StandIn, tmp_path: Path) -> None:
    generators: list[Identity] = []
    stand_in.reply = lambda number: (200, GOOD)

    def freeze() -> None:
        send(generators[0], signal.SIGSTOP)
        time.sleep(0.8)
        send(generators[0], signal.SIGCONT)

    def progress(attempts: int, ok: int) -> None:
        if not freezing.is_alive() and not frozen:
            frozen.append(True)
            freezing.start()

    frozen: list[bool] = []
    freezing = threading.Thread(target=freeze)

    class Known(driver.GeneratorProcess):
        def go(self) -> None:
            generators.append(self.identity)
            super().go()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "GeneratorProcess", Known)
        plan = dataclasses.replace(PLAN, turns_per_client=20)
        rung = run_rung(target_of(stand_in), plan, tmp_path, mark="m", progress=progress)
    freezing.join()
    assert rung.generator_lag_max_ms is not None
    assert rung.generator_lag_max_ms > 700
    said = str(rung_rules.generator_bound(Ladder(rungs=(rung,)), dataclasses.replace(rung, generator_lag_p99_ms=1.0)))
    assert "the generator stood still for" in said


def test_refusals_are_counted_by_kind(stand_in: StandIn, tmp_path: Path) -> None:
    answers = [(429, {"error": "overloaded"}), (503, {"error": "x"}), (200, {"stopReason": "error"}), (500, {})]
    stand_in.reply = lambda number: answers[number % 5] if number % 5 < 4 else (200, GOOD)
    rung = run_rung(target_of(stand_in), dataclasses.replace(PLAN, warmup_turns=0), tmp_path, mark="m")
    assert (rung.attempts, rung.ok) == (20, 4)
    assert (rung.refused_429, rung.refused_503, rung.errors_in_200, rung.failed_otherwise) == (4, 4, 4, 4)
    assert rung.rate == 0.2


def test_every_failure_is_of_exactly_one_kind() -> None:
    turns = [
        Turn(1, 0, 1, "200", "stop"),
        Turn(1, 0, 1, "200", "error"),
        Turn(1, 0, 1, "429", None),
        Turn(1, 0, 1, "503", None),
        Turn(1, 0, 1, "000", None, "no answer in 5 s", cut="turn"),
        Turn(1, 0, 1, "000", None, "cut by the rung's deadline", cut="rung"),
        Turn(1, 0, 1, "000", None, "connection refused"),
        Turn(1, 0, 1, "404", None),
    ]
    found = failures(turns)
    assert sum(found.values()) == 7
    assert (found["timed_out"], found["failed_otherwise"], found["errors_in_200"]) == (2, 2, 1)


def test_a_rung_without_a_success_has_no_percentile(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.reply = lambda number: (500, {"error": "broken"})
    rung = run_rung(target_of(stand_in), PLAN, tmp_path, mark="m")
    assert (rung.ok, rung.throughput_tps, rung.p50_ms, rung.p95_ms) == (0, 0.0, None, None)
    assert rung.why_unknown["p95_ms"] == "no turn succeeded"


def test_a_rung_cut_by_its_deadline_says_so(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.delay_s = 0.4
    rung = run_rung(target_of(stand_in), dataclasses.replace(PLAN, deadline_s=1), tmp_path, mark="m")
    assert rung.ended == "rung deadline"
    assert rung.timed_out == 2
    assert rung.attempts is not None
    assert rung.attempts < 20


def test_a_lost_generator_leaves_no_record(stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c2.json").write_text("{}")

    def killed(self: Any) -> None:
        self._process.kill()

    monkeypatch.setattr(driver.GeneratorProcess, "go", killed)
    with pytest.raises(LoadError, match="the generator ended before its load was done"):
        run_rung(target_of(stand_in), PLAN, tmp_path, mark="m")
    assert not (tmp_path / "c2.json").exists()


def test_a_machine_that_cannot_carry_the_generator_leaves_no_record(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = driver.GeneratorProcess.wait_done

    def short_of_ports(self: Any, limit_s: float) -> dict[str, Any] | None:
        """Stands in for a machine without free ports, which no test may make of this one."""
        done = real(self, limit_s)
        return done and done | {"local_errors": 3}

    monkeypatch.setattr(driver.GeneratorProcess, "wait_done", short_of_ports)
    with pytest.raises(LoadError, match="ran out of ports or descriptors for 3 turns"):
        run_rung(target_of(stand_in), PLAN, tmp_path, mark="m")
    assert not (tmp_path / "c2.json").exists()


def test_the_facts_of_a_target_stand_as_it_told_them(stand_in: StandIn) -> None:
    stand_in.metrics = lambda: metrics_document(sandbox_pool_size="NaN", env={"KAGENTI_SANDBOX_CAP": "many"})
    target = target_of(stand_in)
    found = facts(target, driver.read_metrics(target.admin), {"ttftMs": "300"})
    assert found["cap"] == "many"
    assert found["pool"] is None
    assert found["profile"] == {"ttftMs": "300"}
    assert found["measured"] == stand_in.url
    assert target.placement == "on-box"


def test_the_host_of_somebodys_target_is_not_this_machine(stand_in: StandIn) -> None:
    rest = measure_rest_pct(target_of(stand_in), wait_s=0.05)
    assert rest.value is None
    assert rest.reason == "e8.host_cpu_cmd is not set"


def test_a_rungs_deadline_follows_from_what_its_turns_took_alone() -> None:
    assert rung_deadline_s(30, 1537, 60) == pytest.approx(368.88)
    assert rung_deadline_s(30, 100, 60) == 60
    assert rung_deadline_s(30, None, 60) == 14_400


@pytest.mark.fleet
def test_a_rung_on_the_embedded_tier_knows_everything(tmp_path: Path) -> None:
    settings = TierSettings(
        workers=2, turns_per_worker=8, sandboxes=2, cap=16, profile=Profile(10, 1, 16, 0.5), tool_command="true"
    )
    tier = start(settings, state=tmp_path / "tier.json", mark="test-driver")
    try:
        target = embedded(tier)
        rest = measure_rest_pct(target, wait_s=0.5)
        plan = dataclasses.replace(PLAN, c=4, turns_per_client=20, settle_s=1.2)
        rung = run_rung(target, plan, tmp_path / "rungs", mark="test-driver")
    finally:
        tier.stop()
    assert rest.value is not None
    assert rung.why_unknown == {}
    assert (rung.attempts, rung.ok, rung.pool, rung.execs) == (80, 80, 2, 80)
    assert rung.execs_per_turn == {"1": 80}
    assert rung.system == rung.system_end
    assert rung.worker_cpu_s is not None
    assert sum(worker.cpu_s or 0 for worker in rung.workers) == pytest.approx(rung.worker_cpu_s, abs=0.25)
    parts = ("worker_cpu_s", "supervisor_cpu_s", "sandbox_cpu_s", "stub_cpu_s", "relay_cpu_s", "store_cpu_s")
    spent = sum(getattr(rung, part) for part in parts)
    assert rung.host_cpu_s is not None
    assert 0 < spent <= rung.host_cpu_s + 0.1
    assert [worker.in_flight_end for worker in rung.workers] == [0, 0]
