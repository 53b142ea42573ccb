"""Ladders as evidence: the ladder in a file, and the rows of its tables."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.e8.reading import KIND, parse_ladder
from harness.e8.record import Ladder, Profile, Rung, RungWorker
from harness.errors import EvidenceError, ReportFormatError
from harness.runs import RUN_JSON, is_run_id
from harness.store import readers
from harness.store.kinds import LADDER_FILE, LADDER_FILES, RECORD_FILE
from harness.store.schemas import TABLES

MARK: Mapping[str, int | str] = {"schema": 1, "format": KIND}
"""What ``adopted.json`` says of a ladder from elsewhere."""

Rows = dict[str, list[dict[str, Any]]]

_PROFILE = tuple(f.name for f in dataclasses.fields(Profile))
_RUNG = tuple(f.name for f in dataclasses.fields(Rung) if f.name in TABLES["rungs"].names)
_WORKER = tuple(f.name for f in dataclasses.fields(RungWorker))
_LADDER = tuple(f.name for f in dataclasses.fields(Ladder) if f.name in TABLES["ladders"].names)


def read(path: Path) -> Ladder:
    """The ladder in a file. Raises EvidenceError, one sentence with the file's name."""
    document = readers.read_document(path)
    if (path.name == RECORD_FILE) != isinstance(document, list) and path.name in LADDER_FILES:
        raise ReportFormatError(
            f"{path.name} is not what its name says: {LADDER_FILE} is an object, {RECORD_FILE} a list"
        )
    try:
        return parse_ladder(document)
    except ReportFormatError as error:
        raise ReportFormatError(f"{path.name}: {error.message}") from error


def read_evidence(evidence: Path, *, run: str, files: Mapping[str, str]) -> Ladder:
    """The ladder in the evidence of ``run``; ``files`` are those that stand there.

    Raises EvidenceError where there is none, or two, and where the evidence says that it is another run's.
    """
    held = [name for name in LADDER_FILES if name in files]
    if len(held) != 1:
        raise EvidenceError(
            f"a ladder's evidence holds {LADDER_FILE} or {RECORD_FILE}, and here stand {held or 'none'}"
        )
    if RUN_JSON in files:
        about = readers.read_document(evidence / RUN_JSON)
        named = about.get("run") if isinstance(about, dict) else None
        if named != run:
            raise EvidenceError(
                f"{RUN_JSON} says run={readers.one_line(ascii(named))[:80]}, and the run is {run!r}: "
                "this is the evidence of another run"
            )
    named = document.get("run") if isinstance(document := readers.read_document(evidence / held[0]), dict) else None
    if isinstance(named, str) and is_run_id(named) and named != run:
        raise EvidenceError(f"{held[0]} says run={named}, and the run is {run!r}: this is the evidence of another run")
    return read(evidence / held[0])


# --- rows


def rows(ladder: Ladder) -> Rows:
    """Table → rows, without their ``run``."""
    profile = dataclasses.asdict(ladder.profile) if ladder.profile else dict.fromkeys(_PROFILE)
    about = {name: getattr(ladder, name) for name in _LADDER} | profile
    about["planned"] = None if ladder.planned is None else " ".join(ladder.planned)
    about["unusable"] = json.dumps(dict(ladder.unusable), ensure_ascii=False, sort_keys=True)
    about["contradiction"] = contradiction(ladder)
    made: Rows = {"ladders": [about], "rungs": [], "rung_workers": [], "rung_execs": [], "rung_notes": []}
    for recorded in sorted(ladder.rungs, key=lambda rung: (rung.c, rung.repeat)):
        rung = ladder.settle(recorded)
        place = {"c": rung.c, "repeat": rung.repeat}
        made["rungs"].append({name: getattr(rung, name) for name in _RUNG})
        made["rung_workers"] += [
            place | {"worker_no": number} | dataclasses.asdict(worker)
            for number, worker in enumerate(rung.workers, start=1)
        ]
        made["rung_execs"] += [
            place | {"execs": execs, "turns": turns} for execs, turns in sorted((rung.execs_per_turn or {}).items())
        ]
        said = {"system": rung.system, "system_end": rung.system_end, "unknown": rung.why_unknown}
        made["rung_notes"] += [
            place | {"about": about_what, "name": name, "says": says}
            for about_what, texts in said.items()
            for name, says in sorted((texts or {}).items())
        ]
    return made


