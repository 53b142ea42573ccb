"""Commands about a ladder: files for CI, what a rule found in it, how it is listed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.files import write_json
from harness.runs import RunFolder
from tests.ci.test_junit import check, outcomes
from tests.cli.sealed import seal

CASES = Path(__file__).parent.parent / "cases" / "e8"
Said = tuple[int, str, str]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Saved ladders without tables: one that passes, one that a rule refuses, one that is not proven, one cut off."""
    for case in ("capacity-worker-cpu", "capacity-over-the-ceiling", "realism-duty-not-measured"):
        folder = RunFolder(tmp_path / "runs" / case)
        folder.evidence.mkdir(parents=True)
        document = json.loads((CASES / case / "ladder.json").read_text())
        (folder.evidence / "ladder.json").write_text(json.dumps(document))
        seal(folder)
    torn = RunFolder(tmp_path / "runs" / "torn")
    torn.evidence.mkdir(parents=True)
    (torn.evidence / "ladder.json").write_text('{"schema": 1, "rungs": [')
    seal(torn)
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return tmp_path / "runs"


@pytest.fixture
def quotable(runs: Path) -> str:
    """A ladder as somebody else's record: one that a harness measured needs all that it leaves beside it for a PASS."""
    folder = RunFolder(runs / "quotable")
    folder.evidence.mkdir(parents=True)
    document = json.loads((CASES / "capacity-worker-cpu" / "ladder.json").read_text())
    (folder.evidence / "ladder.json").write_text(json.dumps(document | {"measured": None}))
    seal(folder)
    return folder.run


def say(capsys: pytest.CaptureFixture[str], *words: object) -> Said:
    capsys.readouterr()
    code = main([str(word) for word in words])
    output, error = capsys.readouterr()
    return code, output, error


