"""Tables of many runs in one file each: a cache that never changes a verdict and is never believed when it is stale."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.files import sha256_file, write_json
from harness.gate import saved
from harness.gate.saved import grade_run, grade_runs
from harness.runs import RunFolder, run_folders
from harness.store.made import make_tables
from harness.store.segments import FOLDER, read_segments
from tests.gate.test_saved import saved_run

RUNS = ("borders", "clean", "failures", "lost-backend", "missing")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five runs, graded once, their tables together in a segment."""
    monkeypatch.setattr(saved, "WORTH_A_SEGMENT", 2)
    for case in RUNS:
        saved_run(tmp_path, case)
    words(tmp_path)
    (segment,) = read_segments(tmp_path)
    assert sorted(segment.runs) == list(RUNS) and segment.is_whole()
    return tmp_path


def words(runs: Path) -> list[str]:
    return [one.verdict.word for one in grade_runs(runs, run_folders(runs))]


def own_tables_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs are graded by their own tables, call by call."""
    seen: list[int] = []
    real = saved.grade_many
    monkeypatch.setattr(saved, "grade_many", lambda some, keep=None: (seen.append(len(some)), real(some, keep))[1])
    return seen


def test_a_segment_gives_the_verdicts_of_the_runs_own_tables(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = own_tables_read(monkeypatch)
    together = {one.folder.run: one.verdict.to_json() for one in grade_runs(runs, run_folders(runs))}
    assert read == [0]
    assert together == {run: grade_run(RunFolder(runs / run))[0].to_json() for run in RUNS}


def change_index(runs: Path) -> None:
    """The tables of one run are another's now, with an index that says so."""
    shutil.copytree(runs / "failures" / "evidence", runs / "clean" / "evidence", dirs_exist_ok=True)
    folder = RunFolder(runs / "clean")
    names = sorted(path.name for path in folder.evidence.iterdir() if path.name not in ("SHA256SUMS", "SAVED"))
    folder.sums.write_text("".join(f"{sha256_file(folder.evidence / name)}  {name}\n" for name in names))
    make_tables(folder, seal=lambda _: None)


def tear_file(runs: Path) -> None:
    path = next((runs / FOLDER).glob("*/counters.parquet"))
    path.write_bytes(path.read_bytes()[:-9])


def lose_file(runs: Path) -> None:
    next((runs / FOLDER).glob("*/backends.parquet")).unlink()


def garble_manifest(runs: Path) -> None:
    next((runs / FOLDER).glob("*/manifest.json")).write_text("[1]")


def name_another_run(runs: Path) -> None:
    """A manifest that promises a run which its files do not hold."""
    manifest = next((runs / FOLDER).glob("*/manifest.json"))
    (segment,) = read_segments(runs)
    saved_run(runs, "in-flight")
    index = sha256_file(RunFolder(runs / "in-flight").tables_index)
    document = {"schema": 1, "schema_version": 0, "runs": {**segment.runs, "in-flight": index}}
    from harness.store.schemas import SCHEMA_VERSION

    write_json(manifest, document | {"schema_version": SCHEMA_VERSION, "tables": dict(segment.tables)})


@pytest.mark.parametrize("harm", [change_index, tear_file, lose_file, garble_manifest, name_another_run])
def test_a_segment_that_is_not_what_it_was_is_not_believed(runs: Path, harm: Callable[[Path], None]) -> None:
    """Each run still gets the verdict of its own tables."""
    harm(runs)
    folders = run_folders(runs)
    assert words(runs) == [grade_run(folder)[0].word for folder in folders]


def test_evidence_and_tables_are_looked_at_beside_a_segment(runs: Path) -> None:
    """The copy is whole, and what it was made of is not: refused, as it is alone."""
    (runs / "clean" / "evidence" / "report.json").write_text("{}")
    table = runs / "borders" / "tables" / "counters.parquet"
    table.write_bytes(table.read_bytes() + b" ")
    assert words(runs) == ["REFUSED", "REFUSED", "FAIL", "FAIL", "FAIL"]


def test_a_segment_of_runs_that_are_gone_is_removed(runs: Path) -> None:
    for run in RUNS[:3]:
        shutil.rmtree(runs / run)
    words(runs)
    segments = read_segments(runs)
    assert [sorted(segment.runs) for segment in segments] == [["lost-backend", "missing"]]
