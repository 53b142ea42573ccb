"""Teardown: refused while something would be lost; the volume survives it, unless purge=1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import LoadError
from harness.fleet.kubernetes.teardown import teardown
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.mock_cluster import MockApi, MockHelm, end_job, make_job


@pytest.fixture
def api(make_config: MakeConfig, tmp_path: Path) -> MockApi:
    api = MockApi(make_config(), tmp_path)
    api.put("PersistentVolumeClaim", "load", {"metadata": {"name": "soak-report"}})
    return api


def tear_down(api: MockApi, *, force: bool = False, purge: bool = False) -> list[str]:
    helm: Any = MockHelm(api)
    return teardown(api.config, api, helm, force=force, purge=purge)  # type: ignore[arg-type]


def save(api: MockApi) -> None:
    api.config.folder.evidence.mkdir()
    api.config.folder.saved.write_text("2026-01-01T00:00:00.000Z\n")


def test_what_is_not_saved_is_not_torn_down(api: MockApi) -> None:
    with pytest.raises(LoadError, match=r"^REFUSED: run run-1 is not saved"):
        tear_down(api)
    assert "helm uninstall" not in api.calls


def test_a_load_that_runs_is_not_torn_down(api: MockApi) -> None:
    save(api)
    make_job(api)
    with pytest.raises(LoadError, match=r"^REFUSED: Job soak-harness-1 has 1 active pods"):
        tear_down(api)
    assert "helm uninstall" not in api.calls


def test_after_the_save_everything_goes_but_the_volume_and_the_class(api: MockApi) -> None:
    save(api)
    end_job(api, make_job(api))
    api.put("Pod", "load", {"metadata": {"name": "soak-report-reader"}})
    lines = tear_down(api)
    assert lines[-1] == "SORTIE_TEARDOWN_DONE"
    assert ("Pod", "load", "soak-report-reader") not in api.objects
    assert ("PersistentVolumeClaim", "load", "soak-report") in api.objects
    assert ("PriorityClass", "", "soak-load") in api.objects


def test_purge_deletes_the_volume_too(api: MockApi) -> None:
    save(api)
    tear_down(api, purge=True)
    assert ("PersistentVolumeClaim", "load", "soak-report") not in api.objects
    assert tear_down(api, purge=True)[-1] == "SORTIE_TEARDOWN_DONE"


def test_force_goes_past_both_refusals(api: MockApi) -> None:
    make_job(api)
    assert tear_down(api, force=True)[-1] == "SORTIE_TEARDOWN_DONE"
