"""What is known of a target where a part of it cannot be seen: nothing, with the reason, and never a part's sum."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from harness.e8 import cpu, target
from harness.e8.arms import CAPACITY, NO_BASIS
from harness.e8.compose import RungPlan, compose
from harness.e8.driver import measure_rest_pct
from harness.e8.generator import GeneratorProcess
from harness.e8.metrics import read_metrics
from harness.e8.readings import Polled, Reading, parse_reading
from harness.e8.steady import _sample
from harness.e8.target import Target, embedded, look, look_at_cpu, somebodys
from harness.e8.tier.handle import Tier
from harness.processes import Identity, own_identity
from tests.e8.made import snapshot, turns_of
from tests.e8.standin import StandIn, metrics_document, standing

LISTENER = "http://127.0.0.1:1"


class OwnTier:
    """A tier all of whose parts are this test's process; those of ``gone`` have ended."""

    def __init__(self, url: str = LISTENER, gone: tuple[str, ...] = ()) -> None:
        self.urls = {"base": url, "metrics": url, "stub": url}
        self.gone = gone

    def identities(self, *kinds: str) -> list[Identity]:
        return [own_identity() for kind in kinds if kind not in self.gone]

    def stats(self) -> dict[str, Any]:
        return {"store": {"connections": 3}}


def tier_target(url: str = LISTENER, gone: tuple[str, ...] = ()) -> Target:
    return embedded(cast(Tier, OwnTier(url, gone)))


def reading_of(*pids: int | None, cores: float = 2, used_s: float = 1.0) -> Reading:
    """Each worker with other figures than the one before it."""
    workers = [
        {"pid": pid, "inFlight": 0, "healthy": True, "loop_lag_p99_ms": 1.0 + n, "rss_bytes": 1000 * (n + 1),
         "cpu_seconds": 5000.0 * n + used_s}
        for n, pid in enumerate(pids)
    ]  # fmt: skip
    return parse_reading(metrics_document(workers=workers, cores=cores))


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with standing() as state:
        state.metrics = lambda: metrics_document(workers=[{"pid": os.getpid(), "cpu_seconds": 1.0}], cores=2)
        yield state


# --- the host


def test_the_cores_of_the_machine_are_those_whose_time_is_told() -> None:
    cores = cpu.host_cores()
    assert cores is not None
    assert cores >= len(os.sched_getaffinity(0))


def test_a_tier_that_may_use_a_part_of_the_machine_has_no_host_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "host_cores", lambda: 64)
    found = look_at_cpu(tier_target(), reading_of(os.getpid()))["host"]
    assert found.value is None
    assert found.reason == (
        "the target has 2 of this machine's 64 cores, and the machine's CPU time is that of them all"
    )
    assert look_at_cpu(tier_target(), reading_of(os.getpid(), cores=64))["host"].value is not None


def test_a_deployment_in_a_part_of_this_machine_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    here = somebodys(LISTENER, LISTENER, LISTENER, sandbox_cpu="", host_cpu="", exec_count="")
    monkeypatch.setattr(target, "host_cores", lambda: 64)
    reading = reading_of(os.getpid(), cores=len(os.sched_getaffinity(0)))
    assert look_at_cpu(here, reading)["host"].reason == "e8.host_cpu_cmd is not set"


def test_a_host_at_rest_that_was_busier_than_its_cores_can_be_is_unknown(stand_in: StandIn, tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_text("0")
    (tmp_path / "add.sh").write_text(f"n=$(cat {count}); echo $n; echo $((n + 5)) > {count}\n")
    url = stand_in.url
    told = somebodys(url, url, url, sandbox_cpu="", host_cpu=f"sh {tmp_path}/add.sh", exec_count="")
    rest = measure_rest_pct(told, wait_s=0.2)
    assert rest.value is None
    assert "% of the target's 2 cores at rest is more than they can be used" in str(rest.reason)


# --- descriptors and memory


def test_descriptors_are_those_of_every_part(stand_in: StandIn) -> None:
    own = cpu.descriptors([own_identity()]) or 0
    assert look(tier_target(stand_in.url), {}).descriptors.value == pytest.approx(4 * own, abs=8)


@pytest.mark.parametrize("part", ["supervisor", "store", "relay"])
def test_of_a_tier_of_which_a_part_is_gone_no_descriptors_are_known(stand_in: StandIn, part: str) -> None:
    found = look(tier_target(stand_in.url, (part,)), {}).descriptors
    assert (found.value, found.reason) == (None, f"a process of the tier is gone or not told of ({part})")


def test_without_an_answer_of_metrics_no_descriptors_are_known_nor_those_of_workers(stand_in: StandIn) -> None:
    stand_in.metrics = lambda: b"not json"
    found = look(tier_target(stand_in.url), {}).descriptors
    assert (found.value, found.reason) == (None, "the answer of /metrics is no JSON object")
    sample = _sample(tier_target(stand_in.url), 1.0, sending())
    assert (sample.descriptors["worker"], sample.rss_bytes["worker"]) == (None, None)
    assert sample.descriptors["store"] and sample.rss_bytes["store"]


def test_a_worker_without_a_pid_makes_the_sum_of_all_unknown(stand_in: StandIn) -> None:
    stand_in.metrics = lambda: metrics_document(workers=[{"pid": os.getpid()}, {"pid": "NaN"}])
    target = tier_target(stand_in.url)
    assert look(target, {}).descriptors.value is None
    assert look_at_cpu(target, read_metrics(target.admin))["worker"].value is None
    assert _sample(target, 1.0, sending()).rss_bytes["worker"] is None


def sending() -> GeneratorProcess:
    generator = object.__new__(GeneratorProcess)
    generator.attempts = generator.ok = 7
    return generator


# --- workers without a pid


def test_workers_without_a_pid_are_not_taken_for_one_another() -> None:
    turns = turns_of(2)
    done = {"ended": "all turns", "wall_ms": 2000.0, "cpu_s": 0.1, "wait_s": 0.0, "lag_p99_ms": 0.1, "lag_max_ms": 0.2}
    before, after = reading_of(None, None), reading_of(None, None, used_s=1.25)
    rung = compose(
        RungPlan(2, CAPACITY, NO_BASIS, 10, 5.0, 60.0),
        turns,
        done,
        at(before, after=False),
        at(after, after=True),
        Polled(readings=[before, after], tail=[after]),
    )
    assert [worker.cpu_s for worker in rung.workers] == [0.25, 0.25], "each is the one at its place"
    for worker in rung.workers:
        assert (worker.lag_p99_ms, worker.rss_bytes, worker.in_flight_max) == (None, None, None)
    assert rung.why_unknown["workers"].startswith("a worker does not tell its pid")
    assert rung.lag_p99_worst_ms == 2.0, "of all of them it is known"


def at(reading: Reading, *, after: bool) -> target.Snapshot:
    return dataclasses.replace(snapshot(2, after=after, wall_s=2.0), reading=reading)
