"""The driver process with two real engine processes against a small HTTP server on loopback."""

from __future__ import annotations

import http.server
import json
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.files import read_json
from harness.plan.model import Plan, PlannedTarget
from harness.plan.sortie_yaml import render_plan
from harness.sortie.times import times_tsv

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.fleet


class Handler(http.server.BaseHTTPRequestHandler):
    """200 with a short body, on connections that stay open."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Quiet."""


class Fleet:
    """A live folder, a server, and engines on 127.0.1.1 and 127.0.1.2."""

    def __init__(self, folder: Path) -> None:
        self.live = folder / "run" / "live"
        self.live.mkdir(parents=True)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.children: list[subprocess.Popen[str]] = []
        self.backends: list[str] = []

    def engines(self, count: int = 2, max_executions: int = 16) -> list[subprocess.Popen[str]]:
        started = []
        for number in range(1, count + 1):
            address = self.live.parent / f"engine-{number}.address"
            command = [
                "-m", "harness.engine", "--listen", f"127.0.1.{number}:0", "--name", f"node-{number}",
                "--proxy", f"127.0.0.1:{self.server.server_address[1]}", "--max-executions", str(max_executions),
                "--address-file", str(address), "--lifetime-s", "60",
            ]  # fmt: skip
            started.append(self._start(command))
            deadline = time.monotonic() + 20
            while not address.exists():
                assert time.monotonic() < deadline, "the engine did not start"
                time.sleep(0.05)
            self.backends.append(address.read_text().strip())
        return started

    def drive(self, duration_s: int, *options: str) -> subprocess.Popen[str]:
        targets = (
            PlannedTarget("svc-1", "http://svc-1.test/", 9),
            PlannedTarget("uds-echo", "http://uds-echo.test/", 3),
        )
        thresholds = (
            "counter:benchmark.http_5xx == 0",
            "rate:http_2xx >= 5.9",
            "latency_2xx.p95 < 20s",
            "harness.send_delay.p99 < 20s",
        )
        plan = Plan("mesh", "nodes", "nodes.test:8443", 12, duration_s, 1, 18, 10, 5.0, (), targets, thresholds)
        (self.live / "plan.yaml").write_text(render_plan(plan))
        command = [
            "-m", "harness.driver", "--plan", str(self.live / "plan.yaml"), "--out", str(self.live),
            "--resolve", f"nodes.test:8443={','.join(self.backends)}", "--progress", "1", "--grace-s", "5", *options,
        ]  # fmt: skip
        return self._start(command)

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        child = subprocess.Popen([sys.executable, *command], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        self.children.append(child)
        return child

    def close(self) -> None:
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.communicate()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    made.close()


def test_two_engines_send_the_plan_to_the_request_and_pass(fleet: Fleet) -> None:
    fleet.engines()
    driver = fleet.drive(3)
    _, errors = driver.communicate(timeout=60)
    assert (driver.returncode, errors) == (0, "")
    report = read_json(fleet.live / "report.json")
    assert report["pass"] is True
    assert [e["label"] for e in report["executions"]] == ["mesh/svc-1", "mesh/uds-echo"]
    for execution, planned in zip(report["executions"], (27, 9), strict=True):
        assert execution["backends"] == sorted(fleet.backends)
        assert execution["totals"] == {"benchmark.http_2xx": 2 * planned}
        assert execution["elapsed_ms"] >= 3000
        for result in execution["results"]:
            assert result["counters"] == {"benchmark.http_2xx": planned}
            assert result["harness"] == {"planned": planned, "released": planned}
            assert result["statistics"]["harness.send_delay"]["unit"] == "ns"
            assert result["statistics"]["benchmark_http_client.latency_2xx"]["count"] == planned
        assert all(threshold["pass"] for threshold in execution["thresholds"])
    lines = (fleet.live / "results.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == report["executions"]
    assert times_tsv(report["executions"]).count("\tpass\n") == 4
    log = (fleet.live / "sortie.log").read_text()
    assert re.search(r"^    mesh/svc-1  127\.0\.1\.1:\d+  [123]s  http_2xx \d+", log, re.M)
    assert log.endswith("PASS  2/2 executions passed\n")
    histograms = [json.loads(line) for line in (fleet.live / "histograms.jsonl").read_text().splitlines()]
    assert {row["id"] for row in histograms} >= {"latency_2xx", "send_delay"}


def test_sigterm_cancels_the_engines_and_leaves_a_report_that_does_not_pass(fleet: Fleet) -> None:
    fleet.engines()
    driver = fleet.drive(30)
    until_sent(fleet)
    driver.send_signal(signal.SIGTERM)
    _, errors = driver.communicate(timeout=40)
    assert (driver.returncode, errors) == (1, "")
    for execution in read_json(fleet.live / "report.json")["executions"]:
        assert execution["error"] == "execution cancelled: the driver got SIGTERM"
    last = [json.loads(line) for line in (fleet.live / "progress.jsonl").read_text().splitlines()][-4:]
    assert all(row["state"] == "ended" and row["counters"] for row in last)


def test_a_killed_engine_is_lost_and_the_other_is_whole(fleet: Fleet) -> None:
    _, second = fleet.engines()
    driver = fleet.drive(4)
    until_sent(fleet)
    second.kill()
    driver.communicate(timeout=60)
    assert driver.returncode == 1
    for execution, planned in zip(read_json(fleet.live / "report.json")["executions"], (36, 12), strict=True):
        assert [error["backend"] for error in execution["backend_errors"]] == fleet.backends[1:]
        assert "Unavailable" in execution["backend_errors"][0]["error"]
        assert [result["counters"] for result in execution["results"]] == [{"benchmark.http_2xx": planned}]


def test_an_engine_with_too_few_slots_refuses_and_nothing_of_the_scenario_runs(fleet: Fleet) -> None:
    fleet.engines(max_executions=1)
    driver = fleet.drive(3)
    driver.communicate(timeout=60)
    assert driver.returncode == 1
    for execution in read_json(fleet.live / "report.json")["executions"]:
        assert execution["refused"] == "execution_cap"
        assert "refused a start because the engine is at" in execution["error"]


def test_a_full_disk_ends_the_load_with_one_sentence_and_exit_4(fleet: Fleet) -> None:
    fleet.engines()
    driver = fleet.drive(30)
    until_sent(fleet)
    resource.prlimit(driver.pid, resource.RLIMIT_FSIZE, (1000, 1000))  # a write past it fails as on a full disk
    _, errors = driver.communicate(timeout=40)
    assert driver.returncode == 4
    assert errors.count("\n") == 1
    assert "cannot be written (File too large)" in errors
    assert not (fleet.live / "report.json").exists()


def until_sent(fleet: Fleet) -> None:
    """Wait until every backend has sent for a second, so that every target has something to cut short."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        path = fleet.live / "progress.json"
        if path.exists() and all(backend["http_2xx"] >= 12 for backend in read_json(path)["backends"].values()):
            return
        time.sleep(0.1)
    pytest.fail("no request was answered within 20 s")