def from_rows(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Ladder:
    """The ladder whose rows these are."""
    (about,) = tables["ladders"]
    texts: dict[tuple[int, int, str], dict[str, str]] = {}
    for row in tables["rung_notes"]:
        texts.setdefault((row["c"], row["repeat"], row["about"]), {})[row["name"]] = row["says"]
    execs: dict[tuple[int, int], dict[str, int]] = {}
    for row in tables["rung_execs"]:
        execs.setdefault((row["c"], row["repeat"]), {})[row["execs"]] = row["turns"]
    workers: dict[tuple[int, int], list[RungWorker]] = {}
    for row in sorted(tables["rung_workers"], key=lambda row: int(row["worker_no"])):
        workers.setdefault((row["c"], row["repeat"]), []).append(RungWorker(**{name: row[name] for name in _WORKER}))
    rungs = []
    for row in tables["rungs"]:
        place = row["c"], row["repeat"]
        rungs.append(
            Rung(
                **{name: row[name] for name in _RUNG},
                execs_per_turn=execs.get(place),
                workers=tuple(workers.get(place, ())),
                system=texts.get((*place, "system")),
                system_end=texts.get((*place, "system_end")),
                why_unknown=texts.get((*place, "unknown"), {}),
            )
        )
    values = {name: about[name] for name in _LADDER}
    values["planned"] = None if about["planned"] is None else tuple(about["planned"].split())
    values["unusable"] = json.loads(about["unusable"])
    profile = {name: about[name] for name in _PROFILE}
    known = None not in profile.values()
    return Ladder(**values, profile=Profile(**profile) if known else None, rungs=tuple(rungs))


# --- what a record says twice

CPU_STEP_S, SHARE_STEP, RATE_STEP = 0.005, 0.05, 0.0005
"""Half a unit of the last digit in which recorders write CPU seconds, shares in %, and turns per second."""


def contradiction(ladder: Ladder) -> str | None:
    """The first figure of a rung that is not what its own parts come to, rounding apart; None where all agree."""
    for recorded in sorted(ladder.rungs, key=lambda rung: (rung.c, rung.repeat)):
        made = ladder.settle(recorded)
        if recorded.wall_ms and recorded.ok is not None:
            tps = recorded.ok / (recorded.wall_ms / 1000)
            if _differ(recorded.throughput_tps, tps, RATE_STEP + tps * 0.5 / recorded.wall_ms):
                return _sentence(recorded, "throughput", recorded.throughput_tps, tps, "ok and wall time")
        for name, step in _steps(ladder, recorded).items():
            value = getattr(made, name)
            if _differ(getattr(recorded, name), value, step):
                return _sentence(recorded, name, getattr(recorded, name), value, "its parts")
    return None


def _steps(ladder: Ladder, rung: Rung) -> dict[str, float]:
    """Figure → by how much rounding alone can move it; only where the figure can be worked out."""
    wall_s, rate = rung.wall_s, rung.throughput_tps
    if not wall_s:
        return {}
    loose = RATE_STEP / rate if rate and rung.wall_ms is None else 0.0
    steps = {}
    if rung.worker_cpu_s is not None and rung.ok:
        steps["worker_cpu_ms_per_turn"] = SHARE_STEP + 1000 * CPU_STEP_S / rung.ok
    shares = {
        "sandbox_util_pct": (rung.sandbox_cpu_s, rung.pool or ladder.pool),
        "worker_cpu_util_pct": (rung.worker_cpu_s, ladder.tier_cores),
        "worker_cpu_util_box_pct": (rung.worker_cpu_s, ladder.cores),
        "host_cpu_util_pct": (rung.host_cpu_s, ladder.cores),
    }
    for name, (cpu_s, units) in shares.items():
        if cpu_s is not None and units:
            share = 100 * cpu_s / (wall_s * units)
            steps[name] = SHARE_STEP + 100 * CPU_STEP_S / (wall_s * units) + share * loose
    return steps


def _differ(recorded: float | None, made: float | None, step: float) -> bool:
    return recorded is not None and made is not None and abs(recorded - made) > step + 1e-6


def _sentence(rung: Rung, name: str, recorded: float | None, made: float, of: str) -> str:
    return f"{rung.name} says {name} {recorded:g}, and {of} come to {made:.4g}; one of them was changed"
