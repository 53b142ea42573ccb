"""Ladders through the commands: adopted, graded, stored, listed, asked about; whatever is damaged never passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.e8.grade import BESIDE
from harness.errors import EvidenceError
from harness.runs import RunFolder
from harness.store.ingest import build_tables
from harness.store.kinds import tables_of
from tests.e8.made import made_files, write_files

CASES = Path(__file__).parent.parent / "cases" / "e8"
PUBLISHED = Path(__file__).parents[2] / "runs" / "published"

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """``harness`` in this process, over the runs folder ``tmp_path/runs``: exit code, stdout, stderr."""
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path / "runs"))

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.main([str(word) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def adopted(say: Say, path: Path, *words: str) -> dict[str, Any]:
    code, output, error = say("adopt", path, *words, "--json")
    assert (code, error) == (0, "")
    document: dict[str, Any] = json.loads(output)
    return document


def measured(say: Say, tmp_path: Path, run: str = "e8-1", **about: int) -> str:
    """A ladder with all that a harness leaves of it, adopted; ``about`` is what else it says of the whole."""
    files = made_files(run=run)
    own, ladder = (json.loads(files[name]) for name in ("run.json", "ladder.json"))
    own["settings"] |= {f"e8.{name}": value for name, value in about.items()}
    changed = {"run.json": json.dumps(own).encode(), "ladder.json": json.dumps(ladder | about).encode()}
    return str(adopted(say, write_files(tmp_path / "there" / run, files | changed))["run"])


def test_one_command_grades_a_ladder_and_stores_it_like_a_soak(say: Say, tmp_path: Path) -> None:
    run = measured(say, tmp_path)
    code, output, error = say("gate", run)
    assert (code, error) == (0, "")
    assert output.splitlines()[-1].startswith("VERDICT PASS arm=capacity knee=[")
    code, output, _ = say("gate", run, "--json")
    document = json.loads(output)
    assert code == 0
    named = ("run", "kind", "arm", "verdict", "reason", "knee", "saturated", "bound", "runner_up", "rungs", "schema")
    assert {*named, "gate_sha256"} <= set(document)
    assert (document["kind"], document["arm"], document["verdict"], document["schema"]) == ("e8", "capacity", "PASS", 1)
    assert {name: document["knee"][name] for name in ("answer", "floor", "hi")} == {
        "answer": "knee",
        "floor": 8,
        "hi": 16,
    }
    assert [rung["state"] for rung in document["rungs"]] == ["healthy"] * 4 + ["miss"]
    assert {rung["arm"] for rung in document["rungs"]} == {"capacity"}
    stored = sorted((tmp_path / "runs" / run / "verdicts").iterdir())
    assert len(stored) == 2
    kept = json.loads(stored[-1].read_text())
    assert document.pop("drill") is None, "it is told beside the verdict, and is no part of it"
    assert {name: kept[name] for name in document} == document
    assert kept["verdict_line"] == kept["lines"][-1] and "seal" in kept


def test_a_knee_under_the_least_fails(say: Say, tmp_path: Path) -> None:
    code, output, error = say("gate", measured(say, tmp_path, min_c=16))
    assert (code, error) == (1, "")
    assert output.splitlines()[-1].startswith("VERDICT FAIL ")


@pytest.mark.parametrize("case", ["capacity-worker-cpu", "realism-not-observed", "knee-under-the-least"])
def test_nothing_proves_what_a_record_alone_says_that_a_harness_measured(say: Say, case: str) -> None:
    run = adopted(say, CASES / case / "ladder.json", "--format", "e8")["run"]
    code, output, _ = say("gate", run)
    assert (code, json.loads(say("gate", run, "--json")[1])["missing"]) == (2, [BESIDE])
    assert not any(line.startswith("CLAIM") for line in output.splitlines())


@pytest.mark.parametrize(
    ("case", "code", "word"),
    [
        ("capacity-over-the-ceiling", 2, "REFUSED"),
        ("realism-duty-not-measured", 2, "UNPROVEN"),
    ],
)
def test_the_exit_code_follows_the_verdict(say: Say, case: str, code: int, word: str) -> None:
    run = adopted(say, CASES / case / "ladder.json", "--format", "e8")["run"]
    found, output, error = say("gate", run)
    assert found == code
    assert output.splitlines()[-1].startswith(f"VERDICT {word} ")
    assert ("REFUSED" in error) == (word == "REFUSED") and len(error.splitlines()) <= 1
    assert any(line.startswith("RUNG  ") for line in output.splitlines()), "a refused ladder shows its numbers"
    assert say("gate", run, "--json")[0] == code


def test_an_array_of_records_is_kept_byte_for_byte(say: Say, tmp_path: Path) -> None:
    given = tmp_path / "rungs.json"
    given.write_bytes((CASES / "capacity-array" / "record.json").read_bytes() + b"\n\n")
    made = adopted(say, given, "--format", "e8")
    evidence = RunFolder(tmp_path / "runs" / made["run"]).evidence
    assert (evidence / "record.json").read_bytes() == given.read_bytes()
    assert json.loads((evidence / "adopted.json").read_text()) == {"schema": 1, "format": "e8"}
    assert (made["files"], made["bytes"], made["format"], made["refused"]) == (1, given.stat().st_size, "e8", None)
    again = adopted(say, given, "--format", "e8")
    assert (again["run"], again["fresh"]) == (made["run"], False)


def test_a_published_ladder_keeps_its_name_and_can_be_compared(say: Say) -> None:
    for name in ("e8-capacity-w4", "e8-capacity-w8", "e8-realism"):
        assert adopted(say, PUBLISHED / f"{name}.json", "--format", "e8")["run"] == name
        assert say("gate", name)[0] == 2
    code, output, _ = say("sql", "ladders", "--json")
    found = {row["run"]: row for row in json.loads(output)}
    assert code == 0
    assert (found["e8-capacity-w8"]["knee_floor_c"], found["e8-capacity-w8"]["bound"]) == (32, "host-cpu")
    assert json.loads(say("sql", "run-by-run", "--json")[1]) == []
    alike = ["--param", "run=e8-capacity-w8", "--param", "base=e8-capacity-w4", "--json"]
    rows = json.loads(say("sql", "compare-ladders", *alike)[1])
    assert [row["c"] for row in rows] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert (rows[0]["p95_ms"], rows[0]["base_p95_ms"], rows[0]["p95_ratio"]) == (107, 106, None)
    assert rows[0]["unlike"] == "target; workers; stub profile"
    assert {row["arm"] for row in rows} == {"capacity"}


def test_latency_is_never_compared_with_that_of_the_other_arm(say: Say) -> None:
    """Nor with that of a ladder whose arm nobody recorded."""
    for name in ("e8-capacity-w4", "e8-calibrated", "e8-realism"):
        adopted(say, PUBLISHED / f"{name}.json", "--format", "e8")
    for base, arm in (("e8-capacity-w4", "the capacity arm"), ("e8-calibrated", "one that is not recorded")):
        for form in ("table", "json", "csv", "parquet"):
            words = ["--param", "run=e8-realism", "--param", f"base={base}", "--format", form]
            code, output, error = say("sql", "compare-ladders", *words)
            assert (code, output, error.count("\n")) == (3, "", 1)
            told = f"e8-realism is of the realism arm and {base} of {arm}, and latency is never compared across arms"
            assert told in error


def test_the_evidence_of_a_ladder_measured_here_is_adopted_as_a_folder(say: Say, tmp_path: Path) -> None:
    evidence = write_files(tmp_path / "there" / "e8-1" / "evidence", made_files(run="e8-1"))
    made = adopted(say, evidence.parent)
    assert (made["run"], made["format"], made["files"], made["refused"]) == (
        "e8-1",
        "e8",
        len(list(evidence.iterdir())),
        None,
    )
    assert say("gate", "e8-1")[0] == 0
    copied = RunFolder(tmp_path / "runs" / "e8-1")
    assert {path.name for path in copied.evidence.iterdir()} == {path.name for path in evidence.iterdir()}
    assert adopted(say, copied.root)["fresh"] is False
    listed = json.loads(say("runs", "--json")[1])["runs"]
    assert [(run["run"], run["kind"], run["verdict"]) for run in listed] == [("e8-1", "e8", "PASS")]


@pytest.mark.parametrize("says", ["run.json", "ladder.json"])
def test_evidence_of_another_run_is_refused(tmp_path: Path, says: str) -> None:
    evidence = write_files(tmp_path / "evidence", made_files(run="e8-1"))
    document = json.loads((evidence / says).read_text())
    files = {path.name: path.read_bytes() for path in evidence.iterdir() if path.suffix in (".json", ".jsonl")}
    changed = {says: json.dumps(document | {"run": "e8-2"}).encode()}
    evidence = write_files(tmp_path / "changed", files | changed)
    with pytest.raises(EvidenceError, match="this is the evidence of another run"):
        build_tables(evidence, tmp_path / "tables", run="e8-1")
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize("file", ["evidence/ladder.json", "evidence/adopted.json", "tables/rungs.parquet"])
def test_one_changed_byte_is_refused(say: Say, tmp_path: Path, file: str) -> None:
    run = adopted(say, CASES / "capacity-worker-cpu" / "ladder.json", "--format", "e8")["run"]
    assert say("gate", run)[1] != ""
    path = tmp_path / "runs" / run / file
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(bytes(raw))
    code, output, error = say("gate", run)
    assert (code, output) == (2, "")
    assert error.startswith(f"harness: REFUSED {run}: ") and len(error.splitlines()) == 1


@pytest.mark.parametrize("table", sorted(tables_of("e8")))
def test_a_table_that_is_gone_is_refused(say: Say, tmp_path: Path, table: str) -> None:
    run = adopted(say, CASES / "capacity-worker-cpu" / "ladder.json", "--format", "e8")["run"]
    (tmp_path / "runs" / run / "tables" / f"{table}.parquet").unlink()
    code, _, error = say("gate", run)
    assert code == 2 and f"{table}.parquet is not what was made" in error


def test_what_is_no_ladder_is_not_adopted(say: Say, tmp_path: Path) -> None:
    """One sentence, exit code 2, and nothing left behind."""
    cases = {
        "no.json": ("", "it is not JSON"),
        "text.json": ('"x"', "it is neither a ladder nor a JSON array"),
        "empty.json": ("[]", "it holds no rung"),
        "k6.json": ('{"metrics": {}}', "it is no ladder"),
        "rung.json": ('[{"c": "x"}]', "rung 1: c is 'x'"),
    }
    for name, (content, words) in cases.items():
        path = tmp_path / name
        path.write_text(content)
        code, output, error = say("adopt", path, "--format", "e8")
        assert (code, output) == (2, "")
        assert error.startswith(f"harness: {path} was not adopted: ") and words in error
        assert len(error.splitlines()) == 1
    (tmp_path / "folder").mkdir()
    for path, words in (
        (tmp_path / "absent.json", "no such file"),
        (tmp_path / "folder", "neither of ladder.json and record.json"),
    ):
        code, _, error = say("adopt", path, "--format", "e8")
        assert code == 2 and words in error
    assert not (tmp_path / "runs").exists()
    given = CASES / "capacity-array" / "record.json"
    code, _, error = say("adopt", given)
    assert code == 2 and "--format e8" in error
    assert say("adopt", given, "--format", "e8", "--engine", "sortie")[0] == 3


def test_a_fifo_is_not_waited_for(say: Say, tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "rungs.json")
    code, _, error = say("adopt", tmp_path / "rungs.json", "--format", "e8")
    assert code == 2 and "no regular file" in error


def test_options_of_soaks_are_refused_and_all_runs_are_graded_together(say: Say, tmp_path: Path) -> None:
    passes, fails = measured(say, tmp_path), measured(say, tmp_path, run="e8-2", min_c=16)
    for option in ("--per-node", "--stream"):
        code, _, error = say("gate", passes, option)
        assert code == 3 and "is a ladder" in error
    code, output, _ = say("gate", "--all")
    assert code == 1
    assert output.splitlines()[-1] == "RUNS 2 PASS=1 FAIL=1 UNPROVEN=0 REFUSED=0"
    code, output, _ = say("gate", "--all", "--json")
    found = {run["run"]: run for run in json.loads(output)["runs"]}
    assert found[passes]["knee"]["floor"] == 8 and found[fails]["bound"] == "worker-cpu"
    code, output, _ = say("gate", fails, "--history")
    assert (code, len(output.splitlines())) == (1, 2)
    assert "nothing changed" in output.splitlines()[1]


def test_neither_an_index_nor_a_forged_table_decides(say: Say, tmp_path: Path) -> None:
    """A table that the index calls empty is read, and each is held against what the evidence comes to."""
    folder = RunFolder(tmp_path / "runs" / measured(say, tmp_path))
    other = write_files(tmp_path / "other", made_files((1, 2, 4), run="e8-1"))
    assert say("gate", "e8-1")[0] == 0
    index = json.loads(folder.tables_index.read_text())
    for table in ("ladders", "rungs", "rung_workers", "rung_execs", "rung_notes"):
        path = folder.tables / f"{table}.parquet"
        kept = path.read_bytes()
        index["tables"][table]["rows"] = 0
        folder.tables_index.write_text(json.dumps(index))
        assert say("gate", "e8-1")[0] == 0, "how many rows there are, the table says"
        forged = build_tables(other, tmp_path / "forged", run="e8-1")[table]
        path.write_bytes((tmp_path / "forged" / path.name).read_bytes())
        folder.tables_index.write_text(json.dumps(index | {"tables": index["tables"] | {table: forged}}))
        code, output, error = say("gate", "e8-1")
        assert (code, output) == (2, "") and f"{table}.parquet does not hold what the evidence comes to" in error
        path.write_bytes(kept)
