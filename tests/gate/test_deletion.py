# ruff: noqa: S608 - the mutations are queries put together from this file's own words
"""No row of what a verdict rests on can go away, twice be there or change, and leave a PASS behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from harness.errors import EvidenceError
from harness.gate import grade

TablesOf = Callable[[str], Path]

# Every row of these carries weight; statistics are shown and, without a limit, not judged.
WEIGHED = ("runs", "plan_targets", "plan_nodes", "plan_rolls", "executions", "backends", "counters", "events")
WEIGHTLESS_EVENTS = ("START", "COMPLETE")


def rewrite(source: Path, target: Path, table: str, query: str) -> None:
    """Copy the tables and put the rows of ``query`` (over ``rows``, numbered by ``row``) in place of one table's."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    path = target / f"{table}.parquet"
    with duckdb.connect(":memory:") as connection:
        connection.execute(
            "CREATE TABLE rows AS SELECT *, row_number() OVER () AS row FROM read_parquet($1)",
            [str(source / f"{table}.parquet")],
        )
        connection.execute(f"COPY (SELECT * EXCLUDE (row) FROM ({query})) TO '{path}' (FORMAT parquet)")


def count_rows(tables: Path, table: str) -> int:
    with duckdb.connect(":memory:") as connection:
        found = connection.execute(
            "SELECT count(*) FROM read_parquet($1)", [str(tables / f"{table}.parquet")]
        ).fetchone()
    assert found is not None
    return int(found[0])


def word(tables: Path) -> str:
    """The verdict's word, REFUSED where the tables are not graded at all."""
    try:
        return grade(tables).word
    except EvidenceError:
        return "REFUSED"


@pytest.fixture
def clean(tables_of: TablesOf) -> Path:
    tables = tables_of("churn-complete")
    assert word(tables) == "PASS"
    return tables


@pytest.mark.parametrize("table", WEIGHED)
def test_deleting_any_row_flips_the_verdict(table: str, clean: Path, tmp_path: Path) -> None:
    """Row by row: what is absent is a finding or a refusal."""
    rows = count_rows(clean, table)
    assert rows
    for row in range(1, rows + 1):
        kept = "SELECT * FROM rows WHERE row <> {row}"
        if table == "events":
            kept += f" AND outcome NOT IN {WEIGHTLESS_EVENTS}"
            if row in (1, rows):
                continue
        rewrite(clean, tmp_path / "mutant", table, kept.format(row=row))
        assert word(tmp_path / "mutant") != "PASS", f"{table}: row {row} deleted"


@pytest.mark.parametrize(
    "table", ["runs", "plan_targets", "plan_nodes", "plan_rolls", "executions", "backends", "counters"]
)
def test_doubling_any_row_flips_the_verdict(table: str, clean: Path, tmp_path: Path) -> None:
    """A row twice is two runs in one, or one count taken twice."""
    for row in range(1, count_rows(clean, table) + 1):
        rewrite(clean, tmp_path / "mutant", table, f"SELECT * FROM rows UNION ALL SELECT * FROM rows WHERE row = {row}")
        assert word(tmp_path / "mutant") != "PASS", f"{table}: row {row} doubled"


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("executions", "duration_ms", "NULL"),
        ("executions", "elapsed_ms", "NULL"),
        ("executions", "passed", "NULL"),
        ("executions", "label", "'mesh/other'"),
        ("executions", "not_run", "true"),
        ("executions", "error", "'stop'"),
        ("backends", "elapsed_ms", "NULL"),
        ("backends", "returned", "false"),
        ("backends", "dispatched", "false"),
        ("backends", "in_error", "true"),
        ("backends", "bad_counters", "'x'"),
        ("backends", "ip", "'10.9.9.9'"),
        ("counters", "value", "0"),
        ("counters", "value", "1000000"),
        ("counters", "counter", "'benchmark.http_5xx'"),
        ("thresholds", "passed", "NULL"),
        ("thresholds", "passed", "false"),
        ("plan_targets", "rate_rps", "rate_rps + 1"),
        ("plan_targets", "label", "'mesh/x'"),
        ("plan_nodes", "ip", "'10.9.9.9'"),
        ("plan_rolls", "name", "'other'"),
        ("runs", "backends", "3"),
        ("runs", "log_skip_lines", "1"),
        ("runs", "report_pass", "false"),
        ("runs", "floor_pct", "NULL"),
    ],
)
def test_changing_a_value_in_any_row_flips_the_verdict(
    table: str, column: str, value: str, clean: Path, tmp_path: Path
) -> None:
    """NULL, a wrong number and another's name alike."""
    for row in range(1, count_rows(clean, table) + 1):
        changed = f"CASE WHEN row = {row} THEN {value} ELSE {column} END"
        rewrite(clean, tmp_path / "mutant", table, f"SELECT * REPLACE ({changed} AS {column}) FROM rows")
        assert word(tmp_path / "mutant") != "PASS", f"{table}: {column} of row {row}"


def test_an_absent_or_torn_table_is_refused_by_name(clean: Path) -> None:
    """The sentence names the file."""
    path = clean / "backends.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(EvidenceError, match=r"backends\.parquet"):
        grade(clean)
    path.unlink()
    with pytest.raises(EvidenceError, match=r"backends\.parquet"):
        grade(clean)
