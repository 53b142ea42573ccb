"""Next rung: where the ladder finds its own rungs, the plan file gets those that come next, until none does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.e8.ladder import next_steps
from harness.graph import rungs
from harness.runs import RunFolder
from harness.stages.ladder import document
from harness.stages.ladder.plan import write_rungs


def reads(folder: RunFolder) -> list[Path]:
    """The record of every rung so far."""
    return [folder.rung_json(name) for name in document.measured(folder)]


def makes(folder: RunFolder) -> list[Path]:
    """The ladder's plan file."""
    return [folder.rungs_json]


def work(folder: RunFolder) -> dict[str, Any]:
    """Plan what comes next; nothing, once the knee is bracketed or a rule refused a rung."""
    plan = document.plan_of(folder)
    planned = rungs.planned(folder)
    if not all(folder.rung_json(name).exists() for name in planned.names) and document.stopped_in(folder) is None:
        return {"summary": f"{planned.names[-1]} is to be measured first"}
    steps = () if document.stopped_in(folder) else next_steps(document.ladder(folder), plan.rungs, top=plan.top)
    names = (*planned.names, *(step.name for step in steps))
    write_rungs(folder, plan, names, complete=not steps)
    said = " ".join(step.name for step in steps)
    return {"summary": f"{said} to be measured" if steps else f"none: the ladder is done after {len(names)} rungs"}
