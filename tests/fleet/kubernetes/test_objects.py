"""The PriorityClass and the reports' volume: applied, read back, and refused when they are somebody else's."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import FleetError
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.objects import (
    ABSENT,
    MISMATCH,
    OK,
    choose_storage_class,
    delete_pvc,
    ensure_priority_class,
    ensure_pvc,
    priority_state,
)
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.told import Answer, Told, listed, refusal

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/load/persistentvolumeclaims"
GOOD = {"metadata": {"name": "load"}, "value": 1000, "preemptionPolicy": "Never", "globalDefault": False}
DEFAULT = "storageclass.kubernetes.io/is-default-class"


def storage(name: str, **annotations: str) -> dict[str, Any]:
    """A storage class."""
    return {"metadata": {"name": name, "annotations": annotations}}


def claim(**more: Any) -> dict[str, Any]:
    """A bound claim of the test's release."""
    return {
        "metadata": {"name": "soak-report", "uid": "1"},
        "spec": {"storageClassName": "fast"},
        "status": {"phase": "Bound"},
    } | more


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (GOOD, OK),
        ({key: value for key, value in GOOD.items() if key != "globalDefault"}, OK),
        (None, ABSENT),
        (GOOD | {"value": 1001}, MISMATCH),
        (GOOD | {"value": "1000"}, MISMATCH),
        ({key: value for key, value in GOOD.items() if key != "preemptionPolicy"}, MISMATCH),
        (GOOD | {"preemptionPolicy": "PreemptLowerPriority"}, MISMATCH),
        (GOOD | {"globalDefault": True}, MISMATCH),
    ],
)
def test_a_priority_class_is_ours_absent_or_another(found: dict[str, Any] | None, state: str) -> None:
    assert priority_state(found, "load").state == state


def test_a_priority_class_is_made_and_read_back(told: Told, api: Api) -> None:
    told.answer("GET", f"{CLASSES}/load", refusal(404), Answer(GOOD))
    told.answer("POST", CLASSES, Answer(GOOD, 201))
    assert ensure_priority_class(api, "load").state == OK
    sent = told.asked("POST", CLASSES)[0].body
    assert (sent["value"], sent["preemptionPolicy"], sent["globalDefault"]) == (1000, "Never", False)


def test_what_an_admission_made_of_it_is_seen(told: Told, api: Api) -> None:
    told.answer("GET", f"{CLASSES}/load", refusal(404), Answer(GOOD | {"preemptionPolicy": "PreemptLowerPriority"}))
    told.answer("POST", CLASSES, Answer(GOOD, 201))
    with pytest.raises(FleetError, match=r"has value 1000, preemptionPolicy PreemptLowerPriority, .* are wanted"):
        ensure_priority_class(api, "load")


def test_a_priority_class_that_is_there_is_not_written(told: Told, api: Api) -> None:
    told.answer("GET", f"{CLASSES}/load", GOOD)
    ensure_priority_class(api, "load")
    ensure_priority_class(api, "load")
    assert {request.method for request in told.requests} == {"GET"}


def test_a_priority_class_that_another_run_makes_meanwhile_is_taken(told: Told, api: Api) -> None:
    told.answer("GET", f"{CLASSES}/load", refusal(404), Answer(GOOD))
    told.answer("POST", CLASSES, refusal(409, "already exists"))
    assert ensure_priority_class(api, "load").state == OK


@pytest.mark.parametrize(
    ("classes", "wanted", "chosen"),
    [
        ([storage("a"), storage("b", **{DEFAULT: "true"})], "", "b"),
        ([storage("a"), storage("b", **{"storageclass.beta.kubernetes.io/is-default-class": "true"})], "", "b"),
        ([storage("a", **{DEFAULT: "false"})], "", "a"),
        ([storage("a"), storage("b", **{DEFAULT: "true"})], "a", "a"),
    ],
)
def test_a_storage_class_is_chosen(
    told: Told, api: Api, classes: list[dict[str, Any]], wanted: str, chosen: str
) -> None:
    told.answer("GET", STORAGE, listed(*classes))
    assert choose_storage_class(api, wanted) == chosen


@pytest.mark.parametrize(
    ("classes", "wanted", "said"),
    [
        ([], "", "none is the default; there are: none"),
        ([storage("b"), storage("a")], "", "none is the default; there are: a, b; name one with k8s.storage_class="),
        ([storage("a", **{DEFAULT: "true"}), storage("b", **{DEFAULT: "true"})], "", "2 are the default"),
        ([storage("a")], "c", "there is no storage class c; there are: a"),
    ],
)
def test_an_ambiguous_storage_class_is_refused(
    told: Told, api: Api, classes: list[dict[str, Any]], wanted: str, said: str
) -> None:
    told.answer("GET", STORAGE, listed(*classes))
    with pytest.raises(FleetError) as caught:
        choose_storage_class(api, wanted)
    assert said in str(caught.value)


def test_a_claim_is_made_once_and_used_again(told: Told, make_config: MakeConfig) -> None:
    config = make_config()
    api = Api(config, patience_s=0)
    told.answer("GET", STORAGE, listed(storage("fast")))
    told.answer("GET", f"{CLAIMS}/soak-report", refusal(404), Answer(claim()))
    told.answer("POST", CLAIMS, Answer(claim(), 201))
    assert ensure_pvc(api, config) == claim()
    assert ensure_pvc(api, config) == claim()
    (asked,) = told.asked("POST", CLAIMS)
    assert asked.body["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "64Mi"}},
    }


def test_a_claim_that_waits_for_its_first_pod_is_fine(told: Told, make_config: MakeConfig) -> None:
    config = make_config()
    told.answer("GET", f"{CLAIMS}/soak-report", claim(status={"phase": "Pending"}))
    ensure_pvc(Api(config), config)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (claim(metadata={"name": "soak-report", "deletionTimestamp": "2026-10-08T02:00:00Z"}), "is being deleted"),
        (claim(status={"phase": "Lost"}), "has lost its volume"),
        (claim(spec={"storageClassName": "slow"}), "is there with storage class slow, not fast"),
    ],
)
def test_a_claim_that_cannot_be_used_is_refused(
    told: Told, make_config: MakeConfig, found: dict[str, Any], said: str
) -> None:
    config = make_config(k8s__storage_class="fast")
    told.answer("GET", f"{CLAIMS}/soak-report", found)
    with pytest.raises(FleetError, match=said):
        ensure_pvc(Api(config), config)


def test_a_claim_is_deleted_and_its_end_waited_for(told: Told, make_config: MakeConfig) -> None:
    config = make_config()
    api = Api(config, sleep=lambda _: None)
    told.answer("DELETE", f"{CLAIMS}/soak-report", Answer(claim()))
    told.answer("GET", f"{CLAIMS}/soak-report", Answer(claim()), refusal(404))
    assert delete_pvc(api, config) is True
    told.answer("GET", f"{CLAIMS}/soak-report", Answer(claim()))
    with pytest.raises(FleetError, match="still there after 0 s: a pod uses it"):
        delete_pvc(api, config, limit_s=0)
    told.answer("DELETE", f"{CLAIMS}/soak-report", refusal(404))
    assert delete_pvc(api, config) is False
