"""The process that follows a load: armed before the pod is looked at, through faults of the API, to an end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import FleetError, UnreachableError
from harness.files import read_json
from harness.fleet.kubernetes import load
from harness.fleet.kubernetes.document import LOADING, STOPPED, read_fleet
from harness.fleet.kubernetes.runenv import read_run_env, write_run_env
from harness.fleet.kubernetes.saver import SAVE_LOG, Saved
from harness.fleet.kubernetes.supervisor import Stop, StoppedBySignal, Supervisor, hold_lock
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.mock_cluster import MockApi, end_job, make_engines, make_job


class MockBeside:
    """Notes what it is asked to start and end."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start_watchdog(self) -> None:
        self.calls.append("watchdog")

    def start_churn(self) -> None:
        self.calls.append("churn")

    def end(self, *, early: bool) -> None:
        self.calls.append(f"end early={early}")


class MockSaver:
    """A saver whose passes come out as told."""

    def __init__(self, *passes: Saved | FleetError) -> None:
        self.passes = list(passes)
        self.snapshots = 0

    def snapshot(self) -> None:
        self.snapshots += 1

    def save(self) -> Saved:
        told = self.passes.pop(0)
        if isinstance(told, FleetError):
            raise told
        return told


GOOD = Saved(load.COMPLETE, True, "SORTIE_SAVED")


class Scene:
    """A supervisor on a clock of the test: each wait moves it on, and ``then`` may change the cluster meanwhile."""

    def __init__(self, make_config: MakeConfig, volume: Path) -> None:
        self.config = make_config(k8s__settle_s=20.0)
        self.api = MockApi(self.config, volume)
        make_engines(self.api)
        write_run_env(self.config.folder.run_env, {"RUN_TAG": "run-1"})
        self.job = make_job(self.api)
        noted = load.attach(self.config, self.api)  # type: ignore[arg-type]
        assert noted is not None
        self.noted = noted
        self.api.calls.clear()
        self.beside = MockBeside()
        self.now = float(noted.t_job_s)
        self.start_s = self.now
        self.then: Callable[[float], None] = lambda _: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.then(self.now - self.start_s)

    def run(self, *passes: Saved | FleetError) -> Saved:
        parts: tuple[Any, ...] = (self.config, self.api, self.noted, MockSaver(*passes), self.beside)
        return Supervisor(*parts, sleep=self.sleep, now=lambda: self.now).run()

    def ends_at(self, at_s: float, condition: str = "Complete") -> None:
        def then(elapsed_s: float) -> None:
            if elapsed_s >= at_s:
                end_job(self.api, self.job, condition=condition)

        self.then = then

    @property
    def log(self) -> str:
        return (self.config.live / SAVE_LOG).read_text()


@pytest.fixture
def scene(make_config: MakeConfig, tmp_path: Path) -> Scene:
    return Scene(make_config, tmp_path)


def test_the_saver_is_armed_before_the_first_look(scene: Scene) -> None:
    def find(kind: str, *_: Any, **__: Any) -> None:
        seen.append((read_fleet(scene.config).state, read_fleet(scene.config).is_followed, "saver armed" in scene.log))

    seen: list[tuple[str, bool, bool]] = []
    scene.api.find = find  # type: ignore[assignment]
    scene.run(GOOD)
    assert seen[0] == (LOADING, True, True)


def test_a_load_from_its_start_to_its_end(scene: Scene) -> None:
    scene.ends_at(65)
    assert scene.run(GOOD) == GOOD
    assert scene.beside.calls[:2] == ["watchdog", "churn"]
    assert scene.beside.calls[-1] == "end early=False"
    env = read_run_env(scene.config.folder.run_env)
    assert env["T_LOAD"] == str(scene.noted.t_job_s)
    claim = read_json(scene.config.folder.load_json)
    assert (claim["start_unix_ns"], claim["duration_s"]) == (scene.noted.t_job_s * 10**9, 60)
    seen = read_fleet(scene.config)
    assert (seen.state, seen.saved, seen.reason, seen.job_state) == (STOPPED, "SORTIE_SAVED", "", load.COMPLETE)


def test_a_driver_that_has_already_failed_is_saved(scene: Scene) -> None:
    end_job(scene.api, scene.job, condition="Failed")
    lost = Saved(load.FAILED, False, "SORTIE_SAVE_FAILED no report")
    assert scene.run(lost) == lost
    assert read_run_env(scene.config.folder.run_env)["T_LOAD"]
    assert scene.beside.calls == ["end early=True"]
    assert read_fleet(scene.config).reason == "SORTIE_SAVE_FAILED no report"


def test_a_pod_that_does_not_come_to_run_is_told_with_its_reason(scene: Scene) -> None:
    pod = scene.api.objects["Pod", "load", "soak-harness-1-a"]
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": "driver", "state": waiting}]}
    seen = []

    def then(elapsed_s: float) -> None:
        seen.append(read_fleet(scene.config))
        if elapsed_s > 10:
            end_job(scene.api, scene.job, condition="Failed")

    scene.then = then
    scene.run(GOOD)
    assert (seen[0].driver_phase, seen[0].driver_why) == ("Pending", "ErrImagePull; no such image")


def test_an_api_that_is_away_for_a_while_costs_nothing(scene: Scene) -> None:
    def then(elapsed_s: float) -> None:
        scene.api.down = 10 <= elapsed_s < 40
        if elapsed_s >= 60:
            end_job(scene.api, scene.job)

    scene.then = then
    assert scene.run(GOOD) == GOOD
    assert "could not look" in scene.log


def test_a_save_that_fails_is_tried_again(scene: Scene) -> None:
    end_job(scene.api, scene.job)
    unread = Saved(load.COMPLETE, False, "SORTIE_SAVE_FAILED no report", unread=True)
    assert scene.run(UnreachableError("away"), unread, GOOD) == GOOD
    assert scene.now - scene.start_s == 40


def test_a_report_that_is_plainly_absent_is_asked_for_once(scene: Scene) -> None:
    end_job(scene.api, scene.job)
    absent = Saved(load.COMPLETE, False, "SORTIE_SAVE_FAILED no report")
    assert scene.run(absent, GOOD) == absent


def test_an_overdue_load_is_said_once_and_given_up_in_the_end(scene: Scene) -> None:
    assert scene.run(Saved(load.ACTIVE, False, "SORTIE_SAVE_INCOMPLETE job=active")).job_state == load.ACTIVE
    assert scene.log.count("SORTIE_OVERDUE") == 1
    assert 1260 < scene.now - scene.start_s < 1275


def test_there_is_one_supervisor_of_a_run(scene: Scene) -> None:
    hold_lock(scene.config.live)
    with pytest.raises(FleetError, match="another supervisor"):
        hold_lock(scene.config.live)


def test_a_signal_breaks_a_wait_and_a_second_one_changes_nothing() -> None:
    stop = Stop()
    with pytest.raises(StoppedBySignal):
        stop.ask(15, None)
    stop.ask(2, None)
    with pytest.raises(StoppedBySignal) as raised:
        stop.sleep(60)
    assert raised.value.number == 15
