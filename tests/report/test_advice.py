"""What to do about a rule: only files that the run has are named, and settings only of runs made here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.gate.load import load_gates
from harness.report.advice import ANY_FROM_ELSEWHERE, ANY_MADE_HERE, ANY_RULE, NEXT_STEP, Kept, advice, kept
from harness.runs import RunFolder
from harness.settings import BY_KEY

PLAN = ["run.env", "shares.tsv", "engines.tsv"]
SORTIE = [*PLAN, "plan.yaml", "report.json", "sortie.log"]
OWN = [*SORTIE, "run.json", "churn.log", "access-node-b.log", "engine-node-b.log"]
NIGHTHAWK = [*PLAN, "adopted.json", "cart@node-a.json", "cart@node-b.yaml"]
FILE = re.compile(r"[\w<>@*-]+\.(?:log|json|jsonl|yaml|tsv)\b")
SETTING = re.compile(r"\b(?:engine|proxy|target)\.[a-z_]+|\b[a-z_]+=")


def run_with(folder: Path, files: list[str]) -> Kept:
    """A run that has these files as evidence."""
    run = RunFolder(folder / "run-1")
    run.evidence.mkdir(parents=True)
    for name in files:
        (run.evidence / name).write_text('{"settings": {}}' if name == "run.json" else "")
    return kept(run)


def test_every_rule_of_the_gate_has_advice_of_its_own() -> None:
    assert {gate.rule for gate in load_gates()} == set(NEXT_STEP)


@pytest.mark.parametrize("rule", NEXT_STEP)
@pytest.mark.parametrize("files", [OWN, SORTIE, NIGHTHAWK, []], ids=["own", "sortie", "nighthawk", "nothing"])
def test_no_file_is_named_that_the_run_does_not_have(tmp_path: Path, rule: str, files: list[str]) -> None:
    told = advice(rule, run_with(tmp_path, files), {"node-b"})
    for name in FILE.findall(told):
        assert re.sub("<target>", "cart", name) in files, told


@pytest.mark.parametrize("rule", NEXT_STEP)
def test_settings_are_named_for_runs_made_here_alone(tmp_path: Path, rule: str) -> None:
    named = {word.rstrip("=") for word in SETTING.findall(advice(rule, ANY_MADE_HERE))}
    assert named <= set(BY_KEY)
    for of in (ANY_FROM_ELSEWHERE, run_with(tmp_path, SORTIE)):
        assert SETTING.findall(advice(rule, of)) == []


def test_some_settings_are_named() -> None:
    told = " ".join(advice(rule, ANY_MADE_HERE) for rule in NEXT_STEP)
    assert {"connections=", "engine.timeout_s"} <= set(SETTING.findall(told))


@pytest.mark.parametrize(
    ("files", "nodes", "expected"),
    [
        (OWN, {"node-b"}, "read engine-node-b.log, then sortie.log."),
        (OWN, {"node-a"}, "read sortie.log, then report.json."),
        (OWN, {"node-a", "node-b"}, "read engine-<node>.log, then sortie.log."),
        (OWN, (), "read engine-<node>.log, then sortie.log."),
        (SORTIE, {"node-b"}, "read sortie.log, then report.json."),
        (NIGHTHAWK, {"node-a"}, "read <target>@node-a.json."),
        (NIGHTHAWK, {"node-b"}, "read <target>@node-b.yaml."),
        ([], {"node-b"}, "The engine of that node went away."),
    ],
)
def test_a_lost_engine_is_looked_for_where_something_says_of_it(
    tmp_path: Path, files: list[str], nodes: set[str], expected: str
) -> None:
    assert advice("lost_backend", run_with(tmp_path, files), nodes).endswith(expected)


def test_names_of_nodes_are_no_patterns(tmp_path: Path) -> None:
    of = run_with(tmp_path, ["cart@a.json", "cart@.+.json"])
    assert "<target>@.+.json" in advice("lost_backend", of, {".+"})
    assert "json" not in advice("lost_backend", of, {"[a]"})


def test_a_rule_without_advice_of_its_own_has_the_general_one() -> None:
    assert advice("new_rule", ANY_MADE_HERE) == f"{ANY_RULE.found}. {ANY_RULE.then}"


def test_a_run_without_evidence_has_no_file(tmp_path: Path) -> None:
    assert advice("missing", kept(RunFolder(tmp_path / "none"))) == "The target was planned and never driven."