@pytest.mark.parametrize(
    ("run", "code", "word"),
    [
        ("quotable", 0, "PASS"),
        ("capacity-over-the-ceiling", 2, "REFUSED"),
        ("realism-duty-not-measured", 2, "UNPROVEN"),
        ("torn", 2, "REFUSED"),
    ],
)
def test_files_for_ci_are_written_whatever_the_verdict(
    run: str, code: int, word: str, quotable: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit, markdown = tmp_path / "gate.xml", tmp_path / "gate.md"
    plain = say(capsys, "gate", run)
    assert say(capsys, "gate", run, "--junit", junit, "--markdown", markdown) == plain and plain[0] == code
    suite = check(junit.read_text())
    properties = {each.attrib["name"]: each.attrib["value"] for each in suite.iter("property")}
    assert (properties["verdict"], properties["kind"]) == (word, "e8") and len(properties["tables_sha256"]) == 64
    assert (outcomes(suite)["run", "verdict"] == "passed") == (code == 0)
    assert markdown.read_text().startswith(f"## {word} `{run}`\n")


def test_a_step_summary_is_appended_to(
    quotable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("of another step\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert say(capsys, "gate", quotable, "--markdown", summary)[0] == 0
    assert summary.read_text().startswith("of another step\n\n## PASS `quotable`\n")


def test_a_file_that_cannot_be_written_ends_with_4_and_the_verdict_stands(
    runs: Path, quotable: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, output, error = say(capsys, "gate", quotable, "--junit", tmp_path / "pipe")
    assert code == 4 and "VERDICT PASS" in output and "the verdict PASS stands" in error
    assert say(capsys, "gate", quotable, "--junit", runs / "gate.xml")[0] == 3


def test_explain_says_what_a_rule_found_in_a_ladder(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", "sandbox_over_ceiling", "--json"]
    document = json.loads(say(capsys, *words)[1])
    assert document["cause"] == "target" and "found" not in document and "e8.sandboxes=" in document["if_broken"]
    run = ["--run", "capacity-over-the-ceiling"]
    assert "no verdict" in json.loads(say(capsys, *words, *run)[1])["found"]
    say(capsys, "gate", run[1])
    assert "25.1% at c8" in json.loads(say(capsys, *words, *run)[1])["found"]
    assert json.loads(say(capsys, "explain", "store_leak", *run, "--json")[1])["found"].startswith("nothing")


def test_explain_keeps_soaks_and_ladders_apart(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["--run", "capacity-worker-cpu"]
    code, output, error = say(capsys, "explain", "lost_backend", *run)
    assert (code, output) == (3, "") and "lost_backend is a rule of soaks" in error
    listed = [line.split()[0] for line in say(capsys, "explain", *run)[1].splitlines()]
    assert "arm_unknown" in listed and "lost_backend" not in listed
    code, _, error = say(capsys, "explain", "sandbox_over_cieling")
    assert code == 3 and "did you mean sandbox_over_ceiling?" in error


def test_runs_are_listed_with_their_arm(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say(capsys, "gate", "--all")
    code, output, _ = say(capsys, "runs")
    lines = {line.split()[0]: line for line in output.splitlines()}
    assert code == 0 and " e8 realism " in lines["realism-duty-not-measured"]
    assert " e8 capacity " in lines["capacity-worker-cpu"] and " embedded " in lines["capacity-worker-cpu"]
    assert " DAMAGED " not in output and " REFUSED " in lines["torn"]
    found = {each["run"]: each for each in json.loads(say(capsys, "runs", "--json")[1])["runs"]}
    assert {run: each["arm"] for run, each in found.items()} == {
        "capacity-worker-cpu": "capacity",
        "capacity-over-the-ceiling": "capacity",
        "realism-duty-not-measured": "realism",
        "torn": None,
    }


def test_a_comparison_says_what_is_broken_in_either(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drill = RunFolder(runs / "drill")
    shutil.copytree(runs / "capacity-worker-cpu", drill.root)
    write_json(drill.run_json, {"run": "drill", "kind": "e8", "settings": {"fault": "freeze:worker-1"}})
    seal(drill)
    say(capsys, "gate", "--all")

    def unlike(base: str) -> set[str]:
        words = ["sql", "compare-ladders", "--param", "run=capacity-worker-cpu", "--param", f"base={base}", "--json"]
        return {row["unlike"] for row in json.loads(say(capsys, *words)[1])}

    assert unlike("capacity-worker-cpu") == {None}
    assert unlike("capacity-over-the-ceiling") == {"a verdict of REFUSED"}
    assert unlike("drill") == {"a drill"}


@pytest.mark.parametrize(
    ("facts", "unlike"),
    [
        ({"turns_per_client": 60}, "turns per client not recorded and 60"),
        ({"host_rest_pct": 55.6}, "host at rest 2.0 % and 55.6 %"),
        ({"host_rest_pct": 7.0}, None),
        ({"host_rest_pct": None}, "host at rest 2.0 % and not recorded"),
        ({"degrade_x": 3}, "p95 bound 2.0 and 3.0"),
        ({"degrade_x": 2}, None),
        ({"min_c": 1}, "least knee 4 and 1"),
        ({"min_c": 4}, None),
        ({"success_by": "status alone"}, "success by stop reason and status alone"),
        ({"pins": "another"}, "pins"),
        ({"workers": 1}, "workers"),
        ({"settings": {"e8.schedule": "global"}}, "e8.schedule"),
        ({"settings": {"e8.schedule": "conversation", "e8.watch_s": 1.0}}, None),
    ],
)
def test_what_makes_two_ladders_unlike_is_named(
    facts: dict[str, Any], unlike: str | None, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same ladder twice, with one fact of another."""
    one, other = RunFolder(runs / "capacity-worker-cpu"), RunFolder(runs / "other")
    other.evidence.mkdir(parents=True)
    document = json.loads((one.evidence / "ladder.json").read_text())
    told = {one: {"e8.schedule": "conversation"}, other: facts.get("settings", {})}
    for folder, settings in told.items():
        write_json(folder.run_json, {"run": folder.run, "kind": "e8", "settings": settings})
    for rung in document["rungs"]:
        for when in ("system", "system_end"):
            rung[when]["pins"] = facts.get("pins", rung[when]["pins"])
    known = {name: value for name, value in facts.items() if name not in ("settings", "pins")}
    (other.evidence / "ladder.json").write_text(json.dumps(document | known))
    seal(other)
    assert all("VERDICT" in say(capsys, "gate", folder.run)[1] for folder in told)
    words = ["sql", "compare-ladders", "--param", f"run={one.run}", "--param", f"base={other.run}", "--json"]
    rows = json.loads(say(capsys, *words)[1])
    assert {(row[f"{what}_ratio"] is None) for row in rows for what in ("turns", "p95")} == {
        rows[0]["unlike"] is not None
    }
    (found,) = {row["unlike"] for row in rows}
    found = [] if found is None else found.split("; ")
    assert [what for what in found if what != "a verdict of REFUSED"] == ([unlike] if unlike else [])


def test_successes_of_repeats_are_added_up_as_the_gate_does(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = RunFolder(runs / "capacity-worker-cpu"), RunFolder(runs / "other")
    other.evidence.mkdir(parents=True)
    document = json.loads((one.evidence / "ladder.json").read_text())
    first = document["rungs"][0]
    worse = first | {"repeat": 2, "attempts": 4 * first["attempts"], "ok_n": 2 * first["attempts"]}
    worse.pop("success_rate", None)
    document |= {"rungs": [*document["rungs"], worse], "planned": [*document["planned"], f"c{first['c']}.r2"]}
    (other.evidence / "ladder.json").write_text(json.dumps(document))
    seal(other)
    assert all(say(capsys, "gate", folder.run)[1] for folder in (one, other))
    words = ["sql", "compare-ladders", "--param", f"run={other.run}", "--param", f"base={one.run}", "--json"]
    row = json.loads(say(capsys, *words)[1])[0]
    assert row["success_rate"] == round((first["ok_n"] + 2 * first["attempts"]) / (5 * first["attempts"]), 4)


def test_ladders_have_no_row_among_soaks_with_tables_or_without(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say(capsys, "gate", "capacity-worker-cpu")
    say(capsys, "gate", "torn")
    planned = RunFolder(runs / "planned")
    planned.root.mkdir()
    write_json(planned.run_json, {"run": "planned", "kind": "e8", "settings": {}})
    assert json.loads(say(capsys, "sql", "run-by-run", "--json")[1]) == []
    found = {row["run"]: row for row in json.loads(say(capsys, "sql", "ladders", "--json")[1])}
    assert {run: row["origin"] for run, row in found.items()} == {
        "capacity-worker-cpu": "tables",
        "capacity-over-the-ceiling": "no tables",
        "planned": "no tables",
        "realism-duty-not-measured": "no tables",
        "torn": "no tables",
    }
    assert found["torn"]["verdict"] == "REFUSED" and "ladder.json" in found["torn"]["reason_or_source"]
    assert found["planned"]["reason_or_source"].startswith("no tables: created")


def test_a_question_about_a_run_without_tables_says_so(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sql", "rungs", "--param", "run=capacity-worker-cpu"]
    code, _, error = say(capsys, *words)
    assert (code, error.count("\n")) == (0, 1)
    assert "capacity-worker-cpu has no tables yet (" in error
    assert "`harness gate capacity-worker-cpu` makes them" in error
    say(capsys, "gate", "capacity-worker-cpu")
    assert say(capsys, *words)[2] == ""


def test_the_best_throughput_is_of_no_level_that_was_cut_off(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(runs / "cut")
    folder.evidence.mkdir(parents=True)
    document = json.loads((CASES / "capacity-worker-cpu" / "ladder.json").read_text())
    top = document["rungs"][-1]
    document["rungs"][-1] = {
        key: value for key, value in top.items() if key not in ("success_rate", "throughput", "throughput_tps")
    } | {"ok_n": top["attempts"] * 9 // 10, "wall_ms": 1000}
    (folder.evidence / "ladder.json").write_text(json.dumps(document))
    seal(folder)
    say(capsys, "gate", folder.run)
    (row,) = json.loads(say(capsys, "sql", "ladders", "--param", "run=cut", "--json")[1])
    assert row["top_c"] == top["c"] > row["best_at_c"] == document["rungs"][-2]["c"]


def test_questions_are_listed_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    questions = say(capsys, "sql", "--list")[1].split("\n\n")[0].splitlines()
    assert len({len(line) - len(line.split(maxsplit=1)[1]) for line in questions}) == 1


def test_ladders_are_not_compared_as_soaks_are(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for base in ("capacity-over-the-ceiling", "e8-realism"):
        (runs / "published").mkdir(exist_ok=True)
        shutil.copy(CASES.parents[2] / "runs" / "published" / "e8-realism.json", runs / "published")
        words = ["sql", "compare", "--param", f"run={base}", "--param", "base=e8-realism"]
        code, output, error = say(capsys, *words)
        assert (code, output) == (3, "")
        assert f"{base} is a ladder" in error and "`harness sql compare-ladders`" in error


def test_a_run_that_is_not_there_sends_to_the_list_that_has_ladders(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sql", "compare-ladders", "--param", "run=capacity-worker-cpu", "--param", "base=nowhere"]
    code, _, error = say(capsys, *words)
    assert code == 3 and "`harness runs` lists what is there" in error
    assert "capacity-worker-cpu" in say(capsys, "runs")[1]


def test_the_thresholds_of_a_verdict_are_those_it_was_judged_by(
    runs: Path, quotable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = json.loads(say(capsys, "gate", quotable, "--json")[1])["thresholds"]
    other = RunFolder(runs / "asked-for-less")
    other.evidence.mkdir(parents=True)
    document = json.loads((runs / quotable / "evidence" / "ladder.json").read_text())
    (other.evidence / "ladder.json").write_text(json.dumps(document | {"min_c": 1, "degrade_x": 3}))
    seal(other)
    verdict = json.loads(say(capsys, "gate", other.run, "--json")[1])
    assert verdict["thresholds"] == usual | {"min_c": verdict["min_c"], "degrade_x": verdict["degrade_x"]}
    assert (usual["min_c"], verdict["min_c"], usual["degrade_x"], verdict["degrade_x"]) == (4, 1, 2, 3)
