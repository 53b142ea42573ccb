"""The named questions: each file says what it asks, and each answers what a person would have worked out by hand."""

from __future__ import annotations

import contextlib
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.history.database import ask, open_database, run_roots
from harness.history.queries import named_queries, parse_query
from harness.runs import RunFolder
from tests.report import made

NODES = ("node-a", "node-b")
COLUMNS = ("verdict", "sent_by_returned", "planned", "http_2xx", "failures", "lost_backends")


def answer(runs: Path, name: str, **given: str) -> list[dict[str, Any]]:
    query = named_queries("history")[name]
    with open_database(run_roots(runs), query.sql) as opened:
        columns, rows = ask(opened, query.sql, query.bind(given))
    return [dict(zip(columns, row, strict=True)) for row in rows]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """quick-1 is clean; in quick-2 node-b is lost and svc-1 got 12 503s on node-a, at twice the latency."""
    clean = made.clean_tables({"svc-1": 9, "uds-echo": 3}, NODES)
    made.save_run(tmp_path, "quick-1", clean, made.verdict_of(clean, "quick-1"))
    bad = made.clean_tables({"svc-1": 9, "uds-echo": 3}, NODES, slow=2.0)
    made.lose(bad, "node-b")
    place = {"exec_no": 1, "backend_no": 1, "backend": "127.0.1.1:7000", "node": "node-a"}
    bad["counters"].append({**place, "counter": "benchmark.http_5xx", "value": 12})
    lost = [made.finding("svc-1", "node-b", "lost_backend", "driver")]
    made.save_run(tmp_path, "quick-2", bad, made.verdict_of(bad, "quick-2", "FAIL", findings=lost))
    return tmp_path


def test_run_by_run_is_the_table_that_people_make_by_hand(runs: Path) -> None:
    rows = {row["run"]: row for row in answer(runs, "run-by-run")}
    clean, bad = rows["quick-1"], rows["quick-2"]
    assert [clean[key] for key in COLUMNS] == [
        "PASS", 1440, 1440, 1440, "none", 0,
    ]  # fmt: skip
    assert [bad[key] for key in COLUMNS] == [
        "FAIL", 732, 1440, 720, "http_5xx 12 (1 engine lost)", 1,
    ]  # fmt: skip
    assert clean["dispatched"] == made.T0.replace(tzinfo=None)
    assert bad["worst_p99_ms"] > clean["worst_p50_ms"]


@pytest.mark.parametrize(
    ("lost", "failures"),
    [
        ((), "none"),
        (("node-a",), "none (1 engine lost)"),
        (("node-a", "node-b"), "none (2 engines lost)"),
        (("node-a", "node-b", "node-c"), "not measured"),
    ],
)
def test_no_failure_is_said_only_of_what_was_measured(tmp_path: Path, lost: tuple[str, ...], failures: str) -> None:
    tables = made.lose(made.clean_tables({"svc-1": 9}, ("node-a", "node-b", "node-c")), *lost)
    made.save_run(tmp_path, "quick-1", tables, None)
    (row,) = answer(tmp_path, "run-by-run")
    assert (row["failures"], row["lost_backends"]) == (failures, len(lost))


def test_engines_that_returned_nothing_and_are_not_called_lost_leave_failures_unmeasured(tmp_path: Path) -> None:
    tables = made.lose(made.clean_tables({"svc-1": 9, "echo": 9}, NODES), "node-a")
    for backend in tables["backends"]:
        backend["in_error"] = False
    made.save_run(tmp_path, "quick-1", tables, None)
    assert answer(tmp_path, "run-by-run")[0]["failures"] == "none (2 of 4 cells not measured)"


def test_a_run_without_one_execution_is_not_measured_throughout(tmp_path: Path) -> None:
    tables = made.clean_tables({"svc-1": 9}, NODES)
    for name in ("executions", "backends", "counters", "statistics", "thresholds"):
        tables[name] = []
    made.save_run(tmp_path, "quick-1", tables, None)
    (row,) = answer(tmp_path, "run-by-run")
    assert (row["failures"], row["sent_by_returned"], row["lost_backends"]) == ("not measured", None, None)


def test_a_drill_is_named_run_by_run_and_in_a_comparison(runs: Path) -> None:
    made.put_fault(RunFolder(runs / "quick-2"), "freeze proxy node-b at 3s for 3s")
    assert {row["run"]: row["drill"] for row in answer(runs, "run-by-run")} == {
        "quick-1": "no",
        "quick-2": "freeze proxy node-b at 3s for 3s",
    }
    (unlike,) = {row["unlike"] for row in answer(runs, "compare", run="quick-2", base="quick-1")}
    assert "drill of quick-2: freeze proxy node-b at 3s for 3s" in unlike


