"""Every folder under tests/cases/formats/<format> is a case: evidence and expected.json. Adding one needs no code.

``expected.json`` holds ``refused``, pieces of the one sentence; or ``executions``: label → what it says, and
``backends``: label → node → what it says, of which each key that is given is compared exactly; and ``capabilities``.
``note`` says what the case shows.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.errors import EvidenceError
from harness.store import formats
from harness.store.ingest import build_tables

CASES = Path(__file__).parent.parent / "cases" / "formats"
FOLDERS = sorted(path for path in CASES.glob("*/*") if path.is_dir())
PLACE = ("run", "exec_no", "backend_no", "backend", "node")


def rows(tables: Path, name: str) -> list[dict[str, Any]]:
    """All rows of a table, times as text, what is NULL left out."""
    table = pq.read_table(tables / f"{name}.parquet")
    told = [{key: value for key, value in row.items() if value is not None} for row in table.to_pylist()]
    return [
        {key: value.isoformat() if hasattr(value, "isoformat") else value for key, value in row.items()} for row in told
    ]


def told(tables: Path) -> dict[str, Any]:
    """What the tables say, in the form of ``expected.json``."""
    labels = {row["exec_no"]: row["label"] for row in rows(tables, "executions")}
    executions = {row["label"]: row | {"thresholds": {}} for row in rows(tables, "executions")}
    for row in rows(tables, "thresholds"):
        executions[labels[row["exec_no"]]]["thresholds"][row["expr"]] = [row["passed"], row["actual"]]
    backends: dict[str, dict[str, Any]] = {label: {} for label in labels.values()}
    for row in rows(tables, "backends"):
        backends[labels[row["exec_no"]]][row["node"]] = row | {"counters": {}, "statistics": {}}
    for row in rows(tables, "counters"):
        backends[labels[row["exec_no"]]][row["node"]]["counters"][row["counter"]] = row.get("value")
    for row in rows(tables, "statistics"):
        numbers = {key: value for key, value in row.items() if key not in (*PLACE, "statistic")}
        backends[labels[row["exec_no"]]][row["node"]]["statistics"][row["statistic"]] = numbers
    counted = {row["counter"]: row["counted"] for row in rows(tables, "capabilities")}
    return {"executions": executions, "backends": backends, "capabilities": counted}


def hold(expected: Any, actual: Any, where: str) -> None:
    """Each key that is expected is there with its value; ``null`` is expected to be absent."""
    for key, value in expected.items():
        if value is None:
            assert key not in actual, f"{where} {key} is {actual[key]!r}"
            continue
        assert key in actual, f"{where} has no {key}"
        if isinstance(value, dict) and key not in ("counters", "statistics", "thresholds"):
            hold(value, actual[key], f"{where} {key}")
        else:
            assert actual[key] == value, f"{where} {key}"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_case_is_read_as_expected(folder: Path, tmp_path: Path) -> None:
    """Rows or a refusal, the same each time; a directory that is refused as evidence is refused before that, too."""
    expected = json.loads((folder / "expected.json").read_text())
    evidence = tmp_path / "evidence"
    shutil.copytree(folder, evidence, ignore=shutil.ignore_patterns("expected.json"))
    if "refused" in expected:
        with pytest.raises(EvidenceError) as refusal:
            build_tables(evidence, tmp_path / "tables", run="r")
        message = str(refusal.value)
        assert "\n" not in message
        assert all(words in message for words in expected["refused"]), message
        if "adopted.json" not in message:
            mark = json.loads((folder / "adopted.json").read_text())
            with pytest.raises(EvidenceError) as checked:
                formats.check(evidence, mark["format"], mark["engine"])
            assert str(checked.value) == message
        return
    made = build_tables(evidence, tmp_path / "tables", run="r")
    assert build_tables(evidence, tmp_path / "again", run="r") == made
    actual = told(tmp_path / "tables")
    hold({key: value for key, value in expected.items() if key != "note"}, actual, folder.name)
    assert list(actual["executions"]) == list(expected["executions"]), "a label that nobody expects"


def test_every_format_has_cases_that_are_read_and_cases_that_are_refused() -> None:
    """Folders are named as the formats are, so none of them is left aside."""
    assert {path.name for path in CASES.iterdir()} == set(formats.FORMATS)
    for name in formats.FORMATS:
        told = [json.loads((path / "expected.json").read_text()) for path in FOLDERS if path.parent.name == name]
        assert any("refused" in case for case in told)
        assert any("executions" in case for case in told)
