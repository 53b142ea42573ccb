"""What each command prints, over runs made by hand."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli import main
from harness.commands.output import csv_text, echo_json, text_table, unique
from harness.files import sha256_file
from harness.gate.store import stored
from harness.history import meanings
from harness.runs import RunFolder
from tests.cli.sealed import made_now
from tests.report import made

NODES = ("node-a", "node-b")


def index(folder: RunFolder, refused: str | None = None) -> None:
    """What the stages save and tables leave beside the tables: sealed evidence, and the index that names it."""
    folder.evidence.mkdir(exist_ok=True)
    (folder.evidence / "report.json").write_text("{}")
    folder.sums.write_text(f"{sha256_file(folder.evidence / 'report.json')}  report.json\n")
    folder.saved.write_text("2026-10-08T10:16:55.000Z\n")
    made.index(folder, refused)
    made_now(folder)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """quick-1 is clean and was graded; bad-1 had 12 503s on node-b and was not."""
    clean = made.clean_tables({"svc-1": 9, "uds-echo": 3}, NODES)
    index(made.save_run(tmp_path / "runs", "quick-1", clean, made.verdict_of(clean, "quick-1")))
    bad = made.clean_tables({"svc-1": 9, "uds-echo": 3}, NODES)
    place = {"exec_no": 1, "backend_no": 2, "backend": "127.0.1.2:7000", "node": "node-b"}
    bad["counters"].append({**place, "counter": "benchmark.http_5xx", "value": 12})
    index(made.save_run(tmp_path / "runs", "bad-1", bad, None))
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def say(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    output, error = capsys.readouterr()
    return code, output, error


# gate


def test_gate_prints_the_lines_and_exits_by_the_verdict(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = say(capsys, "gate", "quick-1")
    assert code == 0
    assert output.splitlines()[-2].startswith("SOAK UNPROVEN prober=absent")
    assert output.splitlines()[-1].startswith("VERDICT PASS targets=2 passed=2 failed=0")
    code, output, _ = say(capsys, "gate", "bad-1", "--per-node")
    assert code == 1
    assert output.splitlines()[-1].startswith("VERDICT FAIL targets=2 passed=1 failed=1")
    assert "NODE  svc-1  node-b  http_2xx=540/540" in output and "http_5xx=12" in output


def test_gate_as_json_is_one_object(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = say(capsys, "gate", "bad-1", "--json")
    document = json.loads(output)
    assert (code, document["verdict"], document["counts"]["failed"]) == (1, "FAIL", 1)
    finding = next(f for f in document["targets"][0]["findings"] if f["rule"] == "failures")
    assert (finding["node"], finding["class"], finding["count"], finding["cause"]) == ("node-b", "http_5xx", 12, "mesh")


def test_every_grading_is_kept(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        say(capsys, "gate", "bad-1")
    assert len(stored(RunFolder(runs / "bad-1").verdicts)) == 2
    assert json.loads(say(capsys, "runs", "--json")[1])["runs"][1]["verdict"] == "FAIL"


def test_evidence_that_made_no_tables_is_refused_with_the_reason(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(runs / "quick-1")
    index(folder, refused="report.json is not JSON")
    code, output, error = say(capsys, "gate", "quick-1", "--json")
    document = json.loads(output)
    assert (code, document["verdict"], document["reason"]) == (2, "REFUSED", "report.json is not JSON")
    assert error == "harness: REFUSED quick-1: report.json is not JSON\n"
    assert say(capsys, "gate", "quick-1") == (2, "", error)


@pytest.mark.parametrize("table", ["counters", "runs", "plan_targets"])
def test_a_table_that_was_changed_is_refused(runs: Path, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = runs / "quick-1" / "tables" / f"{table}.parquet"
    path.write_bytes((runs / "bad-1" / "tables" / f"{table}.parquet").read_bytes())
    code, output, error = say(capsys, "gate", "quick-1")
    assert (code, output) == (2, "") and f"{table}.parquet is not what was made from the evidence" in error


# report


def test_report_writes_the_page_and_prints_its_path(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = say(capsys, "report", "quick-1")
    page = Path(output.strip())
    assert code == 0 and page == runs / "quick-1" / "report.html" and "PASS" in page.read_text()
    code, output, _ = say(capsys, "report", "bad-1", "--json")
    assert json.loads(output) == {
        "schema": 1,
        "run": "bad-1",
        "verdict": None,
        "report": str(runs / "bad-1/report.html"),
    }
    assert "NOT GRADED" in (runs / "bad-1" / "report.html").read_text()


# runs


def test_runs_lists_state_and_verdict(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "empty-1").mkdir()
    code, output, _ = say(capsys, "runs")
    lines = {line.split()[0]: line.split() for line in output.splitlines()[2:]}
    assert code == 0
    assert lines["quick-1"][4:6] == ["graded", "PASS"]
    assert lines["bad-1"][4:6] == ["saved", "-"]
    assert lines["empty-1"][4:6] == ["unreadable", "-"]


def test_an_empty_folder_says_what_makes_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that is there by default need not exist: the first run makes it."""
    monkeypatch.delenv("HARNESS_RUNS", raising=False)
    monkeypatch.chdir(tmp_path)
    code, output, _ = say(capsys, "runs")
    assert code == 0 and "./doit soak" in output
    assert json.loads(say(capsys, "runs", "--json")[1]) == {"schema": 1, "runs": []}


