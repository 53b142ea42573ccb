"""The tree as a whole: small files, no trace of the machine it was written on, no host that a run would need."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

LONGEST = 400  # lines; a longer file holds two subjects
CODE = {".py", ".sql", ".sh", ".html", ".css", ".js", ".toml", ".bazel", ".md"}
# Hosts that nothing is fetched from: of a licence, an XML namespace, this machine, and names that no resolver knows.
NAMES = re.compile(r"www\.apache\.org|www\.w3\.org|127(\.\d+){3}|[a-z0-9.-]+\.(internal|local|test|invalid|example)")
HOST = re.compile(r"\bhttps?://([a-z0-9-]+(?:\.[a-z0-9-]+)+)")
DATA = {"cases"}  # recorded evidence: it says what it says


def text_of(path: Path) -> str | None:
    """The file's text; None when it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def test_no_file_holds_more_than_one_subject(root: Path, project_files: list[Path]) -> None:
    long = {}
    for path in project_files:
        if path.suffix in CODE and not DATA & set(path.parts):
            lines = len((root / path).read_text(encoding="utf-8").splitlines())
            if lines > LONGEST:
                long[str(path)] = lines
    assert long == {}


def test_no_file_holds_a_path_of_this_machine(root: Path, project_files: list[Path]) -> None:
    places = {f"{root}/", f"{root}\n", f"{root}'", f'{root}"'}
    home = Path.home()
    if len(home.parts) > 1:
        places.add(f"{home}/")
    found = []
    for path in project_files:
        text = text_of(root / path) or ""
        found += [f"{path}: {place}" for place in places if place in text]
    assert found == []


def test_no_file_names_a_host_that_a_run_would_have_to_reach(root: Path, project_files: list[Path]) -> None:
    hosts = [(str(path), host) for path in project_files for host in HOST.findall(text_of(root / path) or "")]
    assert [(path, host) for path, host in hosts if not NAMES.fullmatch(host)] == []


@pytest.mark.parametrize("script", ["doit", ".ci/run"])
def test_a_script_can_be_started_and_parses(root: Path, script: str) -> None:
    path = root / script
    assert os.access(path, os.X_OK)
    shell = path.read_text().splitlines()[0].removeprefix("#!").split()[-1].rpartition("/")[2]
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_ci_runs_the_readmes_own_test_command(root: Path) -> None:
    readme = (root / "README.md").read_text()
    commands = re.findall(r"^step \".*?\" (.*)$", (root / ".ci/run").read_text(), re.MULTILINE)
    assert commands[-1] == "./doit test"
    assert "```sh\n./doit test\n```" in readme


def test_the_licence_is_the_one_that_is_declared(root: Path, pyproject: dict[str, Any]) -> None:
    text = (root / "LICENSE").read_text()
    assert pyproject["project"]["license"] == "Apache-2.0"
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_changelog_starts_with_this_version(root: Path, pyproject: dict[str, Any]) -> None:
    newest = re.search(r"^## (\S+)", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert pyproject["project"]["version"] == newest[1]
