"""The benchmark of gradings still finds what it times, and what it times is a soak that passes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.gate_parts import FUNCTIONS, IMPORTS
from benchmarks.soak_run import plan_of_soak, write_soak
from harness.adopt import adopt
from harness.gate.run import grade
from harness.runs import RunFolder


def test_every_part_of_a_grading_is_timed(tmp_path: Path, root: Path) -> None:
    plan = plan_of_soak()
    characters = write_soak(tmp_path / "given", "soak-1", plan)
    assert 95_000 < characters < 110_000
    folder = RunFolder(tmp_path / "runs" / adopt(tmp_path / "given", tmp_path / "runs").run)
    verdict = grade(folder.tables)
    assert (verdict.word, len(verdict.targets), verdict.backends) == ("PASS", 8, 5)
    command = [sys.executable, "-m", "benchmarks.gate_parts", str(folder.root)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    took = json.loads(done.stdout or "{}")
    wanted = {f"import {name}" for name in IMPORTS} | {name for names in FUNCTIONS.values() for name in names}
    assert wanted <= took.keys(), done.stderr
    assert took["grade_run"] > took["load_runs"] > took["load_table"] > 0
