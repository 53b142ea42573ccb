"""What cannot be a run is refused in one sentence, with exit code 2, and leaves nothing behind."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.adopt import adopt
from harness.errors import EvidenceError
from harness.store.sums import verify_sums
from tests.adopt.conftest import ENV, TAG, Harness, content, traces

Damage = Callable[[Path], object]


def renew(folder: Path, name: str, text: str) -> None:
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_text(text)


def without(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def with_env(text: str | bytes) -> Damage:
    return lambda folder: (folder / "run.env").write_bytes(text.encode() if isinstance(text, str) else text)


def instead(name: str, make: Callable[[Path], object]) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return damage


def link(path: Path) -> None:
    """A link to a file of the same folder: it would be followed without harm, and refused all the same."""
    path.symlink_to("shares.tsv")


def long_name(path: Path) -> None:
    (path.parent / "line\nend").write_text("")


def no_text(path: Path) -> None:
    (path.parent / b"\xff".decode(errors="surrogateescape")).write_text("")


def deep(folder: Path) -> None:
    below = folder.joinpath(*["d"] * 12)
    below.mkdir(parents=True)
    (below / "file").write_text("")


REFUSALS: dict[str, tuple[Damage, str]] = {
    "is empty": (lambda folder: (shutil.rmtree(folder), folder.mkdir()), "has no run.env"),
    "is absent": (shutil.rmtree, "there is no such folder"),
    "is a file": (lambda folder: (shutil.rmtree(folder), folder.write_text("x")), "it is no folder"),
    "no run.env": (without("run.env"), "has no run.env"),
    "no share table": (without("shares.tsv"), "has no shares.tsv"),
    "neither report nor stream": (without("report.json"), "neither report.json nor results.jsonl"),
    "run.env is a folder": (instead("run.env", Path.mkdir), "has no run.env"),
    "run.env is prose": (with_env("this is\nno run\n"), "run.env:1 is not KEY=value"),
    "run.env is shell": (with_env(ENV + "export X=1\n"), "run.env:9 is not KEY=value"),
    "run.env is no text": (with_env(b"RUN_TAG=\xff\n"), "run.env is not UTF-8"),
    "no BACKENDS": (with_env("RUN_TAG=x\n"), "run.env has no BACKENDS; add BACKENDS="),
    "BACKENDS is none": (with_env("BACKENDS=$(nproc)\n"), "BACKENDS must be a positive whole number"),
    "two tags": (with_env(ENV + "RUN_TAG=other\n"), "gives RUN_TAG a second value"),
    "a link": (instead("churn.log", link), "churn.log is no regular file"),
    "a link to a folder": (instead("logs", lambda path: path.symlink_to("chart")), "logs is no regular file"),
    "a link in a folder": (instead("chart/deep/x", link), "chart/deep/x is no regular file"),
    "a report that is a link": (instead("report.json", link), "report.json is no regular file"),
    "a FIFO": (instead("report.json", os.mkfifo), "report.json is no regular file"),
    "a FIFO as run.env": (instead("run.env", os.mkfifo), "run.env is no regular file"),
    "a FIFO in a folder": (instead("chart/fifo", os.mkfifo), "chart/fifo is no regular file"),
    "a name of two lines": (instead("x", long_name), "has a name that no list of digests can hold"),
    "a name that is no text": (instead("x", no_text), "has a name that no list of digests can hold"),
    "folders without end": (deep, "folders deep"),
    "a list that does not hold": (
        lambda folder: renew(folder, "SHA256SUMS", f"{'0' * 64}  report.json\n"), "report.json was changed"
    ),
    "a list that is empty": (lambda folder: renew(folder, "SHA256SUMS", ""), "not in SHA256SUMS"),
    "a list that is none": (lambda folder: renew(folder, "SHA256SUMS", "hello\n"), "SHA256SUMS:1 is not"),
    "a list that leads outside": (
        lambda folder: renew(folder, "SHA256SUMS", f"{'0' * 64}  ../../etc/passwd\n"), "SHA256SUMS:1 is not"
    ),
    "a mark of another format": (
        lambda folder: renew(folder, "adopted.json", "{}"), "adopted.json is there and names no format"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_it_is_refused_and_leaves_nothing(
    name: str, directory: Path, tmp_path: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage, words = REFUSALS[name]
    damage(directory)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for options in ([], ["--json"], ["--runs", "a/b/c"]):
        code, out, err = harness("adopt", directory, *options)
        assert (code, out) == (2, ""), err
        assert words in err
        assert err.startswith(f"harness: {directory} was not adopted: ")
        assert err.count("\n") == 1
    assert list((tmp_path / "here").iterdir()) == []


def test_the_folder_above_the_runs_is_told_how_many_and_how(
    directory: Path, own_run: Path, tmp_path: Path, harness: Harness
) -> None:
    """A run of ours counts too, a folder without run.env does not; the command that is told works."""
    above = directory.parent
    (above / "notes").mkdir()
    shutil.copytree(directory, above / ".hidden")
    code, _, err = harness("adopt", above, "--runs", tmp_path / "runs")
    assert code == 2
    told, _, command = err.strip().rpartition(": ")
    assert told.endswith("it has no run.env, so it is no run directory; 2 folders in it look like runs, so adopt each")
    assert harness(*shlex.split(command)[1:], "--runs", tmp_path / "runs")[0] == 0
    shutil.rmtree(own_run)
    directory.rename(above / "so ak")
    (_, _, err) = harness("adopt", above, "--runs", tmp_path / "runs")
    assert err.endswith(f"; one folder in it looks like one: harness adopt '{above}/so ak'\n")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_byte_is_evidence_or_one_sentence(directory: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Changed, cut off or put in, in any file: the run is there as it was given, or nothing is."""
    damaged = shutil.copytree(directory, tmp_path / "damaged", dirs_exist_ok=True)
    name = data.draw(st.sampled_from(["run.env", "shares.tsv", "engines.tsv", "report.json", "sortie.log"]))
    raw = bytearray((damaged / name).read_bytes())
    place = data.draw(st.integers(0, len(raw) - 1))
    match data.draw(st.sampled_from(["change", "cut", "insert"])):
        case "change":
            raw[place] = data.draw(st.integers(0, 255))
        case "cut":
            del raw[place:]
        case _:
            raw[place:place] = data.draw(st.binary(min_size=1, max_size=9))
    (damaged / name).write_bytes(raw)
    try:
        adopted = adopt(damaged, tmp_path / "runs")
    except EvidenceError as error:
        assert "\n" not in str(error)
        assert not (tmp_path / "runs").exists()
    else:
        assert verify_sums(tmp_path / "runs" / adopted.run / "evidence") == content(damaged)
        shutil.rmtree(tmp_path / "runs")
    finally:
        shutil.rmtree(damaged)