@pytest.mark.parametrize("words", [["runs"], ["runs", "--json"], ["sql", "run-by-run"], ["gate", "quick-1"]])
@pytest.mark.parametrize("named_by", ["--runs", "HARNESS_RUNS"])
def test_a_runs_folder_that_was_named_and_is_not_there_is_a_usage_error(
    words: list[str],
    named_by: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nowhere = str(tmp_path / "none")
    monkeypatch.setenv("HARNESS_RUNS", nowhere if named_by == "HARNESS_RUNS" else str(tmp_path))
    code, output, error = say(capsys, *words, *(["--runs", nowhere] if named_by == "--runs" else []))
    assert (code, output) == (3, "") and f"{named_by} names {nowhere}" in error and error.count("\n") == 1


def test_runs_marks_a_drill(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made.put_fault(RunFolder(runs / "bad-1"), "kill-engine node-b at 3s")
    (runs / "empty-1").mkdir()
    drills = {run["run"]: run["drill"] for run in json.loads(say(capsys, "runs", "--json")[1])["runs"]}
    assert drills == {"quick-1": "no", "bad-1": "kill-engine node-b at 3s", "empty-1": None}
    assert "kill-engine node-b at 3s" in say(capsys, "runs")[1]


# sql


def test_sql_answers_in_four_forms(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT run, targets_planned AS n, log_summary FROM runs ORDER BY run"
    assert say(capsys, "sql", query)[1].splitlines()[2:] == ["bad-1    2  NULL", "quick-1  2  NULL"]
    assert say(capsys, "sql", query, "--format", "csv")[1] == "run,n,log_summary\nbad-1,2,\nquick-1,2,\n"
    expected = [{"run": run, "n": 2, "log_summary": None} for run in ("bad-1", "quick-1")]
    assert json.loads(say(capsys, "sql", query, "--json")[1]) == expected
    binary = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(binary))
    assert main(["sql", query, "--format", "parquet"]) == 0
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(io.BytesIO(binary.getvalue())).to_pylist() == expected


def test_sql_names_and_lists_its_questions(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = say(capsys, "sql", "--list")
    assert code == 0 and "run-by-run" in output and "counters" in output and "cells" in output
    listed = json.loads(say(capsys, "sql", "--list", "--json")[1])
    assert {query["name"] for query in listed["queries"]} >= {
        "run-by-run",
        "targets",
        "compare",
        "resources",
        "slowest",
    }
    code, output, _ = say(capsys, "sql", "slowest", "--param", "limit=1", "--format", "csv")
    assert code == 0 and len(output.splitlines()) == 2


def test_sql_lists_the_columns_of_a_table_and_of_a_view(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = json.loads(say(capsys, "sql", "--list", "counters", "--json")[1])["columns"]
    assert columns[-1] == {"name": "value", "type": "bigint", "about": "NULL: not a whole number"}
    for name in ("cells", "verdicts", "settings"):
        code, output, _ = say(capsys, "sql", "--list", name)
        assert code == 0 and output.splitlines()[4].split()[0] == "run"
    assert "SELECT" in say(capsys, "sql", "--list", "slowest")[1]
    output = say(capsys, "sql", "--list", "resources")[1]  # a table, and a question
    assert "rss_bytes  bigint" in output and "How many CPU cores" in output and "SELECT" in output
    code, output, error = say(capsys, "sql", "--list", "nope")
    assert (code, output) == (3, "") and "no table or question named nope" in error


def test_every_column_that_can_be_asked_for_says_what_it_means(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that is new is said in harness/history/meanings.py; one that is gone is taken out there."""
    columns = {
        (name, column["name"]): column["about"]
        for name in json.loads(say(capsys, "sql", "--list", "--json")[1])["tables"]
        for column in json.loads(say(capsys, "sql", "--list", name, "--json")[1])["columns"]
    }
    assert [place for place, about in columns.items() if not about] == []
    assert set(meanings.said()) <= {column for _, column in columns}
    assert set(meanings.said(of_one=True)) <= {f"{table}.{column}" for table, column in columns}
    assert columns["cells", "sent"] == "requests that left the engine; NULL: not known"
    assert columns["cells", "bad_counters"] == columns["backends", "bad_counters"] != ""


def test_sql_lists_headers_whole_and_says_how_to_join(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = say(capsys, "sql", "--list")[1]
    described = next(line for line in output.splitlines() if line.startswith("target_states"))
    assert described.endswith(".") and "planned_2xx" in described  # its header goes on over two lines
    assert "JOIN executions USING (run, exec_no)" in output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["no-such-question"], "no question named no-such-question"),
        (["slowest", "--param", "limti=1"], "has no parameter limti"),
        (["compare", "--param", "run=quick-1"], "needs --param base="),
        (["compare", "--param", "run=quick-1", "--param", "base=quick-9"], "there is no run quick-9"),
        (["slowest", "--param", "limit"], "not NAME=VALUE"),
        (["slowest", "--param", "limit=many"], "does not work"),
        (["SELECT * FROM nowhere"], "does not work"),
        (["COPY (SELECT 1) TO 'x.csv'"], "only one SELECT"),
        (["SELECT 1 AS a", "--json", "--format", "csv"], "different forms"),
    ],
)
def test_a_question_that_cannot_be_asked_is_one_sentence_and_3(
    runs: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output, error = say(capsys, "sql", *words)
    assert (code, output) == (3, "") and sentence in error and error.count("\n") == 1


@pytest.mark.parametrize("damage", ["absent", "torn"])
def test_a_run_with_a_damaged_table_is_named_on_stderr_and_the_rest_answers(
    runs: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = runs / "bad-1" / "tables" / "counters.parquet"
    whole = path.read_bytes()
    path.unlink()
    if damage == "torn":
        path.write_bytes(whole[:-5])
    why = (
        f"counters.parquet is not what was made from the evidence; remove {path.parent}, and `harness gate bad-1` makes"
    )
    code, output, error = say(capsys, "sql", "SELECT DISTINCT run FROM runs LEFT JOIN counters USING (run)", "--json")
    assert (code, json.loads(output)) == (0, [{"run": "quick-1"}])
    assert error == f"harness: left out {runs / 'bad-1'}: {why} them from the evidence\n"
    rows = {row["run"]: row for row in json.loads(say(capsys, "sql", "run-by-run", "--json")[1])}
    assert (rows["bad-1"]["verdict"], rows["bad-1"]["failures"], rows["bad-1"]["sent_by_returned"]) == (
        "DAMAGED", "not measured", None,
    )  # fmt: skip
    code, output, error = say(capsys, "report", "bad-1")
    assert (code, output) == (2, "") and why in error and error.count("\n") == 1


def test_a_question_about_one_run_looks_into_no_other(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "bad-1" / "tables" / "statistics.parquet").unlink()
    code, output, error = say(capsys, "sql", "latency", "--param", "run=quick-1", "--json")
    assert (code, len(json.loads(output)), error) == (0, 8, "")
    code, output, error = say(capsys, "sql", "latency", "--param", "run=bad-1", "--json")
    assert (code, json.loads(output)) == (0, []) and "left out" in error


def test_columns_of_one_name_lose_no_value(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(say(capsys, "sql", "SELECT 1 AS a, 2 AS a", "--json")[1]) == [{"a": 1, "a_2": 2}]
    assert unique(["a", "a", "a_2", "a"]) == ["a", "a_3", "a_2", "a_4"]


@given(st.lists(st.sampled_from(["a", "a_2", "a_3", "b"])))
def test_every_column_has_a_name_of_its_own(columns: list[str]) -> None:
    names = unique(columns)
    assert len(set(names)) == len(columns)
    assert [name.partition("_")[0] for name in names] == [column.partition("_")[0] for column in columns]


def test_no_control_character_reaches_the_terminal_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    names = {"a\x9b31m": "\x1b[2J\x7f\x85 ü"}
    echo_json(names)
    output = capsys.readouterr().out
    assert json.loads(output) == names
    assert all(character.isprintable() for line in output.splitlines() for character in line)


def test_an_answer_that_parquet_cannot_hold_is_one_sentence(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    binary = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(binary))
    assert main(["sql", "SELECT INTERVAL 1 DAY AS i", "--format", "parquet"]) == 3
    assert binary.getvalue() == b""
    error = capsys.readouterr().err
    assert "cast it to VARCHAR" in error and error.count("\n") == 1


def test_a_question_has_a_time_limit(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    endless = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b"
    code, output, error = say(capsys, "sql", endless, "--timeout-s", "1")
    assert (code, output) == (3, "") and "took longer than 1 s" in error and error.count("\n") == 1
    for limit in ("0", "-1", "nan", "inf", "1e9", "x"):
        assert say(capsys, "sql", "SELECT 1 AS a", "--timeout-s", limit)[0] == 3
    assert say(capsys, "sql", "--help")[1].count("[default: 60") == 1


@given(st.lists(st.lists(st.none() | st.text() | st.integers() | st.floats(), min_size=2, max_size=2)))
def test_a_table_has_one_line_per_row_whatever_it_holds(rows: list[list[Any]]) -> None:
    assert len(text_table(["a", "b"], rows).split("\n")) == len(rows) + 2


@given(st.lists(st.lists(st.none() | st.text() | st.just("\x1b[2J\x9b31m\x07"), min_size=2, max_size=2)))
def test_csv_for_a_terminal_holds_no_control_character(rows: list[list[str | None]]) -> None:
    lines = csv_text(["a", "\x1b[2J"], rows, terminal=True).split("\n")
    assert len(lines) == len(rows) + 2 and all(line.isprintable() for line in lines)


def test_csv_is_escaped_on_a_terminal_alone(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sql", "SELECT chr(27) || '[2J' AS a", "--format", "csv"]
    assert say(capsys, *words)[1] == "a\n\x1b[2J\n"
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", buffering=0) as seen, os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert main(words) == 0
        terminal.flush()
        assert seen.read(100).replace(b"\r", b"") == b"a\n\\x1b[2J\n"


@given(st.lists(st.lists(st.none() | st.text(alphabet='ab",\n\r ;'), min_size=2, max_size=2)))
def test_csv_comes_back_as_it_was(rows: list[list[str | None]]) -> None:
    import csv

    back = list(csv.reader(io.StringIO(csv_text(["a", "b"], rows), newline="")))
    assert back[1:] == [[value or "" for value in row] for row in rows]


# explain


def test_explain_says_what_a_rule_asserts(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = say(capsys, "explain", "off_plan")
    assert code == 0 and "within 5 %" in output and "28_off_plan.sql" in output
    assert "SELECT" in say(capsys, "explain", "off_plan", "--sql")[1]
    assert json.loads(say(capsys, "explain", "off_plan", "--json")[1])["rule"] == "off_plan"


def test_explain_says_what_to_do_here_and_elsewhere_or_in_one_run(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run from elsewhere has no log of an engine, and no setting that could be changed."""
    document = json.loads(say(capsys, "explain", "lost_backend", "--json")[1])
    assert "engine-<node>.log" in document["if_broken"] and "engine-<node>.log" not in document["elsewhere"]
    document = json.loads(say(capsys, "explain", "lost_backend", "--run", "quick-1", "--json")[1])
    assert document["if_broken"] == "The engine of that node went away: read report.json."
    assert "elsewhere" not in document
    output = say(capsys, "explain", "refused_at_cap")[1]
    assert "if broken  The engine was full. Raise engine.max_executions" in output
    assert "elsewhere  The engine was full. Raise its cap" in output
    code, output, error = say(capsys, "explain", "off_plan", "--run", "nope")
    assert (code, output) == (3, "") and "there is no run nope" in error


def test_explain_lists_every_rule_and_helps_with_a_typo(capsys: pytest.CaptureFixture[str]) -> None:
    from harness.e8.advice import ADVICE
    from harness.gate.load import load_gates

    output = say(capsys, "explain")[1]
    assert [line.split()[0] for line in output.splitlines()] == [*(gate.rule for gate in load_gates()), *ADVICE]
    rules = json.loads(say(capsys, "explain", "--json")[1])["rules"]
    assert [each["rule"] for each in rules] == [line.split()[0] for line in output.splitlines()]
    assert all(each["asserts"] and each["cause"] and each["if_broken"] and each["file"] for each in rules)
    code, _, error = say(capsys, "explain", "lost_backed")
    assert code == 3 and "did you mean lost_backend?" in error
