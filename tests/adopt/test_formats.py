"""Result files of other load generators: the evidence says which, the same each time, and nothing else is added."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.files import sha256_file
from harness.store.sums import read_sums, verify_sums
from tests.adopt.conftest import Harness, content, traces

FORMATS = Path(__file__).parent.parent / "cases" / "formats"


@pytest.fixture(params=["nighthawk", "k6"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def results(form: str, tmp_path: Path) -> Path:
    """A directory of result files, without our mark."""
    case = FORMATS / form / {"nighthawk": "clean", "k6": "summary-export"}[form]
    return shutil.copytree(case, tmp_path / "results", ignore=shutil.ignore_patterns("expected.*", "adopted.json"))


def adopted(harness: Harness, *words: object) -> dict[str, object]:
    code, out, err = harness("adopt", *words, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert isinstance(document, dict)
    return document


def test_the_evidence_says_which_format_it_is(form: str, results: Path, tmp_path: Path, harness: Harness) -> None:
    given = content(results)
    first = adopted(harness, results, "--runs", tmp_path / "runs", "--format", form)
    assert (first["format"], first["refused"], first["fresh"]) == (form, None, True)
    evidence = tmp_path / "runs" / str(first["run"]) / "evidence"
    mark = {"schema": 1, "format": form, "engine": "upstream"}
    assert json.loads((evidence / "adopted.json").read_text()) == mark
    assert verify_sums(evidence) == given | {"adopted.json": sha256_file(evidence / "adopted.json")}
    code, out, _ = harness("gate", first["run"], "--runs", tmp_path / "runs", "--json")
    assert code in (0, 2)
    assert json.loads(out)["verdict"] in ("PASS", "UNPROVEN"), "what its producer cannot count is not measured"


def test_again_it_is_the_same_run_and_its_own_copy_needs_no_word(
    form: str, results: Path, tmp_path: Path, harness: Harness
) -> None:
    runs = tmp_path / "runs"
    first = adopted(harness, results, "--runs", runs, "--format", form)
    before = traces(runs)
    assert adopted(harness, results, "--runs", runs, "--format", form)["fresh"] is False
    again = adopted(harness, runs / str(first["run"]), "--runs", runs)
    assert (again["fresh"], again["format"]) == (False, form)
    assert traces(runs) == before


def test_a_list_that_is_there_holds_and_gets_one_line_more(
    form: str, results: Path, tmp_path: Path, harness: Harness
) -> None:
    listing = "\n".join(f"{digest}  {name}" for name, digest in content(results).items())  # no line end at its end
    (results / "SHA256SUMS").write_text(listing)
    run = adopted(harness, results, "--runs", tmp_path / "runs", "--format", form)["run"]
    evidence = tmp_path / "runs" / str(run) / "evidence"
    kept = (evidence / "SHA256SUMS").read_text()
    assert kept.startswith(listing + "\n")
    assert read_sums(evidence / "SHA256SUMS").keys() - content(results).keys() == {"adopted.json"}
    (results / "shares.tsv").write_text("changed\t1\n")
    code, _, err = harness("adopt", results, "--runs", tmp_path / "other", "--format", form)
    assert (code, "shares.tsv was changed" in err) == (2, True), err
    assert not (tmp_path / "other").exists()


def test_one_format_is_not_taken_for_another(form: str, results: Path, tmp_path: Path, harness: Harness) -> None:
    """Marked as one and called another: one of the two is wrong."""
    run = adopted(harness, results, "--runs", tmp_path / "runs", "--format", form)["run"]
    evidence = tmp_path / "runs" / str(run) / "evidence"
    others = {"nighthawk": (["--format", "k6"], ["--format", "nighthawk", "--engine", "sortie"])}
    for words in others.get(form, [["--format", "nighthawk"]]):
        code, _, err = harness("adopt", evidence, "--runs", tmp_path / "other", *words)
        assert (code, "adopted.json names another format or engine; leave --format" in err) == (2, True), err
    assert not (tmp_path / "other").exists()


def test_a_result_file_that_is_none_leaves_the_run_s_name_free(
    form: str, results: Path, tmp_path: Path, harness: Harness
) -> None:
    """Damaged, or given under another format's name: refused in a sentence, and the right one still goes in."""
    path = next(path for path in sorted(results.iterdir()) if "@" in path.name)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    other = {"nighthawk": "k6", "k6": "nighthawk"}[form]
    for words in (["--format", form], ["--format", other]):
        code, _, err = harness("adopt", results, "--runs", tmp_path / "runs", *words)
        assert (code, path.name in err, err.count("\n")) == (2, True, 1), err
        assert not list((tmp_path / "runs").glob("*")) if (tmp_path / "runs").exists() else True
    path.write_bytes(whole)
    run = adopted(harness, results, "--runs", tmp_path / "runs", "--format", form)["run"]
    assert harness("gate", run, "--runs", tmp_path / "runs")[0] == 2  # UNPROVEN: not all is counted


