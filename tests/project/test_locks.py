"""The lock files allow what pyproject.toml asks for, hold nothing else, name no index, and are what is installed."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
LOCKS = ("requirements.lock", "requirements-dev.lock")


class Locked(NamedTuple):
    """One entry of a lock file."""

    version: str
    marker: str
    hashes: frozenset[str]


def read_lock(path: Path) -> dict[str, Locked]:
    """Package → entry. Fails on a line that is not ``name==version [; marker] --hash=…``."""
    joined = path.read_text().replace("\\\n", " ")
    found: dict[str, Locked] = {}
    for line in joined.splitlines():
        text = line.partition(" #")[0].strip()
        if not text or text.startswith("#"):
            continue
        entry = re.fullmatch(r"([a-z0-9-]+)==(\S+)\s*(?:;\s*(.*?)\s*)?((?:--hash=sha256:[0-9a-f]{64}\s*)+)", text)
        assert entry, f"{path.name}: {text[:80]}"
        found[entry[1]] = Locked(entry[2], entry[3] or "", frozenset(HASH.findall(entry[4])))
    return found


def asked_for(pyproject: dict[str, Any], lock: str) -> list[Requirement]:
    """What pyproject.toml asks of a lock file."""
    texts = pyproject["project"]["dependencies"] + pyproject["project"]["optional-dependencies"]["local"]
    if lock == "requirements-dev.lock":
        texts = texts + pyproject["dependency-groups"]["dev"]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_dependency_is_locked_to_a_version_it_allows(root: Path, pyproject: dict[str, Any], lock: str) -> None:
    locked = read_lock(root / lock)
    for requirement in asked_for(pyproject, lock):
        entry = locked.get(canonicalize_name(requirement.name))
        assert entry, f"{lock} lacks {requirement.name}"
        assert requirement.specifier.contains(entry.version), f"{lock}: {requirement} against {entry.version}"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_what_is_needed_and_nothing_else(root: Path, pyproject: dict[str, Any], lock: str) -> None:
    locked = {
        name for name, entry in read_lock(root / lock).items() if not entry.marker or Marker(entry.marker).evaluate()
    }
    needed: set[str] = set()
    waiting = asked_for(pyproject, lock)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in needed and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            needed.add(name)
            waiting += [Requirement(text) for text in metadata.requires(name) or []]
    assert needed == locked


def test_what_is_installed_is_what_is_locked(root: Path) -> None:
    for name, entry in read_lock(root / "requirements-dev.lock").items():
        if not entry.marker or Marker(entry.marker).evaluate():
            assert (name, entry.version) == (name, metadata.version(name))


def test_the_developer_lock_contains_the_runtime_lock(root: Path) -> None:
    """Markers may be wider there: a tool may want everywhere what the harness wants on some Pythons only."""
    developer = read_lock(root / "requirements-dev.lock")
    for name, entry in read_lock(root / "requirements.lock").items():
        assert (name, entry.version, entry.hashes) == (name, developer[name].version, developer[name].hashes)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_package_index(root: Path, lock: str) -> None:
    text = (root / lock).read_text()
    assert not re.search(
        r"://|^\s*-|\s--(?!hash|universal|generate|no-emit-index|python-version|extra|group|constraint)", text
    )


def test_the_documentation_tells_how_the_locks_were_made(root: Path) -> None:
    documentation = (root / "docs/dependencies.md").read_text()
    for lock in LOCKS:
        made_by = re.search(r"^# +(uv pip compile .*)$", (root / lock).read_text(), re.MULTILINE)
        assert made_by
        assert f"\n{made_by[1]}\n" in documentation


def test_the_documentation_lists_every_dependency_in_its_locked_version(root: Path, pyproject: dict[str, Any]) -> None:
    documentation = (root / "docs/dependencies.md").read_text()
    locked = read_lock(root / "requirements-dev.lock")
    asked = {canonicalize_name(requirement.name) for requirement in asked_for(pyproject, "requirements-dev.lock")}
    rows = set(re.findall(r"^\| ([a-z0-9-]+) (\S+) \|", documentation, re.MULTILINE))
    assert {(name, locked[name].version) for name in asked} == rows
    carried = set(read_lock(root / "requirements.lock")) - asked
    for name in carried:
        assert f"{name} {locked[name].version}" in documentation
