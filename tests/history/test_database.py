"""SQL across runs: only the runs' tables can be seen, nothing can be changed, and a bad file is named and left out."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import EvidenceError, UsageError
from harness.files import sha256_file, write_json
from harness.history import tables
from harness.history.database import ask, ask_arrow, open_database, run_roots
from harness.runs import RunFolder
from harness.store.columns import SOAK
from harness.store.kinds import tables_of
from harness.store.schemas import SCHEMA_VERSION, schema_of
from tests.report import made

SMALL = {"svc-1": 9, "uds-echo": 3}
COUNT = "SELECT run, count(*) FROM counters GROUP BY run ORDER BY run"


def two_runs(folder: Path) -> Path:
    """Two runs with a verdict each; the second is twice as slow."""
    for run, slow in (("quick-1", 1.0), ("quick-2", 2.0)):
        tables = made.clean_tables(SMALL, ("node-a", "node-b"), slow=slow)
        made.save_run(folder, run, tables, made.verdict_of(tables, run))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return two_runs(tmp_path / "runs")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs for tests that hold that nothing is changed."""
    return two_runs(tmp_path_factory.mktemp("untouched") / "runs")


def answer(runs: Path, sql: str, **parameters: str) -> list[tuple[object, ...]]:
    with open_database(run_roots(runs), sql) as opened:
        return ask(opened, sql, parameters)[1]


def test_every_run_is_in_one_table(runs: Path) -> None:
    assert answer(runs, COUNT) == [("quick-1", 4), ("quick-2", 4)]


def test_a_parameter_is_bound_and_never_read_as_sql(runs: Path) -> None:
    query = "SELECT count(*) FROM counters WHERE run = $run"
    assert answer(runs, query, run="quick-1") == [(4,)]
    assert answer(runs, query, run="' OR 1=1 --") == [(0,)]


def test_times_come_out_as_utc(runs: Path) -> None:
    assert answer(runs, "SELECT min(started_at) FROM executions") == [(made.T0.replace(tzinfo=None),)]


def test_the_views_of_the_gate_can_be_asked_too(runs: Path) -> None:
    assert answer(runs, "SELECT count(*) FROM cells WHERE survivor") == [(8,)]


def test_the_newest_verdict_of_each_run_is_a_table(runs: Path) -> None:
    assert answer(runs, "SELECT run, verdict, targets, lost_backends FROM verdicts ORDER BY run") == [
        ("quick-1", "PASS", 2, 0),
        ("quick-2", "PASS", 2, 0),
    ]


def test_a_refused_run_has_a_verdict_without_counts(runs: Path) -> None:
    tables = made.clean_tables(SMALL)
    made.save_run(runs, "quick-3", tables, made.verdict_of(tables, "quick-3", "REFUSED", "torn"))
    assert answer(runs, "SELECT verdict, reason, targets FROM verdicts WHERE run = 'quick-3'") == [
        ("REFUSED", "torn", None)
    ]