def test_latency_names_the_target_of_every_statistic(runs: Path) -> None:
    rows = answer(runs, "latency", run="quick-1", statistic="latency_2xx")
    assert [(row["target"], row["node"]) for row in rows] == [
        (target, node) for target in ("svc-1", "uds-echo") for node in NODES
    ]
    assert len(answer(runs, "latency", run="quick-1")) == 8


def test_memory_of_all_is_the_highest_sum_at_one_moment(tmp_path: Path) -> None:
    """Two proxies whose highest moments differ: 100 and 10, then 10 and 100, were never 200 together."""
    tables = made.clean_tables({"svc-1": 9}, NODES)
    first, second = made.T0, made.T0 + timedelta(seconds=5)
    tables["resources"] = [
        {"at": at, "name": name, "kind": "proxy", "node": None, "pid": pid, "cpu_s": 1.0, "rss_bytes": mib * 2**20}
        for at, name, pid, mib in (
            (first, "proxy-node-a", 1, 100),
            (first, "proxy-node-b", 2, 10),
            (second, "proxy-node-a", 1, 10),
            (second, "proxy-node-b", 2, 100),
        )
    ]
    made.save_run(tmp_path, "quick-1", tables, None)
    (row,) = answer(tmp_path, "resources")
    assert (row["rss_mib_all"], row["rss_mib_most"]) == (110, 100)


def test_a_run_that_was_never_graded_is_listed_without_a_verdict(runs: Path) -> None:
    tables = made.clean_tables({"svc-1": 9}, NODES)
    made.save_run(runs, "quick-3", tables, None)
    assert {row["run"]: row["verdict"] for row in answer(runs, "run-by-run")}["quick-3"] is None


def test_every_run_that_there_is_has_a_row(runs: Path) -> None:
    """A run that is refused has no tables, and is not passed over because of that."""
    tables = made.clean_tables({"svc-1": 9}, NODES)

    def without_tables(run: str, verdict: str | None, refused: str | None) -> RunFolder:
        reason = "the report is torn" if verdict == "REFUSED" else None
        told = made.verdict_of(tables, run, verdict, reason) if verdict else None
        folder = made.save_run(runs, run, tables, told)
        shutil.rmtree(folder.tables)
        if refused:
            folder.tables.mkdir()
            made.index(folder, refused)
        return folder

    without_tables("refused", "REFUSED", "the report is torn")
    without_tables("not-graded", None, "report.json is not JSON")
    without_tables("refused-since", "PASS", "report.json is not JSON")
    without_tables("removed", "FAIL", None)
    without_tables("created", None, None)
    closed = without_tables("closed", None, None)
    closed.closed.write_text('{"reason": "the load ended without a report"}')
    (runs / "empty").mkdir()
    (runs / "quick-2" / "tables" / "statistics.parquet").unlink()
    rows = {row["run"]: row for row in answer(runs, "run-by-run")}
    told = {run: (row["origin"], row["verdict"], row["reason"]) for run, row in rows.items()}
    why_damaged = told["quick-2"][2]
    assert why_damaged.startswith("statistics.parquet is not what was made from the evidence; ")
    assert told == {
        "quick-1": ("tables", "PASS", None),
        "quick-2": ("no tables", "DAMAGED", why_damaged),
        "refused": ("no tables", "REFUSED", "the report is torn"),
        "not-graded": ("no tables", "REFUSED", "report.json is not JSON"),
        "refused-since": ("no tables", "REFUSED", "report.json is not JSON"),
        "removed": ("no tables", "FAIL", "no tables: graded"),
        "created": ("no tables", None, "no tables: created"),
        "closed": ("no tables", None, "no tables: closed (the load ended without a report)"),
        "empty": ("no tables", None, "no tables: unreadable"),
    }
    for run, row in rows.items():
        if run != "quick-1":
            assert row["failures"] == "not measured"
            assert {row[key] for key in ("planned", "http_2xx", "lost_backends", "worst_max_ms", "ended")} == {None}


def test_targets_name_the_worst_node_of_each(runs: Path) -> None:
    rows = answer(runs, "targets", run="quick-2")
    assert [(row["target"], row["http_2xx"], row["planned"], row["worst_node"]) for row in rows] == [
        ("svc-1", 540, 1080, "node-a"),
        ("uds-echo", 180, 360, "node-a"),
    ]
    assert len(answer(runs, "targets")) == 4


