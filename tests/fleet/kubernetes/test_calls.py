"""Calls against a server that answers as told: refused, reset, silent, cut, 401, 429 and 5xx, over real sockets."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from harness.errors import (
    ClusterError,
    ConflictError,
    CredentialsError,
    ForbiddenError,
    InvalidObjectError,
    NotFoundError,
    UnreachableError,
)
from harness.fleet.kubernetes import calls
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.calls import blind_log
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.told import Answer, Told, listed, refusal, write_kubeconfig

POD = {"metadata": {"name": "a", "uid": "1"}}
PODS = "/api/v1/namespaces/load/pods"
A_POD = f"{PODS}/a"


def test_an_object_comes_as_the_api_sent_it(told: Told, api: Api) -> None:
    unknown = POD | {"spec": {"a key of another release": {"deep": [1, 2.5, None]}}}
    told.answer("GET", A_POD, unknown)
    assert api.get("Pod", "a", "load") == unknown


def test_only_the_named_context_is_used(told: Told, make_config: MakeConfig) -> None:
    told.answer("GET", A_POD, POD)
    assert Api(make_config()).get("Pod", "a", "load") == POD  # current-context leads to a port where nobody listens
    with pytest.raises(CredentialsError, match=r"context absent in .*kubeconfig: .*fleet= names a context"):
        Api(make_config(fleet="absent")).get("Pod", "a", "load")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ClusterError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (422, InvalidObjectError),
    ],
)
def test_a_refusal_is_told_at_once_with_the_apis_own_words(
    told: Told, api: Api, status: int, kind: type[ClusterError]
) -> None:
    told.answer("GET", A_POD, refusal(status, "pods is\n forbidden"))
    with pytest.raises(kind, match=rf"get Pod load/a: HTTP {status} pods is forbidden \(context test\)") as caught:
        api.get("Pod", "a", "load")
    assert type(caught.value) is kind
    assert caught.value.status == status
    assert len(told.requests) == 1


@pytest.mark.parametrize("status", [408, 410, 429, 500, 502, 503, 504])
def test_what_a_server_says_for_a_while_only_is_asked_again(told: Told, api: Api, status: int) -> None:
    told.answer("GET", A_POD, refusal(status), refusal(status), Answer(POD))
    assert api.get("Pod", "a", "load") == POD
    assert len(told.requests) == 3


@pytest.mark.parametrize(
    "broken",
    [
        Answer(reset=True),
        Answer(POD, cut_at=7),
        Answer(b"<html>a proxy's page</html>"),
        Answer(b"[1, 2]"),
        Answer(POD, pause_s=1.0),
    ],
    ids=["reset", "cut", "no JSON", "no object", "silent"],
)
def test_an_answer_that_is_none_is_asked_for_again(told: Told, make_config: MakeConfig, broken: Answer) -> None:
    told.answer("GET", A_POD, broken, Answer(POD))
    assert Api(make_config(), deadline_s=0.4, patience_s=5.0).get("Pod", "a", "load") == POD
    assert len(told.requests) == 2


@pytest.mark.parametrize("items", [{}, {"items": None}, {"items": {}}, {"items": ["a"]}])
def test_a_list_without_items_is_no_empty_list(told: Told, make_config: MakeConfig, items: dict[str, object]) -> None:
    told.answer("GET", PODS, Answer({"metadata": {}} | items))
    with pytest.raises(UnreachableError, match="holds no list of items"):
        Api(make_config(), patience_s=0).select("Pod", "load")


def test_a_trickle_does_not_outlast_the_deadline(told: Told, make_config: MakeConfig) -> None:
    told.answer("GET", A_POD, Answer(POD | {"long": "x" * 400}, every_s=0.05))
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="not whole in time"):
        Api(make_config(), deadline_s=0.5, patience_s=0).get("Pod", "a", "load")
    assert time.monotonic() - began < 1.5


def test_retry_after_is_obeyed_and_bounded_by_patience(told: Told, make_config: MakeConfig) -> None:
    told.answer("GET", A_POD, refusal(429, Retry_After="1"), Answer(POD))
    waits: list[float] = []
    Api(make_config(), sleep=waits.append).get("Pod", "a", "load")
    assert waits == [1.0]

    told.answer("GET", A_POD, refusal(429, Retry_After="3600"), Answer(POD))
    waits.clear()
    began = time.monotonic()
    Api(make_config(), sleep=waits.append, patience_s=30).get("Pod", "a", "load")
    assert waits == [pytest.approx(30, abs=0.5)]  # an hour would not be noticed by anybody
    assert time.monotonic() - began < 1.0  # and the client's own retries do not wait in silence


def test_waits_grow_and_stay_short(told: Told, make_config: MakeConfig) -> None:
    told.answer("GET", A_POD, *[refusal(503)] * 8, Answer(POD))
    waits: list[float] = []
    Api(make_config(), sleep=waits.append).get("Pod", "a", "load")
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_a_server_that_is_away_is_waited_for(told: Told, make_config: MakeConfig) -> None:
    told.answer("GET", A_POD, POD)
    told.close()
    back = threading.Timer(0.6, told.open)
    back.start()
    assert Api(make_config(), patience_s=10).get("Pod", "a", "load") == POD
    back.join()


def test_patience_ends_with_what_was_seen_and_what_to_do(told: Told, make_config: MakeConfig) -> None:
    told.close()
    began = time.monotonic()
    with pytest.raises(UnreachableError) as caught:
        Api(make_config(), patience_s=0.7).get("Pod", "a", "load")
    assert 0.6 < time.monotonic() - began < 3
    said = str(caught.value)
    assert said.startswith("get Pod load/a: no usable answer from context test within 0.7 s (")
    assert "refused" in said.lower()
    assert "go on with the same command" in said


def test_patience_may_be_a_calls_own(told: Told, make_config: MakeConfig) -> None:
    told.answer("GET", A_POD, refusal(503))
    with pytest.raises(UnreachableError):
        Api(make_config(), patience_s=300).get("Pod", "a", "load", patience_s=0)
    assert len(told.requests) == 1


def test_waiting_can_be_broken_off(told: Told, make_config: MakeConfig) -> None:
    class StoppedError(Exception):
        """The caller's own."""

    def stop(_: float) -> None:
        raise StoppedError

    told.answer("GET", A_POD, refusal(503))
    with pytest.raises(StoppedError):
        Api(make_config(), sleep=stop).get("Pod", "a", "load")