@pytest.mark.parametrize("in_memory_bytes", [1 << 30, 0], ids=["in memory", "scanned through Arrow"])
@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '{runs}/stolen.csv'",
        "COPY counters TO '{runs}/quick-1/tables/counters.parquet'",
        "WITH x AS (COPY (SELECT 1) TO '{runs}/stolen.csv') SELECT * FROM x",
        "WITH x AS (COPY (SELECT 1) TO '/dev/stdout') SELECT * FROM x",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{runs}/stolen.csv'",
        "EXPORT DATABASE '{runs}/stolen'",
        "ATTACH '{runs}/stolen.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM read_text('{runs}/quick-1/run.json')",
        "SELECT * FROM read_parquet('{runs}/quick-1/tables/counters.parquet')",
        "SELECT * FROM '{runs}/quick-1/tables/counters.parquet'",
        "FROM '{runs}/quick-1/run.json'",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM glob('{runs}/*')",
        "SELECT * FROM read_csv('/proc/self/environ')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM read_blob('{runs}/quick-1/run.json')",
        "SELECT * FROM read_json('{runs}/quick-1/run.json')",
        "SELECT * FROM read_json_objects('{runs}/quick-1/run.json')",
        "SELECT * FROM parquet_metadata('{runs}/quick-1/tables/counters.parquet')",
        "SELECT * FROM parquet_schema('{runs}/quick-1/tables/counters.parquet')",
        "SELECT * FROM parquet_kv_metadata('{runs}/quick-1/tables/counters.parquet')",
        "SELECT * FROM read_duckdb('{runs}/stolen.db')",
        "SELECT * FROM 'https://127.0.0.1/x.parquet'",
        "SELECT * FROM 's3://bucket/x.parquet'",
        "SELECT getenv('HOME')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM arrow_scan(1, 1, 1)",
        "SELECT * FROM pandas_scan(1)",
        "SET enable_external_access = true",
        "SET threads = 1",
        "RESET threads",
        "SET VARIABLE a = 1",
        "PRAGMA enable_profiling",
        "PRAGMA database_list",
        "PRAGMA json_execute_serialized_sql('x')",
        "UPDATE EXTENSIONS",
        "CHECKPOINT",
        "VACUUM",
        "USE memory",
        "DETACH memory",
        "IMPORT DATABASE '{runs}'",
        "COPY FROM DATABASE memory TO memory",
        "PREPARE x AS SELECT 1",
        "EXPLAIN SELECT 1",
        "PIVOT counters ON counter USING sum(value)",
        "CREATE TEMP TABLE mine AS SELECT 1",
        "CREATE MACRO mine(x) AS x",
        "ALTER TABLE counters ADD COLUMN mine INTEGER",
        "TRUNCATE counters",
        "CREATE TABLE mine (a INTEGER)",
        "DROP TABLE counters",
        "DELETE FROM counters",
        "INSERT INTO counters SELECT * FROM counters",
        "WITH x AS (DELETE FROM counters RETURNING *) SELECT * FROM x",
        "WITH x AS (INSERT INTO counters SELECT * FROM counters RETURNING *) SELECT * FROM x",
        "WITH x AS (UPDATE counters SET value = 0 RETURNING *) SELECT * FROM x",
        "WITH x AS (ATTACH '{runs}/stolen.db') SELECT * FROM x",
        "WITH x AS (SET threads = 1) SELECT * FROM x",
        "SELECT * FROM (COPY (SELECT 1) TO '{runs}/stolen.csv')",
        "SELECT * FROM query('COPY (SELECT 1) TO ''{runs}/stolen.csv''')",
        "SELECT * FROM query('SELECT * FROM read_text(''{runs}/quick-1/run.json'')')",
        "SELECT * FROM query_table('{runs}/quick-1/tables/counters.parquet')",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''/etc/hostname'')'))",
        "CREATE SECRET (TYPE s3)",
        "SELECT 1; SELECT 2",
        "SELECT 1; COPY (SELECT 1) TO '{runs}/stolen.csv'",
        "BEGIN",
        "ROLLBACK",
        "CALL pragma_version()",
        "",
        "-- nothing",
        "this is no SQL",
        "SELECT no_such_column FROM counters",
        "SELECT '\udcff'",
        "SELECT '\x00'; COPY (SELECT 1) TO '{runs}/stolen.csv'",
        "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    ],
)
def test_anything_but_a_select_over_the_tables_is_refused(
    untouched: Path, sql: str, in_memory_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "IN_MEMORY_BYTES", in_memory_bytes)
    before = {path: path.read_bytes() for path in untouched.rglob("*") if path.is_file()}
    with pytest.raises(UsageError):
        answer(untouched, sql.format(runs=untouched))
    assert {path: path.read_bytes() for path in untouched.rglob("*") if path.is_file()} == before


ENDLESS = "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t) SELECT count(*) FROM t"


