"""What each method asks of the API, and makes of its answers; the server answers as told."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from harness.errors import ConflictError, ForbiddenError, NotFoundError, UnreachableError
from harness.fleet.kubernetes import calls
from harness.fleet.kubernetes.api import REQUEST_MARK, Api
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.told import Answer, Told, events, listed, refusal

PODS = "/api/v1/namespaces/load/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
DEPLOYMENT = "/apis/apps/v1/namespaces/load/deployments/svc-1"


def pod(name: str, **more: Any) -> dict[str, Any]:
    """A pod whose uid is made of its name."""
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}, **more}


# objects


def test_find_tells_absence_from_failure(told: Told, make_config: MakeConfig) -> None:
    api = Api(make_config(), patience_s=0)
    told.answer("GET", f"{PODS}/a", refusal(404))
    assert api.find("Pod", "a", "load") is None
    with pytest.raises(NotFoundError):
        api.get("Pod", "a", "load")
    told.answer("GET", f"{PODS}/a", refusal(503))
    with pytest.raises(UnreachableError):
        api.find("Pod", "a", "load")


def test_select_asks_for_labels_and_fields(told: Told, api: Api) -> None:
    told.answer("GET", PODS, listed(pod("a"), pod("b")))
    assert [found["metadata"]["name"] for found in api.select("Pod", "load", labels="app=x", fields="a=b")] == [
        "a",
        "b",
    ]
    assert told.requests[0].query == {"labelSelector": "app=x", "fieldSelector": "a=b"}


def test_select_in_all_namespaces_and_of_kinds_without_one(told: Told, api: Api) -> None:
    told.answer("GET", "/api/v1/pods", listed(pod("a")))
    told.answer("GET", CLASSES, listed())
    assert len(api.select("Pod")) == 1
    assert api.select("PriorityClass") == []


def test_an_unknown_kind_is_a_mistake_of_the_caller(api: Api) -> None:
    with pytest.raises(ValueError, match="none of the kinds"):
        api.get("Gateway", "a", "load")


def test_what_is_created_is_sent_whole_with_a_mark(told: Told, api: Api) -> None:
    told.answer("POST", PODS, Answer(pod("a"), 201))
    document = {"metadata": {"name": "a", "annotations": {"x": "y"}}, "spec": {"containers": []}}
    assert api.create("Pod", document, "load") == pod("a")
    sent = told.requests[0].body
    assert sent["spec"] == document["spec"]
    assert sent["metadata"]["annotations"].keys() == {"x", REQUEST_MARK}
    assert REQUEST_MARK not in document["metadata"]["annotations"]  # type: ignore[operator]  # the caller's is untouched


def test_a_create_whose_answer_was_lost_is_recognised(told: Told, make_config: MakeConfig) -> None:
    """The request was carried out and its answer lost: the second attempt finds the object, and it is ours."""

    class Api2(Api):
        """Tells the server to answer the read with what was posted."""

        def find(self, *arguments: Any, **options: Any) -> dict[str, Any] | None:
            told.answer("GET", f"{PODS}/a", told.asked("POST", PODS)[0].body)
            return super().find(*arguments, **options)

    told.answer("POST", PODS, Answer(reset=True), refusal(409, "already exists"))
    created = Api2(make_config()).create("Pod", {"metadata": {"name": "a"}}, "load")
    assert created["metadata"]["name"] == "a"
    first, second = told.asked("POST", PODS)
    assert first.body == second.body


def test_an_object_of_somebody_else_is_a_conflict(told: Told, api: Api) -> None:
    told.answer("POST", PODS, refusal(409, "already exists"))
    told.answer("GET", f"{PODS}/a", pod("a"))
    with pytest.raises(ConflictError, match="create Pod load/a: HTTP 409 already exists"):
        api.create("Pod", {"metadata": {"name": "a"}}, "load")


def test_delete_says_how_and_whether(told: Told, api: Api) -> None:
    told.answer("DELETE", f"{PODS}/a", Answer(pod("a")), refusal(404))
    assert api.delete("Pod", "a", "load", grace_s=0, uid="uid-a") is True
    assert api.delete("Pod", "a", "load") is False
    first, second = told.requests
    assert first.body == {"propagationPolicy": "Background", "gracePeriodSeconds": 0, "preconditions": {"uid": "uid-a"}}
    assert second.body == {"propagationPolicy": "Background"}


def test_waiting_for_an_end_is_bounded(told: Told, make_config: MakeConfig) -> None:
    api = Api(make_config(), sleep=lambda _: None)
    told.answer("GET", f"{PODS}/a", pod("a"), pod("a"), refusal(404))
    assert api.wait_gone("Pod", "a", "load", limit_s=5) is True
    told.answer("GET", f"{PODS}/a", pod("a"))
    assert api.wait_gone("Pod", "a", "load", limit_s=0.2) is False
    assert api.wait_gone("Pod", "a", "load", limit_s=5, uid="another") is True


# what some kinds can do


def test_a_restart_is_kubectls(told: Told, api: Api) -> None:
    told.answer("PATCH", DEPLOYMENT, {"metadata": {"name": "svc-1"}})
    api.restart("Deployment", "svc-1", "load")
    (asked,) = told.requests
    annotations = asked.body["spec"]["template"]["metadata"]["annotations"]
    assert list(annotations) == ["kubectl.kubernetes.io/restartedAt"]
    assert asked.headers["content-type"] in ("application/strategic-merge-patch+json", "application/merge-patch+json")


def test_a_scale_of_nothing_is_zero_and_no_scale_is_an_error(told: Told, make_config: MakeConfig) -> None:
    api = Api(make_config(), patience_s=0)
    path = f"{DEPLOYMENT}/scale"
    for document, replicas in (({"spec": {"replicas": 3}}, 3), ({"spec": {}}, 0)):
        told.answer("GET", path, document)
        assert api.replicas("Deployment", "svc-1", "load") == replicas
    for document in ({}, {"spec": {"replicas": "3"}}, {"spec": {"replicas": True}}, {"spec": {"replicas": -1}}):
        told.answer("GET", path, document)
        with pytest.raises(UnreachableError):
            api.replicas("Deployment", "svc-1", "load")
    told.answer("PATCH", path, {"spec": {"replicas": 2}})
    api.scale("Deployment", "svc-1", "load", 2)
    assert told.asked("PATCH", path)[0].body == {"spec": {"replicas": 2}}


def test_a_log_is_bytes_and_never_followed(told: Told, api: Api) -> None:
    raw = "line\nzweite Zeile ä\n".encode() + b"\xff\x00\n"
    told.answer("GET", f"{PODS}/a/log", Answer(raw))
    assert api.pod_log("a", "load", container="c", previous=True, tail_lines=5) == raw
    assert api.pod_log("a", "load") == raw
    first, second = told.requests
    assert first.query == {"container": "c", "previous": "True", "tailLines": "5"} | {
        "previous": first.query["previous"]
    }
    assert first.query["previous"].lower() == "true"
    assert second.query == {}


def test_a_log_that_is_cut_is_read_again(told: Told, api: Api) -> None:
    told.answer("GET", f"{PODS}/a/log", Answer(b"0123456789", cut_at=4), Answer(b"0123456789"))
    assert api.pod_log("a", "load") == b"0123456789"


# watching


def test_a_watch_shows_all_pods_after_every_change(told: Told, api: Api) -> None:
    told.answer(
        "GET",
        PODS,
        listed(pod("a"), version="5"),
        events(("ADDED", pod("b")), ("MODIFIED", pod("a", spec={"x": 1})), ("DELETED", pod("b"))),
        events(("BOOKMARK", {"metadata": {"resourceVersion": "12"}})),
        events(),
    )
    seen = [sorted(pods) for pods in itertools.islice(api.watch_pods("load", slice_s=1), 6)]
    assert seen[:5] == [["uid-a"], ["uid-a", "uid-b"], ["uid-a", "uid-b"], ["uid-a"], ["uid-a"]]
    watches = [request.query for request in told.requests if "watch" in request.query]
    assert [watch["resourceVersion"] for watch in watches[:2]] == ["5", "7"]
    assert watches[0]["timeoutSeconds"] == "1"


@pytest.mark.parametrize(
    "lost",
    [
        events(("ERROR", {"code": 410, "message": "too old resource version"})),
        refusal(410, "too old resource version"),
        Answer(b'{"type": "ADDED", "obj', cut_at=10),
        Answer(b'{"type": "ADDED", "obj'),
        Answer(reset=True),
        refusal(503),
        refusal(429),
    ],
    ids=["410 as an event", "410", "cut", "torn line", "reset", "503", "429"],
)
def test_a_watch_that_lost_its_place_lists_anew(told: Told, make_config: MakeConfig, lost: Answer) -> None:
    told.answer("GET", PODS, listed(pod("a")), lost, listed(pod("b"), version="9"), events())
    waits: list[float] = []
    watch = Api(make_config(), sleep=waits.append).watch_pods("load", slice_s=1)
    assert [sorted(next(watch)) for _ in range(2)] == [["uid-a"], ["uid-b"]]
    watch.close()
    assert waits  # never in a tight loop


def test_a_gap_of_a_watch_is_told(told: Told, make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BLIND_S", 0.1)
    gaps: list[str] = []
    told.answer("GET", PODS, listed(pod("a")), Answer(reset=True), listed(pod("a")), events())
    watch = Api(make_config(), on_blind=lambda *gap: gaps.append(gap[2])).watch_pods("load", slice_s=1)
    next(watch)
    next(watch)
    watch.close()
    assert len(gaps) == 1
    assert gaps[0].startswith("watch Pod load: ")


def test_a_rotated_token_does_not_end_a_watch(told: Told, make_config: MakeConfig) -> None:
    told.answer("GET", PODS, listed(pod("a")), refusal(401), listed(pod("b")), events())
    watch = Api(make_config(), sleep=lambda _: None).watch_pods("load")
    assert [sorted(next(watch)) for _ in range(2)] == [["uid-a"], ["uid-b"]]
    watch.close()


def test_a_watch_that_is_forbidden_says_so(told: Told, api: Api) -> None:
    told.answer("GET", PODS, listed(pod("a")), refusal(403, "cannot watch"))
    watch = api.watch_pods("load")
    next(watch)
    with pytest.raises(ForbiddenError, match="watch Pod load: HTTP 403 cannot watch"):
        next(watch)


# the API itself


def test_the_api_says_that_it_is_ready_and_which_release_it_is(told: Told, api: Api) -> None:
    told.answer("GET", "/readyz", Answer(b"ok"))
    told.answer("GET", "/version", {"gitVersion": "v1.34.2"})
    assert api.ready() == "ok"
    assert api.version() == "v1.34.2"
    assert {request.headers["authorization"] for request in told.requests} == {"Bearer first"}
