"""The release by helm, which is a stand-in here: how it is called, what is kept of it, what it left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.errors import FleetError
from harness.fleet.kubernetes import chart
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.chart import MARK, Helm, ReleaseStatus, read_objects
from harness.fleet.kubernetes.values import release_values
from harness.processes import find_marked
from tests.fleet.kubernetes.conftest import CHART_DIGEST, MakeConfig
from tests.fleet.kubernetes.standin import StandIn
from tests.fleet.kubernetes.told import Answer, Told, listed

JOBS = "/apis/batch/v1/namespaces/load/jobs"
SECRETS = "/api/v1/namespaces/load/secrets"
PLAN = "plan: 'of, the = run'\n"


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A packed chart, for a stand-in that does not open it."""
    path = tmp_path / "chart-1.0.0.tgz"
    path.write_text("a chart")
    return path


def test_every_call_names_the_context_and_nothing_of_the_environment_leads_elsewhere(
    told: Told, signed: MakeConfig, helm: StandIn, packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from plumbum import local

    told.answer("GET", JOBS, listed())
    config = signed()
    helm.answer("upgrade", out="installed\n")
    with local.env(HELM_KUBECONTEXT="elsewhere", HELM_KUBEAPISERVER="http://127.0.0.1:1", HELM_KUBETOKEN="x"):
        Helm(config).install(Api(config), packed, log="helm-engines.log")
    status, upgrade = helm.calls
    where = ["--namespace", "load", "--kube-context", "test", "--kubeconfig", config.kubeconfig]
    assert status == ["status", "soak", "--output", "json", *where]
    assert upgrade[:4] == ["upgrade", "--install", "soak", str(packed)]
    assert upgrade[-len(where) :] == where
    for environment in helm.environments:
        assert environment["HELM_DRIVER"] == "secret"
        assert {environment[name] for name in chart.NOT_INHERITED} == {""}


def test_what_helm_says_is_kept_line_by_line(told: Told, signed: MakeConfig, helm: StandIn, packed: Path) -> None:
    told.answer("GET", JOBS, listed())
    config = signed()
    helm.answer("upgrade", out="one\n\ntwo\n", err="a warning\n")
    Helm(config).install(Api(config), packed, log="helm-engines.log")
    first, *rest = (config.live / "helm-engines.log").read_text().splitlines()
    assert first.endswith(": exit code 0")
    assert " helm upgrade --install soak " in first
    assert rest == ["  one", "  two", "  a warning"]


def test_values_of_the_user_come_first_and_those_of_the_run_win(
    told: Told, signed: MakeConfig, helm: StandIn, packed: Path
) -> None:
    config = signed(k8s__values="/etc/a.yaml; b.yaml")
    helm.answer("upgrade")
    Helm(config).install(Api(config), packed, plan=PLAN, log="helm-run.log")
    call = helm.calls[-1]
    files = [call[index + 1] for index, word in enumerate(call) if word == "--values"]
    assert files == ["/etc/a.yaml", "b.yaml", str(config.live / "values-load.yaml")]
    values = yaml.safe_load(Path(files[-1]).read_text())
    assert values["plan"] == PLAN
    assert values["job"] == {"enabled": True, "backoffLimit": 0, "ttlSecondsAfterFinished": None}
    assert values["report"]["path"] == "/var/run/sortie/run-1.json"
    assert values["report"]["volume"] == {"persistentVolumeClaim": {"claimName": "soak-report"}}


@pytest.mark.parametrize("engine", ["harness", "sortie"])
def test_the_driver_changes_nothing_of_the_engines(signed: MakeConfig, engine: str) -> None:
    config = signed(k8s__engine=engine)
    engines, load = release_values(config, plan=""), release_values(config, plan=PLAN)
    assert engines["job"]["enabled"] is False
    assert "plan" not in engines
    assert {key: value for key, value in load.items() if key not in ("plan", "job")} == {
        key: value for key, value in engines.items() if key != "job"
    }
    assert engines["priorityClassName"] == engines["engine"]["priorityClassName"] == config.priority_class


def test_the_cap_of_an_engine_is_never_below_the_targets(signed: MakeConfig) -> None:
    assert release_values(signed(engine__max_executions=1), plan="")["engine"]["maxConcurrentExecutions"] == 2
    assert release_values(signed(engine__max_executions=20), plan="")["engine"]["maxConcurrentExecutions"] == 20


def test_engines_alone_never_take_a_load_away(told: Told, signed: MakeConfig, helm: StandIn, packed: Path) -> None:
    told.answer("GET", JOBS, listed({"metadata": {"name": "soak-harness-0a"}}))
    config = signed()
    with pytest.raises(FleetError, match="has the Job soak-harness-0a, which engines alone would delete"):
        Helm(config).install(Api(config), packed, log="helm-engines.log")
    assert [call[0] for call in helm.calls] == ["status"]


def test_a_release_that_a_killed_helm_left_pending_is_taken_up(
    told: Told, signed: MakeConfig, helm: StandIn, packed: Path
) -> None:
    """No rollback: the revision is forgotten, what it made stays, and the same upgrade is asked for again."""
    config = signed()
    helm.answer("status", out=json.dumps({"info": {"status": "pending-upgrade"}, "version": 2}))
    helm.answer("upgrade")
    told.answer("DELETE", f"{SECRETS}/sh.helm.release.v1.soak.v2", Answer({}))
    Helm(config).install(Api(config), packed, plan=PLAN, log="helm-run.log")
    assert len(told.asked("DELETE", f"{SECRETS}/sh.helm.release.v1.soak.v2")) == 1
    assert [call[0] for call in helm.calls] == ["status", "upgrade"]


@pytest.mark.parametrize("status", ["deployed", "failed"])
def test_another_release_is_left_as_it_is(
    told: Told, signed: MakeConfig, helm: StandIn, packed: Path, status: str
) -> None:
    config = signed()
    helm.answer("status", out=json.dumps({"info": {"status": status}, "version": 2}))
    helm.answer("upgrade")
    Helm(config).install(Api(config), packed, plan=PLAN, log="helm-run.log")
    assert told.requests == []


def test_a_helm_whose_harness_was_killed_is_waited_for_and_then_ended(
    told: Told, signed: MakeConfig, helm: StandIn, packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chart, "ORPHAN_S", 0.5)
    config = signed()
    helm.answer("upgrade")
    orphan = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env=os.environ | {MARK: config.token}
    )
    try:
        Helm(config).install(Api(config), packed, plan=PLAN, log="helm-run.log")
        assert orphan.wait(5) != 0
        assert find_marked(config.token, MARK) == []
        assert helm.environments[-1][MARK] == config.token  # and the next one can be found, too
    finally:
        orphan.kill()
        orphan.wait()


