"""Run the gates over the tables of one run: rows, one per planned item of each gate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import EvidenceError, HarnessError
from harness.gate.compose import compose
from harness.gate.load import Gate, load_gates, load_views
from harness.gate.row import Row
from harness.gate.summary import read_summary
from harness.gate.verdict import Verdict
from harness.store.database import connect, load_tables
from harness.store.readers import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

READS = (
    "runs", "plan_targets", "plan_nodes", "plan_rolls", "plan_thresholds", "executions", "backends", "counters",
    "capabilities", "statistics", "thresholds", "threshold_actuals", "events",
)  # fmt: skip
PLAN_IS_WHOLE = """
SELECT targets_planned > 0
    AND targets_planned = (SELECT count(*) FROM plan_targets)
    AND nodes_listed = (SELECT count(*) FROM plan_nodes)
    AND rolls_planned = (SELECT count(*) FROM plan_rolls)
    AND limits_planned = (SELECT count(*) FROM plan_thresholds)
FROM runs
"""
VERDICTS = frozenset({"PASS", "FAIL", "SKIP", "UNMEASURED"})


def grade(tables: Path, *, max_send_delay_ms: float | None = None) -> Verdict:
    """Grade the run whose tables are in ``tables``; no other file of the run is read.

    ``max_send_delay_ms`` is the limit of rule driver_late; None takes the one the run was made with. Raises
    EvidenceError when a table is absent or damaged: the run is then refused.
    """
    gates = load_gates()
    connection = connect()
    try:
        load_run(connection, tables, max_send_delay_ms=max_send_delay_ms)
        return compose(gates, run_gates(connection, gates), read_summary(connection))
    finally:
        connection.close()


def load_run(connection: DuckDBPyConnection, tables: Path, *, max_send_delay_ms: float | None = None) -> None:
    """Load one run's tables, and the views over them as tables, because many gates read each."""
    load_tables(connection, tables, READS)
    whole = connection.execute(PLAN_IS_WHOLE).fetchall()
    if whole != [(True,)]:
        raise EvidenceError("the tables do not hold one run with the whole of its plan; make them again")
    if max_send_delay_ms is not None:
        connection.execute("UPDATE runs SET max_send_delay_ms = $1", [max_send_delay_ms])
    for view in load_views():
        _execute(connection, view.sql if view.name is None else f"CREATE TABLE {view.name} AS {view.sql}", view.path)
    connection.execute("CREATE TABLE findings (rule VARCHAR, target_no BIGINT)")


def run_gates(connection: DuckDBPyConnection, gates: Iterable[Gate]) -> list[Row]:
    """Every row of every gate, in order. A row without a verdict becomes a FAIL: unknown never passes in silence."""
    rows: list[Row] = []
    for gate in gates:
        if "findings" in gate.needs:
            _tell_findings(connection, rows)
        cursor = _execute(connection, gate.sql, gate.path)
        names = [{"class": "failure_class"}.get(column[0], column[0]) for column in cursor.description or ()]
        for values in cursor.fetchall():
            row: dict[str, Any] = dict(zip(names, values, strict=True))
            if row["verdict"] not in VERDICTS:
                row |= {
                    "verdict": "FAIL",
                    "cause": "evidence",
                    "lead": f"{gate.rule} cannot be judged: a value is unknown",
                }
                row |= {"part": None, "tail": None}
            rows.append(Row(rule=gate.rule, **row))
    return rows


def _execute(connection: DuckDBPyConnection, sql: str, path: Path) -> DuckDBPyConnection:
    """Run one SQL file. A value it cannot work with is damaged evidence; SQL that does not bind is our own fault."""
    import duckdb

    try:
        return connection.execute(sql)
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        raise HarnessError(f"{path.name} is not SQL that runs ({one_line(str(error))[:300]})") from error
    except duckdb.Error as error:
        reason = one_line(str(error))[:200]
        raise EvidenceError(f"the tables cannot be graded ({path.name}: {reason}); make them again") from error


def _tell_findings(connection: DuckDBPyConnection, rows: list[Row]) -> None:
    """What was found so far, as a table for the gates that ask for it; a finding on the run has target_no 0."""
    failed = [row for row in rows if row.verdict == "FAIL"]
    connection.execute("DELETE FROM findings")
    connection.execute(
        "INSERT INTO findings SELECT unnest($1::VARCHAR[]), unnest($2::BIGINT[])",
        [[row.rule for row in failed], [row.target_no or 0 for row in failed]],
    )
