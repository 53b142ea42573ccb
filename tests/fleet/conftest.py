"""A run folder for a small local fleet, and the proof that nothing of it is left afterwards."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import processes
from harness.files import write_json
from harness.fleet.local.config import LocalConfig, read_config
from harness.fleet.local.sweep import sweep
from harness.plan.model import Plan, PlannedTarget, Roll
from harness.plan.schedule import schedule_tsv
from harness.plan.shares import shares_tsv
from harness.plan.sortie_yaml import render_plan
from harness.runs import RunFolder

SETTINGS: dict[str, Any] = {
    "nodes": 2,
    "replicas": 2,
    "duration_s": 8,
    "settle_s": 0.0,
    "fault": "",
    "access_log": "all",
    "connections": 20,
    "engine.max_executions": 16,
    "engine.timeout_s": 5.0,
    "engine.drain_s": 0.5,
    "engine.grace_s": 4.0,
    "proxy.drain_s": 1,
    "proxy.parent_shutdown_s": 2,
    "target.drain_s": 0.5,
    "progress_s": 2.0,
}
TARGETS = {"svc-1": 20, "uds-echo": 10}
MakeRun = Callable[..., RunFolder]


@pytest.fixture
def make_run(tmp_path: Path) -> Iterator[MakeRun]:
    """Makes run folders: settings by key (``.`` written ``__``), ``targets`` name → rps, ``rolls``.

    Afterwards no process, socket folder or shared memory of any of them may be left by its own doing.
    """
    made: list[RunFolder] = []

    def make(
        *, targets: dict[str, int] | None = None, rolls: tuple[Roll, ...] = (), root: Path | None = None, **changed: Any
    ) -> RunFolder:
        folder = RunFolder((root or tmp_path) / f"run-{len(made)}")
        folder.live.mkdir(parents=True)
        settings = SETTINGS | {key.replace("__", "."): value for key, value in changed.items()}
        planned = tuple(
            PlannedTarget(name, f"http://{name}.mesh.internal:18081/", rate_rps)
            for name, rate_rps in (targets or TARGETS).items()
        )
        plan = Plan(
            scenario="mesh",
            pool="nodes",
            dns="nodes.fleet.internal:8443",
            rate_rps=sum(target.rate_rps for target in planned),
            duration_s=settings["duration_s"],
            concurrency=1,
            max_pending=200,
            connections=settings["connections"],
            timeout_s=settings["engine.timeout_s"],
            headers=(),
            targets=planned,
            thresholds=(),
        )
        write_json(
            folder.run_json, {"schema": 1, "run": folder.run, "token": secrets.token_hex(12), "settings": settings}
        )
        folder.plan.write_text(render_plan(plan))
        folder.shares.write_text(shares_tsv(planned))
        if rolls:
            folder.schedule.write_text(schedule_tsv(rolls))
        made.append(folder)
        return folder

    yield make
    left = {folder.run: lines for folder in made if (lines := _leftovers(read_config(folder)))}
    for folder in made:
        sweep(read_config(folder))
    assert left == {}


def _leftovers(config: LocalConfig) -> list[str]:
    found = [f"pid {process.pid}" for process in processes.find_marked(config.token)]
    if config.socket_dir.exists():
        found.append(str(config.socket_dir))
    return found


@pytest.fixture
def config(make_run: MakeRun) -> Iterator[LocalConfig]:
    """The configuration of a small fleet that is not started; its socket folder is removed afterwards."""
    found = read_config(make_run())
    yield found
    shutil.rmtree(found.socket_dir, ignore_errors=True)
