"""Pre-flight: every check runs, the count of failures decides, nothing is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import PreflightError
from harness.runs import RunFolder
from harness.stages.fleets import fleet_of


def reads(folder: RunFolder) -> list[Path]:
    """The plan."""
    return [folder.plan]


def makes(folder: RunFolder) -> list[Path]:
    """Nothing but the receipt."""
    return []


def work(folder: RunFolder) -> dict[str, Any]:
    """Run every check. Raises PreflightError that names all that failed."""
    checks = fleet_of(folder).preflight()
    failed = [f"{check.name}: {check.seen}" for check in checks if not check.ok]
    if failed or not checks:
        raise PreflightError(
            f"{len(failed)} of {len(checks)} checks failed, nothing was started: {'; '.join(failed) or 'no check ran'}"
        )
    return {
        "summary": f"{len(checks)} checks hold",
        "checks": [{"name": check.name, "ok": check.ok, "seen": check.seen} for check in checks],
    }
