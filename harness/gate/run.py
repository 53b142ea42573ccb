"""Run the gates over the tables of one run or of many: rows, one per planned item of each gate and run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import EvidenceError, HarnessError
from harness.gate.compose import compose
from harness.gate.load import Gate, digest, load_gates, load_views
from harness.gate.row import Row
from harness.gate.summary import read_summaries
from harness.gate.verdict import Verdict
from harness.store.database import connect, load_table, native
from harness.store.readers import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Files = Mapping[str, Path]
"""Table → file of one run. A table that is left out holds no row."""

Keep = Callable[["DuckDBPyConnection", Sequence[str]], None]

READS = {
    "runs": "schema_version kind profile fleet created_at run_tag",
    "plan_targets": "url",
    "plan_nodes": "engine",
    "plan_rolls": "",
    "plan_thresholds": "",
    "executions": "rate_rps",
    "backends": "",
    "counters": "",
    "capabilities": "",
    "statistics": "count mean pstdev min p90 p99_9",
    "thresholds": "scope",
    "threshold_actuals": "",
    "events": "took_ms",
}
"""Tables that a grading reads, each with the columns that no rule and no line of a verdict looks at."""

PLANS_THAT_ARE_WHOLE = """
SELECT run
FROM runs
LEFT JOIN (SELECT run, count(*) AS targets FROM plan_targets GROUP BY run) USING (run)
LEFT JOIN (SELECT run, count(*) AS nodes FROM plan_nodes GROUP BY run) USING (run)
LEFT JOIN (SELECT run, count(*) AS rolls FROM plan_rolls GROUP BY run) USING (run)
LEFT JOIN (SELECT run, count(*) AS limits FROM plan_thresholds GROUP BY run) USING (run)
WHERE targets_planned = targets
    AND nodes_listed = coalesce(nodes, 0)
    AND rolls_planned = coalesce(rolls, 0)
    AND limits_planned = coalesce(limits, 0)
    AND floor_pct BETWEEN 1 AND 100
ORDER BY run
"""
VERDICTS = frozenset({"PASS", "FAIL", "SKIP", "UNMEASURED"})
ORDER = ("run", "target_no", "class", "place", "item")
TOGETHER = 512  # runs whose tables are in memory at once
LEAN = ("SET threads = 1", "PRAGMA disable_optimizer")
"""For a single run: on so few rows, planning a query well and on two threads takes longer than running it."""


def files_in(tables: Path) -> dict[str, Path]:
    """Every table that a grading reads, as the file it has in the folder ``tables``."""
    return {name: tables / f"{name}.parquet" for name in READS}


def grade(tables: Path, *, max_send_delay_ms: float | None = None) -> Verdict:
    """Grade the run whose tables are in ``tables``; no other file of the run is read.

    ``max_send_delay_ms`` is the limit of rule driver_late; None takes the one the run was made with. Raises
    EvidenceError when a table is absent or damaged: the run is then refused.
    """
    with _database(LEAN) as connection:
        ids = load_runs(connection, [files_in(tables)], max_send_delay_ms=max_send_delay_ms)
        return _verdicts(connection, ids)[0]


def grade_many(runs: Sequence[Files], keep: Keep | None = None) -> Iterator[Verdict | EvidenceError]:
    """Grade many runs, each as ``grade`` would, in order: the gates run once over ``TOGETHER`` of them at a time.

    A run whose tables are absent or damaged gives the error that ``grade`` would raise, and takes no other with it.
    ``keep`` is called with a database that holds the tables of some of the runs, and their ids.
    """
    for start in range(0, len(runs), TOGETHER):
        yield from _each(runs[start : start + TOGETHER], keep)


def _each(runs: Sequence[Files], keep: Keep | None) -> list[Verdict | EvidenceError]:
    """Together; where that fails, in two halves, down to the run at fault."""
    try:
        with _database(LEAN if len(runs) == 1 else ()) as connection:
            ids = load_runs(connection, runs)
            verdicts = _verdicts(connection, ids)
            if keep:
                keep(connection, ids)
            return list(verdicts)
    except EvidenceError as error:
        if len(runs) == 1:
            return [error]
    middle = len(runs) // 2
    return _each(runs[:middle], keep) + _each(runs[middle:], keep)


def grade_segment(files: Files, ids: Sequence[str]) -> list[Verdict]:
    """Grade runs whose tables lie together, one file per table. Raises EvidenceError when not all are in there."""
    with _database() as connection:
        for name, unread in READS.items():
            load_table(connection, name, [files[name]], without=unread.split(), only=ids)
        _prepare(connection, ids)
        return _verdicts(connection, ids)


@contextmanager
def _database(settings: Sequence[str] = ()) -> Iterator[DuckDBPyConnection]:
    connection = connect()
    try:
        for setting in settings:
            connection.execute(setting)
        connection.execute("BEGIN")
        yield connection
    finally:
        connection.close()


def _verdicts(connection: DuckDBPyConnection, ids: Sequence[str]) -> list[Verdict]:
    """The verdict of each run in a database with tables and views."""
    gates = load_gates()
    found: dict[str, list[Row]] = {run: [] for run in ids}
    for row in run_gates(connection, gates, of_interest=True):
        found[row.run].append(row)
    summaries = read_summaries(connection)
    of = digest()
    return [compose(gates, found[run], summaries[run], of) for run in ids]


def load_runs(
    connection: DuckDBPyConnection, runs: Sequence[Files], *, max_send_delay_ms: float | None = None
) -> list[str]:
    """Load the runs' tables, and the views over them as tables, because many gates read each. Returns the runs' ids.

    Raises EvidenceError unless each holds the tables of one run, with the whole of its plan.
    """
    for name, unread in READS.items():
        load_table(connection, name, [files[name] for files in runs if name in files], without=unread.split())
    ids = _ids(connection, runs)
    if max_send_delay_ms is not None:
        connection.execute("UPDATE runs SET max_send_delay_ms = $1", [max_send_delay_ms])
    _prepare(connection, ids)
    return ids


def _prepare(connection: DuckDBPyConnection, ids: Sequence[str]) -> None:
    """Hold the plans against what they are said to hold, and make the views."""
    whole = connection.execute(PLANS_THAT_ARE_WHOLE).fetchall()
    if sorted(ids) != [run for (run,) in whole]:
        raise EvidenceError("the tables do not hold one run with the whole of its plan; make them again")
    for view in load_views():
        _execute(connection, view.sql if view.name is None else f"CREATE TABLE {view.name} AS {view.sql}", view.path)
    connection.execute("CREATE TABLE findings (run VARCHAR, rule VARCHAR, target_no BIGINT)")


def _ids(connection: DuckDBPyConnection, runs: Sequence[Files]) -> list[str]:
    """The id of each run, in their order. Raises EvidenceError unless each has one row, and no two are the same run."""
    if len(runs) == 1:
        found = [("", run) for (run,) in connection.execute("SELECT run FROM runs").fetchall()]
        files = [""]
    else:
        files = [str(tables.get("runs")) for tables in runs]
        query = "SELECT filename, run FROM read_parquet($1, filename = true)"
        found = connection.execute(query, [files]).fetchall()
    of = dict(found)
    if len(found) != len(runs) or of.keys() != set(files):
        raise EvidenceError("a table of runs does not hold one row; make the tables again")
    if len(set(of.values())) != len(runs):
        raise EvidenceError("two folders hold tables of the same run; make them again")
    return [of[file] for file in files]


def run_gates(connection: DuckDBPyConnection, gates: Iterable[Gate], *, of_interest: bool = False) -> list[Row]:
    """Every row of every gate, in order. A row without a verdict becomes a FAIL: unknown never passes in silence.

    With ``of_interest`` only the rows that a verdict is made of: what failed, what is unknown, what was not measured
    where the gate does not call that a mere note. Raises HarnessError for a gate that looks at fewer items than were
    planned: what it leaves out would hold by it.
    """
    planned = _planned_items(connection)
    rows: list[Row] = []
    for gate in gates:
        if "findings" in gate.needs:
            _tell_findings(connection, rows)
        rows += _rows(connection, gate, planned, of_interest=of_interest)
    return rows


def _planned_items(connection: DuckDBPyConnection) -> dict[str, dict[str, int]]:
    """Run → kind of item → how many of these its plan holds at least."""
    names = [*KINDS]
    found = connection.execute(f"SELECT run, {', '.join(KINDS.values())} FROM runs").fetchall()  # noqa: S608 - our own
    return {run: dict(zip(names, counts, strict=True)) for run, *counts in found}


KINDS = {
    "run": "1",
    "target": "targets_planned",
    "cell": "targets_planned * nodes_listed",
    "cell × class": "targets_planned * nodes_listed",
    "target × threshold": "targets_planned * limits_planned",
    "roll": "rolls_planned",
}
"""What one row of a gate may be, and how many of these a run's plan holds at least."""


