"""Traps of the official client: releases that send no token, waits of its own, credentials that are read once."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from harness.errors import CredentialsError
from harness.fleet.kubernetes import session
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.config import IN_CLUSTER
from harness.fleet.kubernetes.session import KINDS, Session
from harness.graph.receipts import PROJECT
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.told import Told, refusal

NO_TOKEN_IN_A_POD = ("36.0.0",)
RIGHT = ("34.1.0", "35.0.0", "36.0.1", "36.0.2", "36.0.3", "37.0.2")
A_POD = "/api/v1/namespaces/load/pods/a"
POD = {"metadata": {"name": "a"}}


def wanted() -> Requirement:
    """What pyproject.toml asks of the client."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    (found,) = [Requirement(text) for text in project["dependencies"] if Requirement(text).name == "kubernetes"]
    return found


@pytest.mark.parametrize("release", NO_TOKEN_IN_A_POD)
def test_the_pin_excludes_releases_that_send_no_token_in_a_pod(release: str) -> None:
    assert not wanted().specifier.contains(release)


@pytest.mark.parametrize("release", RIGHT)
def test_the_pin_allows_the_others(release: str) -> None:
    assert wanted().specifier.contains(release)


def test_the_installed_release_is_one_that_the_pin_allows() -> None:
    assert wanted().specifier.contains(metadata.version("kubernetes"))


def in_a_pod(told: Told, token: Path) -> Session:
    """A session as ``load_incluster_config`` makes it, from a token file of the test, over plain HTTP."""
    from kubernetes import client
    from kubernetes.config.incluster_config import InClusterConfigLoader

    certificate = token.with_name("ca.crt")
    certificate.write_text("no certificate: the test's server speaks plain HTTP")
    configuration = client.Configuration()
    InClusterConfigLoader(
        token_filename=str(token),
        cert_filename=str(certificate),
        environ={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(told.port)},
    ).load_and_set(configuration)
    configuration.host, configuration.ssl_ca_cert = told.url, None
    return Session(session.make_client(configuration))


def test_the_token_of_a_pod_goes_out_and_a_rotated_one_is_used(
    told: Told, make_config: MakeConfig, tmp_path: Path
) -> None:
    """A node writes the token file anew about every 50 minutes; the old one is refused some time later."""
    token = tmp_path / "token"
    token.write_text("first")
    api = Api(make_config(fleet=IN_CLUSTER), connect=lambda _: in_a_pod(told, token))
    told.answer("GET", A_POD, POD)
    api.get("Pod", "a", "load")
    token.write_text("second")
    told.answer("GET", A_POD, refusal(401), refusal(200))
    api.get("Pod", "a", "load")
    tokens = [request.headers.get("authorization", "none").lower() for request in told.asked("GET", A_POD)]
    assert tokens == ["bearer first", "bearer first", "bearer second"]


def test_outside_a_pod_there_is_no_account_of_a_pod(make_config: MakeConfig) -> None:
    with pytest.raises(CredentialsError, match="no credentials for context in-cluster"):
        Api(make_config(fleet=IN_CLUSTER)).get("Pod", "a", "load")


def test_every_kind_has_its_methods_in_this_release_of_the_client(told: Told, make_config: MakeConfig) -> None:
    use = session.connect(make_config())
    for kind, (_, _, namespaced) in KINDS.items():
        for verb in ("read", "list", "create", "patch", "delete"):
            assert callable(use._method(kind, verb, "load", "")[0]), (kind, verb)
        if namespaced:
            assert callable(use._method(kind, "list", None, "")[0]), kind
    for kind in ("Deployment", "StatefulSet", "ReplicaSet"):
        assert callable(use._method(kind, "read", "load", "_scale")[0])
        assert callable(use._method(kind, "patch", "load", "_scale")[0])


def test_the_client_does_not_try_again_by_itself(told: Told, make_config: MakeConfig) -> None:
    use = session.connect(make_config())
    assert use.client.configuration.retries is False
    told.close()
    with pytest.raises(session.Unanswered, match="refused"):
        use.request("Pod", "read", "load", 2.0, name="a")


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    import subprocess
    import sys

    code = (
        "import sys, harness.fleet.kubernetes.api, harness.fleet.kubernetes.preflight;"
        "print(sorted({'kubernetes', 'plumbum', 'yaml', 'urllib3'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert done.stdout.strip() == "[]"
