"""What every room's tests share: a small fleet's settings, and ``./doit`` as a user starts it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness import processes
from harness.e8.cpu import host_cpu_s
from harness.files import read_json
from harness.graph.receipts import PROJECT
from harness.runs import RunFolder

SMALL_TARGETS = """\
svc-1     http://svc-1.mesh.internal:18081/     3
svc-2     http://svc-2.mesh.internal:18081/     3
uds-echo  http://uds-echo.mesh.internal:18081/  1
"""
SMALL_SCHEDULE = """\
duration_s = 8
[[roll]]
at_s = 1
kind = "proxy"
name = "node-a"
[[roll]]
at_s = 3
kind = "target"
name = "svc-1"
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sweep", action="store_true", help="run the long sweeps too (./doit verify-full)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sweeps are left out by name, and said so, unless they were asked for."""
    if config.getoption("--sweep"):
        return
    sweeps = [item for item in items if item.get_closest_marker("sweep")]
    config.hook.pytest_deselected(items=sweeps)
    items[:] = [item for item in items if not item.get_closest_marker("sweep")]


@dataclass
class Doit:
    """``./doit`` in a runs folder of its own, with a fleet small enough for a test."""

    runs: Path
    settings: dict[str, str] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of the command: nothing of the caller's own settings gets in."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
        own = {f"HARNESS_{key.upper().replace('.', '_')}": value for key, value in {**self.settings, **more}.items()}
        return {**kept, **own, "HARNESS_RUNS": str(self.runs)}

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        """Start the command in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "harness.entry", *words],
            cwd=PROJECT,
            env=self.environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *words: str, timeout_s: float = 240, **more: str) -> tuple[int, str]:
        """Run the command to its end: exit code, and stdout with stderr."""
        child = self.start(*words, **more)
        try:
            output, _ = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
            pytest.fail(f"./doit {' '.join(words)} did not end within {timeout_s} s:\n{output}")
        return child.returncode, output

    def folder(self, run: str) -> RunFolder:
        """The folder of a run."""
        return RunFolder(self.runs / run)

    def processes(self) -> list[processes.Identity]:
        """Live processes of any run in this folder."""
        return [
            found
            for path in self.runs.glob("*/run.json")
            for found in processes.find_marked(read_json(path).get("token", "none"))
        ]

    def leftovers(self) -> list[str]:
        """Everything that a run in this folder left behind: processes, socket folders, shared memory of proxies."""
        found = [f"pid {process.pid}" for process in self.processes()]
        for path in self.runs.glob("*/live/fleet.json"):
            fleet = read_json(path)
            if fleet.get("socket_dir") and Path(fleet["socket_dir"]).exists():
                found.append(fleet["socket_dir"])
            memory = [
                f"/dev/shm/envoy_shared_memory_{(node.get('proxy_base_id') or 0) * 10}" for node in fleet["nodes"]
            ]
            found += [name for name in memory if Path(name).exists()]
        return found


REST_LIMIT_S = 180.0


def wait_for_rest(most: float = 0.08) -> None:
    """Wait until this machine is at rest for a second: a ladder beside another load is refused, and rightly."""
    end_s = time.monotonic() + REST_LIMIT_S
    while time.monotonic() < end_s:
        before, began_s = host_cpu_s().value, time.monotonic()
        time.sleep(1)
        after = host_cpu_s().value
        assert before is not None
        assert after is not None
        if (after - before) / (time.monotonic() - began_s) / len(os.sched_getaffinity(0)) < most:
            return


@pytest.fixture
def doit(tmp_path: Path) -> Iterator[Doit]:
    """A small fleet: two nodes, three targets of one replica, 14 rps per node for 8 s, two rolls."""
    (tmp_path / "targets.tsv").write_text(SMALL_TARGETS)
    (tmp_path / "schedule.toml").write_text(SMALL_SCHEDULE)
    settings = {
        "nodes": "2",
        "rate": "14",
        "duration_s": "8",
        "replicas": "2",
        "targets": str(tmp_path / "targets.tsv"),
        "churn": str(tmp_path / "schedule.toml"),
        "settle_s": "0.2",
        "proxy.drain_s": "1",
        "proxy.parent_shutdown_s": "2",
        "target.drain_s": "0.3",
        "engine.timeout_s": "5",
        "engine.grace_s": "4",
        "progress_s": "2",
    }
    found = Doit(tmp_path / "runs", settings)
    yield found
    processes.end(found.processes(), grace_s=1)
    sockets = [read_json(path).get("socket_dir") for path in found.runs.glob("*/live/fleet.json")]
    for folder in sockets:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def until() -> Callable[[Callable[[], bool], float], None]:
    """Wait for a condition with a deadline, and fail loudly when it does not come."""
    import time

    def wait(condition: Callable[[], bool], limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"did not come true within {limit_s} s")
            time.sleep(0.05)

    return wait


CASES = Path(__file__).parent / "cases" / "gate"


@pytest.fixture
def tables_of(tmp_path: Path) -> Callable[[str], Path]:
    """Case name → a folder with the tables of its evidence."""
    from harness.store.ingest import build_tables

    def build(case: str) -> Path:
        evidence, tables = tmp_path / case / "evidence", tmp_path / case / "tables"
        shutil.copytree(CASES / case, evidence, ignore=shutil.ignore_patterns("expected.*"))
        build_tables(evidence, tables, run=case)
        return tables

    return build
