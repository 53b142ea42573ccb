"""Tables: declared schemas, the same bytes each time, replaced as a whole, and refusals that leave nothing behind."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import EvidenceError
from harness.gate import grade, render
from harness.store.columns import SOAK
from harness.store.database import connect, create_views
from harness.store.ingest import build_tables
from harness.store.kinds import tables_of
from harness.store.parquet import ROWS_PER_GROUP, write_table
from harness.store.schemas import SCHEMA_VERSION, TABLES
from harness.store.sums import digests, sums_text, verify_sums

CASES = Path(__file__).parent.parent / "cases" / "gate"


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """Evidence of a clean run with a churn."""
    folder = tmp_path / "evidence"
    shutil.copytree(CASES / "churn-complete", folder, ignore=shutil.ignore_patterns("expected.*"))
    return folder


def sum_up(evidence: Path) -> None:
    """Write SHA256SUMS and SAVED as saving does."""
    files = sorted(path for path in evidence.iterdir() if path.name not in ("SHA256SUMS", "SAVED"))
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (evidence / "SHA256SUMS").write_text(sums)
    (evidence / "SAVED").write_text("2026-03-04T05:09:00.000Z\n")


def test_every_table_is_made_to_its_declared_schema(evidence: Path, tmp_path: Path) -> None:
    """Columns, int64 and UTC microseconds, no null-typed column, zstd, and metadata that says where it came from."""
    made = build_tables(evidence, tmp_path / "tables", run="r1")
    assert list(made) == list(tables_of(SOAK))
    types = {
        "text": pa.string(),
        "int64": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    for name, table in tables_of(SOAK).items():
        path = tmp_path / "tables" / f"{name}.parquet"
        file = pq.ParquetFile(path)
        schema = file.schema_arrow
        assert [(field.name, field.type) for field in schema] == [(c.name, types[c.type]) for c in table.columns]
        assert made[name] == {"rows": file.metadata.num_rows, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        assert schema.metadata[b"harness.run"] == b"r1"
        assert int(schema.metadata[b"harness.schema_version"]) == SCHEMA_VERSION
        if file.metadata.num_rows:
            assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    sources = json.loads(pq.read_schema(tmp_path / "tables" / "counters.parquet").metadata[b"harness.sources"])
    assert sources["report.json"] == hashlib.sha256((evidence / "report.json").read_bytes()).hexdigest()


def test_the_same_evidence_gives_the_same_bytes(evidence: Path, tmp_path: Path) -> None:
    """Digests repeat, so a verdict's tables can be named by them."""
    first = build_tables(evidence, tmp_path / "a", run="r1")
    assert build_tables(evidence, tmp_path / "b", run="r1") == first
    assert build_tables(evidence, tmp_path / "a", run="r1") == first
    assert build_tables(evidence, tmp_path / "b", run="r2") != first


def test_tables_are_replaced_as_a_whole_or_not_at_all(evidence: Path, tmp_path: Path) -> None:
    """A refusal leaves the earlier tables alone and no temporary folder; a success leaves nothing of theirs."""
    tables = tmp_path / "tables"
    made = build_tables(evidence, tables, run="r1")
    (tables / "left-over.parquet").write_bytes(b"x")
    (evidence / "shares.tsv").write_text("")
    with pytest.raises(EvidenceError, match=r"shares\.tsv"):
        build_tables(evidence, tables, run="r1")
    assert hashlib.sha256((tables / "runs.parquet").read_bytes()).hexdigest() == made["runs"]["sha256"]
    shutil.copy(CASES / "churn-complete" / "shares.tsv", evidence)
    build_tables(evidence, tables, run="r1")
    assert sorted(path.stem for path in tables.iterdir()) == sorted(tables_of(SOAK))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evidence", "tables"]


def test_a_changed_added_or_absent_file_is_named(evidence: Path, tmp_path: Path) -> None:
    """Whatever SHA256SUMS says is held against every byte, also of files that no rule reads."""
    (evidence / "target-svc-1-0.log").write_text("hello\n")
    sum_up(evidence)
    build_tables(evidence, tmp_path / "tables", run="r1")
    assert "target-svc-1-0.log" in verify_sums(evidence)
    (evidence / "target-svc-1-0.log").write_text("hellO\n")
    with pytest.raises(EvidenceError, match=r"target-svc-1-0\.log was changed"):
        build_tables(evidence, tmp_path / "tables", run="r1")
    (evidence / "target-svc-1-0.log").unlink()
    with pytest.raises(EvidenceError, match=r"target-svc-1-0\.log is listed"):
        build_tables(evidence, tmp_path / "tables", run="r1")
    (evidence / "target-svc-1-0.log").write_text("hello\n")
    (evidence / "faults.log").write_text("")
    with pytest.raises(EvidenceError, match=r"faults\.log is in the evidence and not in SHA256SUMS"):
        build_tables(evidence, tmp_path / "tables", run="r1")


