"""Where the time of one grading goes: ``python -m benchmarks.gate_parts RUN_FOLDER`` grades it and prints seconds.

A process of its own, because what is imported before does not show.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

IMPORTS = {
    "click": ("click",),
    "the command": ("harness.cli", "harness.commands.gate"),
    "what grades": (
        "harness.ci.publish",
        "harness.gate.saved",
        "harness.gate.text",
        "harness.stages.gate",
        "harness.store.made",
    ),
    "duckdb": ("_duckdb",),
}
FUNCTIONS = {
    "harness.gate.saved": ("check_evidence", "check_tables", "append"),
    "harness.gate.run": ("connect", "load_table", "load_runs", "run_gates", "read_summaries", "compose"),
}
"""Functions that are told apart, by the module that calls them. load_runs calls load_table."""


def parts(folder: Path) -> dict[str, float]:
    """Part → seconds."""
    took: dict[str, float] = {}
    for name, modules in IMPORTS.items():
        began = time.perf_counter()
        for module in modules:
            import_module(module)
        took[f"import {name}"] = time.perf_counter() - began
    for module, names in FUNCTIONS.items():
        place = import_module(module)
        for name in names:
            setattr(place, name, timed(took, name, getattr(place, name)))
    from harness.gate.saved import grade_run
    from harness.gate.text import render
    from harness.runs import RunFolder
    from harness.store.made import ensure_tables

    run = RunFolder(folder)
    timed(took, "ensure_tables", ensure_tables)(run, seal=lambda folder: None)  # the tables are there
    verdict, _ = timed(took, "grade_run", grade_run)(run)
    timed(took, "render", render)(verdict)
    return took


def timed(took: dict[str, float], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its time added up under a name."""

    def run(*words: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*words, **options)
        finally:
            took[name] = took.get(name, 0.0) + time.perf_counter() - began

    return run


if __name__ == "__main__":
    print(json.dumps(parts(Path(sys.argv[1]))))
