# ruff: noqa: S608 - gate files made up here
"""What holds for every gate file, whatever its rule."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import gate
from harness.errors import EvidenceError, HarnessError
from harness.gate.load import load_gates, load_views, parse_gate
from harness.gate.row import Row
from harness.gate.run import VERDICTS, files_in, load_runs, run_gates
from harness.store.database import connect

ITEMS = {"run", "target", "cell", "cell × class", "target × threshold", "roll"}
TARGETS, NODES, ROLLS, THRESHOLDS, CLASSES = 2, 2, 3, 8, 9
PLANNED = {
    "run": 1,
    "target": TARGETS,
    "cell": TARGETS * NODES,
    "cell × class": TARGETS * NODES * CLASSES,
    "target × threshold": TARGETS * THRESHOLDS,
    "roll": ROLLS,
}

TablesOf = Callable[[str], Path]


def rows_of(tables: Path, rule: str | None = None) -> list[Row]:
    """Every row of every gate (or of one) over the tables of a run."""
    connection = connect()
    try:
        load_runs(connection, [files_in(tables)])
        rows = run_gates(connection, load_gates())
    finally:
        connection.close()
    return [row for row in rows if rule in (None, row.rule)]


def test_headers_say_what_a_gate_asserts_and_whose_fault_it_is() -> None:
    """Complete headers, known kinds of items, a cause that starts with one of the four words."""
    for one in load_gates():
        assert set(one.items) <= ITEMS, one.rule
        assert one.cause.split(";")[0].split(" ")[0] in {"mesh", "driver", "plan", "evidence"}, one.rule
        assert one.asserts.endswith((".", "finding.")), one.rule
        assert one.path.stem.partition("_")[2] == one.rule


def test_every_gate_returns_one_row_per_planned_item(tables_of: TablesOf) -> None:
    """On a run with everything in it, each gate's rows are exactly the planned items it declares."""
    counts = Counter(row.rule for row in rows_of(tables_of("churn-complete")))
    assert counts == {one.rule: sum(PLANNED[item] for item in one.items) for one in load_gates()}


@pytest.mark.parametrize(
    "case",
    [
        "missing",
        "missing-all",
        "lost-all",
        "silent-backend",
        "not-run",
        "pool-size",
        "no-results",
        "undispatched-backend",
    ],
)
def test_no_planned_item_disappears_with_what_was_seen(case: str, tables_of: TablesOf) -> None:
    """Rows are unique, and every planned target and cell keeps its row when report, backend or result are gone."""
    rows = rows_of(tables_of(case))
    keys = Counter((row.rule, row.target_no, row.item) for row in rows)
    assert max(keys.values()) == 1
    for one in load_gates():
        mine = {(row.target_no, row.item) for row in rows if row.rule == one.rule}
        if "cell" in one.items:
            assert {(t, f"node {n}") for t in (1, 2) for n in (1, 2)} <= mine, one.rule
        if "target" in one.items:
            assert {target for target, _ in mine} >= {1, 2}, one.rule


def test_rows_of_a_clean_run_pass_or_are_not_measured(tables_of: TablesOf) -> None:
    """Nothing is skipped where everything was seen, but for a schedule that was not planned."""
    rows = rows_of(tables_of("clean"))
    assert {row.verdict for row in rows} <= VERDICTS
    assert {row.rule for row in rows if row.verdict == "SKIP"} == {"churn_incomplete"}
    assert {row.rule for row in rows if row.verdict == "UNMEASURED"} == {"driver_late"}


def test_a_row_without_a_verdict_is_a_fail(tables_of: TablesOf, tmp_path: Path) -> None:
    """A gate that comes to NULL has found something unknown, and unknown is not a pass."""
    header = "-- gate: odd\n-- asserts: x.\n-- cause: mesh; y\n-- items: target\n-- needs: target_states\n"
    odd = parse_gate(
        header + "SELECT run, target_no, 'x' AS item, NULL AS verdict FROM target_states", tmp_path / "1_odd.sql"
    )
    connection = connect()
    load_runs(connection, [files_in(tables_of("clean"))])
    rows = run_gates(connection, [odd])
    connection.close()
    assert [(row.verdict, row.cause) for row in rows] == [("FAIL", "evidence")] * 2
    assert "unknown" in rows[0].finding().detail


