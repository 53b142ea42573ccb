"""``harness gate --all``: every run one line, every verdict stored, and an exit code that no run hides behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.cli import main
from harness.gate.store import stored
from harness.runs import RunFolder
from tests.cli.sealed import adopted
from tests.gate.test_saved import CASES, saved_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Runs that pass and fail, one without tables, one damaged, one never saved whole."""
    folder = tmp_path / "runs"
    for case in ("clean", "failures", "lost-backend"):
        adopted(saved_run(folder, case))
    without = adopted(saved_run(folder, "borders"))
    shutil.rmtree(without.tables)
    damaged = adopted(saved_run(folder, "missing"))
    (damaged.evidence / "report.json").write_bytes((damaged.evidence / "report.json").read_bytes() + b" ")
    shutil.copytree(CASES / "clean", folder / "unsaved" / "evidence")
    (folder / "published").mkdir()
    (folder / ".hidden").mkdir()
    return folder


def test_every_run_is_one_line_and_the_worst_decides(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["gate", "--all", "--runs", str(runs)])
    output, error = capsys.readouterr()
    lines = output.splitlines()
    assert (code, error) == (2, "")
    assert [line.split("  ")[:2] for line in lines[:-1]] == [
        ["PASS", "borders"],
        ["PASS", "clean"],
        ["FAIL", "failures"],
        ["FAIL", "lost-backend"],
        ["REFUSED", "missing"],
        ["REFUSED", "unsaved"],
    ]
    assert lines[-1] == "RUNS 6 PASS=2 FAIL=2 UNPROVEN=0 REFUSED=2"
    assert "report.json was changed" in lines[4] and "never saved whole" in lines[5]
    assert "rules=failures" in lines[2]
    assert [len(stored(RunFolder(runs / run).verdicts)) for run in ("borders", "failures", "missing", "unsaved")] == [
        1,
        1,
        1,
        0,
    ]


def test_json_is_one_object(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["gate", "--all", "--runs", str(runs), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == 2 and document["words"] == {"PASS": 2, "FAIL": 2, "REFUSED": 2}
    assert [run["exit_code"] for run in document["runs"]] == [0, 0, 1, 1, 2, 2]
    assert document["runs"][1]["counts"]["passed"] == 2


def test_failures_alone_are_1_and_passes_alone_0(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(runs / "missing")
    shutil.rmtree(runs / "unsaved")
    assert main(["gate", "--all", "--runs", str(runs)]) == 1
    shutil.rmtree(runs / "failures")
    shutil.rmtree(runs / "lost-backend")
    assert main(["gate", "--all", "--runs", str(runs)]) == 0


@pytest.mark.parametrize("words", [["--all", "clean"], ["--all", "--per-node"], ["--all", "--junit", "x"], []])
def test_what_does_not_go_together_is_usage(words: list[str], runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", *words, "--runs", str(runs)]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_a_folder_without_runs_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was graded, and that never reads as a pass."""
    assert main(["gate", "--all", "--runs", str(tmp_path)]) == 3
    assert "no run" in capsys.readouterr().err