def test_without_format_the_refusal_says_which_it_is(
    form: str, results: Path, tmp_path: Path, harness: Harness
) -> None:
    """By what the files hold, of which a damaged one may be the first; where none says it, the words are named."""
    path = sorted(path for path in results.iterdir() if "@" in path.name)[0]
    (results / f"@{path.name}").write_text("{")
    code, _, err = harness("adopt", results, "--runs", tmp_path / "runs")
    assert (code, f"{path.name} is output of {form}: --format {form}" in err) == (2, True), err
    for other in results.glob("*@*"):
        other.write_text("{}")
    code, _, err = harness("adopt", results, "--runs", tmp_path / "runs")
    assert (code, "--format says whose: nighthawk or k6" in err) == (2, True), err
    assert not (tmp_path / "runs").exists()


def test_a_swapped_format_is_told_the_right_one(form: str, results: Path, tmp_path: Path, harness: Harness) -> None:
    other = {"nighthawk": "k6", "k6": "nighthawk"}[form]
    code, _, err = harness("adopt", results, "--runs", tmp_path / "runs", "--format", other)
    assert (code, f"of {form}: take the directory as --format {form}" in err) == (2, True), err
    assert harness("adopt", results, "--runs", tmp_path / "runs", "--format", form)[0] == 0


def test_yaml_of_nighthawk_is_not_k6_s(tmp_path: Path, harness: Harness) -> None:
    """k6 writes no YAML, so there is no file of its to look into."""
    results = shutil.copytree(FORMATS / "nighthawk" / "clean-yaml", tmp_path / "results")
    for name in ("adopted.json", "expected.json"):
        (results / name).unlink()
    code, _, err = harness("adopt", results, "--runs", tmp_path / "runs", "--format", "k6")
    assert (code, "cart@node-a.yaml is output of nighthawk: --format nighthawk" in err) == (2, True), err


@pytest.mark.parametrize("missing", ["run.env", "shares.tsv", "engines.tsv"])
def test_result_files_without_a_plan_are_told_what_to_write(
    missing: str, form: str, results: Path, tmp_path: Path, harness: Harness
) -> None:
    (results / missing).unlink()
    code, _, err = harness("adopt", results, "--runs", tmp_path / "runs", "--format", form)
    assert code == 2
    assert f"has no {missing}" in err
    assert f"write run.env, shares.tsv, engines.tsv beside the result files ({missing}: " in err


def test_a_length_that_is_not_there_is_missing(form: str, results: Path, tmp_path: Path, harness: Harness) -> None:
    (results / "run.env").write_text("RUN_TAG=soak-1\nBACKENDS=2\n")
    code, _, err = harness("adopt", results, "--runs", tmp_path / "runs", "--format", form)
    assert (code, "run.env has no DURATION_S; add DURATION_S=" in err) == (2, True), err


def test_an_engine_goes_with_nighthawk_alone(form: str, results: Path, tmp_path: Path, harness: Harness) -> None:
    """Given where it does nothing, it would read as if it did."""
    for words in ([], ["--format", "k6"]):
        code, _, err = harness("adopt", results, "--runs", tmp_path / "runs", *words, "--engine", "upstream")
        assert (code, "--format nighthawk only" in err, err.count("\n")) == (3, True, 1), err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("case", "words"),
    [("copy-of-a-node", "put each node's own result there"), ("two-loads", "adopt the files of each load")],
)
def test_files_that_are_not_of_one_load_are_not_taken_in(
    case: str, words: str, tmp_path: Path, harness: Harness
) -> None:
    """One file under two names, and files of two runs six weeks apart, say nothing wrong of themselves."""
    results = shutil.copytree(FORMATS / "nighthawk" / case, tmp_path / "results")
    (results / "adopted.json").unlink()
    (results / "expected.json").unlink()
    command = ("adopt", results, "--runs", tmp_path / "runs", "--format", "nighthawk", "--engine", "sortie")
    code, _, err = harness(*command)
    assert (code, err.count("\n"), words in err) == (2, 1, True), err
    assert not (tmp_path / "runs").exists()
