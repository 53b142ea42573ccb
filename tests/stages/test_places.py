"""Where a run takes place follows from its run.json alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.files import write_json
from harness.fleet.kubernetes.fleet import KubernetesFleet
from harness.fleet.local import LocalFleet
from harness.runs import RunFolder
from harness.stages.places import fleet_of, place_of


@pytest.mark.parametrize(("fleet", "kind"), [("local", LocalFleet), ("kind-a", KubernetesFleet)])
def test_the_fleet_of_a_run_is_the_one_that_it_names(tmp_path: Path, fleet: str, kind: type) -> None:
    folder = RunFolder(tmp_path / "run-1")
    folder.root.mkdir()
    assert isinstance(fleet_of(folder), LocalFleet)
    write_json(folder.run_json, {"kind": "soak", "fleet": fleet})
    assert type(fleet_of(folder)) is kind
    assert type(place_of(folder)) is kind
