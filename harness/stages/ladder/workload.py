"""Workload: the target up and asked, what a turn runs prepared and measured. Refused here, no rung is measured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from harness.e8 import bench, lag_check, refusals
from harness.e8.driver import measure_rest_pct
from harness.e8.metrics import read_metrics, read_profile
from harness.e8.plan import LadderPlan
from harness.e8.target import Target, facts
from harness.e8.workload import Workload
from harness.errors import FleetError
from harness.files import write_json
from harness.fleet.tier import TierPlace
from harness.runs import RunFolder
from harness.stages.ladder import document
from harness.terminal import LiveLine

NO_TIER = "a deployment of somebody's: no worker of it is starved to ask"


def reads(folder: RunFolder) -> list[Path]:
    """What is installed."""
    return [folder.pins]


def makes(folder: RunFolder) -> list[Path]:
    """What the target told, and the workload where one was prepared."""
    return [folder.target_json, folder.workload_json]


def intact(folder: RunFolder) -> str | None:
    """Why it has to be done again: the embedded tier is gone, and no rung was measured on it."""
    place = TierPlace(folder)
    if document.measured(folder) or place.plan().tier is None or place.is_up():
        return None
    return "the tier is gone, and no rung was measured on it"


def work(folder: RunFolder) -> dict[str, Any]:
    """Start the embedded tier, hold it against the rules of the arm, prepare the workload, measure the host at rest.

    Raises FleetError, and PreflightError when no workload can be prepared: the tier is then ended.
    """
    place = TierPlace(folder)
    document.check_same_system(place)
    folder.workload_json.unlink(missing_ok=True)
    swept = place.sweep()
    write_json(folder.intent, {"schema": 1, "what": "tier", "run": folder.run})
    line = LiveLine("workload", plain_every_s=5.0)
    try:
        line.show("starting")
        if place.plan().tier is None:
            document.check_it_answers(folder, place.target())
        short = [f"{part.ready} of {part.wanted} {part.kind}" for part in place.start() if part.ready != part.wanted]
        if short:
            raise FleetError(f"not ready: {', '.join(short)}; the logs are in {folder.live}")
        return {**_prepare(folder, place, line), "swept": swept}
    except BaseException as error:
        if isinstance(error, Exception):
            place.stop(cancel_load=True)
        raise
    finally:
        line.close()


def _prepare(folder: RunFolder, place: TierPlace, line: LiveLine) -> dict[str, Any]:
    plan, target = place.plan(), place.target()
    told = _told(plan, target)
    write_json(folder.target_json, told)
    if refused := refusals.before(document.ladder(folder)).refusals:
        return _refused(refused[0].sentence)
    made = _made(plan, place, target, line.show)
    write_json(folder.workload_json, made.to_json())
    line.show("measuring the host at rest")
    told = _told(plan, place.target())  # by now every worker has told of itself, and a turn has selected a sandbox
    rest = measure_rest_pct(target, wait_s=plan.settings.e8.watch_s)
    write_json(
        folder.target_json, told | _alone(place, plan, line) | {"host_rest_pct": rest.value, "why_no_rest": rest.reason}
    )
    if refused := refusals.before(document.ladder(folder)).refusals:
        return _refused(refused[0].sentence)
    return {"summary": f"duty {made.duty_text}, basis {made.basis}", "workload": made.lines()}


def _refused(sentence: str) -> dict[str, Any]:
    return {"summary": f"refused: {sentence}", "refused": sentence}


def _told(plan: LadderPlan, target: Target) -> dict[str, Any]:
    """What the target says of itself, and where the generator runs."""
    about = facts(target, read_metrics(target.admin), read_profile(target.stub))
    return about | {"placement": target.placement, "generator_cores": len(os.sched_getaffinity(0))}


def _made(plan: LadderPlan, place: TierPlace, target: Target, progress: Any) -> Workload:
    if target.tier is None:
        return bench.check(target, plan.arm, plan.basis, body=plan.settings.e8.body)
    return bench.prepare(target.tier, plan.arm, plan.basis, progress=progress)


def _alone(place: TierPlace, plan: LadderPlan, line: LiveLine) -> dict[str, Any]:
    """Whether the lag of a starved worker can be told from that of an idle one, of this very tier."""
    tier = place.target().tier
    if tier is None:
        return {"lag_discriminates": None, "why_no_lag_check": NO_TIER}
    line.show("starving a worker, to see whether its lag tells")
    found = lag_check.probe(tier, watch_s=plan.settings.e8.watch_s)
    return {"lag_discriminates": found.discriminates, "lag_check": found.to_json()}
