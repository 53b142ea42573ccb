"""Runs that another producer made, in every question: what it does not count is NULL or said so, never 0 or none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.adopt import adopt
from harness.gate.saved import grade_run
from harness.history.database import ask, open_database, run_roots
from harness.history.queries import named_queries
from harness.runs import RunFolder, run_folders
from tests.store import foreign


def answer(runs: Path, name: str, kind: str = "history", **given: str) -> list[dict[str, Any]]:
    query = named_queries(kind)[name]
    with open_database(run_roots(runs), query.sql) as opened:
        columns, rows = ask(opened, query.sql, query.bind(given))
    return [dict(zip(columns, row, strict=True)) for row in rows]


def take_in(runs: Path, source: Path, form: str, documents: dict[str, Any], run: str) -> None:
    """Adopt a directory of result files under a run id."""
    foreign.write_plan(source)
    env = source / "run.env"
    env.write_text(env.read_text().replace("soak-1", run))
    for cell, document in documents.items():
        (source / f"{cell}.json").write_text(json.dumps(document))
    assert adopt(source, runs, format=form).refused is None


CELLS = [(target, node) for target in foreign.SHARES for node in foreign.ENGINES]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same plan driven by nighthawk, by nighthawk that waits for answers, and by k6, each without a failure."""
    root = tmp_path_factory.mktemp("foreign")
    for run, options in (("by-nighthawk", {}), ("by-closed-loop", {"open_loop": False})):
        documents = {f"{t}@{n}": foreign.native(t, foreign.SHARES[t], **options) for t, n in CELLS}
        take_in(root / "runs", root / run, "nighthawk", documents, run)
    documents = {
        f"{t}@{n}": foreign.k6_summary(foreign.k6_metrics(foreign.SHARES[t] * foreign.DURATION_S)) for t, n in CELLS
    }
    take_in(root / "runs", root / "by-k6", "k6", documents, "by-k6")
    for folder in run_folders(root / "runs"):
        grade_run(folder)
    return root / "runs"


def test_no_failure_is_said_of_what_is_counted_alone(runs: Path) -> None:
    rows = {row["run"]: row for row in answer(runs, "run-by-run")}
    k6 = rows["by-k6"]
    assert (k6["sent_by_returned"], k6["planned"], k6["http_2xx"]) == (3600, 3600, None)
    assert k6["failures"] == "none (counted: k6.dropped_iterations, k6.http_req_failed alone)"
    nighthawk = rows["by-nighthawk"]
    assert (nighthawk["sent_by_returned"], nighthawk["http_2xx"]) == (3600, 3600)
    assert nighthawk["failures"] == "none (not counted: http_inflight_lost, pool_failure_timeout)"
    closed_loop = rows["by-closed-loop"]
    assert closed_loop["failures"] == "none (not counted: http_inflight_lost, pool_failure_timeout, pool_overflow)"
    for row in rows.values():
        assert {row[key] for key in ("fleet", "drill", "dispatched", "ended")} == {None}
        assert row["verdict"] == "UNPROVEN"


def test_a_target_has_no_count_of_answers_that_nobody_counted(runs: Path) -> None:
    rows = answer(runs, "targets", run="by-k6")
    assert [(row["target"], row["sent"], row["http_2xx"], row["planned"]) for row in rows] == [
        ("cart", 2700, None, 2700),
        ("pay", 900, None, 900),
    ]
    assert {row["worst_node"] for row in rows} == {"node-a"}
    assert {row["worst_send_delay_p99_ms"] for row in rows} == {None}


@pytest.mark.parametrize(
    ("base", "unlike"),
    [
        ("by-k6", "measured by nighthawk and k6"),
        ("by-closed-loop", "measured by nighthawk and nighthawk in a closed loop"),
        ("by-nighthawk", None),
    ],
)
def test_who_measured_makes_runs_unlike(runs: Path, base: str, unlike: str | None) -> None:
    assert {row["unlike"] for row in answer(runs, "compare", run="by-nighthawk", base=base)} == {unlike}


def test_the_other_questions_take_them_too(runs: Path) -> None:
    assert answer(runs, "resources") == []
    assert {row["run"] for row in answer(runs, "slowest")} == {"by-nighthawk", "by-closed-loop", "by-k6"}
    assert [(row["target"], row["p99_ms"], row["p99_9_ms"]) for row in answer(runs, "latency", run="by-k6")] == [
        (target, 6.5, None) for target, _ in CELLS
    ]


def test_the_report_shows_only_zeros_that_were_counted(runs: Path, tmp_path: Path) -> None:
    for run, counted in (
        ("by-k6", {"k6.http_req_failed", "k6.dropped_iterations"}),
        ("by-closed-loop", {"http_4xx", "http_5xx", "stream_resets", "pool_connection_failure"}),
    ):
        query = named_queries("report")["zeros"]
        with open_database([runs / run], query.sql) as opened:
            rows = ask(opened, query.sql)[1]
        assert {name for name, failures, _ in rows if failures == 0} == counted
        assert {failures for name, failures, _ in rows if name not in counted} == {None}
        assert {requests for _, _, requests in rows} == {3600}


def test_counters_that_cannot_be_read_leave_no_zero(tmp_path: Path) -> None:
    documents = {f"{t}@{n}": foreign.native(t, foreign.SHARES[t]) for t, n in CELLS}
    documents["cart@node-a"]["results"][0]["counters"][0]["value"] = "18446744073709551615"
    take_in(tmp_path / "runs", tmp_path / "given", "nighthawk", documents, "bad")
    (row,) = answer(tmp_path / "runs", "run-by-run")
    assert row["failures"].startswith("none (1 of 4 cells not measured) (not counted: ")
    assert {zero["failures"] for zero in answer(tmp_path / "runs", "zeros", "report")} == {None}


def test_a_node_that_is_its_own_address_is_said_once(tmp_path: Path) -> None:
    """A result file of a node that no list holds: its name is all that is known of where it ran."""
    documents = {f"{t}@{n}": foreign.native(t, foreign.SHARES[t]) for t, n in [*CELLS, ("cart", "node-c")]}
    documents["cart@node-c"]["results"] = []
    take_in(tmp_path / "runs", tmp_path / "given", "nighthawk", documents, "stranger")
    _, path = grade_run(RunFolder(tmp_path / "runs" / "stranger"))
    text = path.read_text()
    assert "LOST BACKEND node-c [returned nothing]" in text and "LOST  node-c  targets=1" in text
    assert "node-c (" not in text
