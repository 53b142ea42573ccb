"""For every rule and every verdict that its SQL can give there is a case in which it does."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from pathlib import Path

from harness.errors import EvidenceError
from harness.gate.load import Gate, load_gates
from harness.gate.run import files_in, load_runs, run_gates
from harness.store.database import connect
from harness.store.ingest import build_tables

CASES = Path(__file__).parent.parent / "cases" / "gate"
WORD = re.compile(r"'(PASS|FAIL|SKIP|UNMEASURED)'")


def verdicts_of(gate: Gate) -> set[str]:
    """The words in its SQL, and those of the macro ``judge``."""
    code = re.sub(r"--.*", "", gate.sql)
    return set(WORD.findall(code)) | ({"PASS", "FAIL", "SKIP"} if "judge(" in code else set())


def test_every_verdict_of_every_rule_is_shown_by_a_case(tmp_path: Path) -> None:
    """A verdict that no case gives is one that nobody has seen."""
    tables = []
    for folder in sorted(path for path in CASES.iterdir() if path.is_dir()):
        evidence, made = tmp_path / folder.name / "evidence", tmp_path / folder.name / "tables"
        shutil.copytree(folder, evidence, ignore=shutil.ignore_patterns("expected.*"))
        expected = json.loads((folder / "expected.json").read_text())
        with suppress(EvidenceError):  # the cases that are refused
            build_tables(evidence, made, run=folder.name, stream=expected.get("stream", False))
            tables.append(files_in(made))
    gates = load_gates()
    connection = connect()
    load_runs(connection, tables)
    shown = {(row.rule, row.verdict) for row in run_gates(connection, gates)}
    connection.close()
    assert {(gate.rule, word) for gate in gates for word in verdicts_of(gate)} - shown == set()