def test_sub_folders_are_held_file_by_file(evidence: Path, tmp_path: Path) -> None:
    """What lies deep is listed by its path, and noticed like all else; a folder that stands for a file is none."""
    (evidence / "chart" / "deep").mkdir(parents=True)
    (evidence / "chart" / "deep" / "pull.log").write_text("hello\n")
    with pytest.raises(EvidenceError, match=r"chart/deep/pull\.log is in the evidence and not in SHA256SUMS"):
        (evidence / "SHA256SUMS").write_text("")
        verify_sums(evidence)
    (evidence / "SHA256SUMS").write_text(sums_text(digests_without_list(evidence)))
    assert "chart/deep/pull.log" in verify_sums(evidence)
    build_tables(evidence, tmp_path / "tables", run="r1")
    (evidence / "chart" / "more").mkdir()
    with pytest.raises(EvidenceError, match="chart/more is in the evidence and not in SHA256SUMS"):
        verify_sums(evidence)
    (evidence / "chart" / "more").rmdir()
    shutil.move(evidence / "chart", tmp_path / "moved")
    (evidence / "chart").symlink_to(tmp_path / "moved")
    with pytest.raises(EvidenceError, match=r"chart/deep/pull\.log is listed in SHA256SUMS and is not there"):
        verify_sums(evidence)


def digests_without_list(evidence: Path) -> dict[str, str]:
    """As of evidence from elsewhere."""
    (evidence / "SHA256SUMS").unlink()
    return digests(evidence)


@pytest.mark.parametrize("line", ["../../etc/passwd", "a/../../b", "/etc/passwd", "a//b", "./a", "a/", ".."])
def test_sums_reach_no_file_outside_the_evidence(line: str, evidence: Path) -> None:
    """A name with a path in it is refused before anything is read."""
    (evidence / "SHA256SUMS").write_text("0" * 64 + f"  {line}\n")
    with pytest.raises(EvidenceError, match="SHA256SUMS:1"):
        verify_sums(evidence)


@pytest.mark.parametrize("name", ["run.env", "shares.tsv", "report.json"])
def test_an_absent_file_is_named(name: str, evidence: Path, tmp_path: Path) -> None:
    """What cannot be done without is said."""
    (evidence / name).unlink()
    with pytest.raises(EvidenceError, match=name.replace(".", r"\.")):
        build_tables(evidence, tmp_path / "tables", run="r1")


def test_a_report_is_never_gone_round(evidence: Path, tmp_path: Path) -> None:
    """With a report there, the stream is not graded, asked for or not."""
    shutil.copy(evidence / "report.json", evidence / "results.jsonl")
    with pytest.raises(EvidenceError, match=r"report\.json is there"):
        build_tables(evidence, tmp_path / "tables", run="r1", stream=True)


def test_rows_beyond_one_group_and_values_that_do_not_fit(tmp_path: Path) -> None:
    """Large logs go through in groups; a value of the wrong type, or an absent required one, is a sentence."""
    rows = ({"at_s": float(n), "roll_no": n, "kind": "proxy", "name": "x"} for n in range(ROWS_PER_GROUP + 1))
    assert write_table(tmp_path / "t", TABLES["plan_rolls"], rows, run="r", sources={}) == ROWS_PER_GROUP + 1
    assert pq.ParquetFile(tmp_path / "t").metadata.num_rows == ROWS_PER_GROUP + 1
    for wrong in ({"node_no": 2**63}, {"node_no": "x"}, {"node_no": None}):
        row = {"ip": "1", "node": "n", **wrong}
        with pytest.raises(EvidenceError, match="table plan_nodes, column node_no"):
            write_table(tmp_path / "t", TABLES["plan_nodes"], [row], run="r", sources={})


def test_views_over_several_runs_keep_every_column_and_type(evidence: Path, tmp_path: Path) -> None:
    """An all-NULL column of one run neither changes a type nor loses the rows of another; a path may hold a quote."""
    one, two = tmp_path / "it's one" / "tables", tmp_path / "two" / "tables"
    for tables in (one, two):
        tables.parent.mkdir()
    build_tables(evidence, one, run="007")
    (evidence / "engines.tsv").write_text("")
    build_tables(evidence, two, run="2026-10-08")
    (two / "events.parquet").unlink()
    connection = connect()
    create_views(connection, [one, two])
    assert connection.execute("SELECT run, nodes_listed FROM runs ORDER BY run").fetchall() == [
        ("007", 2),
        ("2026-10-08", 0),
    ]
    assert connection.execute("SELECT DISTINCT run FROM events").fetchall() == [("007",)]
    for name, table in TABLES.items():
        described = connection.execute(f"DESCRIBE {name}").fetchall()
        assert [row[0] for row in described] == list(table.names)
    connection.close()
    connection = connect()
    create_views(connection, [])
    assert connection.execute("SELECT count(*) FROM counters").fetchone() == (0,)
    connection.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_evidence_is_graded_or_refused_and_never_a_traceback(
    evidence: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """A byte changed, cut off or put in, in any file: a verdict or one sentence."""
    damaged = tmp_path / "damaged"
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(evidence, damaged)
    path = data.draw(st.sampled_from(sorted(damaged.iterdir())))
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    match data.draw(st.sampled_from(["change", "cut", "insert"])):
        case "change":
            content[place] = data.draw(st.integers(0, 255))
        case "cut":
            del content[place:]
        case _:
            content[place:place] = data.draw(st.binary(min_size=1, max_size=9))
    path.write_bytes(content)
    try:
        build_tables(damaged, tmp_path / "tables", run="r")
        render(grade(tmp_path / "tables"), per_node=True)
    except EvidenceError as error:
        assert "\n" not in str(error)
