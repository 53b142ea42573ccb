"""A churn of a schedule on a fake cluster and a fake clock, and what it left."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.fleet.kubernetes.churn.calls import Clock, Thing
from harness.fleet.kubernetes.churn.runner import Churn
from harness.fleet.kubernetes.churn.schedule import Schedule, read_schedule
from harness.fleet.kubernetes.churn.undo import FILE, Undo
from harness.fleet.kubernetes.config import ClusterConfig
from tests.fleet.kubernetes.churn.fake import T0_UNIX_S, FakeCluster, travel
from tests.fleet.kubernetes.conftest import MakeConfig

DOMAIN = "aether-test.svc.cluster.local:18081"
SHARES = f"svc-1\t9\thttp://svc-1.{DOMAIN}/\nuds-echo\t3\thttp://uds-echo.{DOMAIN}/\n"
IMAGE = "probe@sha256:" + "1" * 64
STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")
OFFSET_S = 240.0

Prepare = Callable[[FakeCluster, Churn], None]


@dataclass
class Done:
    """What a churn did: its exit code, the log without stamps, the calls, and the cluster as it left it."""

    code: int
    lines: list[str]
    calls: list[tuple[float, str]]
    cluster: FakeCluster
    undo: Path
    log: Path
    ended_s: float

    @property
    def changes(self) -> list[tuple[float, str]]:
        """The calls that change something."""
        return [(second, text) for second, text in self.calls if not text.startswith(("read ", "list ", "memory "))]

    def replicas(self, text: str) -> int:
        """How many replicas an object asks for."""
        return int(self.cluster.objects[Thing.parse(text)]["spec"]["replicas"])


@pytest.fixture
def config(make_config: MakeConfig) -> ClusterConfig:
    """A run of the shipped soak's length in the shipped namespaces."""
    return make_config(
        shares=SHARES, k8s__namespace="aether-test", k8s__system_namespace="aether-system", duration_s=30600,
        k8s__image=IMAGE,
    )  # fmt: skip


@pytest.fixture
def schedule_of(tmp_path: Path) -> Callable[[str], Schedule]:
    """Reads a schedule from its text."""

    def read(text: str) -> Schedule:
        path = tmp_path / "schedule.toml"
        path.write_text(text)
        return read_schedule(path, namespace="aether-test", system_namespace="aether-system", image=IMAGE)

    return read


@pytest.fixture
def do(config: ClusterConfig) -> Callable[..., Done]:
    """Does a schedule. ``prepare`` is given the cluster and the churn before anything happens."""

    def run(schedule: Schedule, *, prepare: Prepare | None = None, latency_s: float = 0.0, again: bool = False) -> Done:
        log = config.folder.churn_log
        if not again:
            log.unlink(missing_ok=True)
        undo = config.live / FILE

        async def main(loop: asyncio.AbstractEventLoop) -> tuple[int, FakeCluster, float]:
            cluster = FakeCluster(loop, latency_s=latency_s)
            for step in schedule.steps:
                for thing in (*step.things, *([step.victim] if step.victim else [])):
                    cluster.put(str(thing))
                if step.victim:
                    cluster.put_victim(step.victim.name)
            churn = Churn(
                schedule, cluster, config=config, log=log, t0_unix_s=T0_UNIX_S, offset_s=OFFSET_S, undo=Undo(undo),
                clock=Clock(lambda: T0_UNIX_S + loop.time()),
            )  # fmt: skip
            if prepare is not None:
                prepare(cluster, churn)
            code = await churn.run()
            return code, cluster, loop.time()

        code, cluster, ended_s = travel(main)
        written = log.read_text().splitlines()
        assert all(STAMP.match(line) for line in written)
        return Done(code, [STAMP.sub("", line) for line in written], cluster.calls, cluster, undo, log, ended_s)

    return run
