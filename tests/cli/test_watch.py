"""``harness watch``: looks at the files of a load until it ends, and never waits without an end."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness.cli import main
from harness.commands import watch
from harness.files import write_json
from harness.plan.model import Roll
from harness.processes import identify, own_identity
from harness.progress import progress_line, progress_text
from harness.runs import RunFolder

SEEN = {
    "elapsed_s": 12.0,
    "duration_s": 60,
    "planned": 18000,
    "http_2xx": 3590,
    "failures": {"http_5xx": 10, "stream_resets": 0},
    "backends": {"127.0.1.1:7000": {"silent_s": 0.4}, "127.0.1.2:7000": {"silent_s": 31.0}},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    found = RunFolder(tmp_path / "quick-1")
    found.live.mkdir(parents=True)
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path))
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(watch, "PLAIN_EVERY_S", 0.0)
    return found


def claim(folder: RunFolder, ends_unix_s: float) -> None:
    write_json(folder.load_json, {**own_identity().to_json(), "ends_unix_s": ends_unix_s})


def test_a_line_tells_time_answers_failures_and_silence() -> None:
    rolls = (Roll(5.0, "proxy", "node-a"), Roll(20.0, "target", "svc-1"))
    load = {"start_unix_ns": (time.time() - 12) * 1e9}
    assert progress_text(SEEN, load, rolls) == (
        " 20%  3,590 of 18,000 2xx  http_5xx=10  0:48 left  next roll target svc-1 in 0:08  "
        "127.0.1.2:7000 silent for 31 s"
    )
    assert progress_text(SEEN, load, (), {"127.0.1.2": "node-b"}).endswith("0:48 left  node-b silent for 31 s")
    assert progress_text({}, {}, ()) == "waiting for the first counts"


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"planned": 1}', '{"planned": 1, "duration_s": "x", "elapsed_s": 1}']
)
def test_counts_that_cannot_be_read_are_said_so(folder: RunFolder, damage: str) -> None:
    folder.progress_json.write_text(damage)
    assert progress_line(folder) in ("waiting for the first counts", "the counts cannot be read")


def test_it_follows_a_load_to_its_end(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    claim(folder, time.time() + 60)
    write_json(folder.progress_json, SEEN)
    ending = threading.Timer(0.3, lambda: folder.report_json.write_text("{}"))
    ending.start()
    assert main(["watch", "quick-1"]) == 0
    ending.join()
    output = capsys.readouterr().out
    assert "3,590 of 18,000 2xx" in output and "harness gate quick-1" in output


def test_a_driver_that_died_ends_the_watch(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    child = subprocess.Popen(["sleep", "60"])
    identity = identify(child.pid)
    assert identity is not None
    child.kill()
    child.wait()
    write_json(folder.load_json, {**identity.to_json(), "ends_unix_s": time.time() + 60})
    assert main(["watch", "quick-1"]) == 0
    output = capsys.readouterr().out
    assert "ended without a report" in output and str(folder.evidence) in output
    assert "a new run is needed" in output and "harness gate" not in output


def test_it_gives_up_when_the_time_is_up(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "quick-1", "--timeout-s", "0.1"]) == 4
    assert "the load is not started" in capsys.readouterr().err


def test_it_gives_up_by_itself_after_the_load_should_have_ended(folder: RunFolder) -> None:
    claim(folder, time.time() - watch.END_MARGIN_S - 1)
    assert main(["watch", "quick-1"]) == 4


def test_a_fleet_that_failed_before_the_load_ends_the_watch(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(folder.fleet_json, {"state": "failed"})
    assert main(["watch", "quick-1"]) == 4
    assert "never started" in capsys.readouterr().err


def test_json_is_one_look(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    claim(folder, time.time() + 60)
    write_json(folder.progress_json, SEEN)
    assert main(["watch", "quick-1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["state"], document["progress"]["http_2xx"]) == ("running", 3590)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"elapsed_s": null}'])
def test_a_progress_file_that_is_no_such_thing_is_no_error(folder: RunFolder, text: str) -> None:
    folder.progress_json.write_text(text)
    folder.report_json.write_text("{}")
    assert main(["watch", "quick-1"]) == 0