def test_like_runs_are_compared_without_a_word(runs: Path) -> None:
    slow = made.clean_tables({"svc-1": 9, "uds-echo": 3}, NODES, slow=2.0)
    made.save_run(runs, "slow-1", slow, made.verdict_of(slow, "slow-1"))
    rows = answer(runs, "compare", run="slow-1", base="quick-1")
    assert [row["target"] for row in rows] == ["svc-1", "uds-echo", "all targets"]
    assert (rows[2]["http_2xx"], rows[2]["planned"], rows[2]["base_http_2xx"]) == (1440, 1440, 1440)
    assert rows[2]["p99_ms"] == max(row["p99_ms"] for row in rows[:2])
    assert {row["unlike"] for row in rows} == {None}
    assert [row["p99_ratio"] for row in rows] == [2, 2, 2]
    assert {tuple(row[key] for key in SIDES) for row in rows} == {("PASS", "PASS", 0, 0)}


SIDES = ("verdict", "base_verdict", "lost_backends", "base_lost_backends")


def test_no_ratio_is_told_of_a_run_that_lost_an_engine(runs: Path) -> None:
    """Latencies of half the nodes beside those of all say nothing of either."""
    for run, base, sides in (
        ("quick-2", "quick-1", ("FAIL", "PASS", 1, 0)),
        ("quick-1", "quick-2", ("PASS", "FAIL", 0, 1)),
    ):
        rows = answer(runs, "compare", run=run, base=base)
        words = " beside ".join(sides[:2])
        assert {row["unlike"] for row in rows} == {f"verdict {words}; lost engines of quick-2: node-b"}
        assert {row["p99_ratio"] for row in rows} == {None}
        assert {tuple(row[key] for key in SIDES) for row in rows} == {sides}
        assert all(row["p99_ms"] and row["base_p99_ms"] for row in rows)


def broken_tables(how: str) -> made.Tables:
    """A run of the plan of quick-1 in which something is broken, and which its verdict does not tell of."""
    tables = made.clean_tables({"svc-1": 9, "uds-echo": 3}, NODES)
    if how == "missing":
        tables["executions"].pop()
    elif how == "not run":
        tables["executions"][-1]["not_run"] = True
    elif how == "refused":
        tables["executions"][-1]["refused"] = "execution_cap"
        tables["backends"][-1]["returned"] = False
    elif how == "silent":
        tables["backends"][-1] |= {"returned": False, "released_requests": None}
        tables["counters"].pop()
    cells_without_statistics = {"missing": 2, "not run": 2}.get(how, 1)
    del tables["statistics"][len(tables["statistics"]) - 2 * cells_without_statistics :]
    return tables


@pytest.mark.parametrize(
    ("how", "unlike"),
    [
        ("missing", "targets not run of odd-1: uds-echo"),
        ("not run", "targets not run of odd-1: uds-echo"),
        ("refused", "starts refused of odd-1: uds-echo"),
        ("silent", "lost engines of odd-1: node-b"),
        ("without a latency", "how many nodes of a target have a latency"),
    ],
)
def test_what_is_broken_in_either_run_is_named_and_leaves_no_ratio(runs: Path, how: str, unlike: str) -> None:
    tables = broken_tables(how)
    made.save_run(runs, "odd-1", tables, made.verdict_of(tables, "odd-1"))
    for sides in ({"run": "odd-1", "base": "quick-1"}, {"run": "quick-1", "base": "odd-1"}):
        rows = answer(runs, "compare", **sides)
        assert {row["unlike"] for row in rows} == {unlike}
        assert {row["p99_ratio"] for row in rows} == {None}


def test_many_lost_engines_are_named_in_part(runs: Path) -> None:
    nodes = [f"node-{number}" for number in range(9)]
    tables = made.lose(made.clean_tables({"svc-1": 9}, nodes), *nodes[:7])
    made.save_run(runs, "many-1", tables, made.verdict_of(tables, "many-1"))
    (unlike,) = {row["unlike"] for row in answer(runs, "compare", run="many-1", base="many-1")}
    assert unlike == "lost engines of many-1: node-0, node-1, node-2, node-3, node-4 and 2 more"


