"""Every case folder: executions → stream, report, log and times, byte for byte. A case needs no code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sortie import log
from harness.sortie.report import (
    BackendError,
    BackendResult,
    Execution,
    encode_report,
    encode_stream_line,
    report_passed,
    statistic_json,
)
from harness.sortie.thresholds import judge, parse_threshold
from harness.sortie.times import times_tsv

CASES = sorted(path for path in (Path(__file__).parent / "cases").iterdir() if path.is_dir())


def read_executions(case: Path) -> list[Execution]:
    """A case's executions; its thresholds are judged here, over the results without a backend error."""
    return [make_execution(entry) for entry in json.loads((case / "executions.json").read_text())]


def make_execution(entry: dict[str, Any]) -> Execution:
    results = tuple(BackendResult(**result) for result in entry.pop("results", []))
    errors = tuple(BackendError(**error) for error in entry.pop("backend_errors", []))
    survivors = [result for result in results if result.backend not in {error.backend for error in errors}]
    thresholds = tuple(judge(parse_threshold(text), survivors) for text in entry.pop("thresholds", []))
    backends = tuple(entry.pop("backends"))
    return Execution(**entry, backends=backends, thresholds=thresholds, results=results, backend_errors=errors)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_stream_lines_are_byte_for_byte_as_stated(case: Path) -> None:
    lines = [encode_stream_line(execution) for execution in read_executions(case)]
    assert lines == (case / "results.jsonl").read_text().splitlines()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_report_holds_the_streams_own_objects_indented(case: Path) -> None:
    executions = read_executions(case)
    text = encode_report(executions)
    document = json.loads(text)
    assert list(document) == ["pass", "executions"]
    assert document["executions"] == [json.loads(line) for line in (case / "results.jsonl").read_text().splitlines()]
    assert [list(e) for e in document["executions"]] == [list(e.to_json()) for e in executions]
    assert document["pass"] is all(entry["pass"] for entry in document["executions"])
    assert text.startswith('{\n  "pass": ')
    assert text.endswith("}\n")
    assert not set("<>&") & set(text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_log_lines_are_as_stated(case: Path) -> None:
    executions = read_executions(case)
    lines = [log.running_line(execution) for execution in executions if not execution.not_run]
    lines += [*map(log.verdict_line, executions), ""]
    for execution in executions:
        lines += log.summary_lines(execution)
    lines.append(log.last_line(executions))
    assert lines == (case / "sortie.log").read_text().splitlines()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_times_come_from_the_stream(case: Path) -> None:
    entries = [json.loads(line) for line in (case / "results.jsonl").read_text().splitlines()]
    assert times_tsv(entries) == (case / "times.tsv").read_text()


def test_a_report_of_nothing_does_not_pass() -> None:
    assert json.loads(encode_report([])) == {"pass": False, "executions": None}
    assert report_passed([]) is False
    assert log.last_line([]) == "FAIL  0/0 executions passed"


def test_an_execution_with_an_error_cannot_hold_results() -> None:
    with pytest.raises(ValueError, match="neither thresholds nor results"):
        make_execution({"label": "a", "scenario": "a", "pool": "p", "rate_rps": 1, "duration_ms": 1, "backends": [],
                        "error": "x", "results": [{"backend": "b", "elapsed_ms": 1}]})  # fmt: skip
    with pytest.raises(ValueError, match="never attempted"):
        make_execution({"label": "a", "scenario": "a", "pool": "p", "rate_rps": 1, "duration_ms": 1, "backends": [],
                        "error": "x", "not_run": True, "refused": "execution_cap"})  # fmt: skip


def test_numbers_an_engine_did_not_report_are_absent_and_never_nan() -> None:
    statistic = {"count": 2, "unit": "raw", "mean": float("nan"), "max": float("inf"), "min": 1.0, "p50": None}
    assert statistic_json(statistic) == {"count": 2, "unit": "raw", "min": 1}


def test_times_of_a_foreign_report_cannot_break_the_columns() -> None:
    row = times_tsv([{"label": "a\tb\nc", "pass": "yes", "results": None}])
    assert row == "a b c\t-\t-\t-\t-\t-\tfail\n"


def test_progress_line_lists_what_moved_and_what_is_known() -> None:
    counters = {"benchmark.http_2xx": 2700, "benchmark.http_inflight_lost": 3, "benchmark.pool_overflow": 1}
    told = {"elapsed_s": 300, "mean_ns": 2_214_531, "max_ns": 6_000_000}
    assert log.progress_line("mesh/cart", "127.0.1.1:4001", counters=counters, **told) == (
        "    mesh/cart  127.0.1.1:4001  5m0s  http_2xx 2700  pool_overflow 1  mean 2.214531ms  max 6ms"
    )
    assert log.progress_line("a", "b", elapsed_s=0, counters={}) == "    a  b  0s  http_2xx 0"


@given(started=st.integers(0, 4_000_000_000_000), elapsed=st.integers(0, 100_000_000))
def test_ended_is_exactly_started_plus_elapsed(started: int, elapsed: int) -> None:
    from datetime import datetime

    execution = Execution(
        label="a", scenario="a", pool="p", rate_rps=1, duration_ms=1, elapsed_ms=elapsed, started_unix_ms=started
    )
    start, end = (datetime.fromisoformat(text) for text in (execution.started_at or "", execution.ended_at or ""))
    assert round((end - start).total_seconds() * 1000) == elapsed
    assert round(start.timestamp() * 1000) == started
    assert len(execution.started_at or "") == len("2026-01-01T00:00:00.000Z")


@given(st.text())
def test_any_error_text_survives_the_encoding(text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    execution = make_execution({"label": "a", "scenario": "a", "pool": "p", "rate_rps": 1, "duration_ms": 1,
                                "backends": [], "error": text or "x"})  # fmt: skip
    line = encode_stream_line(execution)
    assert json.loads(line)["error"] == (text or "x")
    assert "\n" not in line
    assert not set("<>&\u2028\u2029") & set(line)


@given(st.text(alphabet=st.sampled_from("SKIP PAS\n\r\x85\u2028L0/1xecutionspasd,"), min_size=1))
def test_no_engines_words_can_forge_a_line_of_the_log(text: str) -> None:
    execution = make_execution({"label": "a", "scenario": "a", "pool": "p", "rate_rps": 1, "duration_ms": 1,
                                "backends": [], "error": f"backend b: {text}", "refused": "execution_cap",
                                "backend_errors": [{"backend": "b", "error": text}]})  # fmt: skip
    lines = [log.verdict_line(execution), *log.summary_lines(execution)]
    assert len(lines) == 4
    assert all(len(line.splitlines()) == 1 for line in lines)
    assert not any(line.split()[0] in ("SKIP", "PASS") for line in lines)