def test_sql_that_does_not_run_is_our_fault_not_the_evidence_s(tables_of: TablesOf, tmp_path: Path) -> None:
    """A broken gate file never refuses a run as if its evidence were damaged."""
    header = "-- gate: odd\n-- asserts: x.\n-- cause: mesh; y\n-- items: run\n-- needs: runs\n"
    connection = connect()
    load_runs(connection, [files_in(tables_of("clean"))])
    with pytest.raises(HarnessError, match=r"1_odd\.sql") as caught:
        run_gates(connection, [parse_gate(header + "SELECT nothing FROM nowhere", tmp_path / "1_odd.sql")])
    connection.close()
    assert not isinstance(caught.value, EvidenceError)


@pytest.mark.parametrize(
    ("header", "word"),
    [
        ("-- gate: a\n", "asserts"),
        ("-- gate: a\n-- asserts: b.\n-- cause: mesh\n-- items: run\n-- needs: runs\n-- colour: red\n", "colour"),
        ("-- gate: a\n-- asserts: b.\n-- cause: mesh\n-- items: run\n-- needs: runs\n-- reason: none\n", "reason"),
    ],
)
def test_incomplete_header_is_refused(header: str, word: str, tmp_path: Path) -> None:
    """The file and the header line at fault are named."""
    with pytest.raises(HarnessError, match=word):
        parse_gate(header + "SELECT 1", tmp_path / "a.sql")


def test_a_header_line_that_goes_on_is_joined(tmp_path: Path) -> None:
    """Whoever shows what a gate asserts shows all of it."""
    header = "-- gate: a\n-- asserts: one\n--          two.\n-- cause: mesh; x\n--   y\n-- items: run\n-- needs: runs\n"
    parsed = parse_gate(header + "SELECT 1\n--       not of the header\n", tmp_path / "a.sql")
    assert (parsed.asserts, parsed.cause) == ("one two.", "mesh; x y")


def test_digest_moves_with_every_file_of_the_gate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SQL, code and schemas are all in it; the same files give the same digest."""
    names = {path.name for path in gate.files()}
    assert {"10_missing.sql", "40_cells.sql", "run.py", "compose.py", "schemas.py", "database.py"} <= names
    assert gate.digest() == gate.digest()
    before = gate.digest()
    changed = tmp_path / "10_missing.sql"
    changed.write_text("-- changed\n")
    others = [path for path in gate.files() if path.name != "10_missing.sql"]
    monkeypatch.setattr("harness.gate.load.files", lambda: [changed, *others])
    assert gate.digest() != before


def test_send_delay_limit_given_by_the_caller_wins(tables_of: TablesOf) -> None:
    """The run's own limit is 25 ms and two of four cells are at or above it."""
    tables = tables_of("driver-late")
    assert gate.grade(tables).counts["failed"] == 1
    assert gate.grade(tables, max_send_delay_ms=24.9).counts["failed"] == 2
    assert gate.grade(tables, max_send_delay_ms=26).word == "PASS"


def test_grading_imports_no_pyarrow_and_loading_no_duckdb(tables_of: TablesOf) -> None:
    """Each import costs as much as the grading itself."""
    code = (
        "import sys; from pathlib import Path; from harness import gate; gate.files(); gate.digest();"
        "assert not {'duckdb', 'pyarrow', 'yaml'} & set(sys.modules);"
        f"gate.grade(Path({str(tables_of('clean'))!r}));"
        "assert not {'pyarrow', 'pandas', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_views_build_on_each_other_in_file_order() -> None:
    """The first file holds functions, the others one view each."""
    views = load_views()
    assert views[0].name is None
    assert [view.name for view in views[1:]] == [
        "execution_states",
        "backend_states",
        "target_states",
        "cells",
        "target_summary",
    ]


@pytest.mark.parametrize("planned", ["cell", "target", "run", "target × threshold"])
def test_a_rule_that_leaves_items_out_is_our_fault_and_no_pass(
    planned: str, tables_of: TablesOf, tmp_path: Path
) -> None:
    """A gate edited until it looks at nothing would hold for every run."""
    header = f"-- gate: odd\n-- asserts: x.\n-- cause: mesh; y\n-- items: {planned}\n-- needs: runs\n"
    sql = "SELECT run, 1 AS target_no, 'x' AS item, 'PASS' AS verdict FROM runs WHERE false"
    connection = connect()
    load_runs(connection, [files_in(tables_of("clean" if planned != "target × threshold" else "threshold-not-judged"))])
    with pytest.raises(HarnessError, match=r"1_odd\.sql looks at 0 items"):
        run_gates(connection, [parse_gate(header + sql, tmp_path / "1_odd.sql")])
    connection.close()


def test_the_native_module_is_duckdb_itself() -> None:
    """What a grading imports is the package's own engine: same version, same connections, same errors."""
    import duckdb

    from harness.store.database import native

    assert native().connect is duckdb.connect and native().Error is duckdb.Error
    assert native().__version__ == duckdb.__version__
