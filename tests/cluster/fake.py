"""Nodes that are only said to be there, for scale: real API, scheduler and controllers; pods on them are told, not run.

``python -m tests.cluster.fake KUBECONFIG COUNT``. Fake nodes carry the taint ``fake`` so that only what tolerates it
comes onto them, and their pods are Running and ready as soon as they are seen. No logs, no exec, no volumes.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.cluster.api import Api, ApiError

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
BEAT_S = 8.0
SIZE = {"cpu": "8", "memory": "16Gi", "pods": "50"}
READY = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
AGAIN_S = 0.5
WATCH_S = 300


def now() -> str:
    """The time in the API's form, with microseconds as leases want it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def name(index: int) -> str:
    """The name of a fake node."""
    return f"fake-{index}"


def register(api: Api, count: int) -> None:
    """Make the nodes and their leases. Raises ApiError and OSError."""
    for index in range(count):
        node = name(index)
        labels = {"type": "fake", "kubernetes.io/hostname": node, "kubernetes.io/os": "fake"}
        spec = {"taints": [{"key": "fake", "effect": "NoSchedule"}]}
        api.make({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}, "spec": spec})
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "fake",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": now(),
        }
        address = {"type": "InternalIP", "address": f"10.251.{index // 250}.{index % 250 + 1}"}
        status = {"capacity": SIZE, "allocatable": SIZE, "addresses": [address], "conditions": [condition]}
        api.patch(f"/api/v1/nodes/{node}/status", {"status": status})
        lease = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": now()}
        try:
            api.call("POST", LEASES, {"metadata": {"name": node}, "spec": lease})
        except ApiError as error:
            if error.status != 409:
                raise


def beat(api: Api, count: int) -> None:
    """Renew every lease, again and again."""
    while True:
        time.sleep(BEAT_S)
        for index in range(count):
            try:
                api.patch(f"{LEASES}/{name(index)}", {"spec": {"renewTime": now()}})
            except (ApiError, OSError) as error:
                print(f"{name(index)} not renewed: {error}", flush=True)


def tell(api: Api, pod: dict[str, Any], addresses: Iterator[str]) -> None:
    """What a kubelet would say of a pod. Raises ApiError and OSError."""
    meta, spec = pod["metadata"], pod["spec"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
    if meta.get("deletionTimestamp"):
        api.call("DELETE", path, {"gracePeriodSeconds": 0})
    elif pod["status"].get("phase") == "Pending":
        at = now()
        running = {"ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": at}}}
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "containerID": "fake://x",
                **running,
            }
            for container in spec["containers"]
        ]
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": at} for kind in READY]
        address = next(addresses)
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": at,
            "conditions": conditions,
            "containerStatuses": containers,
        }
        api.patch(f"{path}/status", {"status": status})


def main() -> int:
    """Runs until killed."""
    api, count = Api.of(Path(sys.argv[1])), int(sys.argv[2])
    register(api, count)
    threading.Thread(target=beat, args=(api, count), daemon=True).start()
    print(f"{count} fake nodes", flush=True)
    addresses = (f"10.252.{high}.{low}" for high, low in itertools.product(range(255), range(1, 255)))
    while True:
        try:
            for event, pod in api.watch("/api/v1/pods", limit_s=WATCH_S):
                if event != "DELETED" and pod["spec"].get("nodeName", "").startswith("fake-"):
                    try:
                        tell(api, pod, addresses)
                    except ApiError as error:
                        print(f"{pod['metadata']['name']}: {error}", flush=True)  # gone, or changed meanwhile
        except (ApiError, OSError, ValueError, KeyError) as error:
            print(f"watches again: {error}", flush=True)
            time.sleep(AGAIN_S)


if __name__ == "__main__":
    sys.exit(main())
