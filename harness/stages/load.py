"""Load: started once, followed to its end; after a kill of the harness attached to again, never started twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from harness.errors import LoadError
from harness.files import read_json, write_json
from harness.graph.invocation import run_settings
from harness.graph.reporter import LiveLine
from harness.plan.model import Roll
from harness.plan.schedule import read_schedule_tsv
from harness.runs import RunFolder
from harness.stages import save
from harness.stages.fleets import fleet_of

LOOK_EVERY_S = 0.5


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
        write_json(folder.intent, {"schema": 1, "what": "load", "run": folder.run})
        time.sleep(settings.settle_s)
        fleet.start_load()
    line = LiveLine("load", plain_every_s=settings.progress_s)
    rolls = read_schedule_tsv(folder.schedule) if folder.schedule.exists() else ()
    try:
        while (state := fleet.load_state()).state == "running":
            line.show(progress_text(_read(folder.progress_json), _read(folder.load_json), rolls))
            time.sleep(LOOK_EVERY_S)
    finally:
        line.close()
    if state.state != "ended":
        raise LoadError(_lost(folder, state.detail), run=folder.run)
    progress = _read(folder.progress_json)
    return {"summary": _summary(progress), "progress": progress}


def _lost(folder: RunFolder, detail: str) -> str:
    """Save what there is, and say why this run cannot be finished."""
    fleet = fleet_of(folder)
    fleet.stop(cancel_load=True)
    fleet.sweep()
    names = save.collect(folder)
    return (
        f"the load ended without a report ({detail}) and is never started twice; saved in {folder.evidence}: "
        f"{', '.join(names) or 'nothing'}; start a new run with ./doit soak"
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        document = read_json(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def progress_text(progress: dict[str, Any], load: dict[str, Any], rolls: tuple[Roll, ...]) -> str:
    """The live line: 2xx of plan, failures by class, time left, next roll. For looking; nothing is graded by it."""
    if "planned" not in progress:
        return "waiting for the first counts"
    duration_s = float(progress["duration_s"])
    elapsed_s = float(progress["elapsed_s"])
    failures = {name.removeprefix("benchmark."): count for name, count in progress.get("failures", {}).items() if count}
    parts = [
        f"{100 * min(1.0, elapsed_s / duration_s):3.0f}%",
        f"{progress['http_2xx']:,} of {progress['planned']:,} 2xx",
        " ".join(f"{name}={count}" for name, count in sorted(failures.items())) or "0 failures",
        _left(duration_s - elapsed_s),
    ]
    since_start_s = time.time() - load.get("start_unix_ns", 0) / 1e9
    coming = [roll for roll in rolls if roll.at_s > since_start_s]
    if coming:
        parts.append(f"next roll {coming[0].kind} {coming[0].name} in {_clock(coming[0].at_s - since_start_s)}")
    return "  ".join(parts)


def _left(left_s: float) -> str:
    return f"{_clock(left_s)} left" if left_s > 0 else "waiting for the last answers"


def _clock(seconds: float) -> str:
    whole = max(0, round(seconds))
    return (
        f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
        if whole >= 3600
        else f"{whole // 60}:{whole % 60:02d}"
    )


def _summary(progress: dict[str, Any]) -> str:
    if "planned" not in progress:
        return "ended"
    failures = sum(progress.get("failures", {}).values())
    return f"{progress['http_2xx']:,} of {progress['planned']:,} 2xx" + (", failures counted" if failures else "")
