"""The churn as a process, real signals and sockets; the API server is one that answers as the test tells it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.children import module_environment, python_module
from harness.fleet.kubernetes.churn.calls import Thing
from harness.fleet.kubernetes.churn.cluster import Cluster, _bytes
from harness.fleet.kubernetes.churn.planned import put_back_left
from harness.fleet.kubernetes.config import ClusterConfig
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.told import Answer, Told, listed, refusal

APPS = "/apis/apps/v1/namespaces/load"
SVC, SCALE = f"{APPS}/deployments/svc", f"{APPS}/deployments/svc/scale"
DEPLOYMENT = {"metadata": {"name": "svc", "generation": 1}, "spec": {"replicas": 3}, "status": {"replicas": 3}}
SHRINK = """
counts_from = "load"
[objects]
svc = "{namespace}/deployment/svc"
[[step]]
at_s = 0
do = "shrink"
what = "svc"
for_s = 30
"""


@pytest.fixture
def config(make_config: MakeConfig, told: Told) -> ClusterConfig:
    """A run whose churn scales svc to 0 at once, for half a minute."""
    found = make_config()
    (found.live / "churn.toml").write_text(SHRINK)
    found.folder.schedule.write_text("")
    found.folder.run_env.write_text(f"T_LOAD={int(time.time())}\n")
    told.answer("GET", SVC, DEPLOYMENT)
    told.answer("PATCH", SCALE, {"spec": {"replicas": 0}})
    return found


@contextmanager
def process(config: ClusterConfig, module: str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        python_module(module, "--run-dir", str(config.folder.root)),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=module_environment(),
    )  # fmt: skip
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def until(holds: Callable[[], object], limit_s: float = 30.0) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def scaled(told: Told) -> list[int]:
    return [asked.body["spec"]["replicas"] for asked in told.asked("PATCH", SCALE)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_wait_puts_the_count_back(told: Told, config: ClusterConfig, number: signal.Signals) -> None:
    with process(config, "harness.fleet.kubernetes.churn") as child:
        until(lambda: scaled(told) == [0] and "SHRINK begin" in config.folder.churn_log.read_text())
        time.sleep(0.3)
        asked_s = time.monotonic()
        child.send_signal(number)
        assert child.wait(10) == 128 + number
        assert time.monotonic() - asked_s < 2.0
    assert scaled(told) == [0, 3]
    assert not (config.live / "churn-undo.json").exists()
    assert "UNDO load/deployment/svc restored to replicas=3" in config.folder.churn_log.read_text()


def test_a_signal_in_a_call_that_does_not_answer(told: Told, config: ClusterConfig) -> None:
    """Put back in time, and noted for the next start: the call may arrive after all."""
    told.answer("PATCH", SCALE, Answer({"spec": {"replicas": 0}}, pause_s=6.0), {"spec": {"replicas": 3}})
    with process(config, "harness.fleet.kubernetes.churn") as child:
        until(lambda: scaled(told) == [0])
        asked_s = time.monotonic()
        child.terminate()
        assert child.wait(10) == 143
        assert time.monotonic() - asked_s < 2.0
    assert scaled(told) == [0, 3]
    noted = json.loads((config.live / "churn-undo.json").read_text())
    assert noted == {"made": [], "replicas": {"load/deployment/svc": 3}}
    assert "may have been applied: scale load/deployment/svc to 0" in config.folder.churn_log.read_text()


def test_what_a_killed_churn_left_is_put_back_by_the_next(told: Told, config: ClusterConfig) -> None:
    with process(config, "harness.fleet.kubernetes.churn") as child:
        until(lambda: scaled(told) == [0] and (config.live / "churn-undo.json").exists())
        child.kill()
    with process(config, "harness.fleet.kubernetes.churn") as child:
        until(lambda: len(scaled(told)) >= 3)
        child.terminate()
        assert child.wait(10) == 143
    assert scaled(told)[:3] == [0, 3, 0]
    assert len(list(config.live.glob("churn.log.*.prev"))) == 1


def test_what_a_killed_churn_left_can_be_put_back_alone(told: Told, config: ClusterConfig) -> None:
    (config.live / "churn-undo.json").write_text('{"made": ["load/pod/a"], "replicas": {"load/deployment/svc": 3}}')
    told.answer("DELETE", "/api/v1/namespaces/load/pods/a", {})
    said: list[str] = []
    assert put_back_left(config, said.append)
    assert sorted(said) == ["UNDO load/deployment/svc restored to replicas=3", "UNDO load/pod/a deleted"]
    assert scaled(told) == [3]
    assert not (config.live / "churn-undo.json").exists()
    assert put_back_left(config, said.append)
    assert len(said) == 2


def test_notes_that_cannot_be_read_stop_everything(told: Told, config: ClusterConfig) -> None:
    (config.live / "churn-undo.json").write_text('{"made": [], "replicas": {"load/deployment/svc": -1}}')
    with process(config, "harness.fleet.kubernetes.churn") as child:
        _, errors = child.communicate(timeout=30)
    assert child.returncode == 4
    assert "put that back by hand, then remove the file" in errors
    assert told.requests == []


def test_a_failed_preflight_writes_no_log(told: Told, config: ClusterConfig) -> None:
    told.answer("GET", SVC, refusal(404, "no such deployment"))
    with process(config, "harness.fleet.kubernetes.churn") as child:
        out, _ = child.communicate(timeout=30)
    assert child.returncode == 2
    assert out.splitlines() == ["preflight FAIL  churn load/deployment/svc: absent"]
    assert not config.folder.churn_log.exists()


@pytest.mark.parametrize(
    ("break_it", "code", "why"),
    [
        (lambda config: (config.live / "churn.toml").write_text("a = "), 3, "is not TOML"),
        (lambda config: config.folder.schedule.write_text("1\tdeployment\tsvc\n"), 3, "is not the schedule"),
        (lambda config: config.folder.run_env.unlink(), 4, "there is no load"),
    ],
)
def test_a_churn_that_cannot_begin_says_why(
    config: ClusterConfig, break_it: Callable[[ClusterConfig], object], code: int, why: str
) -> None:
    break_it(config)
    with process(config, "harness.fleet.kubernetes.churn") as child:
        _, errors = child.communicate(timeout=30)
    assert (child.returncode, why in errors) == (code, True), errors
    assert len(errors.splitlines()) == 1


def test_a_watch_ends_with_a_summary_on_a_signal(told: Told, config: ClusterConfig) -> None:
    for namespace in ("load", "system"):
        told.answer("GET", f"/api/v1/namespaces/{namespace}/pods", listed())
    log = config.live / "restart-watch.log"
    with process(config, "harness.fleet.kubernetes.restarts") as child:
        until(lambda: log.exists() and "BASELINE" in log.read_text())
        asked_s = time.monotonic()
        child.terminate()
        assert child.wait(10) == 143
        assert time.monotonic() - asked_s < 2.0
    last = log.read_text().splitlines()[-1]
    assert " SUMMARY restart-watch verdict=UNPROVEN new_restarts=0 " in last
    assert " ended=TERM " in last


async def _all_calls(cluster: Cluster) -> dict[str, Any]:
    svc = Thing("load", "deployment", "svc")
    await cluster.restart(svc)
    await cluster.delete(Thing("load", "pod", "a"), uid="1")
    await cluster.create(Thing("load", "serviceaccount", "b"), {"metadata": {"name": "b"}})
    return {
        "read": await cluster.read(svc),
        "listed": await cluster.select("Pod", "load", labels="app=svc"),
        "memory": await cluster.memory("load", "app=svc"),
    }


def test_every_call_reaches_the_api(told: Told, config: ClusterConfig) -> None:
    usage = [{"usage": {"memory": "3Mi"}}, {"usage": {"memory": "512"}}]
    told.answer("PATCH", SVC, DEPLOYMENT)
    told.answer("DELETE", "/api/v1/namespaces/load/pods/a", {})
    told.answer("POST", "/api/v1/namespaces/load/serviceaccounts", {})
    told.answer("GET", "/api/v1/namespaces/load/pods", listed({"metadata": {"name": "a"}}))
    told.answer(
        "GET",
        "/apis/metrics.k8s.io/v1beta1/namespaces/load/pods",
        listed({"metadata": {"name": "a"}, "containers": usage}, {"metadata": {"name": "b"}, "containers": [{}]}),
    )
    found = asyncio.run(_all_calls(Cluster(config)))
    assert found == {
        "read": DEPLOYMENT,
        "listed": [{"metadata": {"name": "a"}}],
        "memory": {"a": (3 << 20) + 512},
    }
    stamp = told.asked("PATCH", SVC)[0].body["spec"]["template"]["metadata"]["annotations"]
    assert list(stamp) == ["kubectl.kubernetes.io/restartedAt"]
    assert told.asked("GET", "/api/v1/namespaces/load/pods")[0].query == {"labelSelector": "app=svc"}
    assert told.asked("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/load/pods")[0].query["labelSelector"] == "app=svc"


@pytest.mark.parametrize(
    ("text", "size"),
    [("512", 512), ("2Ki", 2048), ("1G", 10**9), ("1.5Mi", None), ("", None), (None, None), ("3x", None)],
)
def test_a_quantity_in_bytes(text: str | None, size: int | None) -> None:
    assert _bytes(text) == size
