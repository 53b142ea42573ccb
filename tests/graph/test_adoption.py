"""A run of the embedded fleet, copied away and adopted into an empty store, is the same run with the same verdict."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.runs import RunFolder
from tests.conftest import Doit

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(300)]


def harness(*words: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "harness.cli", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def verdict(runs: Path, run: str, code: int) -> Any:
    """What a grading says, but for when it was copy."""
    document = json.loads(harness("gate", run, "--runs", str(runs), "--json", code=code))
    return {key: value for key, value in document.items() if key != "graded_at"}


def listed(runs: Path, run: str) -> list[str]:
    """The run's line in the list of runs, word by word."""
    (line,) = (line for line in harness("runs", "--runs", str(runs)).splitlines() if line.startswith(f"{run} "))
    return line.split()


@pytest.mark.parametrize(("run", "code"), [("good", 0), ("bad", 1)])
@pytest.mark.parametrize("part", ["", "evidence"])
def test_the_verdict_is_identical(copy: Doit, tmp_path: Path, run: str, code: int, part: str) -> None:
    away = shutil.copytree(copy.runs / run, tmp_path / "away" / "some run")
    store = Doit(tmp_path / "store", copy.settings)
    assert json.loads(harness("adopt", str(away / part), "--runs", str(store.runs), "--json"))["run"] == run
    assert verdict(store.runs, run, code) == verdict(copy.runs, run, code)
    here, there = RunFolder(store.runs / run), RunFolder(copy.runs / run)
    assert here.sums.read_bytes() == there.sums.read_bytes()
    assert listed(store.runs, run) == listed(copy.runs, run)


def test_the_graph_goes_on_from_the_adoption(copy: Doit, tmp_path: Path) -> None:
    """Tables, gate and page are made of it, and kept the second time; no load is started, whatever is asked for."""
    store = Doit(tmp_path / "store", copy.settings)
    harness("adopt", str(copy.runs / "good" / "evidence"), "--runs", str(store.runs))
    _, output = store()
    assert re.search(r"good +adopted\nnext: ./doit gate:good ", output), output
    for words in (["tables:good"], ["gate:good"], ["report:good"], ["soak", "run=good"]):
        code, output = store(*words)
        assert code == 0, output
        assert not re.search(r"^load ", output, flags=re.M)
    assert "VERDICT PASS" in output
    assert re.findall(r"^(\w+) +kept", output, flags=re.M) == ["save", "tables", "gate", "report"]
    assert store.folder("good").report.exists()
    assert not store.folder("good").live.exists()
    code, output = store("teardown:good")
    assert (code, "was adopted" in output) == (3, True), output


def test_evidence_that_was_changed_on_the_way_is_refused(copy: Doit, tmp_path: Path) -> None:
    away = shutil.copytree(copy.runs / "bad" / "evidence", tmp_path / "away")
    report = (away / "report.json").read_text()
    (away / "report.json").write_text(report.replace('"pass": false', '"pass": true'))
    harness("adopt", str(away), "--runs", str(tmp_path / "store"), code=2)
    assert not (tmp_path / "store").exists()
