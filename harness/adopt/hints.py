"""What somebody who gave the wrong folder or the wrong words probably meant: the next step at the end of a refusal."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from harness.errors import EvidenceError
from harness.store import formats
from harness.store.formats.cells import PLAN_FILES

PLAN = {
    "run.env": "KEY=value lines, BACKENDS= and DURATION_S= among them",
    "shares.tsv": "target, requests per second and node, and URL, separated by tabs",
    "engines.tsv": "address and node, separated by a tab",
}


def no_run_env(given: Path, folder: Path) -> str:
    """What is wrong with ``folder``, which was given as ``given``: it is the one above the runs, or has no plan."""
    names: list[str] = []
    with suppress(OSError):
        names = sorted(path.name for path in folder.iterdir())
    runs = [name for name in names if not name.startswith(".") and _is_run(folder / name)]
    if not runs:
        return no_plan("run.env", names)
    many = f"{len(runs)} folders in it look like runs, so adopt each" if runs[1:] else "one folder in it looks like one"
    return f"it has no run.env, so it is no run directory; {many}: harness adopt {shlex.quote(str(given / runs[0]))}"


def _is_run(path: Path) -> bool:
    with suppress(OSError):
        return any((folder / "run.env").exists() for folder in (path, path / "evidence"))
    return False


def no_plan(name: str, files: Iterable[str]) -> str:
    """What is said of a folder that holds ``files``, and not the file ``name`` of the plan."""
    told = f"it has no {name}, so it is no run directory"
    if any("@" in file and file.endswith((".json", ".yaml")) and "/" not in file for file in files):
        return f"{told}; write {', '.join(PLAN_FILES)} beside the result files ({name}: {PLAN[name]})"
    return told


def other_format(folder: Path) -> str:
    """The format that a folder without report is in; empty where it holds no result file either."""
    with suppress(EvidenceError):
        if found := formats.guess(folder):
            name, tool = found
            if tool:
                return f"; {name} is output of {tool}: --format {tool}"
            return f"; where {name} is a result file, --format says whose: {' or '.join(formats.FORMATS)}"
    return ""
