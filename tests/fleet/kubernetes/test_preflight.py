"""The checks before a run on a cluster: all of them run, each is a line, and none writes into the cluster."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from harness.errors import FleetError
from harness.fleet.base import Check
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.preflight import MODULE, RUN_DIR, preflight
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.told import Answer, Told, listed, refusal

CORE = "/api/v1/namespaces"
READY_POD = {
    "metadata": {"namespace": "system", "name": "proxy-a", "uid": "1"},
    "spec": {"containers": [{"name": "proxy"}]},
    "status": {"phase": "Running", "containerStatuses": [{"name": "proxy", "ready": True}]},
}
BEHIND = {"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}]}
TARGETS = [("svc-1", "mesh"), ("uds-echo", "mesh")]


@pytest.fixture
def ready(told: Told, signed: MakeConfig) -> Told:
    """A cluster that is ready for the test's run, as far as it is told."""
    told.answer("GET", "/readyz", Answer(b"ok"))
    told.answer("GET", "/version", {"gitVersion": "v1.34.2"})
    told.answer("GET", f"{CORE}/load", {"metadata": {"name": "load"}, "status": {"phase": "Active"}})
    told.answer("GET", "/apis/storage.k8s.io/v1/storageclasses", listed({"metadata": {"name": "fast"}}))
    told.answer("GET", f"{CORE}/system/pods", listed(READY_POD))
    told.answer("GET", f"{CORE}/load/pods", listed())
    for name, namespace in TARGETS:
        told.answer("GET", f"{CORE}/{namespace}/services/{name}", {"metadata": {"name": name}})
        told.answer("GET", f"{CORE}/{namespace}/endpoints/{name}", BEHIND)
    told.answer("GET", "/apis/batch/v1/namespaces/load/jobs", listed())
    told.answer("GET", "/apis/apps/v1/namespaces/load/daemonsets", listed())
    return told


def checks(signed: MakeConfig, **changed: Any) -> dict[str, Check]:
    """The checks of a run by name, with little patience."""
    config = signed(**changed)
    return {check.name: check for check in preflight(config, Api(config, deadline_s=2))}


def bad(found: dict[str, Check]) -> dict[str, str]:
    """Name → text of those that do not hold."""
    return {name: check.seen for name, check in found.items() if not check.ok}


def test_a_cluster_that_is_ready(ready: Told, signed: MakeConfig) -> None:
    found = checks(signed)
    assert bad(found) == {}
    assert found["api"].seen == "/readyz of context test answers ok"
    assert found["targets"].seen == "2 targets, 30 rps per node"
    assert found["PriorityClass soak-load"].seen == "PriorityClass soak-load is absent; the run makes it"
    assert found["pods of system"].seen == "ready: 1 of 1 pods, 1 of 1 containers"
    assert found["Service of svc-1"].seen == "mesh/svc-1 has 2 ready addresses"
    assert {request.method for request in ready.requests} == {"GET"}


def test_an_api_that_does_not_answer_ends_the_pass_early(told: Told, signed: MakeConfig) -> None:
    told.close()
    found = checks(signed)
    assert list(found) == ["api", "targets"]
    assert list(bad(found)) == ["api"]
    assert "no usable answer from context test" in found["api"].seen


def test_an_api_that_is_not_ready_ends_the_pass_early(ready: Told, signed: MakeConfig) -> None:
    ready.answer("GET", "/readyz", Answer(b"[-]etcd failed", 500))
    assert "HTTP 500 [-]etcd failed" in bad(checks(signed))["api"]


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ("", "the share table is empty: there is nothing to send to"),
        ("a\t1\thttp://a.mesh/\na\t1\thttp://a.mesh/\n", "the share table lists a twice"),
        ("a\t0\thttp://a.mesh/\n", "the share table lists a without a rate"),
    ],
)
def test_targets_that_no_run_may_have_end_the_pass_early(
    ready: Told, signed: MakeConfig, shares: str, said: str
) -> None:
    found = checks(signed, shares=shares)
    assert bad(found) == {"targets": said}
    assert list(found) == ["api", "targets"]


