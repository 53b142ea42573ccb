"""The churn process against a supervisor of the test's own: what it asks, when, and what stands in churn.log."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import FleetError
from harness.files import write_json
from harness.fleet.local import control
from harness.plan.model import Roll
from harness.plan.schedule import schedule_tsv
from harness.runs import RunFolder

STAMP = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "


class Supervisor:
    """Answers rolls on a control socket, in a thread."""

    def __init__(self, path: Path, fails: str = "") -> None:
        self.asked: list[tuple[float, str, str]] = []
        self._path = path
        self._fails = fails
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()))

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((time.time(), request["kind"], request["name"]))
        if request["name"] == self._fails:
            raise FleetError("the proxy is down")
        return {"took_ms": 12, "detail": {}}

    async def _serve(self) -> None:
        server = await control.serve(self._path, self._answer)
        self._listening.set()
        await self._stop.wait()
        server.close()

    def __enter__(self) -> Supervisor:
        self._thread.start()
        assert self._listening.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()


ROLLS = (Roll(0.3, "proxy", "node-a"), Roll(0.3, "target", "svc-1"), Roll(0.6, "proxy", "node-b"))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    found = RunFolder(tmp_path / "run")
    found.live.mkdir(parents=True)
    found.schedule.write_text(schedule_tsv(ROLLS))
    write_json(found.fleet_json, {"control": str(tmp_path / "control")})
    yield found


def begin_load(folder: RunFolder) -> float:
    start_unix_ns = time.time_ns()
    write_json(folder.load_json, {"start_unix_ns": start_unix_ns})
    return start_unix_ns / 1e9


def churn(folder: RunFolder) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "harness.churn", "--run-dir", str(folder.root)], stderr=subprocess.PIPE, text=True
    )


def lines(folder: RunFolder) -> list[str]:
    """The log without its stamps; every line must have one."""
    text = folder.churn_log.read_text().splitlines()
    assert all(re.match(STAMP, line) for line in text)
    return [re.sub(STAMP, "", line) for line in text]


def test_the_schedule_is_done_in_order_and_never_early(folder: RunFolder, tmp_path: Path) -> None:
    with Supervisor(tmp_path / "control") as supervisor:
        start_s = begin_load(folder)
        process = churn(folder)
        assert process.communicate(timeout=30) == (None, "")
    assert process.returncode == 0
    assert [(kind, name) for _, kind, name in supervisor.asked] == [(roll.kind, roll.name) for roll in ROLLS]
    assert all(at_s - start_s >= roll.at_s for (at_s, *_), roll in zip(supervisor.asked, ROLLS, strict=True))
    said = lines(folder)
    assert re.fullmatch(r"churn driver start T0=\S+Z build=\S+", said[0])
    assert said[1:] == [
        "ROLLED local/proxy/node-a at_s=0.3 took_ms=12",
        "ROLLED local/target/svc-1 at_s=0.3 took_ms=12",
        "ROLLED local/proxy/node-b at_s=0.6 took_ms=12",
        "churn driver complete (3 rolls: 2 proxy, 1 target)",
    ]


def test_the_first_roll_that_fails_aborts_the_rest(folder: RunFolder, tmp_path: Path) -> None:
    with Supervisor(tmp_path / "control", fails="svc-1") as supervisor:
        begin_load(folder)
        process = churn(folder)
        process.communicate(timeout=30)
    assert process.returncode == 1
    assert len(supervisor.asked) == 2
    said = lines(folder)
    assert said[2] == "FAILED local/target/svc-1 at_s=0.3 : the proxy is down"
    assert said[3].startswith("CHURN ABORTED: local/target/svc-1 failed")
    assert len(said) == 4


def test_a_supervisor_that_is_gone_aborts_it(folder: RunFolder) -> None:
    begin_load(folder)
    process = churn(folder)
    process.communicate(timeout=30)
    assert process.returncode == 1
    assert "does not answer" in lines(folder)[1]
    assert lines(folder)[-1].startswith("CHURN ABORTED")


def test_sigterm_is_in_the_log(
    folder: RunFolder, until: Callable[[Callable[[], bool], float], None], tmp_path: Path
) -> None:
    folder.schedule.write_text(schedule_tsv((Roll(50, "proxy", "node-a"),)))
    begin_load(folder)
    process = churn(folder)
    until(lambda: folder.churn_log.exists() and "start" in folder.churn_log.read_text(), 20)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=5)
    assert process.returncode == 143
    assert lines(folder)[-1] == "CHURN ABORTED: stopped by SIGTERM"


def test_an_earlier_log_is_kept_apart(folder: RunFolder, tmp_path: Path) -> None:
    """Continued, its rolls would count twice."""
    folder.churn_log.write_text("earlier\n")
    with Supervisor(tmp_path / "control"):
        begin_load(folder)
        churn(folder).communicate(timeout=30)
    assert "earlier" not in folder.churn_log.read_text()
    assert (folder.live / "churn.log.1").read_text() == "earlier\n"


def test_a_schedule_that_does_not_read_is_refused_before_anything(folder: RunFolder) -> None:
    folder.schedule.write_text("soon\tproxy\tnode-a\n")
    process = churn(folder)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "schedule.tsv:1" in said and "Traceback" not in said
    assert not folder.churn_log.exists()
