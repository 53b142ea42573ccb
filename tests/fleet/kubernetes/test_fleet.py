"""The fleet as the stages see it: how a load stands after any death, and that nothing is started twice or lost."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.children import module_environment, python_module
from harness.errors import FleetError, LoadError
from harness.files import read_json, write_json
from harness.fleet.base import LoadState
from harness.fleet.kubernetes import fleet as fleet_module
from harness.fleet.kubernetes import load, provenance
from harness.fleet.kubernetes.document import LOADING, STOPPED, change_fleet, read_fleet
from harness.fleet.kubernetes.fleet import KubernetesFleet
from harness.fleet.kubernetes.runenv import read_run_env, write_run_env
from harness.processes import own_identity
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.mock_cluster import MockApi, MockHelm, end_job, make_engines, make_job
from tests.fleet.kubernetes.told import Told, listed

ENDED = b'{"pass": true, "executions": []}'


class ArmedFleet(KubernetesFleet):
    """Its supervisor is a mock: it notes that it was armed, and follows at once, in the process of the test."""

    armed = 0

    def _arm(self) -> None:
        if not read_fleet(self.config).is_followed:
            self.armed += 1
            change_fleet(
                self.config, state=LOADING, supervisor=own_identity().to_json(), driver_phase="Running", driver_why=""
            )


class Scene:
    """A run with ready engines on a mock cluster."""

    def __init__(self, make_config: MakeConfig, volume: Path) -> None:
        volume.mkdir()
        self.volume = volume
        self.config = make_config(nodes=2)
        self.folder = self.config.folder
        self.api = MockApi(self.config, volume)
        make_engines(self.api)
        self.helm = MockHelm(self.api)
        self.folder.plan.write_text("version: v1\n")
        self.folder.engines.write_text("10.1.0.1\tnode-1\tengine-1\n10.1.0.2\tnode-2\tengine-2\n")
        write_json(self.config.live / provenance.CHART_JSON, {"digest": f"sha256:{'0' * 64}", "verified": "no"})
        change_fleet(self.config, state="ready")
        self.fleet = self.again()

    def again(self) -> ArmedFleet:
        """As another command sees it."""
        api: Any = self.api
        return ArmedFleet(self.folder, make_api=lambda _: api, sleep=lambda _: None)

    def start(self) -> load.Job:
        self.fleet.start_load()
        job = load.noted(self.config)
        assert job is not None
        return job

    def nobody_follows(self) -> None:
        """The supervisor was killed."""
        change_fleet(self.config, supervisor={"pid": 1, "start_ticks": 1})


@pytest.fixture
def scene(make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene(make_config, tmp_path / "volume")
    monkeypatch.setattr(provenance, "verified_chart", lambda _: Path("harness-0.1.0.tgz"))
    monkeypatch.setattr(fleet_module, "Helm", lambda _: scene.helm)
    return scene


def test_a_load_is_started_noted_and_followed(scene: Scene) -> None:
    assert scene.fleet.load_state() == LoadState("not_started")
    job = scene.start()
    env = read_run_env(scene.folder.run_env)
    assert (env["RUN_TAG"], env["CTX"], env["NS"], env["BACKENDS"]) == ("run-1", "test", "load", "2")
    assert (env["SORTIE_CHART_VERSION"], env["VERIFIED"], env["STATSD"]) == ("0.1.0", "no", "")
    assert (env["REPORT_FILE"], env["STREAM_FILE"]) == ("/var/run/sortie/run-1.json", "/var/run/sortie/run-1.jsonl")
    assert env["JOB"] == job.name
    assert scene.fleet.armed == 1
    assert scene.again().load_state() == LoadState("running", "driver Running")


def test_an_operator_killed_before_the_job_may_start_it(scene: Scene) -> None:
    write_json(scene.folder.intent, {"schema": 1, "what": "load", "run": "run-1"})
    assert scene.fleet.load_state().state == "not_started"
    change_fleet(scene.config, load_asked_at="then")
    assert scene.again().load_state().state == "not_started"
    scene.start()
    assert scene.helm.installed == ["version: v1\n"]


def test_a_load_that_nobody_follows_is_followed_again_and_not_started(scene: Scene) -> None:
    scene.start()
    scene.nobody_follows()
    later = scene.again()
    assert later.load_state().state == "running"
    assert later.armed == 1
    later.start_load()
    assert later.armed == 1
    assert len(scene.helm.installed) == 1


def test_killed_after_the_job_and_before_its_note_it_is_found(scene: Scene) -> None:
    change_fleet(scene.config, load_asked_at="then")
    write_json(scene.folder.intent, {"schema": 1, "what": "load"})
    write_run_env(scene.folder.run_env, {"RUN_TAG": "run-1"})
    make_job(scene.api)
    assert scene.fleet.load_state().state == "running"
    assert load.noted(scene.config) is not None


def test_a_load_that_is_followed_is_not_asked_of_the_cluster(scene: Scene) -> None:
    scene.start()
    scene.api.down = True
    assert scene.again().load_state().state == "running"


def over(scene: Scene, **told: Any) -> None:
    scene.start()
    end_job(scene.api, scene.api.objects["Job", "load", "soak-harness-1"])
    change_fleet(scene.config, state=STOPPED, supervisor={"pid": 1, "start_ticks": 1}, **told)


def test_a_saved_report_is_the_end(scene: Scene) -> None:
    over(scene)
    scene.folder.report_json.write_bytes(ENDED)
    assert scene.again().load_state().state == "ended"


def test_a_report_that_the_supervisor_could_not_fetch_is_fetched_now(scene: Scene) -> None:
    over(scene, saved="SORTIE_SAVE_FAILED no report")
    (scene.volume / "run-1.json").write_bytes(ENDED)
    assert scene.again().load_state().state == "ended"
    assert scene.folder.report_json.read_bytes() == ENDED


def test_nothing_is_given_up_while_nobody_can_tell(scene: Scene) -> None:
    over(scene)
    (scene.volume / "run-1.json").write_bytes(ENDED)
    scene.api.cut_reader_log = True
    with pytest.raises(FleetError, match="the same command tries again"):
        scene.again().load_state()
    scene.api.down = True
    with pytest.raises(FleetError, match="the mock is down"):
        scene.again().load_state()


def test_a_load_without_a_report_is_gone_with_the_savers_word(scene: Scene) -> None:
    over(scene)
    state = scene.again().load_state()
    assert state.state == "gone"
    assert state.detail.startswith("SORTIE_SAVE_FAILED no report")


def test_the_run_is_up_until_it_is_saved(scene: Scene) -> None:
    assert scene.fleet.is_up()
    scene.api.objects["DaemonSet", "load", scene.config.daemon_set]["status"]["numberReady"] = 1
    assert not scene.fleet.is_up()
    scene.api.down = True
    assert scene.fleet.is_up()
    scene.api.down = False
    scene.start()
    assert scene.fleet.is_up()  # a lost engine does not end the load
    scene.folder.evidence.mkdir()
    scene.folder.saved.write_text("now\n")
    assert not scene.fleet.is_up()


def test_stopping_never_ends_a_load_or_loses_what_is_not_saved(scene: Scene) -> None:
    scene.start()
    scene.fleet.stop(cancel_load=False)
    with pytest.raises(LoadError, match="REFUSED"):
        scene.fleet.stop(cancel_load=True)
    assert scene.fleet.sweep() == []
    assert ("Job", "load", "soak-harness-1") in scene.api.objects


def test_evidence_is_copied_and_asked_for_once_more(scene: Scene, tmp_path: Path) -> None:
    over(scene)
    (scene.volume / "run-1.json").write_bytes(ENDED)
    names = scene.fleet.collect(tmp_path / "evidence")
    assert {"report.json", "run.env", "run.json", "job.json", "engines.tsv", "sortie.log", "save.log"} <= set(names)
    assert (tmp_path / "evidence" / "report.json").read_bytes() == ENDED
    assert "run.json" in names


def test_a_driver_that_does_not_come_to_run_is_said(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "PHASE_LIMIT_S", 0)
    monkeypatch.setattr(
        ArmedFleet,
        "_arm",
        lambda fleet: change_fleet(fleet.config, driver_phase="Pending", driver_why="ErrImagePull"),
    )
    with pytest.raises(FleetError, match=r"is Pending after 0 s \(ErrImagePull\).*force=1 gives it up"):
        scene.fleet.start_load()
    assert load.noted(scene.config) is not None


def test_the_real_process_follows_a_job_and_a_signal_ends_it_at_once(
    make_config: MakeConfig, told: Told, until: Callable[[Callable[[], bool], float], None]
) -> None:
    config = make_config()
    write_run_env(config.folder.run_env, {"RUN_TAG": "run-1"})
    write_json(config.folder.intent, {"what": "load", "job": "soak-1", "uid": "uid-1", "t_job_s": int(time.time())})
    job = {"metadata": {"name": "soak-1", "uid": "uid-1"}, "status": {"active": 1}}
    told.answer("GET", "/apis/batch/v1/namespaces/load/jobs/soak-1", job)
    told.answer("GET", "/api/v1/namespaces/load/pods", listed())
    child = subprocess.Popen(
        python_module("harness.fleet.kubernetes", "--run-dir", str(config.folder.root)),
        env=module_environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: bool(told.asked("GET", "/api/v1/namespaces/load/pods")), 30)
        assert read_fleet(config).is_followed
        began_s = time.monotonic()
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=20)
        assert time.monotonic() - began_s < 3
        assert child.returncode == 128 + signal.SIGTERM
        assert "the load goes on" in said
        assert read_json(config.folder.fleet_json)["state"] == LOADING
        assert not [asked for asked in told.requests if asked.method != "GET"]
    finally:
        child.kill()
        child.wait()
