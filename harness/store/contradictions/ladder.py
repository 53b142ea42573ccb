"""What a ladder's record says, and what the files say that a harness left beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import chain
from typing import Any

from harness.e8.arms import REALISM, threshold
from harness.e8.figures import nearest_rank
from harness.e8.reading import parse_ladder
from harness.e8.record import RUNG_KEYS, SCHEMA, TARGET_FACTS, WORKLOAD_FACTS, Ladder, Rung
from harness.e8.turns import ALL_TURNS, FAILURES
from harness.errors import ReportFormatError
from harness.store.columns import LADDER
from harness.store.contradictions.beside_rungs import asked_for, faults, left, polls
from harness.store.contradictions.rung import of_rung
from harness.store.kinds import LADDER_FILE
from harness.store.ladder_files import (
    RUNGS_FILE,
    TARGET_FILE,
    TURNS,
    WORKLOAD_FILE,
    Json,
    LadderFiles,
    TurnSums,
)
from harness.store.readers import one_line

LAST_DIGIT_MS = 0.0006
STALL_MS = 250.0  # between a turn's end and the clock that is read next, the generator may be without a core


def of_ladder(ladder: Ladder, files: LadderFiles | None) -> str | None:
    """The first contradiction of a ladder with itself, and with the files beside it where a harness left them."""
    rungs = sorted(ladder.rungs, key=lambda rung: (rung.c, rung.repeat))
    within = (what for rung in rungs if (what := of_rung(ladder, rung)))
    beside = () if files is None else chain(
        run(ladder, files.about, files.settings), plan(ladder, files.plan), target(ladder, files.target),
        workload(ladder, files.workload), records(ladder, files), turns(ladder, files),
        asked_for(ladder, files.plan, files.settings), faults(ladder, files.faults, files.settings),
        left(ladder, files), polls(ladder, files),
    )  # fmt: skip
    return next(map(one_line, chain(within, beside)), None)


def run(ladder: Ladder, about: Json, settings: Json) -> Iterator[str]:
    """run.json says which ladder was to be climbed, and by what it is judged."""
    if not about:
        yield "the rungs have files of their own, and no run.json says what measured them"
        return
    if about.get("kind") != LADDER:
        yield f"run.json says kind {_said(about.get('kind'))}, and what is here is a ladder"
    stated: dict[str, tuple[Any, Any]] = {
        name: (about.get(name), getattr(ladder, name)) for name in ("arm", "measured")
    }
    if ladder.arm == REALISM:
        stated["e8.basis"] = settings.get("e8.basis"), ladder.basis
    stated["e8.turns_per_rung"] = settings.get("e8.turns_per_rung"), ladder.turns_per_client
    for name in ("degrade_x", "min_c"):
        own = getattr(ladder, name)
        stated[f"e8.{name}"] = settings.get(f"e8.{name}"), threshold(name) if own is None else own
    stated["e8.rss_budget_bytes"] = settings.get("e8.rss_budget_bytes"), ladder.rss_budget_bytes or 0
    for key, (planned, recorded) in stated.items():
        if planned != recorded or isinstance(planned, bool):
            yield f"run.json says {key} {_said(planned)}, and {LADDER_FILE} {_said(recorded)}"


def plan(ladder: Ladder, document: Json | None) -> Iterator[str]:
    """rungs.json is the plan that was climbed."""
    planned = None if document is None else document.get("planned")
    if planned != list(ladder.planned or ()):
        yield f"{RUNGS_FILE} plans {_said(planned)}, and {LADDER_FILE} {_said(list(ladder.planned or ()))}"
    complete = None if document is None else document.get("complete")
    if complete is not (ladder.complete is not False):
        yield f"{RUNGS_FILE} says complete {_said(complete)}, and {LADDER_FILE} {_said(ladder.complete)}"


def target(ladder: Ladder, document: Json | None) -> Iterator[str]:
    """What the target told before the ladder is what the ladder says of it; its pool is seen by turns at the latest."""
    told = {key: (document or {}).get(key) for key in TARGET_FACTS}
    pools = [rung.pool for rung in ladder.rungs if rung.pool is not None]
    if told["pool"] is None:
        told["pool"] = max(pools, default=None)
    yield from _facts(ladder, told, TARGET_FILE)


def workload(ladder: Ladder, document: Json | None) -> Iterator[str]:
    """What was measured of the workload is what the ladder says of it; and it was prepared for this arm."""
    told = {key: (document or {}).get(key) for key in WORKLOAD_FACTS}
    yield from _facts(ladder, told, WORKLOAD_FILE)
    for key in ("arm", "basis"):
        recorded = getattr(ladder, key)
        prepared = recorded if document is None else document.get(key)
        if prepared != recorded:
            yield f"{WORKLOAD_FILE} says {key} {_said(prepared)}, and {LADDER_FILE} {_said(recorded)}"


def _facts(ladder: Ladder, told: Json, file: str) -> Iterator[str]:
    try:
        stated = parse_ladder({"schema": SCHEMA, "rungs": [], **told})
    except ReportFormatError as error:
        yield f"{file} is not what the target told: {error.message}"
        return
    for name in told:
        one, other = ((of.unusable.get(name), getattr(of, name)) for of in (stated, ladder))
        if one != other:
            yield f"{file} says {name} {_said(told[name])}, and {LADDER_FILE} {_said(getattr(ladder, name))}"


def records(ladder: Ladder, files: LadderFiles) -> Iterator[str]:
    """Every rung of the ladder has a record of its own, which says the same; and no record is left out."""
    in_ladder = {rung.name: rung for rung in ladder.rungs}
    for name in sorted(files.records.keys() - in_ladder.keys()):
        yield f"{name}.json is there, and {LADDER_FILE} has no rung {name}"
    for name, rung in in_ladder.items():
        own = files.records.get(name)
        if own is None:
            yield f"{LADDER_FILE} has a rung {name}, and there is no {name}.json"
        elif own.name != name:
            yield f"{name}.json is the record of {own.name}"
        else:
            yield from _fields(rung, own)


def _fields(rung: Rung, own: Rung) -> Iterator[str]:
    for each in dataclasses.fields(Rung):
        one, other = getattr(rung, each.name), getattr(own, each.name)
        if one != other:
            key = RUNG_KEYS.get(each.name, each.name)
            yield f"{rung.name}.json says {key} {_said(other)}, and {LADDER_FILE} {_said(one)}"


def turns(ladder: Ladder, files: LadderFiles) -> Iterator[str]:
    """What a rung's record says of its turns follows from its turns."""
    for rung in ladder.rungs:
        sums = files.turns.get(rung.name)
        if sums is None:
            yield f"{LADDER_FILE} has a rung {rung.name}, and there is no {rung.name}.{TURNS}"
            continue
        for what in chain(_counted(rung, sums), _timed(rung, sums), _sent(rung, sums)):
            yield f"{rung.name}.{TURNS} {what}"


