"""SIGKILL of ``./doit soak`` at any moment: one command goes on, one load ever, nothing half, nothing twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time

import pytest

from harness.files import read_json
from harness.graph import receipts
from harness.runs import RunFolder
from tests.conftest import Doit

WHOLE_RUN_S = 13  # what the small run takes on two idle cores; moments are drawn over it
SEED = 20261130


def kill_and_continue(doit: Doit, run: str, moment_s: float) -> str:
    """Kill the command after ``moment_s``, give it again, and check everything that must hold. Returns a summary."""
    folder = doit.folder(run)
    words = ("soak", f"run={run}", "nodes=2")
    child = doit.start(*words)
    try:
        child.communicate(timeout=moment_s)
    except subprocess.TimeoutExpired:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
    before = {path.name: path.read_bytes() for path in folder.stages.glob("*.json")} if folder.stages.exists() else {}
    claim = folder.load_json.read_bytes() if folder.load_json.exists() else None

    code, output = doit(*words)

    assert code == 0, f"killed after {moment_s:.2f} s with {sorted(before)}:\n{output}"
    assert "VERDICT PASS targets=3 passed=3 failed=0 not_run=0 backends=2 lost_backends=0" in output
    check_whole(folder)
    assert claim in (None, folder.load_json.read_bytes()), "the load was claimed twice"
    done = {name: text for name, text in before.items() if receipts.read(folder, name[3:-5])}
    assert {name: (folder.stages / name).read_bytes() for name in done} == done, "a finished stage ran again"
    assert doit.leftovers() == []
    return f"killed at {moment_s:5.2f} s after {len(before)} stages, load {'begun' if claim else 'not begun'}: PASS"


def check_whole(folder: RunFolder) -> None:
    """Every document parses, no temporary is left in the evidence, and the load ran exactly once."""
    for path in folder.root.rglob("*.json"):
        read_json(path)
    assert [path for path in folder.evidence.iterdir() if path.name.endswith(".tmp")] == []
    labels = [json.loads(line)["label"] for line in (folder.evidence / "results.jsonl").read_text().splitlines()]
    assert labels == ["mesh/svc-1", "mesh/svc-2", "mesh/uds-echo"]
    log = (folder.evidence / "sortie.log").read_text()
    assert log.count("  running mesh/svc-1 ") == 1
    report = read_json(folder.evidence / "report.json")
    assert sum(entry["totals"]["benchmark.http_2xx"] for entry in report["executions"]) == 2 * 14 * 8


@pytest.mark.fleet
@pytest.mark.timeout(400)
def test_killed_at_five_moments(doit: Doit, capsys: pytest.CaptureFixture[str]) -> None:
    """Five moments spread over the run: while the fleet starts, under load, and while evidence becomes a verdict."""
    for index, moment_s in enumerate((0.4, 0.9, 2.0, 6.0, 11.0)):
        line = kill_and_continue(doit, f"k{index}", moment_s)
        with capsys.disabled():
            print(f"\n  {line}", end="")


@pytest.mark.fleet
@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_killed_at_fifty_random_moments(doit: Doit, capsys: pytest.CaptureFixture[str]) -> None:
    moments = random.Random(SEED)
    for index in range(50):
        line = kill_and_continue(doit, f"k{index}", moments.uniform(0.05, WHOLE_RUN_S))
        with capsys.disabled():
            print(f"\n  {line}", end="")


@pytest.mark.fleet
@pytest.mark.timeout(200)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_detaches_and_the_load_goes_on(doit: Doit, number: signal.Signals) -> None:
    """TERM, HUP and INT stop the command, not the load; the sentence says how to go on and how to end it."""
    run = f"s-{number.name.lower()}"
    child = doit.start("soak", f"run={run}")
    folder = doit.folder(run)
    while not folder.load_json.exists():
        assert child.poll() is None, child.communicate()[0]
        time.sleep(0.1)
    os.kill(child.pid, number)
    output, _ = child.communicate(timeout=20)
    assert child.returncode == 128 + number
    assert f"stopped by {number.name}; run {run} is unfinished and what it started goes on" in output
    assert f"continue with ./doit soak run={run}, end it with ./doit teardown:{run}" in output
    assert doit.leftovers()
    if number == signal.SIGTERM:
        code, output = doit(f"teardown:{run}")
        assert (code, "is down; saved" in output) == (0, True), output
        assert doit.leftovers() == []
        code, output = doit(f"gate:{run}")
        assert (code, "VERDICT FAIL" in output, "execution cancelled" in output) == (1, True, True), output
    else:
        code, output = doit("soak", f"run={run}")
        assert code == 0, output
        check_whole(folder)


@pytest.mark.fleet
@pytest.mark.timeout(200)
def test_a_reader_that_goes_away_does_not_end_the_run(doit: Doit) -> None:
    """``./doit soak | head -1``: the run goes on unheard to its verdict and its exit code."""
    child = doit.start("soak", "run=r")
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.wait(timeout=120) == 0
    check_whole(doit.folder("r"))
    assert doit.folder("r").report.exists()
