"""``harness`` as a program: quick to start, one sentence for every error, and exit codes from one table."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from harness import cli
from harness.commands.output import printable
from harness.errors import EvidenceError, HarnessError, StageError, UsageError
from tests.cli.test_commands import index
from tests.report import made

COMMANDS = cli.COMMANDS


def command(name: str) -> click.Command:
    found = cli.cli.get_command(click.Context(cli.cli), name)
    assert found is not None
    return found


def test_help_is_there_before_anything_heavy_is_imported() -> None:
    """The bound is generous: on an idle machine it takes under 0.1 s."""
    code = (
        "import sys; from harness.cli import main; code = main(['--help']); "
        "heavy = {'duckdb', 'pyarrow', 'jinja2', 'yaml'} & set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 5
    assert all(f"  {name}" in done.stdout for name in COMMANDS)


def test_a_command_imports_no_other_command_and_a_grading_only_what_grades(tmp_path: Path) -> None:
    """Modules that a grading never calls cost more time than its SQL. The gate needs duckdb, and only to grade."""
    clean = made.clean_tables({"svc-1": 9}, ("node-a",))
    index(made.save_run(tmp_path, "quick-1", clean, None))
    words = ["gate", "quick-1", "--runs", str(tmp_path)]
    code = (
        "import json, sys; from harness.cli import main; at_start = list(sys.modules); "
        f"code = main({words}); print(json.dumps([code, at_start, list(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    code, at_start, after = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stdout + done.stderr
    rooms = {module for module in at_start if module.startswith("harness.")}
    assert rooms == {"harness.cli", "harness.errors", "harness.terminal"}
    assert {module for module in after if module.startswith("harness.commands.")} == {
        "harness.commands.gate",
        "harness.commands.options",
        "harness.commands.output",
    }
    unwanted = {"doit", "jinja2", "markupsafe", "numpy", "pandas", "plumbum", "pyarrow", "yaml"}
    unwanted |= {"harness.report", "harness.history", "harness.plan", "harness.graph.invocation", "harness.settings"}
    assert not unwanted & set(after)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    output = capsys.readouterr().out
    assert f"harness {name}" in output.split("Example:")[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_reads_speaks_json(name: str) -> None:
    assert "--json" in {option for param in command(name).params for option in param.opts}


@pytest.mark.parametrize(
    "words",
    [
        ["no-such-command"],
        ["gate"],
        ["gate", "a", "b"],
        ["runs", "--nope"],
        ["sql"],
        ["sql", "x", "--format", "xml"],
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_3(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(words)
    error = capsys.readouterr().err
    assert code == 3
    assert error.count("\n") == 1 and error.startswith("harness: ")


def test_without_a_command_the_help_is_shown_line_by_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the help that --help prints; it is no answer, so it is on stderr, with the code of wrong usage."""

    @click.group()
    def group() -> None:
        """Does nothing by itself."""

    @group.command()
    def inner() -> None: ...

    monkeypatch.setitem(cli.cli.commands, "group", group)
    for words in ([], ["group"]):
        assert cli.main([*words, "--help"]) == 0
        asked = capsys.readouterr()
        assert cli.main(words) == 3
        found = capsys.readouterr()
        assert (found.out, found.err) == ("", asked.out)
        assert found.err.count("\n") > 5


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HarnessError("it broke"), 5),
        (UsageError("not like this"), 3),
        (StageError("no room"), 4),
        (EvidenceError("torn"), 2),
        (OSError(28, "No space left on device", "/x/y"), 4),
        (RuntimeError("what\nnow"), 5),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_error_is_one_sentence_with_its_code(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    def broken() -> None:
        raise error

    monkeypatch.setitem(cli.cli.commands, "broken", broken)
    assert cli.main(["broken"]) == code
    said = capsys.readouterr().err.lstrip("\n")  # after Ctrl-C, click ends the line that the terminal shows as ^C
    assert said.count("\n") == 1 and "Traceback" not in said
    assert isinstance(error, (RuntimeError, KeyboardInterrupt)) or str(error.args[-1] if error.args else "") in said


def test_debug_shows_where_it_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def broken() -> None:
        raise RuntimeError("here")

    monkeypatch.setitem(cli.cli.commands, "broken", broken)
    with pytest.raises(RuntimeError, match="here"):
        cli.main(["--debug", "broken"])


@pytest.mark.parametrize("run", ["../up", "published", "a/b", "", ".hidden", "x" * 64, "\x1b[2J"])
@pytest.mark.parametrize("name", ["gate", "report", "watch"])
def test_a_name_that_no_run_may_have_reaches_no_file(
    name: str, run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([name, "--runs", str(tmp_path), "--", run]) == 3
    error = capsys.readouterr().err
    assert "cannot name a run" in error and "\x1b" not in error


@pytest.mark.parametrize("name", ["gate", "report", "watch"])
def test_a_run_that_is_not_there_is_said_to_be_missing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([name, "quick-1", "--runs", str(tmp_path)]) == 3
    assert "there is no run quick-1" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_runs_folder_comes_from_the_option_then_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("option", "variable", "here/runs"):
        (tmp_path / name / f"run-{name[:1]}").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("HARNESS_RUNS", raising=False)
    seen = []
    for words in (["runs", "--json"], ["runs", "--json", "--runs", str(tmp_path / "option")]):
        assert cli.main(words) == 0
        seen.append(json.loads(capsys.readouterr().out)["runs"][0]["run"])
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path / "variable"))
    assert cli.main(["runs", "--json"]) == 0
    seen.append(json.loads(capsys.readouterr().out)["runs"][0]["run"])
    assert seen == ["run-h", "run-o", "run-v"]


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    for number in range(2000):
        (tmp_path / f"run-{number:04}").mkdir()
    command = f"{sys.executable} -m harness.cli runs --runs {tmp_path} | head -1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("run") and done.stderr == ""


def test_no_control_character_out_of_data_reaches_the_terminal() -> None:
    assert printable("a\x1b[31mb\nc\u202e") == "a\\x1b[31mb\\nc\\u202e"
    assert printable("svc-1 ✓ ü") == "svc-1 ✓ ü"
