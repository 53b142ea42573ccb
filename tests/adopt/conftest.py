"""A run directory as a soak on Kubernetes leaves it, evidence of a run of ours, and the command as a user types it."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import cli
from tests.store.test_own_run import RUN, digest, plan_of, sum_up

CASES = Path(__file__).parent.parent / "cases" / "gate"
TAG = "soak-20260304T050600Z"
ENV = f"""\
RUN_TAG={TAG}
MODE=soak
LABEL=nightly
CTX=lab-west
BACKENDS=2
DURATION_S=120
STATSD=
VERIFIED=no
"""

Harness = Callable[..., tuple[int, str, str]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A clean run saved elsewhere, without list of digests: with folders, bytes that are no text, and an empty file."""
    folder = tmp_path / "elsewhere" / "soak"
    shutil.copytree(CASES / "clean", folder, ignore=shutil.ignore_patterns("expected.*"))
    (folder / "run.env").write_text(ENV)
    (folder / "chart" / "deep").mkdir(parents=True)
    (folder / "chart" / "sortie.tgz").write_bytes(bytes(range(256)) * 5000)
    (folder / "chart" / "deep" / "pull.log").write_text("pulled\n")
    (folder / ".hidden").write_bytes(b"\xff\xfe\x00")
    (folder / "engine-a b.log").write_text("")
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def own_run(tmp_path: Path) -> Path:
    """The folder of a saved run of ours: its evidence as saving leaves it, and beside it what is not adopted."""
    root = tmp_path / "elsewhere" / RUN
    folder = root / "evidence"
    shutil.copytree(CASES / "churn-complete", folder, ignore=shutil.ignore_patterns("expected.*"))
    (folder / "run.env").write_text(f"RUN_TAG={RUN}\nMODE=quick\nBACKENDS=2\nDURATION_S=120\n")
    plan = plan_of((folder / "shares.tsv").read_text())
    (folder / "plan.yaml").write_text(plan)
    (folder / "load.json").write_text("{}\n")
    (folder / "pins.json").write_text("{}\n")
    (folder / "sortie.log").write_text("PASS  2/2 executions passed\n")
    about = {
        "schema": 1, "run": RUN, "kind": "soak", "profile": "quick", "fleet": "local", "token": "none",
        "created_at": "2026-03-04T05:05:00.000Z",
        "settings": {"nodes": 2, "duration_s": 120, "floor_pct": 99, "fault": ""},
        "plan_sha256": digest(plan), "schedule_sha256": digest((folder / "schedule.tsv").read_text()),
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "SAVED").write_text("2026-03-04T05:09:00.000Z\n")
    sum_up(folder)
    (root / "live").mkdir()
    (root / "live" / "report.json").write_text("{}")
    shutil.copy(folder / "run.json", root / "run.json")
    return root


@pytest.fixture
def harness(capsys: pytest.CaptureFixture[str]) -> Harness:
    """``harness`` in this process: exit code, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.main([str(word) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def start(*words: object, cwd: Path | None = None) -> subprocess.Popen[str]:
    """``harness`` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "harness.cli", *map(str, words)],
        cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def content(folder: Path) -> dict[str, str]:
    """Path of every file below a folder → SHA-256."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def traces(folder: Path) -> dict[str, tuple[int, int]]:
    """Path of everything below a folder → inode and time of its last change: not even rewritten with the same."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_ino, path.lstat().st_mtime_ns) for path in folder.rglob("*")
    }
