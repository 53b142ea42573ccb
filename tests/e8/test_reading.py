"""Records of rungs: both forms are read, NaN is unknown with a reason, damage is refused by rung and field."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.e8 import rules
from harness.e8.arms import ARMS, REALISM
from harness.e8.reading import parse_ladder, parse_rung
from harness.e8.record import Ladder, Profile, Rung, RungWorker
from harness.errors import ReportFormatError
from harness.store.formats.e8 import RECORD_TABLES, from_rows, rows
from harness.store.kinds import tables_of
from harness.store.schemas import TABLES

RECORD: dict[str, Any] = {
    "c": 32,
    "arm": "capacity",
    "attempts": 960,
    "ok_n": 958,
    "spurious_429": 2,
    "conns_per_turn": 1,
    "throughput": 205.567,
    "p50Ms": 129,
    "p95Ms": None,
    "loop_lag_p99": [1.5, "NaN"],
    "rss_bytes": [296853504, "NaN"],
    "lag_resolution_ms": "1",
    "file_op_ms": "NaN",
    "sandbox_cpu": "4.10",
    "worker_cpu_s": "NaN",
    "host_cpu_s": "24.84",
    "sandbox_util": "5.5",
    "lease_saturation": "0.25",
    "over_admission": "18030",
    "contention_load1": "0.37",
    "duty_basis": "none (capacity arm)",
}


def test_a_record_of_another_recorder_is_read_with_its_units() -> None:
    rung = parse_rung(RECORD)
    assert (rung.c, rung.attempts, rung.ok, rung.refused_429) == (32, 960, 958, 2)
    assert (rung.throughput_tps, rung.p50_ms, rung.p95_ms) == (205.567, 129, None)
    assert (rung.sandbox_cpu_s, rung.sandbox_util_pct, rung.over_admission_total) == (4.1, 5.5, 18030)
    assert [worker.lag_p99_ms for worker in rung.workers] == [1.5, None]
    assert [worker.rss_bytes for worker in rung.workers] == [296853504, None]
    assert rung.why_unknown == {"file_op_p95_ms": "NaN in the record", "worker_cpu_s": "NaN in the record"}
    assert rung.host_cpu_util_pct is None and rung.workers[1].lag_p99_ms is None
    assert rung.cut_tries is None, "this recorder does not say"


def test_what_a_rung_is_written_as_is_read_as_the_same_rung() -> None:
    rung = dataclasses.replace(
        parse_rung(RECORD),
        workers=(RungWorker(pid=7, lag_p99_ms=1.5, cpu_s=0.0, in_flight_end=3, healthy_end=True), RungWorker()),
        execs_per_turn={"0": 3, "1": 955},
        system={"boot id": "a"},
        system_end={"boot id": "a"},
        store_connections_delta=-4,
        cut_tries=2,
    )
    assert parse_rung(json.loads(json.dumps(rung.to_json()))) == rung


def test_a_ladder_is_the_same_after_json_and_after_tables() -> None:
    rung = dataclasses.replace(parse_rung(RECORD), duty_basis=None, arm=None, lag_resolution_ms=None)
    whole = Ladder(
        arm="capacity",
        measured="embedded",
        workers=2,
        turns_per_worker=64,
        cap=86,
        pool=3,
        cores=2,
        profile=Profile(10, 1, 64, 0.5),
        basis="none (capacity arm)",
        lag_discriminates=False,
        planned=("c1", "c32", "c32.r2"),
        rungs=(dataclasses.replace(rung, c=1, execs_per_turn={"1": 30}), rung, dataclasses.replace(rung, repeat=2)),
    )
    assert parse_ladder(json.loads(json.dumps(whole.to_json()))) == whole
    settled = dataclasses.replace(whole, rungs=tuple(map(whole.settle, whole.rungs)))
    assert from_rows(rows(whole)) == settled


def test_the_tables_hold_every_field_of_a_record() -> None:
    """Under the same names; what is no single value has a table of its own."""
    fields = {f.name for f in dataclasses.fields(Rung)}
    assert fields - set(TABLES["rungs"].names) == {
        "duty_basis",
        "lag_resolution_ms",
        "execs_per_turn",
        "workers",
        "system",
        "system_end",
        "why_unknown",
    }
    assert set(TABLES["rungs"].names) - fields == {"run"}
    assert set(TABLES["rung_workers"].names) - {f.name for f in dataclasses.fields(RungWorker)} == {
        "run",
        "c",
        "repeat",
        "worker_no",
    }
    assert {f.name for f in dataclasses.fields(Ladder)} - set(TABLES["ladders"].names) == {"profile", "rungs"}
    assert set(rows(Ladder())) == set(RECORD_TABLES) == set(tables_of("e8")) - {"turns", "polls"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"c": 0}, "c is 0"),
        ({"c": "x"}, "c is 'x'"),
        ({"c": 2.5}, "must be a whole number"),
        ({"c": None}, "c is nothing"),
        ({"c": True}, "c is True"),
        ({"ok_n": 961}, "ok_n is 961 of 960 attempts"),
        ({"attempts": None}, "neither attempts and ok_n nor success_rate"),
        ({"attempts": "many"}, "attempts is 'many'"),
        ({"throughput": "205,567"}, "throughput is '205,567'"),
        ({"throughput": float("inf")}, "throughput is inf"),
        ({"p95Ms": -1}, "p95Ms is -1"),
        ({"p95Ms": [1]}, "p95Ms is [1]"),
        ({"arm": 3}, "arm is 3, and must be text"),
        ({"loop_lag_p99": 3}, "loop_lag_p99 must be a list"),
        ({"loop_lag_p99": [1, 2, 3]}, "of 3 workers and rss_bytes of 2"),
        ({"workers": [1]}, "workers must be a list of objects"),
        ({"execs_per_turn": {"1": -2}}, "execs_per_turn holds -2"),
        ({"system": "x"}, "system is 'x', and must be an object"),
        ({"why_unknown": {"a": 1}}, "must be text"),
        ({"repeat": 0}, "repeat must be"),
        ({"cut_tries": -1}, "cut_tries is -1"),
        ({"cut_tries": 0.5}, "must be a whole number"),
    ],
)
def test_a_damaged_rung_is_refused_by_its_field(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ReportFormatError) as refusal:
        parse_rung(RECORD | change, 3)
    assert refusal.value.message.startswith("rung 3: ")
    assert words in refusal.value.message


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
keys = st.sampled_from([*RECORD, "workers", "execs_per_turn", "system", "why_unknown", "repeat", "success_rate"])


@given(st.dictionaries(keys, values, max_size=6), values)
def test_nothing_but_one_sentence_comes_of_any_damage(change: dict[str, Any], facts: Any) -> None:
    """Whatever stands in a record: a ladder whose rows fit its tables, or a refusal on one line."""
    ladder = {"schema": 1, "cap": facts, "profile": facts, "planned": facts, "rungs": [RECORD | change]}
    for document in ([RECORD | change], ladder, facts):
        try:
            found = parse_ladder(document)
        except ReportFormatError as error:
            assert error.message and "\n" not in error.message
            continue
        assert len(found.rungs) <= 1
        json.dumps(found.to_json(), allow_nan=False)
        assert from_rows(rows(found)).rungs == tuple(bare(found.settle(rung)) for rung in found.rungs)


def bare(rung: Rung) -> Rung:
    """Without what the ladder says for all of its rungs."""
    return dataclasses.replace(rung, arm=None, duty_basis=None, lag_resolution_ms=None)


def test_an_array_that_says_two_things_of_the_whole_is_refused() -> None:
    first = RECORD | {"c": 1}
    assert parse_ladder([first, RECORD]).arm == "capacity"
    for key, value in {"arm": "realism", "duty_basis": "e7", "lag_resolution_ms": "10"}.items():
        with pytest.raises(ReportFormatError, match="rungs of two ladders"):
            parse_ladder([first, RECORD | {key: value}])


def test_a_rung_that_comes_again_in_an_array_is_a_repeat() -> None:
    found = parse_ladder([RECORD, RECORD | {"c": 1}, RECORD])
    assert [rung.name for rung in found.rungs] == ["c32", "c1", "c32.r2"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("wall_ms", 5e-324),
        ("throughput", 1e308),
        ("rss_bytes", [1e300]),
        ("loop_lag_p99", [1e16]),
        ("over_admission", 9 * 10**18),
        ("store_connections_delta", -(10**18)),
        ("execs_per_turn", {"1": 9 * 10**18}),
        ("workers", [{"cpu_s": 1e300}]),
        ("success_rate", 5),
    ],
)
def test_a_number_that_no_measurement_can_be_is_refused_by_its_rung_and_field(key: str, value: object) -> None:
    with pytest.raises(ReportFormatError, match=r"^rung 2: (\w+) (is|holds) .*, (which no measurement|and must be)"):
        parse_ladder([{"c": 1, "attempts": 10, "ok_n": 10}, {"c": 2, "attempts": 10, "ok_n": 10, key: value}])


@pytest.mark.parametrize("about", [{"degrade_x": 0}, {"host_rest_pct": 1000}, {"duty": -1}, {"duty_second": 5e-324}])
def test_a_share_or_bound_of_the_whole_is_what_it_can_be(about: dict[str, float]) -> None:
    with pytest.raises(ReportFormatError, match=f"^{next(iter(about))} is "):
        parse_ladder({"schema": 1, "rungs": [], **about})


@pytest.mark.parametrize("arm", ARMS)
def test_a_duty_of_more_than_one_core_is_kept_and_is_out_of_every_band(arm: str) -> None:
    ladder = parse_ladder({"schema": 1, "rungs": [], "arm": arm, "basis": "e6-ocp", "duty": 1.5, "duty_second": 2.25})
    assert (ladder.duty, ladder.duty_second) == (1.5, 2.25)
    assert ("the duty is 1.5000, outside of" in str(rules.duty_out_of_band(ladder))) == (arm == REALISM)


@pytest.mark.parametrize(
    "about", [{"ttftMs": -300}, {"toolCallRate": 50}, {"toolCallRate": 1e9}, {"tokenDelayMs": 1e300}]
)
def test_a_profile_that_no_stub_has_is_a_finding(about: dict[str, float]) -> None:
    profile = {"ttftMs": 10, "tokenDelayMs": 1, "outputTokens": 64, "toolCallRate": 0.5} | about
    ladder = parse_ladder({"schema": 1, "rungs": [], "profile": profile})
    assert ladder.profile is None and next(iter(about)) in ladder.unusable["profile"]


def test_a_source_that_is_no_text_of_utf8_can_be_stored() -> None:
    document = {"schema": 1, "arm": "capacity", "rungs": [RECORD], "source": {"title": "a\ud800b"}}
    ladder = parse_ladder(document)
    assert (ladder.source_title, ladder.source_where) == ("a?b", None)
