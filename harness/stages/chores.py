"""Chores of developers: tests, lint, sweeps, benchmarks. Each is a program whose exit code is the task's."""

from __future__ import annotations

import sys
from typing import Any

from doit.exceptions import TaskFailed

from harness.errors import HarnessError
from harness.graph.invocation import current

PYTHON = sys.executable
COMMANDS: dict[str, list[list[str]]] = {
    "test": [[PYTHON, "-m", "pytest"]],
    "lint": [
        [PYTHON, "-m", "ruff", "check", "."],
        [PYTHON, "-m", "ruff", "format", "--check", "."],
        [PYTHON, "-m", "mypy"],
    ],
    "verify-full": [[PYTHON, "-m", "pytest", "--sweep", "-m", "sweep", "-v"]],
    "bench": [[PYTHON, "-m", "benchmarks.engine_vs_peers"], [PYTHON, "-m", "benchmarks.gate_speed"]],
}


class ChoreError(HarnessError):
    """A chore's program ended with another code than 0."""

    exit_code = 1


def task(name: str) -> dict[str, Any]:
    """The doit task of one chore."""

    def run() -> TaskFailed | None:
        from plumbum import RETCODE, local

        for command in COMMANDS[name]:
            if code := local[command[0]][command[1:]] & RETCODE(FG=True):
                error = ChoreError(f"{' '.join(command[1:])} ended with exit code {code}")
                current().errors.append(error)
                return TaskFailed(str(error))
        return None

    return {"actions": [run], "verbosity": 2, "uptodate": [False]}
