"""The watchdog on a fake clock: a folder per case, with what each look is told, and the whole log that comes of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import harness
from harness.errors import UnreachableError
from harness.fleet.kubernetes.churn.calls import Clock
from harness.fleet.kubernetes.churn.logs import archive
from harness.fleet.kubernetes.restarts import Watchdog, namespaces_of
from tests.fleet.kubernetes.churn.fake import T0_UNIX_S, FakeCluster, travel
from tests.fleet.kubernetes.conftest import MakeConfig

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/watch.yaml"))
Document = dict[str, Any]


def pod_of(namespace: str, about: Document) -> Document:
    """A pod as the API tells it."""
    statuses: dict[str, list[Document]] = {"containerStatuses": [], "initContainerStatuses": []}
    for name, told in about.items():
        if name in ("pod", "uid"):
            continue
        status: Document = {"name": name, "restartCount": told["restarts"], "state": state_of(told["state"])}
        if "last" in told:
            keys = ("reason", "exitCode", "finishedAt")
            status["lastState"] = {"terminated": dict(zip(keys, told["last"], strict=True))}
        statuses["initContainerStatuses" if name == "init" else "containerStatuses"].append(status)
    uid = f"{namespace}-{about.get('uid', about['pod'])}"
    return {"metadata": {"name": about["pod"], "namespace": namespace, "uid": uid}, "status": statuses}


def state_of(text: str) -> Document:
    kind, _, reason = text.partition(":")
    return {} if kind == "unknown" else {kind: {"reason": reason} if reason else {}}


class Samples(FakeCluster):
    """Answers the n-th look at a namespace with the n-th sample; the last one is repeated."""

    def __init__(self, loop: asyncio.AbstractEventLoop, samples: list[Document]) -> None:
        super().__init__(loop)
        self._samples = samples
        self._looks: dict[str, Iterator[int]] = {name: iter(range(10**6)) for name in samples[0]}

    async def select(self, kind: str, namespace: str | None, *, labels: str = "", fields: str = "") -> list[Document]:
        await super().select("CSINode", namespace)
        assert namespace is not None
        told = self._samples[min(next(self._looks[namespace]), len(self._samples) - 1)][namespace]
        if isinstance(told, str):
            raise UnreachableError(told)
        return [pod_of(namespace, about) for about in told]


def watch(
    path: Path, samples: list[Document], *, stop_at_s: float | None = None, hang: bool = False
) -> tuple[int, float]:
    """Watch for a minute, every 30 s; the exit code, and when it was over."""

    async def main(loop: asyncio.AbstractEventLoop) -> tuple[int, float]:
        cluster = Samples(loop, samples)
        watchdog = Watchdog(
            cluster, context="test", namespaces=("load", "mesh"), log=path, interval_s=30.0,
            end_unix_s=T0_UNIX_S + 60, clock=Clock(lambda: T0_UNIX_S + loop.time()),
        )  # fmt: skip
        if stop_at_s is not None:
            loop.call_later(stop_at_s, watchdog.stop, 15)
        if hang:
            cluster.hanging = ("list",)
        return await watchdog.run(), loop.time()

    return travel(main)


def shown(line: str) -> str:
    """A line with its time as minutes and seconds of the watch."""
    stamp, _, rest = line.partition(" ")
    second = datetime.fromisoformat(stamp).timestamp() - T0_UNIX_S
    rest = re.sub(
        r"(from|to)=(\S+Z)",
        lambda found: f"{found[1]}=T+{datetime.fromisoformat(found[2]).timestamp() - T0_UNIX_S:.0f}",
        rest,
    )
    minutes, seconds = divmod(round(second), 60)
    return f"{minutes:02d}:{seconds:02d} {rest.replace(f'build={harness.__version__}', 'build=BUILD')}"


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_a_watch(case: Path, tmp_path: Path) -> None:
    about = yaml.safe_load((case / "watch.yaml").read_text())
    log = tmp_path / "restart-watch.log"
    code, _ = watch(log, about["samples"], stop_at_s=about.get("stop_at_s"))
    assert code == about.get("exit", 0)
    assert [shown(line) for line in log.read_text().splitlines()] == (case / "expected.log").read_text().splitlines()


@pytest.mark.parametrize("second", [0.0, 5.0, 29.0])
def test_a_stop_during_a_call_that_never_answers(tmp_path: Path, second: float) -> None:
    log = tmp_path / "restart-watch.log"
    code, ended_s = watch(log, [{"load": [], "mesh": []}], stop_at_s=second, hang=True)
    assert code == 143
    assert ended_s - second < 2.0
    last = log.read_text().splitlines()[-1]
    assert " SUMMARY restart-watch verdict=UNPROVEN " in last
    assert " ended=TERM " in last


def test_what_is_restarted_is_counted_whatever_ends_the_watch(tmp_path: Path) -> None:
    about = yaml.safe_load((Path(__file__).parent / "restarted/watch.yaml").read_text())
    log = tmp_path / "restart-watch.log"
    assert watch(log, about["samples"], stop_at_s=31)[0] == 143
    assert "verdict=FAIL new_restarts=2 containers=2 samples=1" in log.read_text()


def test_an_earlier_log_is_moved_aside(tmp_path: Path) -> None:
    log = tmp_path / "restart-watch.log"
    assert archive(log) is None
    log.touch()
    assert archive(log) is None
    kept = []
    for text in ("first\n", "second\n"):
        log.write_text(text)
        kept.append(archive(log))
        assert not log.exists()
    assert [path.read_text() for path in kept if path] == ["first\n", "second\n"]
    assert all(re.fullmatch(r"restart-watch\.log\.\d{8}T\S+Z(\.1)?\.prev", path.name) for path in kept if path)


def test_the_namespaces_of_a_run_are_watched(make_config: MakeConfig) -> None:
    assert namespaces_of(make_config()) == ("load", "system")
    assert namespaces_of(make_config(k8s__system_namespace="")) == ("load",)
