"""Engines: as many ready as planned, and the pool's Service lists exactly them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import FleetError
from harness.fleet.base import Readiness
from harness.fleet.kubernetes import engines
from harness.fleet.kubernetes.document import READY, read_fleet
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.mock_cluster import MockApi, MockHelm, make_engines


@pytest.fixture
def api(make_config: MakeConfig, tmp_path: Path) -> MockApi:
    api = MockApi(make_config(nodes=2), tmp_path)
    api.put("PersistentVolumeClaim", "load", {"metadata": {"name": "soak-report"}, "status": {"phase": "Bound"}})
    return api


def start(api: MockApi) -> list[Readiness]:
    helm: Any = MockHelm(api)
    return engines.start(api.config, api, helm, Path("chart.tgz"), sleep=lambda _: None)  # type: ignore[arg-type]


def test_ready_engines_are_written_down(api: MockApi) -> None:
    make_engines(api)
    assert start(api) == [Readiness("engines", 2, 2), Readiness("endpoints", 2, 2)]
    rows = api.config.folder.engines.read_text()
    assert rows == "10.1.0.1\tnode-1\tengine-1\n10.1.0.2\tnode-2\tengine-2\n"
    assert read_fleet(api.config).state == READY
    assert engines.are_up(api.config, api)  # type: ignore[arg-type]
    del api.objects["Endpoints", "load", api.config.engine_service]["subsets"][0]["addresses"][0]
    assert not engines.are_up(api.config, api)  # type: ignore[arg-type]


def test_the_class_and_the_volume_come_before_the_release_and_no_job_with_it(api: MockApi) -> None:
    make_engines(api)
    start(api)
    order = [call for call in api.calls if call.startswith(("get PriorityClass", "get PersistentV", "helm"))]
    assert order[-1] == "helm install engines"
    assert order.index("get PriorityClass soak-load") < order.index("get PersistentVolumeClaim soak-report")


@pytest.mark.parametrize(("count", "says"), [(1, "runs 1 engines"), (3, "runs 3 engines")])
def test_another_number_than_planned_is_refused(api: MockApi, count: int, says: str) -> None:
    make_engines(api, count)
    with pytest.raises(FleetError, match=f"{says}.*plan is for 2.*nodes={count}"):
        start(api)
    assert not api.config.folder.engines.exists()


def test_addresses_that_are_not_the_engines_are_refused(api: MockApi) -> None:
    make_engines(api)
    api.objects["Endpoints", "load", api.config.engine_service]["subsets"][0]["addresses"][0]["ip"] = "10.9.9.9"
    with pytest.raises(FleetError, match="not those of the 2 engine pods"):
        start(api)


def test_engines_of_another_priority_are_refused(api: MockApi) -> None:
    make_engines(api, priority="")
    with pytest.raises(FleetError, match="not of PriorityClass soak-load"):
        start(api)


def test_the_end_tells_of_whatever_is_there(api: MockApi) -> None:
    make_engines(api)
    pods = engines.engine_pods(api.config, api)  # type: ignore[arg-type]
    assert engines.end_rows([*pods, {"metadata": {"name": "new"}}]) == [
        "-\t-\tnew\t-",
        "10.1.0.1\tnode-1\tengine-1\t0",
        "10.1.0.2\tnode-2\tengine-2\t1",
    ]
