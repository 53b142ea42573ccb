"""Status: the runs in the order of ``harness runs``, whatever was touched last."""

from __future__ import annotations

import os

from harness.files import write_json
from harness.history.inventory import list_runs
from tests.conftest import Doit


def test_runs_stand_in_one_order(doit: Doit) -> None:
    doit.runs.mkdir(exist_ok=True)
    for number, day in enumerate((3, 1, 2)):
        folder = doit.folder(f"r-{day}")
        folder.root.mkdir()
        write_json(folder.run_json, {"run": folder.run, "created_at": f"2026-11-0{day}T10:00:00Z", "settings": {}})
        os.utime(folder.root, (1000 + number, 1000 + number))
    code, output = doit()
    shown = [line for line in output.splitlines() if line.startswith("  ")][:3]
    assert code == 0, output
    assert [line.split()[0] for line in shown] == ["r-3", "r-2", "r-1"]
    assert [line.split()[0] for line in shown] == [state.run for state in list_runs(doit.runs)]
