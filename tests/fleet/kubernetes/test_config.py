"""What a fleet on a cluster is to be, and what it may not be."""

from __future__ import annotations

import pytest

from harness.errors import FleetError
from harness.files import read_json, write_json
from harness.fleet.kubernetes.config import ClusterTarget, read_config
from tests.fleet.kubernetes.conftest import MakeConfig

DIGEST = "sha256:" + "a" * 64


def test_names_follow_from_the_release_and_the_engine(make_config: MakeConfig) -> None:
    config = make_config(k8s__release="soak")
    assert config.fullname == "soak-harness"
    assert config.daemon_set == "soak-harness-engine"
    assert config.engine_service == "soak-harness-engine-nodes"
    assert config.pool_dns == "soak-harness-engine-nodes.load.svc.cluster.local:8443"
    assert (config.pvc, config.reader_pod) == ("soak-report", "soak-report-reader")
    assert config.report_path == "/var/run/sortie/run-1.json"
    assert config.stream_name == "run-1.jsonl"
    assert config.engine_labels == (
        "app.kubernetes.io/name=harness,app.kubernetes.io/instance=soak,app.kubernetes.io/component=engine"
    )


def test_names_of_sorties_chart(make_config: MakeConfig) -> None:
    config = make_config(k8s__engine="sortie", k8s__chart="oci://registry.test/sortie/chart-sortie")
    assert config.daemon_set == "soak-sortie-engine"
    assert config.engine_service == "soak-sortie-engine-nodes"


def test_long_names_are_cut_as_the_charts_cut_them(make_config: MakeConfig) -> None:
    release = "r" * 46 + "-" + "s" * 6
    config = make_config(k8s__release=release)
    assert config.fullname == f"{release}-harness"
    assert config.daemon_set == f"{f'{release}-harness'[:56].rstrip('-')}-engine"
    assert len(config.daemon_set) <= 63
    assert config.engine_service == f"{f'{release}-harness'[:50]}-engine-nodes"
    assert len(config.engine_service) <= 63


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"k8s__engine": "k6"}, r"k8s\.engine=k6 must be one of sortie, harness"),
        ({"k8s__engine": "sortie"}, r"k8s\.chart= is empty"),
        ({"k8s__chart_digest": "sha256:short"}, r"k8s\.chart_digest=sha256:short is no digest"),
        ({"k8s__namespace": "Load"}, r"k8s\.namespace=Load is no name of an object"),
        ({"k8s__release": ""}, r"k8s\.release= is no name of an object"),
        ({"k8s__release": "r" * 54}, "longer than 53 characters"),
        ({"k8s__verify": "maybe"}, r"k8s\.verify=maybe must be one of"),
        ({"fleet": "local"}, "fleet=local names no context"),
        ({"fleet": ""}, "fleet= names no context"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(make_config: MakeConfig, changed: dict[str, str], said: str) -> None:
    with pytest.raises(FleetError, match=said):
        make_config(**changed)


def test_an_absent_key_is_named(make_config: MakeConfig) -> None:
    folder = make_config().folder
    whole = read_json(folder.run_json)
    del whole["settings"]["k8s.release"]
    write_json(folder.run_json, whole)
    with pytest.raises(FleetError, match=r"run\.json has no 'k8s\.release'; make the plan of this run again"):
        read_config(folder)


def test_a_share_table_that_cannot_be_read_is_no_fleet(make_config: MakeConfig) -> None:
    with pytest.raises(FleetError, match="cannot be read"):
        make_config(shares="svc-1 20 http://svc-1.mesh/\n")


@pytest.mark.parametrize(
    ("url", "service"),
    [
        ("http://svc-1.mesh.svc.cluster.local:18081/a", ("mesh", "svc-1")),
        ("http://svc-1.mesh/", ("mesh", "svc-1")),
        ("http://svc-1/", None),
        ("http://.mesh/", None),
    ],
)
def test_the_service_behind_a_target_follows_from_its_host(url: str, service: tuple[str, str] | None) -> None:
    assert ClusterTarget("a", url, 1).service == service


def test_a_chart_has_its_reference_by_digest(make_config: MakeConfig) -> None:
    config = make_config(k8s__chart="oci://registry.test/a/chart", k8s__chart_digest=DIGEST)
    assert not config.chart_is_folder
    assert config.chart_reference == f"registry.test/a/chart@{DIGEST}"
    assert make_config().chart_is_folder
