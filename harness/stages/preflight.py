"""Pre-flight: every check runs, the count of failures decides, nothing is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import PreflightError
from harness.runs import RunFolder
from harness.stages.places import place_of
from harness.store.columns import LADDER
from harness.store.kinds import kind_of_run


def reads(folder: RunFolder) -> list[Path]:
    """What is to be done: the plan of a soak; of a ladder what it is, for its rungs may not be known yet."""
    return [folder.run_json if kind_of_run(folder) == LADDER else folder.plan]


def makes(folder: RunFolder) -> list[Path]:
    """Nothing but the receipt."""
    return []


def work(folder: RunFolder) -> dict[str, Any]:
    """Run every check. Raises PreflightError that names all that failed."""
    checks = place_of(folder).preflight()
    failed = [f"{check.name}: {check.seen}" for check in checks if not check.ok]
    if failed or not checks:
        raise PreflightError(
            f"{len(failed)} of {len(checks)} checks failed, nothing was started: {'; '.join(failed) or 'no check ran'}"
        )
    return {
        "summary": f"{len(checks)} checks hold",
        "checks": [{"name": check.name, "ok": check.ok, "seen": check.seen} for check in checks],
    }
