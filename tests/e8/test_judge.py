"""Records that hold anything: one sentence or a verdict comes of each, and no PASS that a careful reader would refuse.

What a careful reader asks of a ladder is written down here a second time, without the rules and the SQL.
"""

from __future__ import annotations

import copy
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.e8.arms import BASES, BOUNDS, CAPACITY, NO_BASIS, REALISM
from harness.e8.grade import judge
from harness.e8.questions import ask_of
from harness.e8.reading import parse_ladder
from harness.e8.record import Ladder, Rung
from harness.e8.text import render
from harness.e8.verdict import LadderVerdict
from harness.errors import ReportFormatError
from harness.gate.verdict import FAIL, PASS
from harness.store.contradictions.ladder import of_ladder
from harness.store.formats.e8 import from_rows, rows

CASES = Path(__file__).parent.parent / "cases" / "e8"
DOCUMENTS: list[dict[str, Any]] = [
    json.loads((CASES / name / "ladder.json").read_text())
    for name in ("capacity-worker-cpu", "realism-not-observed", "knee-at-the-least", "miss-by-the-deadline")
]
OF_RUNGS = sorted({key for document in DOCUMENTS for rung in document["rungs"] for key in rung} | {"ended", "repeat"})
OF_LADDERS = sorted({key for document in DOCUMENTS for key in document} - {"schema", "rungs"} | {"complete", "min_c"})
NUMBERS = st.sampled_from([0, 1, 2, 3, 5, 8, 16, 30, 100, 1000, 10**9, -1, 0.5, 0.94, 0.96, 1.2, 26.0, "NaN", "7"])
VALUES = st.one_of(
    st.none(),
    NUMBERS,
    st.booleans(),
    st.sampled_from(["realism", "capacity", NO_BASIS, "e7", "stop reason", "status", "rung deadline", "all turns", ""]),
    st.sampled_from([{}, {"0": 30}, {"2": 30}, {"1": 1}, {"boot id": "else"}, [], ["c1"], ["c1", "c2", "c99"]]),
)
FACTORS = st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.1, 2.0, 3.0, 10.0])


def damaged(data: st.DataObject) -> dict[str, Any]:
    """A ladder that passes, with one to six things done to it."""
    document = copy.deepcopy(data.draw(st.sampled_from(DOCUMENTS)))
    for _ in range(data.draw(st.integers(1, 6))):
        rungs = document["rungs"]
        act = data.draw(
            st.sampled_from(["rung", "rung", "scale", "scale", "ladder", "drop", "twice", "workers", "all"])
        )
        rung = data.draw(st.sampled_from(rungs)) if rungs else {}
        key = data.draw(st.sampled_from(OF_RUNGS))
        if act == "rung":
            rung[key] = data.draw(_like(rung.get(key)))
        elif act == "scale" and isinstance(rung.get(key), int | float) and not isinstance(rung[key], bool):
            rung[key] = type(rung[key])(rung[key] * data.draw(FACTORS))
        elif act == "ladder":
            fact = data.draw(st.sampled_from(OF_LADDERS))
            document[fact] = data.draw(_like(document.get(fact)))
        elif act == "drop" and rungs:
            rungs.remove(rung)
        elif act == "twice" and rungs:
            rungs.append(rung | {"repeat": data.draw(st.integers(1, 3))})
        elif act == "workers" and isinstance(rung.get("workers"), list):
            rung["workers"] = rung["workers"][: data.draw(st.integers(0, 2))]
        elif act == "all":
            value = data.draw(VALUES)
            for each in rungs:
                each[key] = value
    return document


def _like(value: object) -> st.SearchStrategy[Any]:
    """Values to put in the place of this one: mostly of its kind, so that a record is not refused by its form alone."""
    return NUMBERS if isinstance(value, int | float) and not isinstance(value, bool) else VALUES


def judged(document: object) -> tuple[Ladder, LadderVerdict] | None:
    """The ladder as its tables hold it, and the verdict; None where one sentence refuses the record."""
    try:
        ladder = parse_ladder(document)
    except ReportFormatError as error:
        assert error.message and "\n" not in error.message
        return None
    contradiction = of_ladder(ladder, None)
    ladder = from_rows(rows(ladder))
    return ladder, judge("", ladder, ask_of(ladder), contradiction)


def objections(ladder: Ladder, verdict: LadderVerdict) -> Iterator[str]:
    """What a careful reader would say against quoting this ladder."""
    names = [rung.name for rung in ladder.rungs]
    if sorted(names) != sorted(set(ladder.planned or names)) or ladder.complete is False:
        yield "it is not the planned ladder"
    if any(rung.repeat > 1 and f"c{rung.c}" not in names for rung in ladder.rungs):
        yield "a repeat of nothing"
    if (ladder.stub_url is None or ladder.stub_url != ladder.stub_url_echoed) or ladder.success_by != "stop reason":
        yield "the stub is not pinned, or a success is a status"
    if None in (ladder.workers, ladder.turns_per_worker, ladder.cap, ladder.pool, ladder.profile) or ladder.unusable:
        yield "nobody knows what was measured"
    if ladder.profile is None or ladder.profile.tool_call_rate <= 0:
        yield "no tool is ever called"
    systems = [system for rung in ladder.rungs for system in (rung.system, rung.system_end) if system]
    if any(one.get(key, value) != value for one in systems for other in systems for key, value in other.items()):
        yield "two systems"
    for rung in ladder.rungs:
        yield from (f"{rung.name}: {what}" for what in _of_rung(ladder, rung))
    yield from _of_arm(ladder)
    yield from _of_knee(ladder, verdict)


