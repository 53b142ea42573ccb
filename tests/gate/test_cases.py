"""Every folder under tests/cases/gate is a case: evidence, expected.json, expected.txt. Adding one needs no code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.errors import EvidenceError
from harness.gate import Verdict, grade, render
from harness.gate.load import load_gates
from harness.store.ingest import build_tables

CASES = Path(__file__).parent.parent / "cases" / "gate"
FOLDERS = sorted(path for path in CASES.iterdir() if path.is_dir())


def grade_case(folder: Path, scratch: Path, *, stream: bool) -> Verdict:
    """Evidence → tables → verdict, as the stages do it."""
    evidence = scratch / "evidence"
    shutil.copytree(folder, evidence, ignore=shutil.ignore_patterns("expected.*"))
    sums = evidence / "SHA256SUMS"
    before = sorted(path.name for path in scratch.rglob("*"))
    try:
        build_tables(evidence, scratch / "tables", run=folder.name, stream=stream)
    except EvidenceError as error:
        assert sorted(path.name for path in scratch.rglob("*")) == before, "a refusal leaves nothing behind"
        assert "\n" not in str(error)
        return Verdict.refused(folder.name, str(error))
    assert sums.exists() == (folder / "SHA256SUMS").exists()
    return grade(scratch / "tables")


def findings(verdict: Verdict) -> list[list[Any]]:
    """``[target, rule, node, class, count, cause]`` of each, targets first."""
    found = [(target.target, finding) for target in verdict.targets for finding in target.findings]
    return [
        [target, f.rule, f.node, f.failure_class, f.count, f.cause]
        for target, f in [*found, *((None, finding) for finding in verdict.run_findings)]
    ]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_case_is_graded_as_expected(folder: Path, tmp_path: Path) -> None:
    """Verdict, findings with target, node, class, count and cause, and the text, line by line."""
    expected = json.loads((folder / "expected.json").read_text())
    verdict = grade_case(folder, tmp_path, stream=expected.get("stream", False))
    assert verdict.word == expected["verdict"], render(verdict)
    assert verdict.exit_code == {"PASS": 0, "FAIL": 1, "REFUSED": 2, "UNPROVEN": 2}[verdict.word]
    for words in expected.get("reason_contains", []):
        assert words in str(verdict.reason)
    assert sorted(findings(verdict), key=repr) == sorted(expected.get("findings", []), key=repr)
    if "not_run" in expected:
        assert verdict.counts["not_run"] == expected["not_run"]
    assert "\n".join(render(verdict, per_node=True)) + "\n" == (folder / "expected.txt").read_text()
    json.dumps(verdict.to_json(), allow_nan=False)


def test_every_rule_has_a_case_that_fails_by_it() -> None:
    """A rule without a failing case is a rule that nobody has seen work."""
    seen = {
        finding[1]
        for folder in FOLDERS
        for finding in json.loads((folder / "expected.json").read_text()).get("findings", [])
    }
    assert seen == {gate.rule for gate in load_gates()}