def test_a_refused_run_is_compared_with_nothing(runs: Path) -> None:
    tables = made.clean_tables({"svc-1": 9})
    for run in ("torn-1", "torn-2"):
        folder = made.save_run(runs, run, tables, made.verdict_of(tables, run, "REFUSED", "torn"))
        shutil.rmtree(folder.tables)
    rows = answer(runs, "compare", run="torn-1", base="quick-1")
    assert [row["target"] for row in rows] == ["svc-1", "uds-echo", "all targets"]
    assert {row["unlike"] for row in rows} == {"torn-1 has no table of what it is; verdict REFUSED beside PASS"}
    (row,) = answer(runs, "compare", run="torn-1", base="torn-2")
    assert row["unlike"].startswith(
        "torn-1 has no table of what it is; torn-2 has no table of what it is; verdict REFUSED"
    )


def test_runs_that_nobody_graded_are_not_alike(runs: Path) -> None:
    made.save_run(runs, "new-1", made.clean_tables({"svc-1": 9, "uds-echo": 3}, NODES), None)
    (unlike,) = {row["unlike"] for row in answer(runs, "compare", run="new-1", base="quick-1")}
    assert unlike == "verdict not known beside PASS"


def test_a_report_of_another_producer_is_unlike_one_of_this_harness(runs: Path) -> None:
    """What their latencies cover is not the same."""
    tables = made.clean_tables({"svc-1": 9, "uds-echo": 3}, NODES)
    for backend in tables["backends"]:
        backend["released_requests"] = None
    made.save_run(runs, "sortie-1", tables, made.verdict_of(tables, "sortie-1"))
    (unlike,) = {row["unlike"] for row in answer(runs, "compare", run="sortie-1", base="quick-1")}
    assert unlike == "measured by sortie and this harness"


def test_unlike_runs_are_named_as_such(runs: Path) -> None:
    tables = made.clean_tables({"svc-1": 9, "other": 3}, ("node-a",), duration_s=120)
    made.save_run(runs, "long-1", tables, made.verdict_of(tables, "long-1"))
    rows = answer(runs, "compare", run="long-1", base="quick-1")
    assert {row["target"] for row in rows} == {"svc-1", "uds-echo", "other", "all targets"}
    assert {row["unlike"] for row in rows} == {"duration_s 120 and 60; backends 1 and 2; targets or their shares"}
    assert {row["p99_ratio"] for row in rows} == {None}


def test_resources_are_cores_over_the_time_that_was_sampled(runs: Path) -> None:
    rows = {row["kind"]: row for row in answer(runs, "resources", run="quick-1")}
    assert rows["engine"]["cpu_cores_all"] == pytest.approx(0.031)
    assert rows["proxy"]["rss_mib_most"] == 71
    assert len(answer(runs, "resources")) == 8


def test_slowest_is_sorted_and_bounded(runs: Path) -> None:
    rows = answer(runs, "slowest", limit="3")
    assert len(rows) == 3
    assert [row["p99_ms"] for row in rows] == sorted((row["p99_ms"] for row in rows), reverse=True)
    assert {row["run"] for row in answer(runs, "slowest", run="quick-1")} == {"quick-1"}


@pytest.mark.parametrize("kind", ["history", "report"])
def test_every_file_has_a_header(kind: str) -> None:
    assert all(query.asks.endswith("?") for query in named_queries(kind).values())


def test_an_undeclared_and_a_missing_parameter_are_refused() -> None:
    compare = named_queries("history")["compare"]
    with pytest.raises(UsageError, match="no parameter rnu; it takes: run, base"):
        compare.bind({"rnu": "x"})
    with pytest.raises(UsageError, match="needs --param base="):
        compare.bind({"run": "x"})


def test_a_header_line_goes_on_where_it_is_indented() -> None:
    assert parse_query("-- query: q\n-- asks: One\n--       thing?\n-- a word\n--   apart\nSELECT 1", "q.sql").asks == (
        "One thing?"
    )


def test_a_header_is_read_whole_and_ends_with_the_comments() -> None:
    query = parse_query(
        "-- query: q\n-- asks: One\n-- asks: thing?\n-- params: a b=2\nSELECT 1\n-- params: c\n", "q.sql"
    )
    assert (query.name, query.asks, dict(query.params)) == ("q", "One thing?", {"a": None, "b": "2"})
    with pytest.raises(UsageError, match=r"q\.sql must start with"):
        parse_query("SELECT 1", "q.sql")


@given(st.text())
def test_any_text_is_a_query_or_a_refusal(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse_query(text, "x.sql").name
