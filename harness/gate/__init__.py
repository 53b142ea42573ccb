"""The gate: SQL that starts from the plan, and the verdict it comes to. duckdb is imported when it grades.

Names are taken from their modules when they are asked for: who reads the rules' headers needs nothing that grades.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.gate.load import digest, files
    from harness.gate.run import grade
    from harness.gate.text import render
    from harness.gate.verdict import Finding, NodeResult, TargetResult, Verdict

__all__ = ["Finding", "NodeResult", "TargetResult", "Verdict", "digest", "files", "grade", "render"]

_MODULES = {"digest": "load", "files": "load", "grade": "run", "render": "text"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'verdict')}"), name)
