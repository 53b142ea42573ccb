"""A run folder with a fleet on a cluster, and an API whose server answers as the test tells it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.files import write_json
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.config import ClusterConfig, read_config
from harness.runs import RunFolder
from harness.settings import SETTINGS
from tests.fleet.kubernetes.standin import StandIn
from tests.fleet.kubernetes.told import Told, told_server, write_kubeconfig

SHARES = "svc-1\t20\thttp://svc-1.mesh.svc.cluster.local:18081/\nuds-echo\t10\thttp://uds-echo.mesh:18081/\n"
MakeConfig = Callable[..., ClusterConfig]
ENGINE = "registry.test/a/engine@sha256:" + "1" * 64
DRIVER = "registry.test/a/driver@sha256:" + "2" * 64
CHART = "oci://registry.test/a/chart"
CHART_DIGEST = "sha256:" + "3" * 64


def rendered(*images: str) -> str:
    """Manifests of a chart: a Service, a DaemonSet with the first image, a Job with the others."""
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    daemon_set = {"kind": "DaemonSet", "spec": {"template": {"spec": {"containers": containers[:1]}}}}
    job = {"kind": "Job", "spec": {"template": {"spec": {"containers": containers[1:]}}}}
    return "\n---\n".join(json.dumps(thing) for thing in ({"kind": "Service"}, daemon_set, job)) + "\n---\n"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client honours the proxies of the environment, as kubectl does: here nothing may leave the machine."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("KUBE", "HELM_")):
            monkeypatch.delenv(name)


@pytest.fixture
def make_config(tmp_path: Path) -> MakeConfig:
    """Makes a fleet's config, from a run folder: settings by key (``.`` written ``__``), ``shares`` as text."""

    def make(*, shares: str = SHARES, **changed: Any) -> ClusterConfig:
        folder = RunFolder(tmp_path / "run-1")
        folder.live.mkdir(parents=True, exist_ok=True)
        settings = {setting.key: setting.default for setting in SETTINGS} | {
            "fleet": "test",
            "duration_s": 60,
            "k8s.kubeconfig": str(tmp_path / "kubeconfig"),
            "k8s.namespace": "load",
            "k8s.system_namespace": "system",
        }
        settings |= {key.replace("__", "."): value for key, value in changed.items()}
        write_json(folder.run_json, {"schema": 1, "run": folder.run, "token": "mark", "settings": settings})
        folder.shares.write_text(shares)
        return read_config(folder)

    return make


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    """The server, and a kubeconfig whose context ``test`` leads to it."""
    with told_server() as server:
        write_kubeconfig(tmp_path / "kubeconfig", server.url)
        yield server


@pytest.fixture
def api(told: Told, make_config: MakeConfig) -> Api:
    """An API of little patience on the told server."""
    return Api(make_config(), deadline_s=2.0, patience_s=3.0)


@pytest.fixture
def helm(tmp_path: Path) -> StandIn:
    """A stand-in helm that pulls, packs and renders a chart of two images by digest, and knows no release."""
    program = StandIn(tmp_path / "helm-stand-in", "helm")
    program.answer("version", out="v3.17.2")
    program.answer("pull", packed="a chart")
    program.answer("package", packed="a packed folder")
    program.answer("template", out=rendered(ENGINE, DRIVER))
    program.answer("status", code=1, err="Error: release: not found\n")
    return program


@pytest.fixture
def cosign(tmp_path: Path) -> StandIn:
    """A stand-in cosign that finds every signature right."""
    program = StandIn(tmp_path / "cosign-stand-in", "cosign")
    program.answer("version", out="GitVersion:    v3.1.1\n")
    program.answer("verify", out="[]")
    return program


@pytest.fixture
def signed(make_config: MakeConfig, helm: StandIn, cosign: StandIn) -> MakeConfig:
    """Makes a config whose chart is pulled, whose signatures are asked for, and whose tools are the stand-ins."""

    def make(**changed: Any) -> ClusterConfig:
        return make_config(
            **{
                "k8s__chart": CHART,
                "k8s__chart_digest": CHART_DIGEST,
                "k8s__verify": "require",
                "k8s__identity": "^https://forge.test/a/workflow@main$",
                "k8s__issuer": "https://issuer.test",
                "k8s__helm": str(helm.program),
                "k8s__cosign": str(cosign.program),
            }
            | changed
        )

    return make
