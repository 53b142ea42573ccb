"""The benchmark runs and its counts are the server's."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.engine.conftest import ROOT


@pytest.mark.fleet
def test_the_benchmark_reports_the_engine_sending_its_whole_plan() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "engine_vs_peers.py"), "--only", "none"]
    command += ["--seconds", "1", "--no-limit", "--no-pin", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    report = json.loads(done.stdout)
    assert report["notes"] == []
    assert [(row["load"], row["tool"], row["sent"], row["planned"]) for row in report["rows"]] == [
        ("60 rps", "engine", 60, 60),
        ("1000 rps", "engine", 1000, 1000),
    ]
    for row in report["rows"]:
        assert row["us_per_request"] > 0
        assert 0 < row["latency_ms"]["p50"] <= row["latency_ms"]["p99"]
