"""Run the gates over the tables of one run or of many: rows, one per planned item of each gate and run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import EvidenceError, HarnessError
from harness.gate.compose import compose
from harness.gate.load import Gate, digest, load_gates, load_views
from harness.gate.row import Row
from harness.gate.summary import read_summaries
from harness.gate.verdict import Verdict
from harness.store.database import connect, load_tables, native
from harness.store.readers import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

READS = (
    "runs", "plan_targets", "plan_nodes", "plan_rolls", "plan_thresholds", "executions", "backends", "counters",
    "capabilities", "statistics", "thresholds", "threshold_actuals", "events",
)  # fmt: skip
PLANS_THAT_ARE_WHOLE = """
SELECT run
FROM runs
WHERE targets_planned > 0
    AND targets_planned = (SELECT count(*) FROM plan_targets WHERE plan_targets.run = runs.run)
    AND nodes_listed = (SELECT count(*) FROM plan_nodes WHERE plan_nodes.run = runs.run)
    AND rolls_planned = (SELECT count(*) FROM plan_rolls WHERE plan_rolls.run = runs.run)
    AND limits_planned = (SELECT count(*) FROM plan_thresholds WHERE plan_thresholds.run = runs.run)
ORDER BY run
"""
VERDICTS = frozenset({"PASS", "FAIL", "SKIP", "UNMEASURED"})
ORDER = ("target_no", "class", "place", "item")
TOGETHER = 128  # runs whose tables are in memory at once


def grade(tables: Path, *, max_send_delay_ms: float | None = None) -> Verdict:
    """Grade the run whose tables are in ``tables``; no other file of the run is read.

    ``max_send_delay_ms`` is the limit of rule driver_late; None takes the one the run was made with. Raises
    EvidenceError when a table is absent or damaged: the run is then refused.
    """
    return _grade([tables], max_send_delay_ms=max_send_delay_ms)[0]


def grade_many(folders: Iterable[Path]) -> Iterator[Verdict | EvidenceError]:
    """Grade many runs, each as ``grade`` would, in order: the gates run once over ``TOGETHER`` of them at a time.

    A run whose tables are absent or damaged gives the error that ``grade`` would raise, and takes no other with it.
    """
    waiting = list(folders)
    for start in range(0, len(waiting), TOGETHER):
        yield from _each(waiting[start : start + TOGETHER])


def _each(folders: list[Path]) -> list[Verdict | EvidenceError]:
    """Together; where that fails, in two halves, down to the run at fault."""
    try:
        return list(_grade(folders))
    except EvidenceError as error:
        if len(folders) == 1:
            return [error]
    middle = len(folders) // 2
    return _each(folders[:middle]) + _each(folders[middle:])


def _grade(folders: list[Path], *, max_send_delay_ms: float | None = None) -> list[Verdict]:
    gates = load_gates()
    connection = connect()
    try:
        runs = load_runs(connection, folders, max_send_delay_ms=max_send_delay_ms)
        found: dict[str, list[Row]] = {run: [] for run in runs}
        for row in run_gates(connection, gates, of_interest=True):
            found[row.run].append(row)
        summaries = read_summaries(connection)
        of = digest()
        return [compose(gates, found[run], summaries[run], of) for run in runs]
    finally:
        connection.close()


def load_runs(
    connection: DuckDBPyConnection, folders: list[Path], *, max_send_delay_ms: float | None = None
) -> list[str]:
    """Load the runs' tables, and the views over them as tables, because many gates read each. Returns the runs' ids.

    Raises EvidenceError unless each folder holds the tables of one run, with the whole of its plan.
    """
    load_tables(connection, folders, READS)
    runs = _runs(connection, folders)
    whole = connection.execute(PLANS_THAT_ARE_WHOLE).fetchall()
    if sorted(runs) != [run for (run,) in whole]:
        raise EvidenceError("the tables do not hold one run with the whole of its plan; make them again")
    if max_send_delay_ms is not None:
        connection.execute("UPDATE runs SET max_send_delay_ms = $1", [max_send_delay_ms])
    for view in load_views():
        _execute(connection, view.sql if view.name is None else f"CREATE TABLE {view.name} AS {view.sql}", view.path)
    connection.execute("CREATE TABLE findings (run VARCHAR, rule VARCHAR, target_no BIGINT)")
    return runs


def _runs(connection: DuckDBPyConnection, folders: list[Path]) -> list[str]:
    """The id of each folder's run. A run id twice would be two runs taken for one."""
    if len(folders) == 1:
        return [run for (run,) in connection.execute("SELECT run FROM runs").fetchall()]
    files = [str(folder / "runs.parquet") for folder in folders]
    of = dict(connection.execute("SELECT filename, run FROM read_parquet($1, filename = true)", [files]).fetchall())
    if len(of) != len(folders) or len(set(of.values())) != len(folders):
        raise EvidenceError("two folders hold tables of the same run; make them again")
    return [of[file] for file in files]