def _of_rung(ladder: Ladder, rung: Rung) -> Iterator[str]:
    if not rung.attempts or rung.ok is None or rung.ok > rung.attempts:
        yield "no attempts"
        return
    kinds = (rung.refused_429, rung.refused_503, rung.errors_in_200, rung.timed_out, rung.failed_otherwise)
    if None not in kinds and sum(kind or 0 for kind in kinds) != rung.attempts - rung.ok:
        yield "failures do not add up"
    if rung.ok / rung.attempts >= 0.95 and not (rung.p95_ms and rung.throughput_tps):
        yield "successes that were not timed"
    if rung.workers and len(rung.workers) != ladder.workers:
        yield "some of the workers"
    if rung.pool not in (None, ladder.pool):
        yield "another pool"
    if rung.turns_per_client is not None and rung.attempts > rung.c * rung.turns_per_client:
        yield "more turns than planned"
    counted = sum((rung.execs_per_turn or {}).values())
    execs = sum(int(execs) * turns for execs, turns in (rung.execs_per_turn or {}).items())
    is_off = execs == 0 or (ladder.arm == CAPACITY and not 0.9 * counted <= execs <= 1.1 * counted)
    if counted and rung.ok / rung.attempts >= 0.95 and is_off:
        yield "not one exec"


def _of_arm(ladder: Ladder) -> Iterator[str]:
    profile, pool, cap = ladder.profile, ladder.pool or 0, ladder.cap or 0
    workers, turns, top = ladder.workers or 0, ladder.turns_per_worker or 0, max(rung.c for rung in ladder.rungs)
    if ladder.arm == CAPACITY:
        if profile is None or profile.ttft_ms > 25 or profile.token_delay_ms > 2 or ladder.basis != NO_BASIS:
            yield "not of the capacity arm"
        if workers * turns < 2 * top or pool * cap < 2 * top:
            yield "caps too near"
        for rung in ladder.rungs:
            if rung.sandbox_util_pct is None or round(rung.sandbox_util_pct, 1) > 25:
                yield "sandboxes in the way"
    elif ladder.arm == REALISM:
        if profile is None or (profile.ttft_ms, profile.token_delay_ms, profile.output_tokens) != (300, 12, 64):
            yield "not of the realism arm"
        if ladder.basis not in BASES or ladder.duty is None:
            yield "no duty"
        else:
            low, high = BASES[ladder.basis].duty
            if not low <= ladder.duty <= high or pool < workers * turns * high - 1e-6:
                yield "duty out of its band, or a pool under its floor"
    else:
        yield "no arm"


def _of_knee(ladder: Ladder, verdict: LadderVerdict) -> Iterator[str]:
    knee, bound = verdict.knee, verdict.degrade_x or 2
    first, at_floor = ([rung for rung in ladder.rungs if rung.c == c] for c in (1, knee.floor))
    if not first or not at_floor:
        yield "no such rungs"
        return
    p95 = [statistics.median(rung.p95_ms or 0 for rung in level) for level in (first, at_floor)]
    tps = [statistics.median(rung.throughput_tps or 0 for rung in level) for level in (first, at_floor)]
    if p95[1] > bound * p95[0] or tps[1] < tps[0] or any(rung.ended == "rung deadline" for rung in at_floor):
        yield "the floor is not healthy"
    if not (knee.lo or 0) <= (knee.floor or 0) <= (knee.hi or 10**9) or verdict.bound not in BOUNDS:
        yield "no answer"
    if (knee.floor or 0) < (verdict.min_c or 0):
        yield "under the least knee"


def check(data: st.DataObject) -> None:
    found = judged(damaged(data))
    if found is None:
        return
    ladder, verdict = found
    lines = render(verdict)
    assert lines[-1].startswith(f"VERDICT {verdict.word} ") or verdict.ungraded
    json.dumps(verdict.to_json(), allow_nan=False)
    if verdict.word in (PASS, FAIL):
        against = [
            what for what in objections(ladder, verdict) if verdict.word == PASS or what != "under the least knee"
        ]
        assert not against, lines
    else:
        assert verdict.reason


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_record_passes_that_a_careful_reader_would_refuse(data: st.DataObject) -> None:
    check(data)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@given(st.data())
@settings(max_examples=4000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_of_four_thousand_records_none_does(data: st.DataObject) -> None:
    check(data)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["arm"])
def test_the_records_that_are_damaged_pass(document: dict[str, Any]) -> None:
    """Else no damage would prove anything."""
    found = judged(document)
    assert found is not None and found[1].word == PASS
    assert not list(objections(*found))
