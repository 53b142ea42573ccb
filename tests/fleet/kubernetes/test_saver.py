"""The saver: stream before report, whole or not at all, again and again, and its last line says how it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.files import read_json
from harness.fleet.kubernetes import load, saver
from harness.fleet.kubernetes.config import REPORT_FOLDER
from harness.fleet.kubernetes.reader import Reader
from harness.fleet.kubernetes.runenv import write_run_env
from harness.fleet.kubernetes.saver import Saved, Saver, is_report, stream_counts
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.mock_cluster import MockApi, end_job, make_driver, make_engines, make_job

LINE = {
    "label": "mesh/svc-1",
    "started_at": "2026-01-01T00:00:00.000Z",
    "ended_at": "2026-01-01T00:01:00.000Z",
    "elapsed_ms": 60000,
    "pass": True,
    "results": [{"backend": "10.1.0.1:8443", "started_at": "2026-01-01T00:00:00.100Z"}],
}
REPORT = json.dumps({"pass": True, "executions": [LINE]}).encode()


class Scene:
    """A load on a mock cluster, and its saver."""

    def __init__(self, make_config: MakeConfig, volume: Path) -> None:
        volume.mkdir()
        self.volume = volume
        self.config = make_config()
        self.live = self.config.live
        self.api = MockApi(self.config, volume)
        make_engines(self.api)
        (self.config.folder.engines).write_text("10.1.0.1\tnode-1\tengine-1\n10.1.0.2\tnode-2\tengine-2\n")
        write_run_env(self.config.folder.run_env, {"RUN_TAG": "run-1"})
        self.job = make_job(self.api)
        noted = load.attach(self.config, self.api)  # type: ignore[arg-type]
        assert noted is not None
        self.noted = noted

    def save(self) -> Saved:
        api: Any = self.api

        def reader() -> Reader:
            return Reader(api, self.config, "image", mount=REPORT_FOLDER, poll_s=0)

        return Saver(self.config, api, self.noted, reader, sleep=lambda _: None).save()

    def written(self, report: bytes | None = REPORT, stream: bytes | None = None, claim: bool = True) -> None:
        """What the driver left on the volume."""
        if report is not None:
            (self.volume / "run-1.json").write_bytes(report)
        if stream is not None:
            (self.volume / "run-1.jsonl").write_bytes(stream)
        if claim:
            (self.volume / "run-1.load.json").write_text(json.dumps({"start_unix_ns": 1_800_000_000_000_000_000}))

    @property
    def log(self) -> str:
        return (self.live / saver.SAVE_LOG).read_text()


@pytest.fixture
def scene(make_config: MakeConfig, tmp_path: Path) -> Scene:
    return Scene(make_config, tmp_path / "volume")


def test_everything_is_saved_and_the_stream_before_the_report(scene: Scene) -> None:
    stream = json.dumps(LINE).encode() + b"\n"
    scene.written(stream=stream)
    (scene.volume / "run-1.histograms.jsonl").write_bytes(b"{}\n")
    end_job(scene.api, scene.job)
    before: list[str] = []
    write = saver.write_atomic

    def watched(path: Path, data: bytes | str) -> None:
        before.append(path.name)
        write(path, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saver, "write_atomic", watched)
        saved = scene.save()
    assert before.index("results.jsonl") < before.index("report.json")
    assert saved.line == (
        f"SORTIE_SAVED dir={scene.live} job=complete executions=1 pass=true not_run=0 "
        "window=2026-01-01T00:00:00.000Z..2026-01-01T00:01:00.000Z stream_executions=1"
    )
    assert (scene.live / "report.json").read_bytes() == REPORT
    assert (scene.live / "results.jsonl").read_bytes() == stream
    assert (scene.live / "histograms.jsonl").read_bytes() == b"{}\n"
    assert (scene.live / "sortie.log").read_bytes() == b"  running mesh/svc-1\n"
    assert (
        scene.live / "engines-end.tsv"
    ).read_text() == "10.1.0.1\tnode-1\tengine-1\t0\n10.1.0.2\tnode-2\tengine-2\t1\n"
    assert (scene.live / "times.tsv").read_text().startswith("mesh/svc-1\t2026-01-01T00:00:00.000Z")
    assert read_json(scene.live / "job.json")["metadata"]["uid"] == scene.noted.uid
    assert read_json(scene.live / "sortie-pod.json")["metadata"]["name"] == "soak-harness-1-a"
    assert read_json(scene.live / "load.json")["start_unix_ns"] == 1_800_000_000_000_000_000
    assert not list(scene.live.glob("*.tmp"))
    assert not scene.config.folder.saved.exists()


def test_a_second_pass_changes_nothing_that_a_receipt_may_hold(scene: Scene) -> None:
    scene.written(stream=b"")
    end_job(scene.api, scene.job)
    scene.save()
    before = (scene.live / "load.json").read_bytes()
    scene.save()
    assert (scene.live / "load.json").read_bytes() == before


def test_a_load_that_runs_is_incomplete_and_its_volume_is_not_read(scene: Scene) -> None:
    scene.written()
    saved = scene.save()
    assert saved.line.startswith("SORTIE_SAVE_INCOMPLETE job=active")
    assert not (scene.live / "report.json").exists()
    assert not any(call.startswith("create Pod") for call in scene.api.calls)


def test_a_stream_alone_is_kept_torn_and_said_and_no_report_is_invented(scene: Scene) -> None:
    stream = json.dumps(LINE).encode() + b"\n" + b'{"label": "mesh/sv'
    scene.written(report=None, stream=stream, claim=False)
    end_job(scene.api, scene.job, condition="Failed")
    saved = scene.save()
    assert (saved.has_report, saved.unread) == (False, False)
    assert "the results stream IS saved: 1 execution(s), 1 lines that do not parse" in saved.line
    assert "harness gate run-1 --stream" in saved.line
    assert (scene.live / "results.jsonl").read_bytes() == stream
    assert not (scene.live / "report.json").exists()
    assert (scene.live / "times.tsv").read_text().count("\n") == 1


def test_a_broken_download_keeps_the_earlier_copy(scene: Scene) -> None:
    scene.written(stream=b"x\n")
    end_job(scene.api, scene.job)
    scene.save()
    (scene.volume / "run-1.json").write_bytes(b'{"pass": true}')
    assert scene.save().has_report
    scene.api.cut_reader_log = True
    again = scene.save()
    assert (again.has_report, again.unread) == (True, True)
    assert (scene.live / "report.json").read_bytes() == REPORT


def test_a_first_download_that_breaks_is_no_report_and_is_worth_another_pass(scene: Scene) -> None:
    scene.written()
    end_job(scene.api, scene.job)
    scene.api.cut_reader_log = True
    saved = scene.save()
    assert (saved.has_report, saved.unread) == (False, True)
    assert saved.line.startswith("SORTIE_SAVE_FAILED no report")
    assert "purge=1" in saved.line
    scene.api.cut_reader_log = False
    assert scene.save().has_report


def test_a_missing_driver_pod_costs_its_log_only(scene: Scene) -> None:
    scene.written(stream=b"")
    end_job(scene.api, scene.job)
    del scene.api.objects["Pod", "load", "soak-harness-1-a"]
    assert scene.save().has_report
    assert not (scene.live / "sortie.log").exists()
    assert "the driver has no pod" in scene.log


def test_the_log_of_a_deleted_driver_stays_and_a_replacement_has_its_own(scene: Scene) -> None:
    scene.save()
    del scene.api.objects["Pod", "load", "soak-harness-1-a"]
    make_driver(scene.api, scene.job, name="replacement", log=b"driver: the one load of this run was claimed\n")
    scene.written()
    end_job(scene.api, scene.job, condition="Failed")
    scene.save()
    assert (scene.live / "sortie.log").read_bytes() == b"  running mesh/svc-1\n"
    assert "was claimed" in (scene.live / "sortie-replacement.log").read_text()
    assert read_json(scene.live / "sortie-pod.json")["metadata"]["name"] == "soak-harness-1-a"


def test_a_log_that_its_node_has_cut_does_not_replace_a_longer_one(scene: Scene) -> None:
    scene.api.logs["soak-harness-1-a"] = b"one\ntwo\n"
    scene.save()
    scene.api.logs["soak-harness-1-a"] = b"two\n"
    scene.save()
    assert (scene.live / "sortie.log").read_bytes() == b"one\ntwo\n"


def test_after_the_release_is_gone_the_volume_is_still_read(scene: Scene) -> None:
    scene.written(stream=b"")
    scene.save()
    for key in [key for key in scene.api.objects if key[0] in ("Job", "Pod", "DaemonSet", "Endpoints")]:
        del scene.api.objects[key]
    saved = scene.save()
    assert saved.line.startswith(f"SORTIE_SAVED dir={scene.live} job=gone executions=1")
    assert (scene.live / "engines-end.tsv").read_text().count("\n") == 2
    assert "engine-engine-1.log: the pod is gone" in scene.log


def test_the_engines_cpu_is_held_against_their_request(scene: Scene) -> None:
    scene.written(stream=b"")
    end_job(scene.api, scene.job)
    usage = {"usage": "node-1", "pid": 1, "rss_bytes": 5, "nr_periods": 0, "nr_throttled": 0, "throttled_s": 0.0}
    at = ("2027-01-15T08:00:00.000Z", "2027-01-15T08:00:10.000Z")  # within the claim's minute
    lines = [json.dumps(usage | {"at": moment, "cpu_s": 2.0 * n}) for n, moment in enumerate(at)]
    scene.api.logs["engine-1"] = "\n".join(["listening", *lines, '{"usage": "torn']).encode()
    scene.save()
    scene.save()  # the claim's window is known by then
    rows = read_json(scene.live / "engine-cpu.json")["engines"]
    assert [row["pod"] for row in rows] == ["engine-1", "engine-2"]
    assert (rows[0]["request_m"], rows[0]["used_m"], rows[0]["over_request"]) == (150, 200, True)
    assert (rows[0]["nr_throttled"], rows[0]["reason"]) == (0, None)
    assert (rows[1]["used_m"], rows[1]["nr_throttled"], rows[1]["reason"]) == (None, None, "its log holds no usage")
    assert (scene.live / "resources.jsonl").read_text().count('"kind": "engine"') == 2


def test_reports_and_streams_are_told_from_other_things() -> None:
    assert is_report(b'{"executions": []}')
    assert not any(map(is_report, (b"", b"{", b"[]", b'{"executions": null}', b'{"pass": true}')))
    assert stream_counts(b'{"label": "a"}\n\n{"label": 1}\n[]\n{"la') == (1, 3)
