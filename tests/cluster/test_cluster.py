"""The test cluster itself: sealed, whole, and gone without a trace."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import images, netns
from tests.cluster.api import Api, ApiError, path_of
from tests.cluster.cluster import ROOT, Cluster
from tests.cluster.conftest import NODES
from tests.cluster.daemons import clusters, hierarchies, sweep
from tests.cluster.node import SYSCTLS
from tests.cluster.supplies import missing
from tests.cluster.volumes import CLASS

pytestmark = pytest.mark.cluster
LIMIT_S = 120.0


def wait(what: str, condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Until ``condition()`` is true."""
    end_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end_s, f"{what} did not come within {limit_s:g} s"
        time.sleep(0.2)


def pod(name: str, namespace: str, image: str, *command: str, node: str = "") -> dict[str, object]:
    """A pod that runs a command once, as little privileged as those of a run."""
    container = {
        "name": "main",
        "image": image,
        "command": list(command),
        "volumeMounts": [{"name": "report", "mountPath": "/report"}],
        "securityContext": {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False},
    }
    spec: dict[str, object] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "fsGroup": 65532},
        "volumes": [{"name": "report", "persistentVolumeClaim": {"claimName": "report"}}],
        "containers": [container],
    } | ({"nodeName": node} if node else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def phase(api: Api, namespace: str, name: str) -> str:
    """A pod's phase."""
    return str(api.get(path_of("Pod", namespace, name))["status"].get("phase"))


def test_no_route_leads_out_and_every_part_is_inside(cluster: Cluster) -> None:
    """The namespace is the proof that nothing can leave this machine; the tests themselves are in it too."""
    assert netns.ways_out() == []
    here = netns.name_of()
    assert here != netns.name_of(1)
    daemons = [*cluster.daemons.values(), *(node._daemon for node in cluster.nodes if node._daemon)]
    assert {netns.name_of(daemon.process.pid) for daemon in daemons} == {here}


def test_all_nodes_are_ready_and_the_kernel_was_left_as_it_was(cluster: Cluster) -> None:
    """The kubelets see the settings they want; the machine's own stay."""
    assert cluster.ready_nodes() == {f"node-{index}" for index in range(1, NODES + 1)}
    own = {name: int(Path("/proc/sys", name).read_text()) for name in SYSCTLS}
    assert own != SYSCTLS  # else this test would show nothing here


def test_a_report_on_a_volume_is_read_on_another_node(cluster: Cluster, own_namespace: Callable[[], str]) -> None:
    """Claim, group of the volume, logs through the API, DNS of a Service: what every run needs."""
    api, namespace = cluster.api, own_namespace()
    image = cluster.registry.push(images.busybox())
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "64Mi"}},
    }
    meta = {"name": "report", "namespace": namespace}
    api.make({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim})
    writes = "echo kept > /report/file && nslookup kubernetes.default.svc.cluster.local"
    api.make(pod("writer", namespace, image, "/bin/sh", "-c", writes, node="node-1"))
    wait("the writer", lambda: phase(api, namespace, "writer") in ("Succeeded", "Failed"))
    log = api.call("GET", path_of("Pod", namespace, "writer") + "/log")
    assert phase(api, namespace, "writer") == "Succeeded", log
    assert netns.GATEWAY in log
    api.make(pod("reader", namespace, image, "/bin/cat", "/report/file", node=f"node-{NODES}"))
    wait("the reader", lambda: phase(api, namespace, "reader") in ("Succeeded", "Failed"))
    assert api.call("GET", path_of("Pod", namespace, "reader") + "/log") == "kept\n"
    assert api.get(path_of("PersistentVolumeClaim", namespace, "report"))["spec"]["storageClassName"] == CLASS


def test_a_frozen_node_is_lost_and_comes_back(cluster: Cluster) -> None:
    """SIGSTOP for everything on it at once; the API notices after its grace."""
    node = cluster.nodes[-1]
    node.freeze()
    try:
        wait("the loss", lambda: node.name not in cluster.ready_nodes())
    finally:
        node.thaw()
    wait("the return", lambda: node.name in cluster.ready_nodes())


def test_the_api_can_be_stopped_and_the_kubeconfig_still_holds(cluster: Cluster) -> None:
    """Refused while it is down; the same kubeconfig afterwards."""
    cluster.control.stop_api()
    with pytest.raises(OSError, match="refused"):
        cluster.api.get("/readyz")
    cluster.control.start_api()
    assert cluster.kubeconfig is not None
    assert Api.of(cluster.kubeconfig).get("/readyz") == "ok"
    cluster.wait_nodes()


def test_a_hundred_fake_nodes(cluster: Cluster, own_namespace: Callable[[], str]) -> None:
    """A DaemonSet that tolerates them is ready on all of them, and on them alone."""
    count, api, namespace = 100, cluster.api, own_namespace()
    began_s = time.monotonic()
    cluster.fake_nodes(count)
    template = {
        "metadata": {"labels": {"app": "many"}},
        "spec": {
            "nodeSelector": {"type": "fake"},
            "tolerations": [{"key": "fake", "operator": "Exists"}],
            "containers": [{"name": "none", "image": "none"}],
        },
    }
    spec = {"selector": {"matchLabels": {"app": "many"}}, "template": template}
    meta = {"name": "many", "namespace": namespace}
    api.make({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": spec})
    path = path_of("DaemonSet", namespace, "many")
    try:
        wait("the DaemonSet", lambda: api.get(path)["status"].get("numberReady") == count)
        print(f"{count} fake nodes and their pods ready after {time.monotonic() - began_s:.1f} s")
    finally:
        cluster.daemons.pop("fake").kill()
        api.call("DELETE", "/api/v1/nodes?labelSelector=type%3Dfake")
    with pytest.raises(ApiError):
        api.get(path_of("Node", "", "fake-0"))


def test_a_killed_test_run_leaves_no_process_and_the_next_one_the_rest(cluster: Cluster) -> None:
    """Node, control plane and all, brought up by another process that is killed with SIGKILL."""
    assert missing() == ""
    before = set(clusters().iterdir())
    command = [sys.executable, "-m", "tests.cluster.cluster", "1"]
    other = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    assert other.stdout is not None
    try:
        assert "up after" in other.stdout.readline()
    finally:
        other.kill()
        other.wait()
    (folder,) = set(clusters().iterdir()) - before
    wait("the end of its processes", lambda: not processes_of(folder), 20)
    assert sweep() == [folder.name]
    assert not folder.exists()
    assert [path for parent in hierarchies() for path in parent.glob(f"{folder.name}*")] == []
    assert folder.name not in Path("/proc/mounts").read_text()


def processes_of(folder: Path) -> list[str]:
    """Live processes whose command line names the folder of a cluster."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_text(errors="replace")
            except OSError:
                continue
            if folder.name in words:
                found.append(f"{entry.name} {words[:80]}")
    return found
