"""``harness gate`` from evidence to exit code: tables where there are none, files for CI, the history, refusals."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest

from harness.cli import main
from harness.files import read_json, sha256_file, write_json
from harness.gate.store import stored
from harness.runs import RunFolder
from harness.store.made import make_tables
from harness.store.schemas import TABLES, schema_of
from tests.cli.sealed import seal

CASES = Path(__file__).parent.parent / "cases" / "gate"
Said = tuple[int, str, str]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Saved runs without tables: clean, failures, damaged-report, torn-stream."""
    for case in ("clean", "failures", "damaged-report", "torn-stream"):
        folder = RunFolder(tmp_path / "runs" / case)
        shutil.copytree(CASES / case, folder.evidence, ignore=shutil.ignore_patterns("expected.*"))
        seal(folder)
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return tmp_path / "runs"


def say(capsys: pytest.CaptureFixture[str], *words: str) -> Said:
    code = main(["gate", *words])
    output, error = capsys.readouterr()
    return code, output, error


def test_tables_are_made_where_there_are_none(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(runs / "clean")
    code, output, error = say(capsys, "clean")
    assert (code, error) == (0, "") and output.splitlines()[-1].startswith("VERDICT PASS")
    made = folder.tables_index.stat().st_mtime_ns
    assert say(capsys, "clean") == (0, output, "")
    assert folder.tables_index.stat().st_mtime_ns == made
    assert len(stored(folder.verdicts)) == 2


def test_the_stream_is_graded_when_it_is_asked_for(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, error = say(capsys, "torn-stream")
    assert (code, output) == (2, "") and "--stream" in error and error.count("\n") == 1
    code, output, _ = say(capsys, "torn-stream", "--stream", "--json")
    document = json.loads(output)
    assert code == document["exit_code"] != 2 and document["source"] == "stream"
    assert read_json(RunFolder(runs / "torn-stream").tables_index)["stream"] is True


@pytest.mark.parametrize(("run", "code"), [("clean", 0), ("failures", 1), ("damaged-report", 2)])
def test_files_for_ci_are_written_whatever_the_verdict(
    run: str, code: int, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit, summary = tmp_path / "gate.xml", tmp_path / "gate.md"
    assert say(capsys, run, "--junit", str(junit), "--markdown", str(summary))[0] == code
    word = ("PASS", "FAIL", "REFUSED")[code]
    assert f'name="verdict" value="{word}"' in junit.read_text()
    assert f'value="{sha256_file(RunFolder(runs / run).tables_index)}"' in junit.read_text()
    assert summary.read_text().startswith(f"## {word} `{run}`")
    assert ("SOAK UNPROVEN" in summary.read_text()) and ("SOAK UNPROVEN" in junit.read_text())


def test_a_file_that_cannot_be_written_is_said_after_the_verdict(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere, summary = tmp_path / "none" / "gate.xml", tmp_path / "gate.md"
    code, output, error = say(capsys, "clean", "--junit", str(nowhere), "--markdown", str(summary))
    assert code == 4 and output.splitlines()[-1].startswith("VERDICT PASS")
    assert f"{nowhere} cannot be written (No such file or directory)" in error and error.count("\n") == 1
    assert len(stored(RunFolder(runs / "clean").verdicts)) == 1
    assert summary.exists()


def test_a_refusal_is_one_line_on_stderr_and_an_object(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, error = say(capsys, "damaged-report", "--json")
    document = json.loads(output)
    assert (code, document["schema"], document["run"], document["verdict"]) == (2, 1, "damaged-report", "REFUSED")
    assert document["counts"] is None and document["targets"] == []
    assert error == f"harness: REFUSED damaged-report: {document['reason']}\n"
    assert say(capsys, "damaged-report") == (2, "", error)
    assert len(stored(RunFolder(runs / "damaged-report").verdicts)) == 2


@pytest.mark.parametrize("absent", ["SAVED", "evidence"])
def test_a_run_that_was_never_saved_is_refused_and_nothing_is_stored(
    absent: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(runs / "clean")
    folder.saved.unlink() if absent == "SAVED" else shutil.rmtree(folder.evidence)
    code, output, error = say(capsys, "clean", "--json", "--junit", str(tmp_path / "gate.xml"))
    assert (code, json.loads(output)["verdict"]) == (2, "REFUSED")
    assert "never saved whole" in json.loads(output)["reason"] and error.count("\n") == 1
    assert 'errors="1"' in (tmp_path / "gate.xml").read_text()
    assert stored(folder.verdicts) == []


@pytest.mark.parametrize("torn", ["", "{", "[]"])
def test_tables_whose_index_cannot_be_read_are_made_again(
    torn: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(runs / "clean")
    assert say(capsys, "clean")[0] == 0
    folder.tables_index.write_text(torn)
    assert say(capsys, "clean")[0] == 0 and read_json(folder.tables_index)["run"] == "clean"


@pytest.mark.parametrize("of_before", [{"schema_sha256": "0" * 64}, {"schema_sha256": None}, {"schema_version": 4}])
def test_tables_of_columns_that_are_no_longer_declared_are_made_again(
    of_before: dict[str, object], runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever declares a column need not think of a number: what is declared says by itself that tables are old."""
    folder = RunFolder(runs / "clean")
    few = dataclasses.replace(TABLES["runs"], columns=TABLES["runs"].columns[:-1])
    with monkeypatch.context() as before:
        before.setitem(TABLES, "runs", few)
        schema_of.cache_clear()
        make_tables(folder, seal=lambda _: None)
    schema_of.cache_clear()
    code, output, error = say(capsys, "clean")
    assert (code, error) == (0, "") and "VERDICT PASS" in output
    write_json(folder.tables_index, read_json(folder.tables_index) | of_before)
    assert say(capsys, "clean")[0] == 0


@pytest.mark.parametrize("words", [("clean",), ("--all",)])
def test_what_stands_in_the_place_of_the_verdicts_is_named(
    words: tuple[str, ...], runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "clean" / "verdicts").write_text("")
    code, output, error = say(capsys, *words)
    assert code == (2 if words == ("--all",) else 4)
    assert "clean/verdicts is no folder, and verdicts are kept in one; move it away" in output + error


def test_an_unknown_run_stays_a_usage_error(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["nope", "--json"], ["../clean", "--json"], ["nope", "--history"]):
        code, output, error = say(capsys, *words)
        assert (code, output) == (3, "") and error.count("\n") == 1


def test_the_history_grades_nothing_and_exits_by_the_newest(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(runs / "failures")
    code, output, error = say(capsys, "failures", "--history")
    assert (code, output) == (2, "") and "`harness gate failures` grades it" in error
    code, output, _ = say(capsys, "failures", "--history", "--json")
    assert (code, json.loads(output)) == (2, {"schema": 1, "run": "failures", "gradings": []})
    assert not folder.verdicts.exists() and not folder.tables.exists()
    for _ in range(2):
        say(capsys, "failures")
    code, output, error = say(capsys, "failures", "--history")
    assert (code, error) == (1, "") and output.splitlines()[1].endswith("FAIL  against 000001: nothing changed")
    document = json.loads(say(capsys, "failures", "--history", "--json")[1])
    assert [each["verdict"] for each in document["gradings"]] == ["FAIL", "FAIL"]
    stored(folder.verdicts)[1].write_text("{")
    code, output, _ = say(capsys, "failures", "--history")
    assert code == 2 and "DAMAGED" in output.splitlines()[1]


@pytest.mark.parametrize("other", ["--per-node", "--stream", "--junit=x", "--markdown=x"])
def test_the_history_takes_no_option_of_a_grading(other: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, error = say(capsys, "clean", "--history", other)
    assert (code, output) == (3, "") and "--history grades nothing" in error


def test_who_asked_for_the_stream_once_has_said_so_of_this_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its verdict is not lost by the next plain grading, which says what it graded."""
    first = say(capsys, "torn-stream", "--stream")
    assert first[0] == 1 and "source=stream" in first[1]
    assert say(capsys, "torn-stream") == first


def test_the_stream_is_no_way_round_a_report(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Usage, damaged or not: nothing is stored, and the tables that are there stay."""
    say(capsys, "clean")
    folder = RunFolder(runs / "clean")
    before = (len(stored(folder.verdicts)), sorted(folder.tables.iterdir()))
    for run in ("clean", "damaged-report"):
        code, output, error = say(capsys, run, "--stream")
        assert (code, output, error.count("\n")) == (3, "", 1) and "leave out --stream" in error
    assert (len(stored(folder.verdicts)), sorted(folder.tables.iterdir())) == before


@pytest.mark.parametrize("place", ["evidence/report.json", "tables/counters.parquet", "verdicts/x.json", "x.xml"])
def test_files_for_ci_never_go_into_the_runs_folder(place: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One wrong word, and a report would be in the place of the evidence."""
    before = {path: path.read_bytes() for path in (runs / "clean").rglob("*") if path.is_file()}
    for option in ("--junit", "--markdown"):
        code, output, error = say(capsys, "clean", option, str(runs / "clean" / place))
        assert (code, output, error.count("\n")) == (3, "", 1)
    assert {path: path.read_bytes() for path in (runs / "clean").rglob("*") if path.is_file()} == before


def test_what_leads_out_of_the_runs_folder_is_not_followed(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run, or its verdicts, that is a link: nothing is written at its end."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (runs / "clean" / "verdicts").symlink_to(elsewhere)
    assert say(capsys, "clean")[0] == 4
    (runs / "link").symlink_to(runs / "failures")
    assert say(capsys, "link")[0] == 3
    assert main(["gate", "--all", "--json"]) != 5 and '"link"' not in capsys.readouterr().out
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("place", ["tables/index.json", "evidence/report.json", "stages/50-save.json", "run.json"])
def test_a_fifo_is_no_file_and_nobody_waits_for_it(place: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = runs / "clean" / place
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    say(capsys, "clean")
    assert main(["runs"]) == 0 and main(["gate", "--all"]) in (1, 2)


def test_evidence_without_its_mark_is_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert say(capsys, "clean")[0] == 0
    (runs / "clean" / "evidence" / "SAVED").unlink()
    code, _, error = say(capsys, "clean")
    assert code == 2 and "SAVED is not there" in error


def test_a_damaged_receipt_is_not_no_receipt(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is what the evidence is held against when tables are made of it again."""
    receipt = runs / "clean" / "stages" / "50-save.json"
    for damage in ("", "{", '{"outputs": []}'):
        receipt.write_text(damage)
        shutil.rmtree(runs / "clean" / "tables", ignore_errors=True)
        code, _, error = say(capsys, "clean")
        assert code == 2 and "receipt" in error


def test_tables_that_a_killed_process_left_are_swept(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = runs / "clean" / ".tables.12345.new"
    left.mkdir()
    assert say(capsys, "clean")[0] == 0 and not left.exists()