def test_a_refusal_leaves_the_runs_that_are_there_alone(directory: Path, tmp_path: Path, harness: Harness) -> None:
    assert harness("adopt", directory, "--runs", tmp_path / "runs")[0] == 0
    before = traces(tmp_path / "runs")
    (directory / "SHA256SUMS").write_text("hello\n")
    assert harness("adopt", directory, "--runs", tmp_path / "runs")[0] == 2
    assert traces(tmp_path / "runs") == before


@pytest.mark.parametrize("given", [".", "evidence"])
def test_a_run_of_ours_that_was_not_saved_whole_is_refused(
    given: str, own_run: Path, tmp_path: Path, harness: Harness
) -> None:
    (own_run / "evidence" / "SAVED").unlink()
    code, _, err = harness("adopt", own_run / given, "--runs", tmp_path / "runs")
    assert (code, "never saved whole" in err) == (2, True), err
    shutil.rmtree(own_run / "evidence")
    code, _, err = harness("adopt", own_run, "--runs", tmp_path / "runs")
    assert (code, "never saved" in err) == (2, True), err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [("[]", "run.json names no run"), ("{", "run.json is not JSON"), ('{"run": "../x"}', "run.json names no run")],
)
def test_evidence_of_ours_that_does_not_say_of_which_run_is_refused(
    text: str, words: str, own_run: Path, tmp_path: Path, harness: Harness
) -> None:
    from tests.store.test_own_run import sum_up

    (own_run / "evidence" / "run.json").write_text(text)
    sum_up(own_run / "evidence")
    code, _, err = harness("adopt", own_run, "--runs", tmp_path / "runs")
    assert (code, words in err) == (2, True), err
    assert not (tmp_path / "runs").exists()


