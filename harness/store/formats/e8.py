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

RECORD_TABLES = ("ladders", "rungs", "rung_workers", "rung_execs", "rung_notes")
"""The tables that hold all of a ladder's record; the others hold what its rungs were made of."""

Rows = dict[str, list[dict[str, Any]]]

_PROFILE = tuple(f.name for f in dataclasses.fields(Profile))
_RUNG = tuple(f.name for f in dataclasses.fields(Rung) if f.name in TABLES["rungs"].names and f.name != "arm")
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
    is_named = RUN_JSON in files or (isinstance(named, str) and is_run_id(named))
    if is_named and named != run and held[0] == LADDER_FILE:
        said = readers.one_line(ascii(named))[:80]
        raise EvidenceError(f"{held[0]} says run={said}, and the run is {run!r}: this is the evidence of another run")
    return read(evidence / held[0])


# --- rows


def rows(ladder: Ladder, contradiction: str | None = None) -> Rows:
    """Table → rows, without their ``run``. ``contradiction``: where the evidence says two things of the ladder."""
    profile = dataclasses.asdict(ladder.profile) if ladder.profile else dict.fromkeys(_PROFILE)
    about = {name: getattr(ladder, name) for name in _LADDER} | profile
    about["planned"] = None if ladder.planned is None else " ".join(ladder.planned)
    about["unusable"] = json.dumps(dict(ladder.unusable), ensure_ascii=False, sort_keys=True)
    about["contradiction"] = contradiction
    made: Rows = {name: [] for name in RECORD_TABLES}
    made["ladders"].append(about)
    for recorded in sorted(ladder.rungs, key=lambda rung: (rung.c, rung.repeat)):
        rung = ladder.settle(recorded)
        place = {"c": rung.c, "repeat": rung.repeat}
        made["rungs"].append({name: getattr(rung, name) for name in _RUNG} | {"arm": rung.arm or ladder.arm})
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
