"""A mock of the API, and of helm, in memory: no Kubernetes. What the reader pod would run is run for real, by sh.

The volume of the reports is a folder; a Job that mock helm makes has one pod, in the phase that the test gives it.
"""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any

from harness.errors import ConflictError, FleetError, NotFoundError, UnreachableError
from harness.fleet.kubernetes.answers import Document, metadata, uid
from harness.fleet.kubernetes.config import REPORT_FOLDER, ClusterConfig

PRIORITY = {"value": 1000, "preemptionPolicy": "Never", "globalDefault": False}


class MockApi:
    """The methods of ``Api`` that engines, load, reader, saver and teardown use, over a dict of objects."""

    patience_s = 0.0

    def __init__(self, config: ClusterConfig, volume: Path) -> None:
        self.config = config
        self.volume = volume
        self.objects: dict[tuple[str, str, str], Document] = {}
        self.logs: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.down = False
        self.stuck: set[str] = set()
        self.cut_reader_log = False
        self._uids = 0
        self.put("PriorityClass", None, {"metadata": {"name": config.priority_class}, **PRIORITY})

    def put(self, kind: str, namespace: str | None, document: Document) -> Document:
        """Place an object as it is, with a uid when it has none."""
        self._uids += 1
        document = copy.deepcopy(document)
        document["metadata"].setdefault("uid", f"uid-{self._uids}")
        self.objects[kind, namespace or "", str(document["metadata"]["name"])] = document
        return document

    def _note(self, text: str) -> None:
        self.calls.append(text)
        if self.down:
            raise UnreachableError(f"{text}: the mock is down")

    def find(self, kind: str, name: str, namespace: str | None = None, **_: Any) -> Document | None:
        self._note(f"get {kind} {name}")
        return copy.deepcopy(self.objects.get((kind, namespace or "", name)))

    def get(self, kind: str, name: str, namespace: str | None = None, **_: Any) -> Document:
        found = self.find(kind, name, namespace)
        if found is None:
            raise NotFoundError(f"there is no {kind} {name}")
        return found

    def select(self, kind: str, namespace: str | None = None, *, labels: str = "", **_: Any) -> list[Document]:
        self._note(f"list {kind} {labels}")
        wanted = dict(pair.split("=") for pair in labels.split(",") if pair)
        return [
            copy.deepcopy(document)
            for (found, place, _), document in self.objects.items()
            if found == kind and place == (namespace or "") and wanted.items() <= _labels(document).items()
        ]

    def create(self, kind: str, document: Document, namespace: str | None = None, **_: Any) -> Document:
        name = str(document["metadata"]["name"])
        self._note(f"create {kind} {name}")
        if (kind, namespace or "", name) in self.objects:
            raise ConflictError(f"{kind} {name} is there")
        made = self.put(kind, namespace, document)
        if kind == "Pod":
            self._run_reader(made)
        return made

    def _run_reader(self, pod: Document) -> None:
        command = list(pod["spec"]["containers"][0]["command"])
        command[4] = str(self.volume / Path(command[4]).relative_to(REPORT_FOLDER))
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
        log = done.stdout + done.stderr
        self.logs[str(metadata(pod)["name"])] = log[len(log) // 2 :] if self.cut_reader_log else log
        pod["status"] = {"phase": "Failed" if done.returncode else "Succeeded"}

    def delete(self, kind: str, name: str, namespace: str | None = None, **_: Any) -> bool:
        self._note(f"delete {kind} {name}")
        key = kind, namespace or "", name
        if key not in self.objects:
            return False
        if name not in self.stuck:
            del self.objects[key]
        return True

    def wait_gone(self, kind: str, name: str, namespace: str | None = None, **_: Any) -> bool:
        return (kind, namespace or "", name) not in self.objects

    def pod_log(self, name: str, namespace: str, **_: Any) -> bytes:
        self._note(f"log {name}")
        if name not in self.logs:
            raise NotFoundError(f"there is no pod {name}")
        return self.logs[name]


class MockHelm:
    """``Helm`` that makes a Job, with its pod, when it is given a plan. ``fails`` and ``makes`` tell it otherwise."""

    def __init__(self, api: MockApi) -> None:
        self.api = api
        self.installed: list[str] = []
        self.fails = False
        self.makes = True

    def install(self, api: Any, chart: Path, *, plan: str = "", log: str) -> None:
        self.installed.append(plan)
        self.api.calls.append(f"helm install {'load' if plan else 'engines'}")
        if plan and self.makes:
            make_job(self.api)
        if self.fails:
            raise FleetError("helm upgrade failed: so told")

    def uninstall(self, **_: Any) -> bool:
        self.api.calls.append("helm uninstall")
        return True


def labels_of(config: ClusterConfig, component: str) -> dict[str, str]:
    """The labels that the chart gives to its objects."""
    return {
        "app.kubernetes.io/name": config.engine,
        "app.kubernetes.io/instance": config.release,
        "app.kubernetes.io/component": component,
    }


def make_job(api: MockApi, *, name: str = "soak-harness-1", report: str = "", phase: str = "Running") -> Document:
    """A Job and its driver pod."""
    config = api.config
    path = report or config.report_path
    container = {"name": "driver", "args": ["--report", path]}
    job = api.put(
        "Job",
        config.namespace,
        {
            "metadata": {"name": name, "labels": labels_of(config, "driver")},
            "spec": {"template": {"spec": {"containers": [container]}}},
            "status": {"active": 1},
        },
    )
    make_driver(api, job, phase=phase)
    return job


def make_driver(api: MockApi, job: Document, *, name: str = "", phase: str = "Running", log: bytes = b"") -> Document:
    """A pod of the Job."""
    name = name or f"{metadata(job)['name']}-a"
    api.logs[name] = log or b"  running mesh/svc-1\n"
    return api.put(
        "Pod",
        api.config.namespace,
        {
            "metadata": {
                "name": name,
                "labels": {**labels_of(api.config, "driver"), "job-name": metadata(job)["name"]},
                "ownerReferences": [{"uid": uid(job)}],
                "creationTimestamp": f"2026-01-01T00:00:{len(api.objects):02d}Z",
            },
            "spec": {"priorityClassName": api.config.priority_class},
            "status": {"phase": phase},
        },
    )


def end_job(api: MockApi, job: Document, *, condition: str = "Complete") -> None:
    """The Job is over, and so are its pods."""
    kept = api.objects["Job", api.config.namespace, str(metadata(job)["name"])]
    kept["status"] = {"conditions": [{"type": condition, "status": "True"}]}
    for (kind, _, _), document in api.objects.items():
        if kind == "Pod" and "job-name" in _labels(document):
            document["status"]["phase"] = "Succeeded" if condition == "Complete" else "Failed"


def make_engines(api: MockApi, count: int = 2, *, priority: str | None = None) -> None:
    """A DaemonSet that is ready, its Service's endpoints, and an engine pod on each node."""
    config, place = api.config, api.config.namespace
    labels = labels_of(config, "engine")
    counts = dict.fromkeys(("desiredNumberScheduled", "numberReady", "updatedNumberScheduled"), count)
    image = {"name": "engine", "image": "made/engine@sha256:1"}
    api.put(
        "DaemonSet",
        place,
        {
            "metadata": {"name": config.daemon_set, "generation": 1},
            "spec": {"selector": {"matchLabels": labels}, "template": {"spec": {"containers": [image]}}},
            "status": {"observedGeneration": 1, **counts},
        },
    )
    addresses = []
    for number in range(1, count + 1):
        name = f"engine-{number}"
        api.logs[name] = b"2026-01-01T00:00:00.000Z node listening\n"
        api.put(
            "Pod",
            place,
            {
                "metadata": {"name": name, "labels": labels},
                "spec": {
                    "nodeName": f"node-{number}",
                    "priorityClassName": config.priority_class if priority is None else priority,
                    "containers": [image | {"resources": {"requests": {"cpu": "150m"}}}],
                },
                "status": {
                    "phase": "Running",
                    "podIP": f"10.1.0.{number}",
                    "containerStatuses": [
                        {"name": "engine", "ready": True, "restartCount": number - 1, "state": {"running": {}}}
                    ],
                },
            },
        )
        addresses.append({"ip": f"10.1.0.{number}", "nodeName": f"node-{number}", "targetRef": {"name": name}})
    api.put("Endpoints", place, {"metadata": {"name": config.engine_service}, "subsets": [{"addresses": addresses}]})


def _labels(document: Document) -> dict[str, str]:
    return dict(metadata(document).get("labels") or {})
