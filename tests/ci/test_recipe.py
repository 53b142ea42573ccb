"""The steps for GitHub that docs/ci.md shows, run as GitHub runs them: a refusal ends the job, and nothing goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs/ci.md").read_text(), re.MULTILINE | re.DOTALL)
ADOPT, GATE = next(steps for block in BLOCKS if (steps := yaml.safe_load(block))[0]["name"] == "Adopt")
SHELLS = (["bash", "-e"], ["bash", "--noprofile", "--norc", "-eo", "pipefail"])  # without and with `shell: bash`


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of a job with a saved run, and ``harness`` on its PATH."""
    saved = tmp_path / "job" / "saved" / "nightly"
    shutil.copytree(ROOT / "tests/cases/gate/clean", saved, ignore=shutil.ignore_patterns("expected.*"))
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "harness"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m harness.cli "$@"\n')
    program.chmod(0o755)
    return tmp_path / "job"


def run(job: Path, shell: list[str], step: dict[str, str]) -> int:
    """A step as a script in a file; what it wrote to GITHUB_ENV is in the environment of the next. Its exit code."""
    (job / "step.sh").write_text(step["run"])
    passed_on = job / "github.env"
    passed_on.touch()
    env = {**os.environ, "PATH": f"{job.parent / 'bin'}:{os.environ['PATH']}"}
    env |= dict(line.split("=", 1) for line in passed_on.read_text().splitlines())
    env |= {"GITHUB_ENV": str(passed_on), "GITHUB_STEP_SUMMARY": str(job / "summary.md")}
    return subprocess.run([*shell, "step.sh"], cwd=job, env=env, capture_output=True, timeout=60).returncode


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_refused_adoption_ends_the_job(shell: list[str], job: Path) -> None:
    (job / "saved" / "nightly" / "shares.tsv").unlink()
    assert run(job, shell, ADOPT) == 2
    assert (job / "github.env").read_text() == ""


@pytest.mark.skipif(shutil.which("jq") is None, reason="the recipe reads JSON with jq")
@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_run_that_was_adopted_is_graded(shell: list[str], job: Path) -> None:
    assert run(job, shell, ADOPT) == 0
    assert re.fullmatch(r"RUN=[\w.-]+\n", (job / "github.env").read_text())
    assert run(job, shell, GATE) == 0
    assert (job / "summary.md").read_text().startswith("## PASS")
    assert (job / "gate.xml").is_file()