def test_what_helm_cannot_do_is_told_in_its_words(told: Told, signed: MakeConfig, helm: StandIn, packed: Path) -> None:
    config = signed()
    helm.answer("upgrade", code=1, err="Error: UPGRADE FAILED: cannot\n  patch\n")
    with pytest.raises(FleetError, match="helm upgrade failed: Error: UPGRADE FAILED: cannot patch"):
        Helm(config).install(Api(config), packed, plan=PLAN, log="helm-run.log")
    assert "exit code 1" in (config.live / "helm-run.log").read_text()


def test_a_helm_that_hangs_is_ended(signed: MakeConfig, helm: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart, "QUICK_S", 0.5)
    helm.answer("status", pause_s=30)
    with pytest.raises(FleetError, match=r"status soak did not end within 0\.5 s"):
        Helm(signed()).status()


def test_a_helm_that_is_not_there_is_named(signed: MakeConfig, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="absent is not installed, or not in PATH"):
        Helm(signed(k8s__helm=str(tmp_path / "absent"))).version()


@pytest.mark.parametrize(
    ("said", "version"),
    [("v3.17.2", "3.17.2"), ("v4.3.1+g5d1a3c", "4.3.1"), ("3.19.0", "3.19.0")],
)
def test_versions_of_helm(signed: MakeConfig, helm: StandIn, said: str, version: str) -> None:
    helm.answer("version", out=said)
    assert Helm(signed()).version() == version


@pytest.mark.parametrize("answer", [{"out": "unknown"}, {"out": "v3.17.2", "code": 1}])
def test_a_helm_without_a_version_is_none(signed: MakeConfig, helm: StandIn, answer: dict[str, object]) -> None:
    helm.answer("version", **answer)
    with pytest.raises(FleetError, match="tells no version"):
        Helm(signed()).version()


def test_the_status_of_a_release(signed: MakeConfig, helm: StandIn) -> None:
    client = Helm(signed())
    assert client.status() is None
    helm.answer("status", out=json.dumps({"info": {"status": "deployed"}, "version": 3}))
    assert client.status() == ReleaseStatus("deployed", 3)
    for broken in ("", "[]", "{}", '{"info": {"status": "deployed"}}'):
        helm.answer("status", out=broken)
        with pytest.raises(FleetError, match="cannot be read"):
            client.status()
    helm.answer("status", code=1, err="Error: Kubernetes cluster unreachable\n")
    with pytest.raises(FleetError, match="cannot tell how release soak stands: Error: Kubernetes cluster unreachable"):
        client.status()


def test_uninstalling_is_done_once_and_bounded(signed: MakeConfig, helm: StandIn) -> None:
    client = Helm(signed())
    assert client.uninstall() is False
    helm.answer("status", out=json.dumps({"info": {"status": "deployed"}, "version": 3}))
    helm.answer("uninstall", out='release "soak" uninstalled\n')
    assert client.uninstall() is True
    assert helm.calls[-1][:5] == ["uninstall", "soak", "--wait", "--timeout", "180s"]
    helm.answer("uninstall", code=1, err="Error: timed out waiting for the condition\n")
    with pytest.raises(FleetError, match="could not take release soak away: Error: timed out"):
        client.uninstall()


def test_a_chart_is_pulled_by_its_digest_into_one_file(signed: MakeConfig, helm: StandIn, tmp_path: Path) -> None:
    path = Helm(signed(k8s__plain_http=1)).fetch(tmp_path / "charts")
    assert path.read_text() == "a chart"
    assert [entry.name for entry in path.parent.iterdir()] == ["chart-1.0.0.tgz"]
    (call,) = helm.calls
    assert call[:3] == ["pull", f"oci://registry.test/a/chart@{CHART_DIGEST}", "--destination"]
    assert call[-1] == "--plain-http"


@pytest.mark.parametrize("names", [[], ["a-1.tgz", "b-1.tgz"]])
def test_more_or_less_than_one_chart_is_none(
    signed: MakeConfig, helm: StandIn, tmp_path: Path, names: list[str]
) -> None:
    helm.answer("pull", packed="x", names=names)
    with pytest.raises(FleetError, match=rf"helm left {len(names)} packed charts"):
        Helm(signed()).fetch(tmp_path / "charts")


def test_a_folder_without_a_chart_is_named(signed: MakeConfig, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"holds no chart: Chart\.yaml is absent"):
        Helm(signed(k8s__chart=str(tmp_path))).fetch(tmp_path / "charts")


@pytest.mark.parametrize("text", ["", "---\n---\n", "a: [1", "- a\n"])
def test_manifests_that_hold_no_object_are_none(text: str) -> None:
    with pytest.raises(FleetError):
        read_objects(text)
