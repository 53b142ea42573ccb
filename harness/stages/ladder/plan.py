"""Plan of a ladder: what it is and which rungs it has, on disk before anything is started."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from harness import __version__
from harness.e8.plan import LadderPlan, check_headroom, plan_ladder, sizes
from harness.e8.record import EMBEDDED
from harness.files import utc_stamp, write_json
from harness.graph.invocation import current, run_settings
from harness.runs import RunFolder
from harness.settings import Settings
from harness.store.columns import LADDER

SCHEMA = 1


def reads(folder: RunFolder) -> list[Path]:
    """Nothing: the settings are fixed in run.json."""
    return []


def makes(folder: RunFolder) -> list[Path]:
    """run.json. The plan of the rungs is not among them: an automatic ladder writes it anew."""
    return [folder.run_json]


def check(settings: Settings) -> LadderPlan:
    """The ladder of these settings, worked out and thrown away. Raises UsageError."""
    plan = plan_ladder(settings)
    check_headroom(plan)
    return plan


def work(folder: RunFolder) -> dict[str, Any]:
    """Write run.json first, then the rungs that are known."""
    settings = run_settings(folder) if folder.run_json.exists() else current().settings
    plan = check(settings)
    folder.root.mkdir(parents=True, exist_ok=True)
    if not folder.run_json.exists():
        write_json(folder.run_json, _run_document(folder, settings, plan))
    folder.live.mkdir(exist_ok=True)
    if not folder.target_json.exists():  # a ladder that ends before its target told anything is of that target too
        write_json(folder.target_json, {"measured": _measured(settings, plan)})
    if not folder.rungs_json.exists():
        write_rungs(folder, plan, plan.names, complete=plan.rungs is not None)
    where = sizes(plan.tier) if plan.tier else settings.e8.base
    return {"summary": f"{plan.arm} arm, ladder {plan.text}, {settings.e8.turns_per_rung} turns a client: {where}"}


def write_rungs(folder: RunFolder, plan: LadderPlan, names: tuple[str, ...], *, complete: bool) -> None:
    """Write the ladder's plan file. Raises OSError."""
    write_json(
        folder.rungs_json,
        {"schema": SCHEMA, "ladder": plan.text, "planned": list(names), "complete": complete},
    )


def _run_document(folder: RunFolder, settings: Settings, plan: LadderPlan) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "run": folder.run,
        "kind": LADDER,
        "arm": plan.arm,
        "measured": _measured(settings, plan),
        "created_at": utc_stamp(),
        "harness": __version__,
        "token": secrets.token_hex(16),
        "settings": {**settings.flat(), "run": folder.run},
    }


def _measured(settings: Settings, plan: LadderPlan) -> str:
    return EMBEDDED if plan.tier else settings.e8.base
