"""What a ladder's record says against what stands beside it: each disagreement is one sentence that names the file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.e8.arms import CAPACITY, NO_BASIS
from harness.e8.compose import RungPlan
from harness.e8.driver import run_rung
from harness.e8.grade import grade, refused
from harness.e8.metrics import read_metrics, read_profile
from harness.e8.reading import parse_ladder
from harness.e8.target import embedded, facts
from harness.e8.tier.handle import start
from harness.e8.tier.settings import Profile, TierSettings
from harness.e8.turns import ALL_TURNS, RUNG_DEADLINE
from harness.e8.verdict import LadderVerdict
from harness.errors import EvidenceError
from harness.gate.verdict import PASS, REFUSED
from harness.store.columns import LADDER
from harness.store.contradictions import ladder as contradictions
from harness.store.contradictions.rung import of_rung
from harness.store.database import connect, load_table
from harness.store.formats import e8
from harness.store.ingest import build_tables
from harness.store.kinds import tables_of
from harness.store.ladder_files import read_ladder_files
from tests.e8.made import (
    RUN,
    TURNS,
    files_of,
    late_rung,
    live_files,
    made_files,
    made_ladder,
    rung_of,
    turns_of,
    write_files,
)

Files = Mapping[str, bytes]


def graded(files: Files, scratch: Path) -> LadderVerdict:
    """Evidence → tables → verdict, as the stages do it."""
    evidence, tables = write_files(scratch / "evidence", files), scratch / "tables"
    try:
        build_tables(evidence, tables, run=RUN)
    except EvidenceError as error:
        return refused(RUN, error.message)
    return grade({name: tables / f"{name}.parquet" for name in tables_of(LADDER)})


def changed(files: Files, file: str, **values: Any) -> dict[str, bytes]:
    """The files with other values in one document."""
    return {**files, file: json.dumps(json.loads(files[file]) | values).encode()}


def recorded(files: Files, rung: str, **values: Any) -> dict[str, bytes]:
    """The files with other values of a rung, in both of its records."""
    ladder = json.loads(files["ladder.json"])
    names = [str(name) for name in ladder["planned"]]
    ladder["rungs"][names.index(rung)] |= values
    return changed({**files, "ladder.json": json.dumps(ladder).encode()}, f"{rung}.json", **values)


def without(files: Files, file: str) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name != file}


def settings(files: Files, **values: Any) -> dict[str, bytes]:
    """The files with other settings; ``__`` stands for the dot of a key."""
    own = {name.replace("__", "."): value for name, value in values.items()}
    return changed(files, "run.json", settings=json.loads(files["run.json"])["settings"] | own)


CLEAN = made_files()
FEW_TURNS = CLEAN["c2.turns.jsonl"].rpartition(b"{")[0]
STRANGE = CLEAN["c2.turns.jsonl"].replace(b'"client":2', b'"client":3')
POLLS = CLEAN["c4.metrics.jsonl"]


def asked(files: Files, ladder: str, **values: Any) -> dict[str, bytes]:
    """The files of a ladder that was asked for by these words."""
    return changed(settings(files, ladder=ladder, **values), "rungs.json", ladder=ladder)


def injected(files: Files, fault: str) -> dict[str, bytes]:
    line = json.dumps({"at": "2026-11-30T12:00:00.000Z", "rung": "c4", "fault": fault, "did": "SIGSTOP"})
    return {**files, "faults.jsonl": line.encode() + b"\n"}


CONTRADICTIONS: dict[str, tuple[Files, str]] = {
    "a record of its own says another p95": (
        changed(CLEAN, "c4.json", p95Ms=1),
        "c4.json says p95Ms 1.0, and ladder.json",
    ),
    "a rung without a record of its own": (
        without(CLEAN, "c4.json"),
        "ladder.json has a rung c4, and there is no c4.json",
    ),
    "a record that the ladder leaves out": (
        {**CLEAN, "c32.json": CLEAN["c16.json"]},
        "c32.json is there, and ladder.json has no rung c32",
    ),
    "a record under another name": ({**CLEAN, "c8.json": CLEAN["c16.json"]}, "c8.json is the record of c16"),
    "a rung without its turns": (without(CLEAN, "c4.turns.jsonl"), "there is no c4.turns.jsonl"),
    "both records say another p95": (recorded(CLEAN, "c4", p95Ms=107), "c4.turns.jsonl comes to p95_ms"),
    "both records say another median": (recorded(CLEAN, "c4", p50Ms=90), "c4.turns.jsonl comes to p50_ms"),
    "both records say fewer in flight": (recorded(CLEAN, "c4", achieved_c=3.1), "c4.turns.jsonl comes to achieved_c"),
    "both records say other failures": (
        recorded(CLEAN, "c8", timed_out=0, failed_otherwise=2),
        "c8.turns.jsonl comes to timed_out 1, and its record says 0",
    ),
    "fewer in flight than latencies come to": (
        recorded(CLEAN, "c4", achieved_c=1.5),
        "turns in flight by its throughput and latencies, and says achieved_c 1.5",
    ),
    "both records say a shorter time": (
        recorded(CLEAN, "c4", wall_ms=700, throughput=57.143, achieved_c=6.043),
        "c4 had 6.043 turns in flight, and 4 clients",
    ),
    "both records say a longer time": (
        recorded(
            CLEAN,
            "c1",
            wall_ms=2000,
            throughput=5,
            achieved_c=0.508,
            worker_cpu_util=3,
            worker_cpu_util_box=3,
            host_cpu_util=4,
            sandbox_util=0.2,
        ),
        "c1.turns.jsonl ends after",
    ),
    "failures that do not add up": (recorded(CLEAN, "c4", timed_out=1), "c4 counts 1 failures by their kinds"),
    "another success rate": (recorded(CLEAN, "c4", success_rate=0.99), "c4 says success_rate 0.99"),
    "fewer turns than planned": (
        recorded(CLEAN, "c4", turns_per_client=11),
        "c4 ended by all turns, and 40 of 44 were attempted",
    ),
    "more turns than planned": (recorded(CLEAN, "c4", turns_per_client=9), "c4 counts 40 attempts, and its clients"),
    "percentiles out of order": (recorded(CLEAN, "c4", p50Ms=150), "c4 has p50_ms 150 above p95_ms"),
    "more CPU time than there was": (
        recorded(CLEAN, "c4", stub_cpu_s=9),
        "c4 says stub_cpu_s 9, and 2 cores had",
    ),
    "execs of no turn": (recorded(CLEAN, "c4", execs=41), "c4 says execs 41, and execs_per_turn come to 40"),
    "the tier's cores": (
        recorded(CLEAN, "c4", worker_tier_cores=4),
        "c4 says worker_tier_cores 4, and workers and cores",
    ),
    "a deadline that cut nothing": (
        recorded(CLEAN, "c4", ended=RUNG_DEADLINE),
        "c4.turns.jsonl has 0 turns that the rung's deadline cut, and its record says that it ended by its deadline",
    ),
    "a client of no rung": (
        {**CLEAN, "c2.turns.jsonl": STRANGE},
        "c2.turns.jsonl has turns of client 3, and the rung had 2",
    ),
    "two turns of a client at once": (
        {**CLEAN, "c2.turns.jsonl": CLEAN["c2.turns.jsonl"].replace(b'"client":2', b'"client":1')},
        "c2.turns.jsonl has two turns of client 1 at once",
    ),
    "a turn that is gone": ({**CLEAN, "c2.turns.jsonl": FEW_TURNS}, "c2.turns.jsonl comes to attempts 19"),
    "another arm": (
        changed(CLEAN, "run.json", arm="realism"),
        "run.json says arm 'realism', and ladder.json 'capacity'",
    ),
    "another kind of run": (changed(CLEAN, "run.json", kind="soak"), "run.json says kind 'soak'"),
    "nothing says what measured it": (without(CLEAN, "run.json"), "no run.json says what measured them"),
    "another least knee": (settings(CLEAN, e8__min_c=2), "run.json says e8.min_c 2, and ladder.json 4"),
    "another bound of p95": (
        changed(CLEAN, "ladder.json", degrade_x=4),
        "run.json says e8.degrade_x 2.0, and ladder.json 4.0",
    ),
    "other turns a client": (
        settings(CLEAN, e8__turns_per_rung=30),
        "run.json says e8.turns_per_rung 30, and ladder.json 10",
    ),
    "another plan": (
        changed(CLEAN, "rungs.json", planned=["c1", "c2"]),
        "rungs.json plans ['c1', 'c2'], and ladder.json",
    ),
    "a plan that goes on": (changed(CLEAN, "rungs.json", complete=False), "rungs.json says complete False"),
    "other workers": (changed(CLEAN, "target.json", workers=4), "target.json says workers 4, and ladder.json 2"),
    "another stub": (
        changed(
            CLEAN, "target.json", profile={"ttftMs": 300, "tokenDelayMs": 12, "outputTokens": 64, "toolCallRate": 0.5}
        ),
        "target.json says profile",
    ),
    "a target that told nothing": (without(CLEAN, "target.json"), "target.json says measured nothing"),
    "another duty": (
        changed(CLEAN, "workload.json", duty=0.07),
        "workload.json says duty 0.07, and ladder.json 0.0098",
    ),
    "another ladder was asked for": (
        settings(CLEAN, ladder="1 2 4 8 16 32"),
        "run.json says ladder '1 2 4 8 16 32', and rungs.json '1 2 4 8 16'",
    ),
    "a rung that was asked for is gone": (
        asked(CLEAN, "1 2 4 8 16 32"),
        "rungs.json says ladder '1 2 4 8 16 32', and ladder.json plans",
    ),
    "another stub was asked for": (settings(CLEAN, e8__profile="300/12/64/0.5"), "run.json says e8.profile"),
    "another tier was asked for": (settings(CLEAN, e8__sandboxes=2), "run.json says e8.sandboxes 2, and ladder.json"),
    "a fault that nobody injected": (
        settings(CLEAN, fault="freeze worker 2 at c4"),
        "run.json says fault 'freeze worker 2 at c4', and faults.jsonl does not say",
    ),
    "a fault that nobody asked for": (
        injected(CLEAN, "freeze worker 2 at c4"),
        "faults.jsonl says that 'freeze worker 2 at c4' was done, and run.json says fault []",
    ),
    "turns of a rung that nobody planned": (
        {**CLEAN, "c32.turns.jsonl": CLEAN["c16.turns.jsonl"]},
        "c32.turns.jsonl is there, and ladder.json neither has nor plans a rung c32",
    ),
    "a try that no record counts": (
        {**CLEAN, "c4.cut1.turns.jsonl": b"{"},
        "c4 says cut_tries 0, and the files are there of 1 tries",
    ),
    "a try that left nothing": (
        recorded(CLEAN, "c4", cut_tries=2),
        "c4 says cut_tries 2, and the files are there of 0",
    ),
    "polls that are gone": (without(CLEAN, "c4.metrics.jsonl"), "there is no c4.metrics.jsonl"),
    "polls of nothing": ({**CLEAN, "c4.metrics.jsonl": b""}, "c4.metrics.jsonl comes to lag_p99_worst_ms nothing"),
    "polls of another rung": (
        {**CLEAN, "c4.metrics.jsonl": CLEAN["c8.metrics.jsonl"]},
        "c4.metrics.jsonl comes to lag_p99_worst_ms 1.9",
    ),
    "polls of another pool": (
        {**CLEAN, "c4.metrics.jsonl": POLLS.replace(b'"sandbox_pool_size": 4', b'"sandbox_pool_size": 1')},
        "c4.metrics.jsonl tells of 1 to 1 sandboxes, and its record says 4",
    ),
    "both records say another lag": (recorded(CLEAN, "c4", lag_p99_worst_ms=9999), "comes to lag_p99_worst_ms 1.5"),
    "both records say more leases": (recorded(CLEAN, "c4", lease_saturation=16), "comes to lease_saturation 1.0"),
    "no pins": (without(CLEAN, "pins.json"), "there is no pins.json"),
    "no state of the tier": (without(CLEAN, "tier.json"), "there is no tier.json"),
    "turns shorter than the stub sleeps": (
        changed(
            changed(
                CLEAN, "ladder.json", profile={"ttftMs": 25, "tokenDelayMs": 2, "outputTokens": 64, "toolCallRate": 1}
            ),
            "target.json",
            profile={"ttftMs": 25, "tokenDelayMs": 2, "outputTokens": 64, "toolCallRate": 1},
        ),
        "and the stub's profile alone makes a turn last 182 ms",
    ),
    "turns that were counted ended by time": (
        recorded(CLEAN, "c4", ended="time is up"),
        "c4 ended because its time was",
    ),
    "a worker that spent more than there was": (
        recorded(CLEAN, "c4", workers=[{**json.loads(CLEAN["c4.json"])["workers"][0], "cpu_s": 900}]),
        "c4 says cpu_s 900 of worker 1",
    ),
    "a workload of the other arm": (changed(CLEAN, "workload.json", arm="realism"), "workload.json says arm 'realism'"),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_what_disagrees_is_one_sentence_that_names_it(what: str, tmp_path: Path) -> None:
    files, words = CONTRADICTIONS[what]
    verdict = graded(files, tmp_path)
    assert verdict.word == REFUSED
    assert words in str(verdict.reason)
    assert verdict.ungraded or verdict.refusals[0].rule == "contradiction"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"client":1,"start_ms":0.0', "c2.turns.jsonl: line 21 is no turn"),
        (b"\xff\n", "c2.turns.jsonl: line 21 is no turn"),
        (b"[1]\n", "c2.turns.jsonl: line 21 is no turn"),
        (b"\n", "c2.turns.jsonl: line 21 is no turn"),
        (b"[" * 100_000 + b"\n", "c2.turns.jsonl: line 21 is no turn"),
        (b'{"client":1,"start_ms":1e999,"ms":1,"code":"200","stop":"stop"}\n', "c2.turns.jsonl: line 21 is no turn"),
        (b'{"client":true,"start_ms":1,"ms":1,"code":"200","stop":"stop"}\n', "c2.turns.jsonl: line 21 is no turn"),
    ],
)
def test_a_torn_or_foreign_line_of_turns_is_refused_in_one_sentence(line: bytes, words: str, tmp_path: Path) -> None:
    verdict = graded({**CLEAN, "c2.turns.jsonl": CLEAN["c2.turns.jsonl"] + line}, tmp_path)
    assert (verdict.word, verdict.reason) == (REFUSED, words)


@pytest.mark.parametrize("file", ["target.json", "rungs.json", "workload.json", "run.json", "c4.json"])
@pytest.mark.parametrize("content", [b"[]", b"{", b"", b"\xff", b'{"c": "x", "profile": 3, "cap": []}'])
def test_a_damaged_file_beside_a_ladder_is_refused_in_one_sentence(file: str, content: bytes, tmp_path: Path) -> None:
    verdict = graded({**CLEAN, file: content}, tmp_path)
    assert verdict.word == REFUSED
    assert file in str(verdict.reason)
    assert "\n" not in str(verdict.reason)


def test_a_rung_that_its_deadline_cut_is_a_miss_and_contradicts_nothing(tmp_path: Path) -> None:
    late, sent = late_rung(16)
    turns = {f"c{c}": turns_of(c) for c in (1, 2, 4, 8)}
    rungs = tuple(rung_of(int(name[1:]), of_rung) for name, of_rung in turns.items())
    verdict = graded(files_of(made_ladder((*rungs, late)), {**turns, "c16": sent}), tmp_path)
    assert (verdict.word, verdict.knee.floor, verdict.knee.hi) == (PASS, 8, 16), verdict.reason
    assert [rung["state"] for rung in verdict.rungs][-1] == "cut"
    assert f"c16 ended by its deadline: {late.attempts} of 160 planned turns were attempted" in verdict.notes


def test_a_rung_that_was_cut_is_not_one_of_all_turns(tmp_path: Path) -> None:
    late, sent = late_rung(2)
    whole = dataclasses.replace(late, ended=ALL_TURNS)
    verdict = graded(files_of(made_ladder((rung_of(1, turns_of(1)), whole)), {"c1": turns_of(1), "c2": sent}), tmp_path)
    assert "c2 ended by all turns, and" in str(verdict.reason)


def test_tries_that_were_cut_off_are_kept_and_are_no_turns_of_the_rung(tmp_path: Path) -> None:
    torn = CLEAN["c4.turns.jsonl"][:500]
    again = recorded(CLEAN, "c4", cut_tries=1)
    verdict = graded({**again, "c4.cut1.turns.jsonl": torn, "c4.cut1.metrics.jsonl": b"{"}, tmp_path)
    assert verdict.word == PASS


def test_turns_and_polls_are_tables(tmp_path: Path) -> None:
    assert graded(CLEAN, tmp_path).word == PASS
    with connect() as connection:
        for name in ("rungs", "turns", "polls"):
            load_table(connection, name, [tmp_path / "tables" / f"{name}.parquet"])
        counted = connection.execute(
            """
            SELECT c, count(*), count(*) FILTER (ok), quantile_disc(ms, 0.95) FILTER (ok), count(failure)
            FROM turns GROUP BY ALL ORDER BY ALL
            """
        ).fetchall()
        told = connection.execute("SELECT c, attempts, ok, p95_ms, attempts - ok FROM rungs ORDER BY c").fetchall()
        assert counted == told
        polled = connection.execute(
            "SELECT poll_no, tail, healthy_workers, in_flight, pool, lease_saturation FROM polls WHERE c = 8 ORDER BY 1"
        ).fetchall()
        assert polled == [(1, False, 2, 0, 4, 2), (2, False, 2, 0, 4, 2), (3, True, 2, 0, 4, 2)]


def test_a_ladder_from_elsewhere_has_neither_turns_nor_polls(tmp_path: Path) -> None:
    made = build_tables(
        write_files(tmp_path / "evidence", {"ladder.json": CLEAN["ladder.json"]}), tmp_path / "t", run=RUN
    )
    assert (made["turns"]["rows"], made["polls"]["rows"], made["rungs"]["rows"]) == (0, 0, 5)


@pytest.mark.parametrize("line", [b"x\n", b"[]\n", b'{"tail": 1}\n'])
def test_a_torn_poll_is_refused_in_one_sentence(line: bytes, tmp_path: Path) -> None:
    verdict = graded({**CLEAN, "c2.metrics.jsonl": line}, tmp_path)
    assert (verdict.word, verdict.reason) == (REFUSED, "c2.metrics.jsonl: line 1 is no poll")


@pytest.mark.fleet
def test_what_the_driver_leaves_of_the_embedded_tier_contradicts_nothing(tmp_path: Path) -> None:
    """With turns that were refused, and a rung that its deadline cut."""
    plan = RungPlan(1, CAPACITY, NO_BASIS, TURNS, 5.0, 60.0)
    fast = Profile(10, 1, 16, 0.5)
    own = TierSettings(workers=2, turns_per_worker=2, sandboxes=2, cap=16, profile=fast, tool_command="true")
    tier = start(dataclasses.replace(own, lifetime_s=90), state=tmp_path / "tier.json", mark="test-contradictions")
    try:
        target = embedded(tier, pins={"git": "2.39"})
        asked = (plan, dataclasses.replace(plan, c=2), dataclasses.replace(plan, c=8, turns_per_client=5))
        late = dataclasses.replace(plan, c=4, turns_per_client=1000, deadline_s=1.5)
        rungs = tuple(run_rung(target, each, tmp_path / "live", mark="m") for each in (*asked, late))
        told = facts(target, read_metrics(target.admin), read_profile(target.stub))
    finally:
        tier.stop()
    assert rungs[2].refused_429 and rungs[3].late and rungs[3].timed_out
    ladder = parse_ladder(made_ladder(tuple(sorted(rungs, key=lambda rung: rung.c))).to_json() | told)
    files = live_files(ladder, tmp_path / "live")
    evidence = write_files(tmp_path / "evidence", files)
    listed = dict.fromkeys(files, "")
    read = e8.read_evidence(evidence, run=RUN, files=listed)
    assert [of_rung(read, rung) for rung in read.rungs] == [None] * 4
    beside = read_ladder_files(evidence, listed)
    assert beside is not None
    assert list(contradictions.turns(read, beside)) == []
    assert list(contradictions.records(read, beside)) == []
    assert contradictions.of_ladder(read, beside) is None
