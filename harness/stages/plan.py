"""Plan: what the run promises, on disk before anything is started."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from harness import __version__
from harness.errors import FaultError, PinError, PlanError
from harness.files import read_json, sha256_text, utc_stamp, write_atomic, write_json
from harness.graph.invocation import current, run_settings
from harness.graph.receipts import PROJECT
from harness.plan.build import Planned, build_plan, node_names
from harness.plan.schedule import schedule_tsv
from harness.plan.shares import shares_tsv
from harness.plan.sortie_yaml import render_plan
from harness.runs import RunFolder
from harness.settings import Settings
from harness.stages.load import was_asked
from harness.stages.pins import read_pins

SCHEMA = 1


def reads(folder: RunFolder) -> list[Path]:
    """Nothing: the settings are fixed in run.json, and a plan never changes under a run."""
    return []


def makes(folder: RunFolder) -> list[Path]:
    """run.json, the plan, the shares and, with churn, the schedule."""
    return [folder.run_json, folder.plan, folder.shares, folder.schedule]


def check(settings: Settings) -> Planned:
    """The plan of a soak of these settings, worked out and thrown away: a refusal costs nothing. Raises UsageError."""
    from harness.fleet.local.faults import parse

    planned = build_plan(settings)
    names = [target.name for target in planned.plan.targets]
    faults = parse(settings.fault, node_names(settings.nodes), names, planned.plan.duration_s)
    if not planned.rolls and any(fault.verb == "kill-churn" for fault in faults):
        raise FaultError("kill-churn: this run has no churn to kill; leave out churn=off")
    try:
        read_pins(PROJECT / settings.pin_file)
    except PinError as error:
        raise PlanError(str(error)) from error
    return planned


def work(folder: RunFolder) -> dict[str, Any]:
    """Write run.json first, then the plan and what goes with it."""
    settings = run_settings(folder) if folder.run_json.exists() else current().settings
    planned = check(settings)
    if not (folder.plan.exists() and was_asked(folder)):
        _write(folder, settings, planned)
    plan = planned.plan
    requests = plan.rate_rps * plan.duration_s * settings.nodes
    return {
        "summary": f"{len(plan.targets)} targets × {settings.nodes} nodes at {plan.rate_rps} rps per node for "
        f"{plan.duration_s} s: {requests:,} requests, {len(planned.rolls)} rolls",
        "requests": requests,
        "rolls": len(planned.rolls),
    }


def _write(folder: RunFolder, settings: Settings, planned: Planned) -> None:
    plan_text = render_plan(planned.plan)
    folder.root.mkdir(parents=True, exist_ok=True)
    if not folder.run_json.exists():
        write_json(folder.run_json, _run_document(folder, settings, planned, plan_text))
    folder.live.mkdir(exist_ok=True)
    write_atomic(folder.plan, plan_text)
    write_atomic(folder.shares, shares_tsv(planned.plan.targets))
    if planned.rolls:
        write_atomic(folder.schedule, schedule_tsv(planned.rolls))


def _run_document(folder: RunFolder, settings: Settings, planned: Planned, plan_text: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "run": folder.run,
        "kind": "soak",
        "profile": settings.profile,
        "fleet": settings.fleet,
        "created_at": utc_stamp(),
        "harness": __version__,
        "token": secrets.token_hex(16),
        "settings": {**settings.flat(), "run": folder.run, "duration_s": planned.plan.duration_s},
        "plan_sha256": sha256_text(plan_text),
        "schedule_sha256": sha256_text(schedule_tsv(planned.rolls)),
    }


def token_of(folder: RunFolder) -> str:
    """The mark that this run's processes carry."""
    return str(read_json(folder.run_json)["token"])
