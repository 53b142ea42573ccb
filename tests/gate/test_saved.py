"""Grading what is saved: tables, index and evidence must be those of the run that is graded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.errors import EvidenceError
from harness.files import read_json, sha256_file, write_json
from harness.gate import Verdict
from harness.gate.run import files_in, grade_many, load_runs
from harness.gate.saved import grade_run, grade_runs
from harness.runs import RunFolder
from harness.store.database import connect
from harness.store.ingest import build_tables
from harness.store.made import make_tables

CASES = Path(__file__).parent.parent / "cases" / "gate"


def saved_run(root: Path, case: str) -> RunFolder:
    """A saved run with tables and their index, as the stages leave it."""
    folder = RunFolder(root / case)
    shutil.copytree(CASES / case, folder.evidence, ignore=shutil.ignore_patterns("expected.*"))
    names = sorted(path.name for path in folder.evidence.iterdir() if path.name != folder.sums.name)
    folder.sums.write_text("".join(f"{sha256_file(folder.evidence / name)}  {name}\n" for name in names))
    folder.saved.write_text("")
    make_tables(folder, seal=lambda _: None)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run that passes."""
    return saved_run(tmp_path, "clean")


def test_a_whole_run_is_graded(folder: RunFolder) -> None:
    verdict, path = grade_run(folder)
    assert (verdict.run, verdict.word) == ("clean", "PASS")
    assert path.parent == folder.verdicts


def test_a_table_that_the_index_calls_empty_is_read(tmp_path: Path) -> None:
    """How many rows a table holds, the table alone says."""
    failing = saved_run(tmp_path, "failures")
    before = grade_run(failing)[0]
    index = read_json(failing.tables_index)
    for about in index["tables"].values():
        about["rows"] = 0
    write_json(failing.tables_index, index)
    after = grade_run(failing)[0]
    assert (after.word, after.to_json()) == ("FAIL", before.to_json())


def test_an_index_of_another_run_is_refused(folder: RunFolder) -> None:
    write_json(folder.tables_index, read_json(folder.tables_index) | {"run": "other"})
    verdict, _ = grade_run(folder)
    assert verdict.word == "REFUSED"
    assert "'other'" in str(verdict.reason)


def test_tables_of_another_run_are_refused(folder: RunFolder) -> None:
    """Made from the same evidence under another name, and listed as if they were this run's."""
    tables = build_tables(folder.evidence, folder.tables, run="other")
    index = {"schema": 1, "run": "clean", "refused": None, "sums_sha256": sha256_file(folder.sums), "tables": tables}
    write_json(folder.tables_index, index)
    verdict, _ = grade_run(folder)
    assert (verdict.run, verdict.word) == ("clean", "REFUSED")
    assert "'other'" in str(verdict.reason)


def test_a_folder_under_another_name_is_refused(folder: RunFolder) -> None:
    """A run that passed, renamed to one that was not graded."""
    renamed = RunFolder(folder.root.rename(folder.root.with_name("renamed")))
    verdict, _ = grade_run(renamed)
    assert (verdict.run, verdict.word) == ("renamed", "REFUSED")
    assert "'clean'" in str(verdict.reason)


def test_many_runs_are_graded_as_each_alone(tmp_path: Path) -> None:
    """Every gradable case at once, two damaged ones and one of another run among them: nobody's verdict changes."""
    gradable = [path.name for path in sorted(CASES.iterdir()) if _has_tables(path)]
    folders = [saved_run(tmp_path, case) for case in gradable]
    (folders[3].tables / "counters.parquet").write_bytes(b"PAR1 torn PAR1")
    (folders[5].evidence / "report.json").write_text("{}")
    swapped = saved_run(tmp_path / "elsewhere", "clean")
    shutil.copytree(swapped.root, tmp_path / "zz-copy")
    folders.append(RunFolder(tmp_path / "zz-copy"))
    folders.append(RunFolder(tmp_path / "nothing-here"))
    together = list(grade_runs(tmp_path, folders))
    assert [one.folder for one in together] == folders
    for one in together[:-1]:
        alone, _ = grade_run(one.folder)
        assert one.verdict.to_json() == alone.to_json()
        assert one.path is not None and read_json(one.path)["verdict"] == alone.word
    assert together[-1].verdict.word == "REFUSED" and together[-1].path is None
    words = [one.verdict.word for one in together]
    assert [words[3], words[5], words[-2]] == ["REFUSED"] * 3 and {"PASS", "FAIL"} < set(words)


def _has_tables(case: Path) -> bool:
    expected = read_json(case / "expected.json")
    return expected["verdict"] != "REFUSED" and not expected.get("stream") and (case / "report.json").exists()


def test_tables_that_lie_together_are_told_apart(tmp_path: Path) -> None:
    """Digests hold, and yet two folders hold one run's tables: taken together they would be one run with two plans."""
    first, second = saved_run(tmp_path, "clean"), saved_run(tmp_path, "failures")
    with pytest.raises(EvidenceError, match="same run"):
        load_runs(connect(), [files_in(first.tables), files_in(first.tables)])
    graded = list(grade_many([files_in(first.tables), files_in(second.tables), files_in(first.tables)]))
    assert [verdict.word for verdict in graded if isinstance(verdict, Verdict)] == ["PASS", "FAIL", "PASS"]


def test_a_run_s_own_plan_is_not_whole_by_another_s(tmp_path: Path) -> None:
    """Two runs' plan tables swapped under them: the counts of each run are its own."""
    first, second = saved_run(tmp_path, "clean"), saved_run(tmp_path, "churn-complete")
    files = dict(files_in(second.tables)) | {"plan_rolls": files_in(first.tables)["plan_rolls"]}
    found = list(grade_many([files_in(first.tables), files]))
    assert isinstance(found[0], Verdict) and isinstance(found[1], EvidenceError)