@pytest.mark.parametrize("how", [ask, ask_arrow])
@pytest.mark.parametrize("sql", [ENDLESS, "SELECT count(*) FROM range(1000000000) a, range(1000000000) b"])
def test_a_question_without_end_is_stopped(runs: Path, sql: str, how: Callable[..., object]) -> None:
    began = time.monotonic()
    with (
        open_database(run_roots(runs), sql) as opened,
        pytest.raises(UsageError, match=r"took longer than 0\.2 s and was stopped"),
    ):
        how(opened, sql, timeout_s=0.2)
    assert time.monotonic() - began < 30


def test_a_local_variable_of_python_is_no_table(runs: Path) -> None:
    secret = [1, 2, 3]
    with pytest.raises(UsageError):
        answer(runs, "SELECT * FROM secret")
    assert secret


def test_large_tables_are_scanned_and_answer_the_same(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = 'SELECT run, max(elapsed_s), min("at"), sum(http_2xx) FROM progress GROUP BY run ORDER BY run'
    in_memory = answer(runs, query)
    monkeypatch.setattr(tables, "IN_MEMORY_BYTES", 0)
    assert answer(runs, query) == in_memory


def tear(path: Path, damage: str) -> None:
    """Damage one file of a run."""
    whole = path.read_bytes()
    bad = {
        "torn": whole[:-9],
        "empty": b"",
        "no Parquet": b"hello",
        "one byte": whole[:100] + bytes([whole[100] ^ 1]) + whole[101:],
        "of another run": (path.parents[2] / "quick-2" / "tables" / path.name).read_bytes(),
    }
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    elif damage != "absent":
        path.write_bytes(bad[damage])


DAMAGES = ["absent", "torn", "empty", "no Parquet", "one byte", "of another run", "a folder"]


@pytest.mark.parametrize("in_memory_bytes", [1 << 30, 0], ids=["in memory", "scanned through Arrow"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_run_with_a_damaged_table_is_named_and_left_out_whole(
    runs: Path, damage: str, in_memory_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its counters a run would read as one without failures."""
    monkeypatch.setattr(tables, "IN_MEMORY_BYTES", in_memory_bytes)
    tear(runs / "quick-1" / "tables" / "counters.parquet", damage)
    sql = """SELECT run, count(counter), count(DISTINCT verdicts.verdict), count(key)
        FROM runs FULL JOIN counters USING (run) FULL JOIN verdicts USING (run) FULL JOIN settings USING (run)
        GROUP BY run"""
    with open_database(run_roots(runs), sql) as opened:
        assert [row[0] for row in ask(opened, sql)[1]] == ["quick-2"]
        (sentence,) = opened.left_out
    assert sentence.startswith(
        f"left out {runs / 'quick-1'}: counters.parquet is not what was made from the evidence; "
    )
    assert "`harness gate quick-1` makes them" in sentence
    with (
        pytest.raises(EvidenceError, match=r"^counters\.parquet is not"),
        open_database(run_roots(runs), sql, strict=True),
    ):
        pass


def test_every_table_that_a_question_reads_is_held_against_the_index(runs: Path) -> None:
    """Those that it does not read are not: a log of many gigabytes need not be read for a question about rolls."""
    for name in tables_of(SOAK):
        path = runs / "quick-1" / "tables" / f"{name}.parquet"
        whole = path.read_bytes()
        tear(path, "one byte")
        with open_database(run_roots(runs), f"FROM {name}") as opened:
            assert len(opened.left_out) == 1 and path.name in opened.left_out[0]
        with open_database(run_roots(runs), "FROM events" if name == "runs" else "FROM runs") as opened:
            assert opened.left_out == []
        path.write_bytes(whole)


@pytest.mark.parametrize(
    "text", [None, "", "{}", "[]", '{"run": "quick-1"}', '{"run": "quick-1", "tables": {"runs": 1}}']
)
def test_tables_without_an_index_that_names_them_are_left_out(runs: Path, text: str | None) -> None:
    path = runs / "quick-1" / "tables" / "index.json"
    path.unlink()
    if text is not None:
        path.write_text(text)
    with open_database(run_roots(runs), COUNT) as opened:
        assert ask(opened, COUNT)[1] == [("quick-2", 4)]
        assert len(opened.left_out) == 1 and "quick-1" in opened.left_out[0]


def test_a_file_that_is_what_was_made_and_cannot_be_read_leaves_its_run_out(runs: Path) -> None:
    """Tables are asked for side by side: what was loaded of the run before is unloaded."""
    folder = RunFolder(runs / "quick-1")
    (folder.tables / "thresholds.parquet").write_bytes(b"PAR1 no more PAR1")
    index = json.loads(folder.tables_index.read_text())
    index |= {"kind": SOAK, "schema_sha256": schema_of(SOAK)}
    index["tables"]["thresholds"]["sha256"] = sha256_file(folder.tables / "thresholds.parquet")
    write_json(folder.tables_index, index)
    sql = "SELECT run FROM counters UNION SELECT run FROM thresholds"
    with open_database(run_roots(runs), sql) as opened:
        assert ask(opened, sql)[1] == [("quick-2",)]
        assert len(opened.left_out) == 1 and "thresholds.parquet cannot be read" in opened.left_out[0]


def alter(runs: Path, projection: str) -> None:
    """The progress of quick-1 as an earlier version would have made it."""
    import duckdb

    path, old = runs / "quick-1" / "tables" / "progress.parquet", runs / "old.parquet"
    duckdb.read_parquet(str(path)).project(projection).write_parquet(str(old))
    old.replace(path)
    made.index(RunFolder(runs / "quick-1"), schema_version=SCHEMA_VERSION - 1)


@pytest.mark.parametrize("in_memory_bytes", [1 << 30, 0], ids=["in memory", "scanned through Arrow"])
def test_a_column_that_an_older_run_lacks_is_unknown_and_not_zero(
    runs: Path, in_memory_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "IN_MEMORY_BYTES", in_memory_bytes)
    alter(runs, "* EXCLUDE (failures)")
    query = "SELECT run, count(*) > 0, sum(failures) FROM progress GROUP BY run ORDER BY run"
    assert answer(runs, query) == [("quick-1", True, None), ("quick-2", True, 0)]


@pytest.mark.parametrize("projection", ["* REPLACE (failures + 0.5 AS failures)", "* EXCLUDE (run)"])
def test_an_older_run_with_tables_of_another_form_is_left_out(runs: Path, projection: str) -> None:
    alter(runs, projection)
    query = "SELECT DISTINCT run FROM progress JOIN runs USING (run)"
    with open_database(run_roots(runs), query) as opened:
        assert ask(opened, query)[1] == [("quick-2",)]
        assert len(opened.left_out) == 1 and "progress.parquet is of another form" in opened.left_out[0]


def test_no_runs_at_all_are_empty_tables(tmp_path: Path) -> None:
    assert answer(tmp_path / "none", "SELECT count(*) FROM runs") == [(0,)]


def test_a_copy_of_a_run_does_not_count_twice(runs: Path) -> None:
    shutil.copytree(runs / "quick-1", runs / "a-copy")
    shutil.copytree(runs / "quick-1", runs / "published" / "quick-1")
    with open_database(run_roots(runs), COUNT) as opened:
        assert ask(opened, COUNT)[1] == [("quick-1", 4), ("quick-2", 4)]
        assert len(opened.left_out) == 2
    assert "run quick-1 is there already" in opened.left_out[0]
    assert "index.json is of run 'quick-1'" in opened.left_out[1]


def test_published_runs_stand_beside_our_own(runs: Path) -> None:
    (runs / "quick-2").rename(runs / "kept")
    (runs / "published").mkdir()
    (runs / "kept").rename(runs / "published" / "quick-2")
    assert answer(runs, COUNT) == [("quick-1", 4), ("quick-2", 4)]
