"""The project's own files, as the tests of this folder see them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOT_OURS = {".git", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "dist"}


def walk(folder: Path) -> list[Path]:
    """Files under ``folder``, relative to the root, without what tools leave. git is not asked: an archive has none."""
    found: list[Path] = []
    for entry in sorted(folder.iterdir()):
        if entry.name in NOT_OURS or entry.name.endswith(".egg-info") or entry.is_symlink():
            continue
        if entry.is_dir():
            if entry != ROOT / "runs":
                found += walk(entry)
        else:
            found.append(entry.relative_to(ROOT))
    return found


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def project_files() -> list[Path]:
    """Every file of the project, relative to its root; runs apart."""
    return [*walk(ROOT), Path("runs/README.md")]


@pytest.fixture(scope="session")
def pyproject() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())
