"""The one load: intent before helm, the Job's uid at once, attached to after any death, and never a second one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import FleetError, LoadError
from harness.files import read_json, write_json
from harness.fleet.kubernetes import load
from harness.fleet.kubernetes.answers import uid
from harness.fleet.kubernetes.config import REPORT_FOLDER
from harness.fleet.kubernetes.document import change_fleet
from harness.fleet.kubernetes.reader import Reader
from harness.fleet.kubernetes.runenv import read_run_env, write_run_env
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.mock_cluster import MockApi, MockHelm, end_job, make_driver, make_job


class Scene:
    """A run whose engines are ready, a mock cluster and a mock helm."""

    def __init__(self, make_config: MakeConfig, volume: Path) -> None:
        volume.mkdir()
        self.config = make_config()
        self.api = MockApi(self.config, volume)
        self.helm = MockHelm(self.api)
        self.slept = 0.0
        write_run_env(self.config.folder.run_env, {"RUN_TAG": "run-1"})
        change_fleet(self.config, state="ready")

    def reader(self) -> Reader:
        return Reader(self.api, self.config, "image", mount=REPORT_FOLDER, poll_s=0)  # type: ignore[arg-type]

    def start(self) -> load.Job:
        def sleep(seconds: float) -> None:
            self.slept += seconds

        arguments: tuple[Any, ...] = (self.config, self.api, self.helm, Path("chart.tgz"), "a plan", self.reader)
        return load.start(*arguments, sleep=sleep)

    @property
    def intent(self) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.config.folder.intent)
        return found

    @property
    def jobs(self) -> list[str]:
        return [name for kind, _, name in self.api.objects if kind == "Job"]


@pytest.fixture
def scene(make_config: MakeConfig, tmp_path: Path) -> Scene:
    return Scene(make_config, tmp_path / "volume")


def test_the_intent_is_on_disk_before_helm_and_the_uid_right_after(scene: Scene) -> None:
    seen: list[dict[str, Any]] = []
    install = scene.helm.install

    def watched(*arguments: Any, **options: Any) -> None:
        seen.append(scene.intent)
        install(*arguments, **options)

    scene.helm.install = watched  # type: ignore[method-assign]
    job = scene.start()
    assert seen[0]["what"] == "load"
    assert "uid" not in seen[0]
    assert (scene.intent["job"], scene.intent["uid"]) == (job.name, job.uid)
    env = read_run_env(scene.config.folder.run_env)
    assert (env["JOB"], env["JOB_UID"], env["T_JOB"]) == (job.name, job.uid, str(job.t_job_s))
    assert list(env)[-3:] == ["JOB", "JOB_UID", "T_JOB"]


def test_the_priority_class_is_read_back_again_before_the_load(scene: Scene) -> None:
    scene.api.objects["PriorityClass", "", "soak-load"]["value"] = 5
    with pytest.raises(FleetError, match="value 5"):
        scene.start()
    assert scene.helm.installed == []


def test_a_second_call_attaches(scene: Scene) -> None:
    first = scene.start()
    env = scene.config.folder.run_env.read_text()
    assert scene.start() == first
    assert scene.helm.installed == ["a plan"]
    assert scene.config.folder.run_env.read_text() == env


def test_killed_between_helm_and_the_note_it_attaches_by_what_the_job_writes(scene: Scene) -> None:
    job = make_job(scene.api)
    change_fleet(scene.config, load_asked_at="then")
    write_json(scene.config.folder.intent, {"schema": 1, "what": "load", "asked_at": "then"})
    assert scene.start().uid == uid(job)
    assert scene.helm.installed == []


def test_an_operator_that_died_before_helm_did_anything_starts_the_load(scene: Scene) -> None:
    change_fleet(scene.config, load_asked_at="then")
    scene.start()
    assert scene.jobs == ["soak-harness-1"]


@pytest.mark.parametrize("name", ["run-1.jsonl", "run-1.json"])
def test_a_load_that_left_a_file_and_no_job_is_never_started_again(scene: Scene, name: str) -> None:
    change_fleet(scene.config, load_asked_at="then")
    (scene.api.volume / name).write_text("{}\n")
    with pytest.raises(LoadError, match=r"began, since .* is on the volume"):
        scene.start()
    assert scene.helm.installed == []


def test_a_noted_job_that_is_gone_is_attached_to_and_not_made_again(scene: Scene) -> None:
    job = scene.start()
    del scene.api.objects["Job", "load", job.name]
    assert scene.start() == job
    assert load.look(scene.config, scene.api, job) is None  # type: ignore[arg-type]
    assert scene.helm.installed == ["a plan"]


def test_another_job_under_the_same_name_is_not_that_job(scene: Scene) -> None:
    job = scene.start()
    scene.api.objects["Job", "load", job.name]["metadata"]["uid"] = "another"
    assert load.look(scene.config, scene.api, job) is None  # type: ignore[arg-type]


def test_a_job_of_another_run_is_not_upgraded_away(scene: Scene) -> None:
    make_job(scene.api, name="other", report="/var/run/sortie/run-0.json")
    with pytest.raises(FleetError, match=r"a Job of another run \(other\)"):
        scene.start()
    assert scene.helm.installed == []


def test_two_jobs_for_one_run_are_refused(scene: Scene) -> None:
    make_job(scene.api)
    make_job(scene.api, name="second")
    with pytest.raises(FleetError, match="two Jobs"):
        scene.start()


def test_a_helm_that_fails_after_it_made_the_job_is_attached_to(scene: Scene) -> None:
    scene.helm.fails = True
    assert scene.start().name == "soak-harness-1"
    scene.helm.makes = False
    del scene.api.objects["Job", "load", "soak-harness-1"]
    scene.config.folder.intent.unlink()
    with pytest.raises(FleetError, match="so told"):
        scene.start()


def test_a_job_that_never_comes_is_waited_for_a_minute(scene: Scene) -> None:
    scene.helm.makes = False
    with pytest.raises(FleetError, match="within 60 s"):
        scene.start()
    assert scene.slept == 60


def test_an_intent_that_cannot_be_read_starts_nothing(scene: Scene) -> None:
    scene.config.folder.intent.write_text("{")
    with pytest.raises(LoadError, match="cannot be read"):
        scene.start()
    assert scene.helm.installed == []


def test_states_of_a_job(scene: Scene) -> None:
    job = make_job(scene.api)
    assert load.state_of(job) == load.ACTIVE
    for condition, state in (("Complete", load.COMPLETE), ("Failed", load.FAILED), ("FailureTarget", load.ACTIVE)):
        end_job(scene.api, job, condition=condition)
        assert load.state_of(scene.api.find("Job", "soak-harness-1", "load")) == state
    assert load.state_of(None) == load.GONE


def test_the_driver_is_the_oldest_pod_of_that_very_job(scene: Scene) -> None:
    job = make_job(scene.api)
    make_driver(scene.api, job, name="replacement")
    stranger = make_driver(scene.api, job, name="stranger")
    scene.api.objects["Pod", "load", "stranger"]["metadata"]["ownerReferences"] = [{"uid": "another"}]
    noted = load.attach(scene.config, scene.api)  # type: ignore[arg-type]
    assert noted is not None
    names = [pod["metadata"]["name"] for pod in load.driver_pods(scene.config, scene.api, noted)]  # type: ignore[arg-type]
    assert names == ["soak-harness-1-a", "replacement"]
    assert stranger["metadata"]["name"] not in names
