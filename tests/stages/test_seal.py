"""The seal: receipts that are gone prove nothing, and neither does a description that stands beside the evidence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main
from harness.files import read_json, sha256_file, write_json
from harness.graph import receipts
from harness.history.inventory import run_state
from harness.runs import RunFolder
from harness.stages import save, tables
from harness.store.kinds import kind_of_run
from tests.cli.sealed import adopted
from tests.e8.made import made_files, write_files

MADE = {"plan": "run.json", "pins": "pins.json", "workload": "target.json", "preflight": None}
RUNGS = (1, 2, 4, 8, 16)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A ladder that was measured here, with its receipts."""
    folder = RunFolder(tmp_path / "runs" / "e8-1")
    write_files(folder.evidence, made_files(RUNGS, run="e8-1"))
    shutil.copy(folder.evidence / "run.json", folder.run_json)
    made = MADE | {f"c{c}": f"c{c}.json" for c in RUNGS}
    for stage, name in made.items():
        digests = receipts.digests([folder.evidence / name], folder) if name else {}
        write(folder, stage, {key.replace("evidence", "live"): digest for key, digest in digests.items()})
    write(folder, "save", receipts.digests([folder.sums, folder.saved], folder))
    monkeypatch.setenv("HARNESS_RUNS", str(folder.root.parent))
    return folder


def write(folder: RunFolder, stage: str, outputs: dict[str, str]) -> None:
    now = "2026-11-30T12:00:00.000Z"
    receipts.write(folder, stage, inputs={}, outputs=outputs, outcome={}, started_at=now)


def gate(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["gate", "e8-1"])
    return code, "".join(capsys.readouterr())


def test_a_run_with_its_receipts_is_graded_again_and_again(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever was derived of it may be deleted."""
    assert gate(capsys)[0] == 0
    shutil.rmtree(folder.tables)
    shutil.rmtree(folder.verdicts)
    assert gate(capsys)[0] == 0


def forged(folder: RunFolder) -> None:
    """A rung that says another thing, and a list of digests that says it always did."""
    name = folder.evidence / "c4.json"
    write_json(name, read_json(name) | {"store_cpu_s": 0.01})
    folder.sums.write_text(save._sums(folder.evidence))


@pytest.mark.parametrize("forge", [forged, lambda _: None])
@pytest.mark.parametrize("gone", ["50-save 40-c4", "50-save", "40-c4", "00-plan", "*"])
def test_a_receipt_that_is_gone_is_a_refusal_that_says_so(
    gone: str, forge: Callable[[RunFolder], None], folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    forge(folder)
    for pattern in gone.split():
        for path in folder.stages.glob(f"{pattern}.json"):
            path.unlink()
    code, said = gate(capsys)
    assert code == 2 and "REFUSED" in said and "VERDICT PASS" not in said
    assert f"lacks the receipt{'' if gone in ('50-save', '40-c4', '00-plan') else 's'} " in said
    assert "harness adopt" in said and str(folder.evidence) in said


@pytest.mark.parametrize("gone", ["40-c4.json", "00-plan.json"])
def test_what_doit_saves_anew_stands_for_no_other_receipt(gone: str, folder: RunFolder) -> None:
    """`./doit gate:RUN` proves a saved run again and writes that receipt: of forged evidence it proves nothing."""
    forged(folder)
    (folder.stages / gone).unlink()
    write(folder, "save", receipts.digests([folder.sums, folder.saved], folder))
    with pytest.raises(tables.EvidenceError, match=gone if gone[0] == "0" else "40-c4.json"):
        tables.check_seal(folder)


def test_the_mark_of_an_adoption_needs_the_receipt_of_one(folder: RunFolder) -> None:
    shutil.rmtree(folder.stages)
    write_json(folder.adopted, {"schema": 1, "run": folder.run})
    write(folder, "save", receipts.digests([folder.sums, folder.saved], folder))
    with pytest.raises(tables.EvidenceError, match="adopted is gone or damaged"):
        tables.check_seal(folder)
    tables.check_seal(adopted(folder))


def test_the_sentence_s_way_out_is_one(folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Evidence without receipts, taken in as somebody's."""
    shutil.rmtree(folder.stages)
    elsewhere = str(tmp_path / "elsewhere")
    assert main(["adopt", str(folder.evidence), "--runs", elsewhere]) == 0
    assert main(["gate", "e8-1", "--runs", elsewhere]) == 0


def test_what_the_evidence_says_of_the_run_stands_whatever_the_copy_beside_it_says(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(capsys)[0] == 0 and "is not what was saved" not in gate(capsys)[1]
    arm = run_state(folder).arm
    folder.run_json.write_text(json.dumps(read_json(folder.run_json) | {"arm": "realism", "kind": "soak"}))
    assert (run_state(folder).arm, run_state(folder).kind, kind_of_run(folder)) == (arm, "e8", "e8")
    code, said = gate(capsys)
    assert code == 0 and f"NOTE  {folder.run_json} is not what was saved" in said


@pytest.mark.parametrize(("table", "change"), [("turns", "ms * 10 AS ms"), ("polls", "1 - poll_no AS poll_no")])
def test_turns_and_polls_are_those_of_the_evidence_whatever_their_index_says(
    table: str, change: str, folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    import duckdb

    assert gate(capsys)[0] == 0
    path, new = folder.tables / f"{table}.parquet", folder.tables / "new"
    duckdb.sql(f"SELECT * REPLACE ({change}) FROM read_parquet('{path}')").write_parquet(str(new))  # noqa: S608
    new.replace(path)
    index = read_json(folder.tables_index)
    index["tables"][table]["sha256"] = sha256_file(path)
    write_json(folder.tables_index, index)
    code, said = gate(capsys)
    assert code == 2 and f"{table}.parquet is not what was made from the evidence; remove" in said
    shutil.rmtree(folder.tables)
    assert gate(capsys)[0] == 0