def _rows(
    connection: DuckDBPyConnection, gate: Gate, planned: Mapping[str, Mapping[str, int]], *, of_interest: bool
) -> Iterator[Row]:
    dull = {"PASS", "SKIP"} if of_interest else set()
    if of_interest and gate.unmeasured == "note":
        dull.add("UNMEASURED")
    counts, found = (_few if len(planned) == 1 else _many)(connection, gate, dull)
    for run, kinds in planned.items():
        least = sum(kinds[item] for item in gate.items)
        if counts.get(run, 0) < least:
            raise HarnessError(
                f"{gate.path.name} looks at {counts.get(run, 0)} items, and run {run} has at least {least} planned: "
                "a rule that leaves items out cannot hold; put its file back as it was"
            )
    found.sort(key=lambda item: [(item.get(name) is None, item.get(name) or 0) for name in ORDER])
    for item in found:
        row = {"failure_class" if name == "class" else name: value for name, value in item.items()}
        if row["verdict"] not in VERDICTS:
            lead = f"{gate.rule} cannot be judged: a value is unknown"
            row |= {"verdict": "FAIL", "cause": "evidence", "lead": lead, "part": None, "tail": None}
        yield Row(rule=gate.rule, **row)


Looked = tuple[dict[str, int], list[dict[str, Any]]]
"""How many items a gate looked at, by run, and those of its rows that are not dull."""


def _few(connection: DuckDBPyConnection, gate: Gate, dull: set[str]) -> Looked:
    """Every row fetched and counted here: of one run they are few, and a plainer query is planned sooner."""
    cursor = _execute(connection, gate.sql, gate.path)
    names = [column[0] for column in cursor.description or ()]
    verdict, run = names.index("verdict"), names.index("run")
    rows = cursor.fetchall()
    counts = Counter(values[run] for values in rows)
    return counts, [dict(zip(names, values, strict=True)) for values in rows if values[verdict] not in dull]


def _many(connection: DuckDBPyConnection, gate: Gate, dull: set[str]) -> Looked:
    """Rows counted, and the dull ones left, where they are."""
    words = ", ".join(f"'{word}'" for word in ["", *sorted(dull)])
    sql = (
        "SELECT run, count(*), list(looked_at) FILTER (verdict IS NULL OR verdict NOT IN "  # noqa: S608 - our own
        f"({words})) FROM (\n{gate.sql}\n) AS looked_at GROUP BY run ORDER BY run"
    )
    found = _execute(connection, sql, gate.path).fetchall()
    return {run: count for run, count, _ in found}, [item for _, _, items in found for item in items or ()]


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
