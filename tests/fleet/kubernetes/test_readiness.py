"""Readiness as numbers: listings of pods as files, a DaemonSet's counts, a Service's addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import FleetError
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.readiness import (
    EngineAddress,
    addresses,
    daemon_set_state,
    pods_ready,
    wait_addresses,
    wait_daemon_set,
)
from harness.graph.receipts import PROJECT
from tests.fleet.kubernetes.told import Told, listed, refusal

CASES = sorted((PROJECT / "tests/cases/kubernetes/pods").glob("*.json"))
ENGINES = "/apis/apps/v1/namespaces/load/daemonsets/engines"
ENDPOINTS = "/api/v1/namespaces/load/endpoints/nodes"


def daemon_set(desired: int, ready: int, updated: int, *, generation: int = 2, observed: int = 2) -> dict[str, Any]:
    """A DaemonSet with these counts."""
    return {
        "metadata": {"name": "engines", "generation": generation},
        "spec": {"selector": {"matchLabels": {"app": "engine"}}},
        "status": {
            "desiredNumberScheduled": desired,
            "numberReady": ready,
            "updatedNumberScheduled": updated,
            "observedGeneration": observed,
        },
    }


def endpoints(ready: list[str], waiting: list[str]) -> dict[str, Any]:
    """An Endpoints object with these addresses; the pod of 10.0.0.N is engine-N, on node-N."""

    def rows(ips: list[str]) -> list[dict[str, Any]]:
        numbers = [ip.rpartition(".")[2] for ip in ips]
        return [
            {"ip": ip, "nodeName": f"node-{number}", "targetRef": {"kind": "Pod", "name": f"engine-{number}"}}
            for ip, number in zip(ips, numbers, strict=True)
        ]

    return {"subsets": [{"addresses": rows(ready), "notReadyAddresses": rows(waiting), "ports": [{"port": 8443}]}]}


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_a_listing_of_pods_is_judged(case: Path) -> None:
    known = json.loads(case.read_text())
    assert pods_ready(known["pods"], "system") == (known["ok"], known["seen"])


def test_there_are_cases() -> None:
    assert len(CASES) >= 20


def test_many_bad_pods_are_counted_and_not_all_shown() -> None:
    bad = json.loads((CASES[0].parent / "crash-loop.json").read_text())["pods"][1]
    ok, seen = pods_ready([bad] * 30, "system")
    assert not ok
    assert seen.startswith("not ready: 30 of 30 pods: system/proxy-e 0/1 CrashLoopBackOff, ")
    assert seen.endswith(", and 20 more")


@pytest.mark.parametrize(
    ("document", "ready"),
    [
        (daemon_set(5, 5, 5), True),
        (daemon_set(10, 10, 10), True),
        (daemon_set(10, 9, 10), False),
        (daemon_set(10, 2, 10), False),
        (daemon_set(5, 5, 4), False),
        (daemon_set(0, 0, 0), False),
        (daemon_set(5, 5, 5, generation=3), False),
        (daemon_set(5, 5, 5, generation=0, observed=0), False),
        ({"metadata": {"generation": 1}, "status": {}}, False),
        ({}, False),
    ],
)
def test_a_daemon_set_is_ready_when_all_that_it_wants_are(document: dict[str, Any], ready: bool) -> None:
    assert daemon_set_state(document).is_ready is ready


def test_counts_that_are_texts_are_no_counts() -> None:
    document = daemon_set(5, 5, 5)
    document["status"]["numberReady"] = "5"
    assert not daemon_set_state(document).is_ready


def test_a_daemon_set_is_waited_for(told: Told, api: Api) -> None:
    told.answer("GET", ENGINES, daemon_set(5, 1, 5), daemon_set(5, 5, 5))
    state = wait_daemon_set(api, "engines", "load", sleep=lambda _: None)
    assert (state.ready, state.desired) == (5, 5)


def test_a_daemon_set_that_stays_behind_is_told_with_its_pods(told: Told, api: Api) -> None:
    bad = json.loads((CASES[0].parent / "crash-loop.json").read_text())["pods"]
    told.answer("GET", ENGINES, daemon_set(2, 1, 2))
    told.answer("GET", "/api/v1/namespaces/load/pods", listed(*bad))
    with pytest.raises(FleetError, match=r"not ready within 0 s: 1 of 2 ready, 2 up to date; not ready: 1 of 2 pods: "):
        wait_daemon_set(api, "engines", "load", limit_s=0, sleep=lambda _: None)
    assert told.requests[-1].query == {"labelSelector": "app=engine"}


def test_a_daemon_set_that_wants_no_pod_is_never_ready(told: Told, api: Api) -> None:
    told.answer("GET", ENGINES, daemon_set(0, 0, 0))
    with pytest.raises(FleetError, match="wants no pod on any node"):
        wait_daemon_set(api, "engines", "load", limit_s=0, sleep=lambda _: None)


def test_addresses_are_sorted_and_each_counts_once() -> None:
    document = endpoints(["10.0.0.2", "10.0.0.1"], ["10.0.0.3"])
    document["subsets"].append(endpoints(["10.0.0.1"], ["10.0.0.2"])["subsets"][0])
    found = addresses(document)
    assert found.ready == (
        EngineAddress("10.0.0.1", "node-1", "engine-1"),
        EngineAddress("10.0.0.2", "node-2", "engine-2"),
    )
    assert found.not_ready == 1
    for nothing in (None, {}, {"subsets": None}, {"subsets": []}):
        assert addresses(nothing).ready == ()


def test_a_service_lists_exactly_the_engines(told: Told, api: Api) -> None:
    one, two = endpoints(["10.0.0.1"], ["10.0.0.2"]), endpoints(["10.0.0.1", "10.0.0.2"], [])
    told.answer("GET", ENDPOINTS, refusal(404), one, two)
    assert len(wait_addresses(api, "nodes", "load", 2, sleep=lambda _: None)) == 2
    told.answer("GET", ENDPOINTS, two)
    with pytest.raises(FleetError, match="lists 2 ready addresses and 0 that are not, where 1 engines are ready"):
        wait_addresses(api, "nodes", "load", 1, limit_s=0, sleep=lambda _: None)
