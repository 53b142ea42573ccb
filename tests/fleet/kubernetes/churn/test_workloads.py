"""The pre-flight of the churn: each difference of a workload on its own line, and the manifest that has none."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from harness.errors import ForbiddenError
from harness.fleet.base import Check
from harness.fleet.kubernetes.churn.calls import Thing
from harness.fleet.kubernetes.churn.schedule import Schedule
from harness.fleet.kubernetes.churn.workloads import MANIFEST, check_churn, differences, notes, sleep_s
from tests.fleet.kubernetes.churn.fake import FakeCluster, travel

ReadText = Callable[[str], Schedule]
Document = dict[str, Any]
THING = Thing("aether-test", "deployment", "svc-1")
TEXT = """
workloads = ["svc-1"]
noted = ["echo"]
[objects]
svc-1 = "{namespace}/deployment/svc-1"
echo = "{namespace}/deployment/echo"
proxy = "{system_namespace}/daemonset/proxy"
[[step]]
at_s = 1
do = "roll"
what = "proxy"
[[step]]
at_s = 1
do = "roll"
what = "svc-1"
"""


def as_made() -> Document:
    """The Deployment of the shipped manifest, as a cluster tells it once it stands."""
    documents = yaml.safe_load_all(MANIFEST.read_text())
    found: Document = next(document for document in documents if document["kind"] == "Deployment")
    found["metadata"]["generation"] = 3
    found["status"] = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "observedGeneration": 3}
    return found


def put(path: str, value: object) -> Callable[[Document], None]:
    """Sets what stands under the keys of ``path``; None takes it away."""

    def change(document: Document) -> None:
        *keys, last = path.split(".")
        for key in keys:
            document = document[0] if key == "0" and isinstance(document, list) else document[key]
        if value is None:
            document.pop(last)
        else:
            document[last] = value

    return change


SPEC = "spec.template.spec"
CONTAINER = f"{SPEC}.containers.0"
DIFFERENCES: dict[str, tuple[list[Callable[[Document], None]], list[str]]] = {
    "as made": ([], []),
    "a sleep of the kubelet's own": ([put(f"{CONTAINER}.lifecycle.preStop", {"sleep": {"seconds": 12}})], []),
    "no replicas": (
        [put("spec.replicas", 0), put("status.replicas", 0), put("status.updatedReplicas", 0)],
        ["replicas is 0, must be above"],
    ),
    "not available": ([put("status.availableReplicas", 1)], ["wait: 1 of 2 replicas are available"]),
    "mid-roll": (
        [put("status.updatedReplicas", 1)],
        ["wait: it is being rolled (updated=1 total=2 replicas=2, generation 3 of 3 is observed)"],
    ),
    "not observed": (
        [put("status.observedGeneration", 2)],
        ["wait: it is being rolled (updated=2 total=2 replicas=2, generation 2 of 3 is observed)"],
    ),
    "not managed": (
        [put("spec.template.metadata.labels", {"app": "svc-1"})],
        ["pod label aether.io/managed is None, must be 'true'"],
    ),
    "another account": ([put(f"{SPEC}.serviceAccountName", None)], ["ServiceAccount is default, must be svc-1"]),
    "recreated": ([put("spec.strategy", {"type": "Recreate"})], ["strategy is Recreate, must be RollingUpdate"]),
    "one may be away": (
        [put("spec.strategy.rollingUpdate.maxUnavailable", "25%")],
        ["maxUnavailable is 25%, must be 0"],
    ),
    "nobody said how many may be away": ([put("spec.strategy", {})], ["maxUnavailable is unset, must be 0"]),
    "ready too soon": ([put("spec.minReadySeconds", 9)], ["minReadySeconds is 9, must be 10 or more"]),
    "short sleep": (
        [put(f"{CONTAINER}.lifecycle.preStop.exec.command", ["sh", "-c", "sleep 3"])],
        ["preStop sleeps 3 s, must be 10 or more"],
    ),
    "no hook": ([put(f"{CONTAINER}.lifecycle", None)], ["preStop sleeps 0 s, must be 10 or more"]),
    "short grace": (
        [put(f"{SPEC}.terminationGracePeriodSeconds", 11)],
        ["termination grace is 11 s, must be 2 s above the sleep of 10 s"],
    ),
    "grace unset is 30": (
        [
            put(f"{SPEC}.terminationGracePeriodSeconds", None),
            put(f"{CONTAINER}.lifecycle.preStop.exec.command", ["/bin/sleep", "29"]),
        ],
        ["termination grace is 30 s, must be 2 s above the sleep of 29 s"],
    ),
    "no probe": ([put(f"{CONTAINER}.readinessProbe", None)], ["it has no readiness probe"]),
    "two at once": (
        [put("spec.minReadySeconds", None), put(f"{CONTAINER}.readinessProbe", None)],
        ["minReadySeconds is 0, must be 10 or more", "it has no readiness probe"],
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_each_difference_is_told_by_itself(name: str) -> None:
    changes, told = DIFFERENCES[name]
    document = as_made()
    for change in changes:
        change(document)
    waits, differs = differences(THING, document)
    assert waits + differs == told
    assert all(line.startswith("wait: ") for line in waits)


def test_a_server_that_may_be_loud_is_a_note() -> None:
    document = as_made()
    assert notes(document) == []
    put(f"{CONTAINER}.args", None)(document)
    assert notes(document) == ["no server of it is started with --quiet, so that it may log every request"]


@pytest.mark.parametrize(
    ("hook", "seconds"),
    [
        (None, 0),
        ({"exec": {"command": ["sleep", "10"]}}, 10),
        ({"exec": {"command": ["/bin/sh", "-c", "date; sleep 12.5s"]}}, 12.5),
        ({"exec": {"command": ["sleepy", "10"]}}, 0),
        ({"httpGet": {"path": "/drain"}}, 0),
        ({"sleep": {"seconds": 15}}, 15),
    ],
)
def test_how_long_a_hook_sleeps(hook: Document | None, seconds: float) -> None:
    assert sleep_s({"lifecycle": {"preStop": hook}}) == seconds


def check(schedule: Schedule, prepare: Callable[[FakeCluster], object]) -> list[Check]:
    async def main(loop: Any) -> list[Check]:
        cluster = FakeCluster(loop)
        cluster.put("aether-system/daemonset/proxy")
        cluster.put("aether-test/deployment/echo", replicas=3)
        cluster.objects[THING] = copy.deepcopy(as_made())
        prepare(cluster)
        found = await check_churn(schedule, cluster)
        assert all(text.startswith("read ") for _, text in cluster.calls)
        return found

    return travel(main)


def test_everything_is_read_and_what_holds_is_said(schedule_of: ReadText) -> None:
    assert check(schedule_of(TEXT), lambda cluster: None) == [
        Check(f"churn {THING}", True, "as it must be"),
        Check("churn aether-system/daemonset/proxy", True, "there"),
        Check("churn aether-test/deployment/echo", True, "note: replicas=3 ready=3"),
    ]


def failed(checks: list[Check]) -> list[tuple[str, str]]:
    return [(found.name, found.seen) for found in checks if not found.ok]


def test_the_manifest_is_pointed_at_once_and_not_for_what_passes_by_waiting(schedule_of: ReadText) -> None:
    schedule = schedule_of(TEXT)
    pointer = ("churn workloads", f"{MANIFEST.name} of the harness makes them as they must be")
    found = check(schedule, lambda cluster: put("spec.minReadySeconds", 1)(cluster.objects[THING]))
    assert failed(found) == [(f"churn {THING}", "minReadySeconds is 1, must be 10 or more"), pointer]
    found = check(schedule, lambda cluster: put("status.availableReplicas", 0)(cluster.objects[THING]))
    assert failed(found) == [(f"churn {THING}", "wait: 0 of 2 replicas are available")]
    found = check(schedule, lambda cluster: cluster.objects.pop(THING))
    assert failed(found) == [(f"churn {THING}", "absent"), pointer]


def test_what_cannot_be_read_is_no_difference(schedule_of: ReadText) -> None:
    def prepare(cluster: FakeCluster) -> None:
        cluster.failing[f"read {THING}"] = ForbiddenError("may not")

    assert failed(check(schedule_of(TEXT), prepare)) == [(f"churn {THING}", "cannot be read: may not")]


def test_an_absent_object_of_a_step_fails_and_one_that_is_only_noted_does_not(schedule_of: ReadText) -> None:
    found = check(schedule_of(TEXT), lambda cluster: cluster.objects.clear())
    assert [(one.name, one.ok, one.seen) for one in found] == [
        (f"churn {THING}", False, "absent"),
        ("churn aether-system/daemonset/proxy", False, "absent"),
        ("churn workloads", False, f"{MANIFEST.name} of the harness makes them as they must be"),
        ("churn aether-test/deployment/echo", True, "note: absent"),
    ]
