"""Every command that the documentation shows can be typed: task, setting, subcommand and option exist."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from harness import settings
from harness.cli import COMMANDS, cli
from harness.e8.arms import ARMS
from harness.e8.plan import plan_ladder
from harness.fleet.local import faults
from harness.plan.build import build_plan, node_names

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for path in [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*/README.md"),
        *ROOT.glob("*/*/README.md"),
    ]
    if ".venv" not in path.parts
)
FENCE = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"sh", "text", "sql", "toml", "json", "yaml", "python"}
DOIT_COMMANDS = {"list", "info", "help"}
STAGES_OF_A_RUN = {"tables", "gate", "report", "teardown", "save", "free-check"}
RULES = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "sql/gates").glob("*.sql"))
ONLY_LOOKS = (["./doit"], ["./doit", "list"], ["harness", "--help"], ["harness", "runs"])


def blocks(document: Path) -> list[tuple[str, str]]:
    """(language, text) of every fenced block."""
    return [(language, text) for _, language, text in FENCE.findall((ROOT / document).read_text(encoding="utf-8"))]


def shell_lines() -> list[tuple[Path, str]]:
    """(document, command line) of every sh block; a trailing backslash joins lines."""
    return [
        (document, line.strip())
        for document in DOCUMENTS
        for language, text in blocks(document)
        if language == "sh"
        for line in text.replace("\\\n", " ").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]


LINES = shell_lines()


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What ``./doit list`` lists."""
    out = run(["./doit", "list"], tmp_path_factory.mktemp("runs"))
    return {line.split()[0] for line in out.splitlines() if line.strip()}


def run(words: list[str], runs: Path) -> str:
    """Standard output of a command that only looks, on an empty runs folder."""
    programs = {"./doit": [sys.executable, "-m", "harness.entry"], "harness": [sys.executable, "-m", "harness.cli"]}
    done = subprocess.run(
        programs[words[0]] + words[1:],
        cwd=ROOT,
        env={**os.environ, "HARNESS_RUNS": str(runs)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.returncode} {done.stderr}"
    return done.stdout


def check_doit(words: list[str], tasks: set[str]) -> None:
    """Each word is a command of doit, a task, a stage of a run, or a setting; together the settings make a plan."""
    if words and words[0] in DOIT_COMMANDS:
        words = words[1:]
    for word in words:
        stage, colon, _ = word.partition(":")
        assert "=" in word or (stage in STAGES_OF_A_RUN if colon else word in tasks), word
    chosen = settings.build(dict(word.split("=", 1) for word in words if "=" in word), "documentation")
    if any(word.partition(":")[0] in ("e8", "e8-soak") for word in words):
        for arm in ARMS if chosen.arm == "both" else (chosen.arm,):
            plan_ladder(dataclasses.replace(chosen, arm=arm))
        return
    planned = build_plan(chosen).plan
    targets = [target.name for target in planned.targets]
    faults.parse(chosen.fault, node_names(chosen.nodes), targets, planned.duration_s)


def check_harness(words: list[str]) -> None:
    """click itself parses the words, without running the command; a rule that is named must exist."""
    if words == ["--help"]:
        return
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None, words[0]
    context = command.make_context(words[0], words[1:])
    if words[0] == "explain":
        assert f"-- gate: {context.params['rule']}\n" in RULES


def check_other(words: list[str]) -> bool:
    """The few other programs that the documentation names; tests/project/test_locks.py holds uv's words."""
    if words[:2] == [".venv/bin/python", "-m"]:
        assert words[2] == "pytest"
        assert all((ROOT / word).exists() for word in words[3:] if word.startswith("tests"))
        return True
    return words == [".", ".venv/bin/activate"] or words[:3] == [
        "uv",
        "pip",
        "compile",
    ]


@pytest.mark.parametrize(("document", "line"), LINES, ids=[f"{document}: {line}" for document, line in LINES])
def test_a_documented_command_can_be_typed(document: Path, line: str, tasks: set[str]) -> None:
    words = shlex.split(line, comments=True)
    if words[0] == "./doit":
        check_doit(words[1:], tasks)
    elif words[0] in ("harness", ".venv/bin/harness"):
        check_harness(words[1:])
    else:
        assert check_other(words), f"{document}: nothing checks {line!r}"


@pytest.mark.parametrize("words", ONLY_LOOKS, ids=" ".join)
def test_commands_that_only_look_work_on_an_empty_runs_folder(words: list[str], tmp_path: Path) -> None:
    assert run(words, tmp_path).strip()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", [line for _, line in LINES if line.startswith("harness sql ")])
def test_a_documented_question_can_be_asked(line: str, tmp_path: Path) -> None:
    assert run(shlex.split(line, comments=True), tmp_path).strip()


def test_every_task_is_documented(tasks: set[str]) -> None:
    text = "\n".join((ROOT / document).read_text(encoding="utf-8") for document in DOCUMENTS)
    documented = set(re.findall(r"\./doit ([a-z][a-z0-9-]*)", text))
    inner = {
        "plan",
        "pins",
        "preflight",
        "engines",
        "load",
        "workload",
        "next-rung",
        "save",
        "status",
    }  # stages that nobody types
    assert tasks - inner <= documented


def test_every_subcommand_of_harness_is_documented() -> None:
    text = (ROOT / "docs/soak.md").read_text(encoding="utf-8")
    assert set(COMMANDS) <= set(re.findall(r"^harness ([a-z-]+)", text, re.MULTILINE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_block_says_what_it_is(document: Path) -> None:
    assert {language for language, _ in blocks(document)} <= LANGUAGES
