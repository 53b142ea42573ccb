"""Two runs that were really made, once for all tests of this room; each test works on a copy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import processes
from tests.conftest import SMALL_TARGETS, Doit


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doit]:
    """good (PASS), and bad (FAIL: a target was stopped, and no latency can keep its threshold)."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "targets.tsv").write_text(SMALL_TARGETS)
    settings = {
        "nodes": "2", "rate": "14", "duration_s": "3", "targets": str(folder / "targets.tsv"), "churn": "off",
        "settle_s": "0.1", "engine.timeout_s": "3", "engine.grace_s": "3", "progress_s": "1",
    }  # fmt: skip
    doit = Doit(folder / "runs", settings)
    code, output = doit("soak", "run=good")
    assert code == 0, output
    code, output = doit("soak", "run=bad", fault="stop target svc-2 at 1s for 1s", thresholds="latency_2xx.p99 < 1us")
    assert code == 1, output
    yield doit
    processes.end(doit.processes(), grace_s=1)


@pytest.fixture
def copy(made: Doit, tmp_path: Path) -> Doit:
    """A copy of both runs that a test may do anything to."""
    shutil.copytree(made.runs, tmp_path / "runs", copy_function=shutil.copy2)
    return Doit(tmp_path / "runs", made.settings)