def test_evidence_of_ours_without_its_list_is_refused(own_run: Path, tmp_path: Path, harness: Harness) -> None:
    """A list made now would prove nothing of what was saved then."""
    (own_run / "evidence" / "SHA256SUMS").unlink()
    code, _, err = harness("adopt", own_run, "--runs", tmp_path / "runs")
    assert (code, "SHA256SUMS is not there" in err) == (2, True), err
    assert not (tmp_path / "runs").exists()


def test_a_runs_folder_inside_the_directory_is_refused(
    directory: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be copied into itself."""
    monkeypatch.chdir(directory)
    before = sorted(directory.rglob("*"))
    code, _, err = harness("adopt", ".")
    assert (code, "--runs names one outside" in err) == (3, True), err
    assert sorted(directory.rglob("*")) == before


@pytest.mark.parametrize("form", ["fortio", "human", "csv", "dotted", "prometheus", "experimental_fortio_pedantic"])
def test_a_format_that_hides_failures_is_refused_with_the_reason(
    form: str, directory: Path, tmp_path: Path, harness: Harness
) -> None:
    code, _, err = harness("adopt", directory, "--runs", tmp_path / "runs", "--format", form)
    assert (code, f"{form} output " in err, err.count("\n")) == (2, True, 1), err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("words", [["--format", "locust"], ["--engine", "mine"]])
def test_a_format_or_engine_that_there_is_not_is_a_wrong_word(
    words: list[str], directory: Path, tmp_path: Path, harness: Harness
) -> None:
    code, _, err = harness("adopt", directory, "--runs", tmp_path / "runs", *words)
    assert (code, err.count("\n")) == (3, 1), err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("form", ["nighthawk", "k6"])
def test_a_directory_of_another_format_holds_result_files_and_a_plan(
    form: str, directory: Path, tmp_path: Path, harness: Harness
) -> None:
    code, _, err = harness("adopt", directory, "--runs", tmp_path / "runs", "--format", form)
    assert (code, "it has a report.json, which is sortie's; leave --format out" in err) == (2, True), err
    (directory / "report.json").unlink()
    code, _, err = harness("adopt", directory, "--runs", tmp_path / "runs", "--format", form)
    assert (code, "no result file is there; save one per target and node" in err) == (2, True), err
    (directory / "svc-1@node-a.json").write_text("{}")
    (directory / "engines.tsv").unlink()
    code, _, err = harness("adopt", directory, "--runs", tmp_path / "runs", "--format", form)
    assert (code, "has no engines.tsv" in err) == (2, True), err
    assert not (tmp_path / "runs").exists()


def test_a_run_that_was_adopted_has_nothing_to_tear_down(directory: Path, tmp_path: Path, harness: Harness) -> None:
    """Its processes, if any, are on another machine; a token in it names none of ours."""
    from harness.errors import UsageError
    from harness.graph.invocation import parse

    assert harness("adopt", directory, "--runs", tmp_path / "runs")[0] == 0
    with pytest.raises(UsageError, match="was adopted"):
        parse([f"teardown:{TAG}", f"runs={tmp_path / 'runs'}"], {}, tmp_path / "harness.toml")
