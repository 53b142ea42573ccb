"""Readers: the forms they take, and that nothing makes them fail other than by a sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import EvidenceError
from harness.store import readers, side_rows
from harness.store.driver_log import DriverLog, read_driver_log
from harness.store.report_rows import read_report, read_stream, report_rows
from harness.store.stated import Stated

NEAR_TSV = st.text(alphabet="ab9.-\t\n\r #=/:é\u2028\x00'\"$(;", max_size=80).map(str.encode)
ANY_FILE = st.one_of(
    st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")), NEAR_TSV
)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

LOOSE_READERS: list[Callable[[Path], Any]] = [
    readers.read_env,
    readers.read_shares,
    readers.read_engines,
    readers.read_schedule,
    read_driver_log,
    readers.read_document,
    lambda path: list(readers.json_lines(path)),
    lambda path: list(side_rows.progress_rows(path, {})),
    lambda path: list(side_rows.resource_rows(path)),
    lambda path: list(side_rows.histogram_rows(path, {})),
]


@QUICK
@given(content=ANY_FILE)
def test_any_bytes_are_read_or_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    """EvidenceError with one line that names the file, and no other exception."""
    path = tmp_path / "some.file"
    path.write_bytes(content)
    for read in LOOSE_READERS:
        try:
            read(path)
        except EvidenceError as error:
            assert "some.file" in str(error)
            assert "\n" not in str(error)


@QUICK
@given(content=ANY_FILE)
def test_any_log_gives_events_or_none(tmp_path: Path, content: bytes) -> None:
    """Rolls and faults are read line by line; what is none of them keeps its text."""
    (tmp_path / "churn.log").write_bytes(content)
    (tmp_path / "faults.log").write_bytes(content)
    (tmp_path / "access-node-a.log").write_bytes(content)
    assert all(row["outcome"] for row in side_rows.event_rows(tmp_path))
    list(side_rows.access_rows(tmp_path))


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**70),
    st.floats(),
    st.text(max_size=8),
    st.just("2026-03-04T05:06:07.000Z"),
)
KEYS = st.sampled_from(
    ["label", "backend", "counters", "statistics", "benchmark.http_2xx", "error", "refused", "results", "backends",
     "expr", "thresholds", "backend_errors", "pass", "not_run", "started_at", "elapsed_ms", "duration_ms", "totals",
     "p99", "unit", "failures", "harness", "released"]
)  # fmt: skip
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=12,
)


@QUICK
@given(execution=st.dictionaries(KEYS, TREES, max_size=10), label=st.text(max_size=6), passed=TREES)
def test_any_execution_becomes_rows_or_a_refusal(
    tmp_path: Path, execution: dict[str, Any], label: str, passed: Any
) -> None:
    """Whatever stands where a number, a list or an object should: rows that fit the schema, or one sentence."""
    execution |= {"label": label}
    document = {"pass": passed, "executions": [execution]}
    (tmp_path / "report.json").write_text(json.dumps(document))
    (tmp_path / "results.jsonl").write_text(json.dumps(execution) + "\n")
    for read, name in ((read_report, "report.json"), (read_stream, "results.jsonl")):
        try:
            rows = report_rows(read(tmp_path / name), {}, Stated())
        except EvidenceError as error:
            assert name in str(error)
            assert "\n" not in str(error)
        else:
            assert len(rows.executions) == 1
            assert all(row["value"] is None or 0 <= row["value"] < 2**63 for row in rows.counters)


@pytest.mark.parametrize(
    ("value", "number"),
    [(0, 0), (1350.0, 1350), (2**63 - 1, 2**63 - 1), (2**63, None), (-1, None), (1.5, None), (True, None), ("7", None),
     (None, None), (math.nan, None), (math.inf, None), ([], None)],
)  # fmt: skip
def test_whole_numbers(value: object, number: int | None) -> None:
    """A whole float is a count; true, text, NaN and what int64 cannot hold are none."""
    assert readers.whole(value) == number


def test_run_env_is_text_and_nothing_in_it_is_done(tmp_path: Path) -> None:
    """Shell in a value stays a value; an '=' in it too; a key may stand twice with one value only."""
    path = tmp_path / "run.env"
    path.write_text('LABEL=$(touch owned) `id` "x"\nURL=http://a/?b=c\nSTATSD=\n\nMODE=soak\nMODE=soak\n')
    assert readers.read_env(path) == {
        "LABEL": '$(touch owned) `id` "x"',
        "URL": "http://a/?b=c",
        "STATSD": "",
        "MODE": "soak",
    }
    path.write_text("MODE=soak\nMODE=e2e\n")
    with pytest.raises(EvidenceError, match=r"run\.env:2 gives MODE a second value"):
        readers.read_env(path)


def test_the_last_summary_line_of_the_log_counts(tmp_path: Path) -> None:
    """SKIP as a first word at any indent; a summary only from the line's first column to its last."""
    path = tmp_path / "sortie.log"
    path.write_text(
        "FAIL  1/2 executions passed, 2 not run\n  SKIP a (x)\n\tSKIP  b\nno SKIP c\n"
        "PASS  2/2 executions passed\n PASS  9/9 executions passed, 9 not run\nPASS  2/2 executions passed, ok\n"
    )
    assert read_driver_log(path) == DriverLog(2, "PASS  2/2 executions passed", 0, 2, 2)


def test_times_are_utc_or_nothing() -> None:
    """An offset is taken off; a time without one is unknown."""
    at = readers.moment("2026-03-04T07:06:07.250+02:00")
    assert at is not None
    assert at.isoformat() == "2026-03-04T05:06:07.250000+00:00"
    assert readers.moment("2026-03-04T07:06:07") is None
    assert readers.moment(17) is None


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    """No separator, control character or run of spaces is left."""
    line = readers.one_line(text)
    assert len(line.splitlines()) <= 1
    assert line == line.strip()
    assert "  " not in line


def test_events_of_a_real_churn_and_fault_log(tmp_path: Path) -> None:
    """Kind, name, planned second and duration of rolls; verb and name of faults."""
    (tmp_path / "churn.log").write_text(
        "2026-03-04T05:06:06.900Z churn driver start T0=2026-03-04T05:06:07.000Z build=0.1\n"
        "2026-03-04T05:06:17.900Z ROLLED local/proxy/node-a at_s=8.0 took_ms=812\n"
        "2026-03-04T05:06:27.900Z FAILED local/target/svc-1 at_s=16.5 : at_s=99 is not the time\n"
        "2026-03-04T05:06:27.901Z CHURN ABORTED: gone\n"
    )
    (tmp_path / "faults.log").write_text(
        "2026-03-04T05:06:30.000Z FAULT kill-engine node-b at 20s : begins\n"
        "2026-03-04T05:06:30.001Z FAULT freeze engine node-c at 10s for 15s : pid 7 thawed after 15 s\n"
    )
    rows = list(side_rows.event_rows(tmp_path))
    assert [(r["outcome"], r.get("kind"), r.get("name"), r.get("at_s"), r.get("took_ms")) for r in rows] == [
        ("START", None, None, None, None),
        ("ROLLED", "proxy", "node-a", 8.0, 812.0),
        ("FAILED", "target", "svc-1", 16.5, None),
        ("ABORTED", None, None, None, None),
        ("BEGINS", "kill-engine", "node-b", None, None),
        ("ENDS", "freeze", "node-c", None, None),
    ]