def run_gates(connection: DuckDBPyConnection, gates: Iterable[Gate], *, of_interest: bool = False) -> list[Row]:
    """Every row of every gate, in order. A row without a verdict becomes a FAIL: unknown never passes in silence.

    With ``of_interest`` only the rows that a verdict is made of: what failed, what is unknown, what was not measured
    where the gate does not call that a mere note.
    """
    rows: list[Row] = []
    for gate in gates:
        if "findings" in gate.needs:
            _tell_findings(connection, rows)
        rows += _rows(connection, gate, of_interest=of_interest)
    return rows


def _rows(connection: DuckDBPyConnection, gate: Gate, *, of_interest: bool) -> Iterator[Row]:
    cursor = _execute(connection, _narrowed(gate) if of_interest else f"FROM (\n{gate.sql}\n)", gate.path)
    names = [column[0] for column in cursor.description or ()]
    order = [names.index(name) for name in ORDER if name in names]
    found = cursor.fetchall()
    found.sort(key=lambda values: [(values[index] is None, values[index] or 0) for index in order])
    names = ["failure_class" if name == "class" else name for name in names]
    for values in found:
        row: dict[str, Any] = dict(zip(names, values, strict=True))
        if row["verdict"] not in VERDICTS:
            lead = f"{gate.rule} cannot be judged: a value is unknown"
            row |= {"verdict": "FAIL", "cause": "evidence", "lead": lead, "part": None, "tail": None}
        yield Row(rule=gate.rule, **row)


def _narrowed(gate: Gate) -> str:
    dull = ["PASS", "SKIP", "UNMEASURED"] if gate.unmeasured == "note" else ["PASS", "SKIP"]
    words = ", ".join(f"'{word}'" for word in dull)
    return f"FROM (\n{gate.sql}\n) WHERE verdict IS NULL OR verdict NOT IN ({words})"


def _execute(connection: DuckDBPyConnection, sql: str, path: Path) -> DuckDBPyConnection:
    """Run one SQL file. A value it cannot work with is damaged evidence; SQL that does not bind is our own fault."""
    errors = native()
    try:
        return connection.execute(sql)
    except (errors.ParserException, errors.BinderException, errors.CatalogException) as error:
        raise HarnessError(f"{path.name} is not SQL that runs ({one_line(str(error))[:300]})") from error
    except errors.Error as error:
        reason = one_line(str(error))[:200]
        raise EvidenceError(f"the tables cannot be graded ({path.name}: {reason}); make them again") from error


def _tell_findings(connection: DuckDBPyConnection, rows: list[Row]) -> None:
    """What was found so far, as a table for the gates that ask for it; a finding on the run has target_no 0."""
    failed = [row for row in rows if row.verdict == "FAIL"]
    connection.execute("DELETE FROM findings")
    connection.execute(
        "INSERT INTO findings SELECT unnest($1::VARCHAR[]), unnest($2::VARCHAR[]), unnest($3::BIGINT[])",
        [[row.run for row in failed], [row.rule for row in failed], [row.target_no or 0 for row in failed]],
    )
