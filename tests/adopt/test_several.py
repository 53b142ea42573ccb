"""Several directories in one command: each is taken in or refused for itself, and the exit code is the worst."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.adopt.conftest import TAG, Harness
from tests.store.test_own_run import RUN


@pytest.fixture
def several(directory: Path, own_run: Path, tmp_path: Path) -> list[Path]:
    """One that is no run, one that is, one that is not there, and one of ours."""
    (tmp_path / "empty").mkdir()
    return [tmp_path / "empty", directory, tmp_path / "absent", own_run]


def test_one_line_each_and_no_refusal_stops_the_others(several: list[Path], tmp_path: Path, harness: Harness) -> None:
    runs = tmp_path / "runs"
    code, out, err = harness("adopt", *several, "--runs", runs)
    assert code == 2
    assert [line.split(":")[0] for line in out.splitlines()] == [f"adopted {TAG}", f"adopted {RUN}"]
    assert [line.split(" was ")[0] for line in err.splitlines()] == [f"harness: {several[i]}" for i in (0, 2)]
    assert sorted(path.name for path in runs.iterdir() if not path.name.startswith(".")) == sorted([TAG, RUN])
    code, out, err = harness("adopt", *several[1::2], "--runs", runs)
    assert (code, out.count("nothing changed"), err) == (0, 2, "")


def test_json_is_one_object_with_the_runs_and_the_refusals(
    several: list[Path], tmp_path: Path, harness: Harness
) -> None:
    code, out, err = harness("adopt", *several, "--runs", tmp_path / "runs", "--json")
    told = json.loads(out)
    assert (code, err.count("\n"), told["schema"]) == (2, 2, 1)
    assert [(each["run"], each["fresh"], each["format"]) for each in told["runs"]] == [
        (TAG, True, "sortie"),
        (RUN, True, "sortie"),
    ]
    assert [(each["directory"], each["exit_code"]) for each in told["refused"]] == [
        (str(several[0]), 2),
        (str(several[2]), 2),
    ]
    assert all(f"harness: {each['reason']}\n" in err for each in told["refused"])


def test_a_name_that_is_no_text_is_told_too(directory: Path, tmp_path: Path, harness: Harness) -> None:
    """On stderr, and as an escape in JSON."""
    odd = tmp_path / b"\xff".decode(errors="surrogateescape")
    code, out, err = harness("adopt", odd, directory, "--runs", tmp_path / "runs", "--json")
    assert (code, err.count("\n")) == (2, 1), err
    told = json.loads(out)
    assert [each["run"] for each in told["runs"]] == [TAG]
    assert [each["directory"] for each in told["refused"]] == [str(odd)]


def test_the_worst_exit_code_is_the_one(directory: Path, tmp_path: Path, harness: Harness) -> None:
    """A runs folder inside one of the directories is wrong usage, and a directory that is none is less."""
    other = shutil.copytree(directory, tmp_path / "other")
    (other / "run.env").write_text((other / "run.env").read_text().replace(TAG, "soak-2"))
    code, out, err = harness("adopt", tmp_path / "absent", directory, other, "--runs", directory / "runs")
    assert (code, err.count("\n")) == (3, 2), err
    assert out.startswith("adopted soak-2: ")


def test_a_wrong_word_is_said_once_and_nothing_is_taken_in(directory: Path, tmp_path: Path, harness: Harness) -> None:
    for words in (["--format", "locust"], ["--engine", "mine"], ["--engine", "sortie"]):
        code, out, err = harness("adopt", directory, directory, "--runs", tmp_path / "runs", *words, "--json")
        assert (code, out, err.count("\n")) == (3, "", 1), err
    assert not (tmp_path / "runs").exists()