# credentials


def test_a_rotated_token_is_picked_up_by_the_call_that_met_it(told: Told, make_config: MakeConfig) -> None:
    told.answer("GET", A_POD, POD)
    config = make_config()
    api = Api(config)
    api.get("Pod", "a", "load")
    write_kubeconfig(Path(config.kubeconfig), told.url, bearer="second")
    told.answer("GET", A_POD, refusal(401), Answer(POD))
    assert api.get("Pod", "a", "load") == POD
    api.get("Pod", "a", "load")
    tokens = [request.headers["authorization"] for request in told.asked("GET", A_POD)]
    assert tokens == ["Bearer first", "Bearer first", "Bearer second", "Bearer second"]


def test_credentials_that_stay_refused_end_the_call(told: Told, api: Api) -> None:
    told.answer("GET", A_POD, refusal(401, "Unauthorized"))
    with pytest.raises(CredentialsError, match=r"HTTP 401 Unauthorized .*; renew the credentials of the kubeconfig"):
        api.get("Pod", "a", "load")
    assert len(told.requests) == 2


def test_no_token_is_in_any_message(told: Told, make_config: MakeConfig) -> None:
    config = make_config()
    write_kubeconfig(Path(config.kubeconfig), told.url, bearer="a-secret-token")
    for answer in (refusal(401), refusal(403), refusal(500), Answer(reset=True)):
        told.answer("GET", A_POD, answer)
        with pytest.raises(ClusterError) as caught:
            Api(config, patience_s=0).get("Pod", "a", "load")
        assert "a-secret-token" not in f"{caught.value!r}{caught.value}{caught.value.__cause__!r}"


def test_a_damaged_kubeconfig_is_named(make_config: MakeConfig) -> None:
    config = make_config()
    for text in ("", "{", "- a list", "contexts: 5"):
        Path(config.kubeconfig).write_text(text)
        with pytest.raises(CredentialsError, match="no credentials for context test in "):
            Api(config).get("Pod", "a", "load")


# gaps


def test_a_gap_is_told_with_its_ends_and_reason(
    told: Told, make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(calls, "BLIND_S", 0.3)
    log = tmp_path / "blind.jsonl"
    told.answer("GET", PODS, refusal(503, "etcd is away"), refusal(503, "etcd is away"), listed())
    began = time.time()
    api = Api(make_config(), on_blind=blind_log(log))
    assert api.select("Pod", "load") == []
    (gap,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert 0.3 < gap["seconds"] < 3
    assert gap["why"] == "list Pod load: HTTP 503 etcd is away"
    assert gap["from"] < gap["to"]
    assert gap["from"][:16] >= time.strftime("%Y-%m-%dT%H:%M", time.gmtime(began))


def test_a_gap_is_told_also_when_the_call_gives_up(
    told: Told, make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "BLIND_S", 0.3)
    gaps: list[tuple[float, float, str]] = []
    told.answer("GET", PODS, refusal(503))
    with pytest.raises(UnreachableError):
        Api(make_config(), patience_s=0.5, on_blind=lambda *gap: gaps.append(gap)).select("Pod", "load")
    assert [why for _, _, why in gaps] == ["list Pod load: HTTP 503 so told"]


def test_a_short_fault_is_no_gap(told: Told, make_config: MakeConfig) -> None:
    gaps: list[tuple[float, float, str]] = []
    told.answer("GET", PODS, refusal(503), listed())
    Api(make_config(), on_blind=lambda *gap: gaps.append(gap)).select("Pod", "load")
    assert gaps == []
