"""What a wheel carries is enough: adopt, grade and ask from an empty folder, with nothing of the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.adopt.conftest import TAG, content

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the wheel, laid out as an installation lays them, by the words of pyproject.toml."""
    folder = tmp_path_factory.mktemp("site")
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    for package in wheel["packages"]:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for source, target in wheel["force-include"].items():
        shutil.copytree(ROOT / source, folder / target)
    return folder


def test_a_wheel_works_from_an_empty_folder(site: Path, directory: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()

    def harness(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "harness.cli", *words],
            cwd=here, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = [sys.executable, "-P", "-c", "import harness; print(harness.__file__)"]
    found = subprocess.run(where, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True)
    assert found.stdout.startswith(str(site)), "the checkout is tested, not what a wheel carries"
    given = content(directory)
    assert json.loads(harness("adopt", str(directory), "--json"))["run"] == TAG
    assert json.loads(harness("gate", TAG, "--json"))["verdict"] == "PASS"
    assert TAG in harness("sql", "run-by-run")
    assert TAG in harness("runs")
    assert harness("report", TAG).endswith("report.html\n")
    assert [path.name for path in here.iterdir()] == ["runs"]
    assert content(directory) == given
