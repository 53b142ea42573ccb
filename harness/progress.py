"""How a load or a ladder stands, in one line, from its progress.json. For looking; nothing is graded by it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from harness.files import read_json
from harness.plan.model import Roll
from harness.plan.schedule import read_schedule_tsv
from harness.runs import RunFolder
from harness.store.columns import LADDER

SILENT_S = 5.0  # an engine says something every second
NO_COUNTS = "waiting for the first counts"
UNREADABLE = "the counts cannot be read"


def progress_line(folder: RunFolder) -> str:
    """``progress_text`` of a run's live files, of a ladder ``ladder_line``."""
    progress = read_object(folder.progress_json)
    if progress.get("kind") == LADDER:
        return ladder_line(progress)
    rolls = read_schedule_tsv(folder.schedule) if folder.schedule.exists() else ()
    try:
        return progress_text(progress, read_object(folder.load_json), rolls, _nodes(folder))
    except (KeyError, TypeError, ValueError):
        return UNREADABLE


def ladder_line(progress: dict[str, Any]) -> str:
    """The live line of a ladder: arm and rung, turns of planned ones, how they ended, time, rungs done of planned.

    Rungs are planned one after another where the ladder finds its own way: then it is not known of how many.
    """
    if "rung" not in progress:
        return NO_COUNTS
    try:
        attempts, ok = int(progress["attempts"]), int(progress["ok"])
        rungs = f"{len(progress['rungs_planned'])}" if progress["complete"] else "?"
        parts = [
            f"{progress['arm']} {progress['rung']}",
            f"{attempts:,} of {int(progress['planned_turns']):,} turns",
            f"{ok:,} ok",
            f"{attempts - ok:,} failed",
            _clock(float(progress["elapsed_s"])),
            f"{len(progress['rungs_done'])} of {rungs} rungs done",
        ]
    except (KeyError, TypeError, ValueError, OverflowError):
        return UNREADABLE
    return "  ".join(parts)


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object, empty when the file is absent or holds none."""
    try:
        document = read_json(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _nodes(folder: RunFolder) -> dict[str, str]:
    """Address → node, as engines.tsv has it; empty where there is none yet."""
    if not folder.engines.exists():
        return {}
    rows = (line.split("\t") for line in folder.engines.read_text(encoding="utf-8").splitlines())
    return {row[0]: row[1] for row in rows if len(row) >= 2}


def progress_text(
    progress: dict[str, Any], load: dict[str, Any], rolls: tuple[Roll, ...], nodes: dict[str, str] | None = None
) -> str:
    """The live line: 2xx of plan, failures by class, time left, next roll, engines that say nothing."""
    if "planned" not in progress:
        return NO_COUNTS
    duration_s = float(progress["duration_s"])
    elapsed_s = float(progress["elapsed_s"])
    failures = {name.removeprefix("benchmark."): count for name, count in progress.get("failures", {}).items() if count}
    parts = [
        f"{100 * min(1.0, elapsed_s / duration_s):3.0f}%",
        f"{progress['http_2xx']:,} of {progress['planned']:,} 2xx",
        " ".join(f"{name}={count}" for name, count in sorted(failures.items())) or "0 failures",
        time_left(duration_s - elapsed_s),
    ]
    since_start_s = time.time() - load.get("start_unix_ns", 0) / 1e9
    silent = [
        f"{(nodes or {}).get(name.rpartition(':')[0], name)} silent for {state['silent_s']:.0f} s"
        for name, state in progress.get("backends", {}).items()
        if state.get("silent_s") and state["silent_s"] > SILENT_S
    ]
    coming = [roll for roll in rolls if roll.at_s > since_start_s]
    if coming:
        parts.append(f"next roll {coming[0].kind} {coming[0].name} in {_clock(coming[0].at_s - since_start_s)}")
    return "  ".join([*parts, *silent])


def time_left(left_s: float) -> str:
    """``1:05 left``, and what is waited for when it is over."""
    return f"{_clock(left_s)} left" if left_s > 0 else "waiting for the last answers"


def _clock(seconds: float) -> str:
    whole = max(0, round(seconds))
    return (
        f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
        if whole >= 3600
        else f"{whole // 60}:{whole % 60:02d}"
    )