def test_every_check_runs_and_each_failure_is_its_own_line(ready: Told, signed: MakeConfig) -> None:
    ready.answer("GET", f"{CORE}/system/pods", listed())
    ready.answer("GET", f"{CORE}/mesh/services/svc-1", refusal(404))
    ready.answer("GET", f"{CORE}/mesh/endpoints/uds-echo", {"subsets": [{"notReadyAddresses": [{"ip": "10.0.0.3"}]}]})
    ready.answer("GET", "/apis/batch/v1/namespaces/load/jobs", listed({"metadata": {"name": "soak-harness-0a"}}))
    ready.answer("GET", "/apis/scheduling.k8s.io/v1/priorityclasses/soak-load", {"value": 1})
    ready.answer("GET", f"{CORE}/load", refusal(404))
    ready.answer(
        "GET",
        "/apis/storage.k8s.io/v1/storageclasses",
        listed({"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}),
    )
    lines = bad(checks(signed, k8s__cosign="no-such-cosign"))
    assert list(lines) == [
        "cosign",
        "namespace load",
        "PriorityClass soak-load",
        "volume of the reports",
        "pods of system",
        "Service of svc-1",
        "Service of uds-echo",
        "no Job of release soak",
    ]
    assert lines["pods of system"] == "the listing of namespace system is empty: there is no pod to be ready"
    assert lines["Service of svc-1"] == "mesh/svc-1 is absent"
    assert lines["Service of uds-echo"] == "mesh/uds-echo has 0 ready addresses, 1 not ready"
    assert lines["no Job of release soak"].startswith("soak-harness-0a is there; save the run that it belongs to")
    assert lines["namespace load"] == "it is absent; create it, or name another with k8s.namespace="


def test_a_host_that_names_no_service_is_told(ready: Told, signed: MakeConfig) -> None:
    lines = bad(checks(signed, shares="svc-1\t20\thttp://svc-1:18081/\n"))
    assert list(lines) == ["Service of svc-1"]
    assert lines["Service of svc-1"].startswith("the host of http://svc-1:18081/ names no Service: NAME.NAMESPACE")


def test_what_may_not_be_looked_at_is_a_failure(ready: Told, signed: MakeConfig) -> None:
    ready.answer("GET", f"{CORE}/system/pods", refusal(403, "pods is forbidden"))
    lines = bad(checks(signed))
    assert list(lines) == ["pods of system", "restarts can be counted"]
    assert "HTTP 403 pods is forbidden" in lines["pods of system"]


@pytest.mark.parametrize(
    ("version", "ok"), [("v1.20.2", False), ("v1.24.0", True), ("v1.34.2+k3s1", True), ("", False)]
)
def test_sorties_chart_needs_probes_by_grpc(ready: Told, signed: MakeConfig, version: str, ok: bool) -> None:
    ready.answer("GET", "/version", {"gitVersion": version})
    assert checks(signed, k8s__engine="sortie")["release of kubernetes"].ok is ok
    assert checks(signed, k8s__engine="harness")["release of kubernetes"].ok


def test_another_load_is_noted_and_decides_nothing(ready: Told, signed: MakeConfig) -> None:
    daemon_set = {"metadata": {"name": "k6-load"}, "status": {"numberReady": 2}}
    ready.answer("GET", "/apis/apps/v1/namespaces/load/daemonsets", listed(daemon_set))
    found = checks(signed)["no other load"]
    assert found.ok
    assert found.seen == "note: DaemonSet load/k6-load is up and may send load of its own"


def test_no_system_namespace_is_looked_at_where_none_is_named(ready: Told, signed: MakeConfig) -> None:
    assert not [name for name in checks(signed, k8s__system_namespace="") if name.startswith("pods of")]


def test_another_run_of_this_machine_on_the_same_release_is_seen(ready: Told, signed: MakeConfig) -> None:
    root = str(signed().folder.root)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "-m", MODULE, RUN_DIR, root])
    try:
        lines = bad(checks(signed))
        assert lines == {
            "no other run from here": f"run run-1 is at work on the same release, pid {other.pid}; wait for its end"
        }
    finally:
        other.kill()
        other.wait()


def test_checks_of_the_churn_come_last_and_may_fail(ready: Told, signed: MakeConfig) -> None:
    def broken() -> list[Check]:
        raise FleetError("svc-1 cannot be read")

    config = signed()
    found = preflight(config, Api(config), more=[lambda: [Check("churn of svc-1", True, "fine")], broken])
    assert found[-2:] == [Check("churn of svc-1", True, "fine"), Check("churn", False, "svc-1 cannot be read")]
