"""Load: started once, followed to its end; after a kill of the harness attached to again, never started twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from harness.errors import LoadError
from harness.files import utc_stamp, write_json
from harness.graph import receipts
from harness.graph.invocation import current, run_settings
from harness.progress import progress_line, read_object
from harness.runs import RunFolder
from harness.settings import Settings
from harness.stages import save
from harness.stages.places import fleet_of
from harness.terminal import LiveLine

LOOK_EVERY_S = 0.5
STUCK_S = 150.0  # beyond the driver's own deadlines (10 s, 30 s, 30 s) and the supervisor's orderly end


def reads(folder: RunFolder) -> list[Path]:
    """The plan, the schedule and the engines it was dispatched to."""
    return [path for path in (folder.plan, folder.schedule, folder.engines) if path.exists()]


def makes(folder: RunFolder) -> list[Path]:
    """The claim of the load, and the report."""
    return [folder.load_json, folder.report_json]


def work(folder: RunFolder) -> dict[str, Any]:
    """Start the load, or attach to it, and wait for its end. Raises LoadError when it is gone without a report."""
    fleet = fleet_of(folder)
    settings = run_settings(folder)
    if fleet.load_state().state == "not_started":
        check_not_asked(folder)
        write_json(folder.intent, {"schema": 1, "what": "load", "run": folder.run})
        time.sleep(settings.settle_s)
        fleet.start_load()
    line = LiveLine("load", plain_every_s=settings.progress_s)
    try:
        while (state := fleet.load_state()).state == "running":
            line.show(progress_line(folder))
            if time.time() > _latest_end(folder, settings):
                fleet.sweep()  # whoever still runs is stuck: every part has a deadline well before this one
            time.sleep(LOOK_EVERY_S)
    finally:
        line.close()
    if state.state != "ended":
        raise LoadError(_lost(folder, state.detail), run=folder.run)
    swept = fleet.sweep()  # nothing, unless the supervisor died before it could clear up
    progress = read_object(folder.progress_json)
    return {"summary": _summary(progress), "progress": progress, "swept": swept}


def was_asked(folder: RunFolder) -> bool:
    """True once a load of this run was asked for, or may have been: by any of the traces that it leaves.

    The fleet notes the request on disk before it answers, so its own word holds while its file is there; an intent
    without that file proves nothing, and counts as asked.
    """
    traces = (folder.load_json, folder.evidence / folder.load_json.name, receipts.path_of(folder, "load"))
    if any(path.exists() for path in traces) or fleet_of(folder).load_state().state != "not_started":
        return True
    return folder.intent.exists() and not folder.fleet_json.exists()


def check_not_asked(folder: RunFolder) -> None:
    """Raise LoadError when a load was asked for: nobody can tell any more what it did, and it is not started twice."""
    if was_asked(folder):
        raise LoadError(_lost(folder, "its fleet or its live files are gone"), run=folder.run)


def _latest_end(folder: RunFolder, settings: Settings) -> float:
    ends = read_object(folder.load_json).get("ends_unix_s")
    if not isinstance(ends, int | float):
        return float("inf")
    return ends + settings.engine.timeout_s + settings.engine.drain_s + settings.engine.grace_s + STUCK_S


def _lost(folder: RunFolder, detail: str) -> str:
    """Save what there is, and say why this run cannot be finished."""
    fleet_of(folder).sweep()
    names = save.collect(folder)
    reason = f"the load ended without a report ({detail})"
    saved = f"{len(names)} files are saved in {folder.evidence}"
    write_json(folder.closed, {"schema": 1, "run": folder.run, "at": utc_stamp(), "reason": reason, "saved": saved})
    return f"{reason} and is never started twice; {saved}; start a new run with {current().again('soak')}"


def _summary(progress: dict[str, Any]) -> str:
    if "planned" not in progress:
        return "ended"
    failures = sum(progress.get("failures", {}).values())
    return f"{progress['http_2xx']:,} of {progress['planned']:,} 2xx" + (", failures counted" if failures else "")
