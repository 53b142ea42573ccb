"""The mesh that the cluster's tests load: every target through every node's proxy, and rolls that lose nothing."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from tests.cluster import images
from tests.cluster.api import path_of
from tests.cluster.cluster import Cluster
from tests.cluster.mesh.manifests import PROXY, PROXY_PORT, TCP, UDS, Mesh
from tests.cluster.test_cluster import wait

pytestmark = pytest.mark.cluster
GAP_S = 0.02
READY_LIMIT_S = 240.0


def ask(address: str, url: str) -> int:
    """One GET of ``url`` through the proxy at ``address``, over a connection of its own: the status; 0 for none."""
    connection = http.client.HTTPConnection(address, PROXY_PORT, timeout=10)
    try:
        connection.request("GET", "/", headers={"Host": urlsplit(url).netloc, "Connection": "close"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


class Asking:
    """Asks one URL through one proxy, about 50 times a second, until its ``with`` block ends; at most two minutes."""

    def __init__(self, address: str, url: str) -> None:
        self.statuses: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(address, url))

    def _run(self, address: str, url: str) -> None:
        end_s = time.monotonic() + 120
        while not self._stop.wait(GAP_S) and time.monotonic() < end_s:
            status = ask(address, url)
            self.statuses[status] = self.statuses.get(status, 0) + 1

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def restart(cluster: Cluster, kind: str, namespace: str, name: str) -> None:
    """A rollout restart, as kubectl and the churn do it."""
    note = {"kubectl.kubernetes.io/restartedAt": datetime.now(UTC).isoformat()}
    cluster.api.patch(
        path_of(kind, namespace, name), {"spec": {"template": {"metadata": {"annotations": note}}}}
    )  # fmt: skip


def rolled(cluster: Cluster, namespace: str, name: str) -> bool:
    """True when every pod of a Deployment is of the newest template, available, and none other is left."""
    found = cluster.api.get(path_of("Deployment", namespace, name))
    status, replicas = found["status"], found["spec"]["replicas"]
    seen = status.get("observedGeneration") == found["metadata"]["generation"]
    counts = {status.get(key) for key in ("replicas", "updatedReplicas", "availableReplicas")}
    return seen and counts == {replicas}


def proxies(cluster: Cluster, mesh: Mesh) -> dict[str, str]:
    """Node → uid of its proxy's pod, of those that are ready."""
    listed = cluster.api.get(path_of("Pod", mesh.system_namespace) + f"?labelSelector=app%3D{PROXY}")["items"]
    return {
        pod["spec"]["nodeName"]: pod["metadata"]["uid"]
        for pod in listed
        if any(one["ready"] for one in pod["status"].get("containerStatuses", []))
    }


@pytest.fixture(scope="module")
def mesh(cluster: Cluster) -> Iterator[Mesh]:
    """The mesh, ready on every node."""
    image = cluster.registry.push(images.mesh())
    made = Mesh(image, "mesh-test", "mesh-system")
    cluster.api.make(*made.objects())
    ready = lambda: all(rolled(cluster, made.namespace, name) for name in TCP)  # noqa: E731
    wait("the targets", ready, READY_LIMIT_S)
    wait("the proxies", lambda: len(proxies(cluster, made)) == len(cluster.nodes), READY_LIMIT_S)
    yield made
    for namespace in (made.namespace, made.system_namespace):
        cluster.api.call("DELETE", path_of("Namespace", "", namespace))


def test_every_target_answers_through_every_node(cluster: Cluster, mesh: Mesh) -> None:
    """Over TCP and over Unix sockets; a target that the proxies do not know is refused by name."""
    urls = mesh.urls()
    assert set(urls) == {*TCP, *UDS}
    wait("all answers", lambda: {ask(node.address, url) for node in cluster.nodes for url in urls.values()} == {200})
    assert ask(cluster.nodes[0].address, "http://nobody.test/") == 404


def test_a_roll_of_a_target_loses_nothing(cluster: Cluster, mesh: Mesh) -> None:
    """The new pod is ready, and known to the proxies, before the old one goes."""
    with Asking(cluster.nodes[0].address, mesh.urls()["svc-1"]) as asking:
        restart(cluster, "Deployment", mesh.namespace, "svc-1")
        wait("the roll", lambda: rolled(cluster, mesh.namespace, "svc-1"))
        time.sleep(15)  # the old pod's preStop, then its drain
    assert set(asking.statuses) == {200}
    assert asking.statuses[200] > 500


def test_a_restart_of_the_proxies_in_place_loses_nothing(cluster: Cluster, mesh: Mesh) -> None:
    """Each Envoy hands its sockets to the next one; the pods stay what they are."""
    before = proxies(cluster, mesh)
    with Asking(cluster.nodes[0].address, mesh.urls()["uds-echo"]) as asking:
        restart(cluster, "DaemonSet", mesh.system_namespace, PROXY)
        time.sleep(12)  # seen, started, drained, ended
    assert set(asking.statuses) == {200}
    assert proxies(cluster, mesh) == before
    for log in logs(cluster, mesh):
        assert log.count("hot restart: epoch 1") == 1


def logs(cluster: Cluster, mesh: Mesh) -> list[str]:
    """What each proxy's supervisor said."""
    listed = cluster.api.get(path_of("Pod", mesh.system_namespace) + f"?labelSelector=app%3D{PROXY}")["items"]
    paths = [path_of("Pod", mesh.system_namespace, pod["metadata"]["name"]) for pod in listed]
    return [str(cluster.api.call("GET", f"{path}/log")) for path in paths]


def test_a_mesh_that_is_not_restarted_in_place_replaces_its_pods() -> None:
    """The same manifests, but for how the DaemonSet is updated."""
    in_place = Mesh("image", "a", "b")
    plain = replace(in_place, in_place=False)
    strategies = [mesh.objects()[-1]["spec"]["updateStrategy"]["type"] for mesh in (in_place, plain)]
    assert strategies == ["OnDelete", "RollingUpdate"]