def _counted(rung: Rung, sums: TurnSums) -> Iterator[str]:
    made = {"attempts": sums.attempts, "ok": sums.ok, **{name: sums.failures[name] for name in FAILURES}}
    for name, count in made.items():
        if getattr(rung, name) != count:
            yield f"comes to {name} {count}, and its record says {_said(getattr(rung, name))}"


def _timed(rung: Rung, sums: TurnSums) -> Iterator[str]:
    wall_ms = rung.wall_ms or 0.0
    made = {
        "p50_ms": (nearest_rank(sums.ok_ms, 50), LAST_DIGIT_MS),
        "p95_ms": (nearest_rank(sums.ok_ms, 95), LAST_DIGIT_MS),
        "achieved_c": (sums.sum_ms / wall_ms if wall_ms else None, LAST_DIGIT_MS),
    }
    for name, (value, step) in made.items():
        recorded = getattr(rung, name)
        if (recorded is None) != (value is None) or (value is not None and abs(recorded - value) > step):
            yield f"comes to {name} {_said(value)}, and its record says {_said(recorded)}"
    if not sums.ended_ms - LAST_DIGIT_MS <= wall_ms <= sums.ended_ms + STALL_MS:
        yield f"ends after {sums.ended_ms:.6g} ms, and its record says {wall_ms:g} ms"


def _sent(rung: Rung, sums: TurnSums) -> Iterator[str]:
    if sums.two_at_once is not None:
        yield f"has two turns of client {sums.two_at_once} at once"
    if strange := [client for client in sums.sent_by if client > rung.c]:
        yield f"has turns of client {strange[0]}, and the rung had {rung.c}"
    if rung.ended == ALL_TURNS and (short := [n for n in sums.sent_by.values() if n != rung.turns_per_client]):
        yield f"has {short[0]} turns of one client, and its record says that each sent all {rung.turns_per_client}"
    if (sums.cut_by_rung > 0) != rung.late:
        how = "ended by its deadline" if rung.late else "did not end by its deadline"
        yield f"has {sums.cut_by_rung} turns that the rung's deadline cut, and its record says that it {how}"


def _said(value: object) -> str:
    return "nothing" if value is None else one_line(ascii(value))[:80]
