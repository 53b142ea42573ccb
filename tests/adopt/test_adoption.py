"""A run saved elsewhere becomes a run here: its bytes, its name, its digests, and what the other commands say of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adopt import adopt
from harness.adopt.source import run_id
from harness.errors import EvidenceError
from harness.files import sha256_file
from harness.graph import receipts
from harness.history.database import ask, open_database, run_roots
from harness.history.inventory import list_runs
from harness.runs import RESERVED, RUN_ID, RunFolder
from harness.stages import tables
from harness.store.sums import read_sums, verify_sums
from tests.adopt.conftest import ENV, TAG, Harness, content, traces
from tests.store.test_own_run import RUN


def test_every_file_is_there_byte_for_byte_and_listed(directory: Path, tmp_path: Path) -> None:
    """Also what no rule reads, in folders and hidden; a folder without a file holds no evidence."""
    given = content(directory)
    adopted = adopt(directory, tmp_path / "runs")
    folder = RunFolder(tmp_path / "runs" / TAG)
    assert content(directory) == given
    assert (adopted.run, adopted.fresh, adopted.refused, adopted.format) == (TAG, True, None, "sortie")
    assert (adopted.files, adopted.bytes) == (len(given), sum((directory / name).stat().st_size for name in given))
    kept = content(folder.evidence)
    assert kept.keys() - given.keys() == {"SHA256SUMS", "SAVED"}
    assert {name: kept[name] for name in given} == given == verify_sums(folder.evidence)
    assert "chart/deep/pull.log" in given
    assert not (folder.evidence / "empty").exists()
    assert sorted(path.name for path in folder.root.iterdir()) == ["adopted.json", "evidence", "stages", "tables"]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [TAG]
    about = json.loads(folder.adopted.read_text())
    assert (about["source"], about["format"], about["files"]) == ("soak", "sortie", len(given))


def test_the_same_run_twice_changes_nothing(directory: Path, tmp_path: Path, harness: Harness) -> None:
    """Under another name of its folder, adopted from its own copy, or from the adopted run itself."""
    runs = tmp_path / "runs"
    assert harness("adopt", directory, "--runs", runs)[0] == 0
    assert harness("gate", TAG, "--runs", runs)[0] == 0
    before = traces(runs)
    again = shutil.copytree(directory, tmp_path / "copy")
    sources = [directory, again, runs / TAG, runs / TAG / "evidence"]
    for source in sources:
        code, out, err = harness("adopt", source, "--runs", runs, "--json")
        assert (code, err) == (0, ""), err
        assert json.loads(out)["run"] == TAG
        assert json.loads(out)["fresh"] is False
    assert "nothing changed" in harness("adopt", directory, "--runs", runs)[1]
    assert traces(runs) == before


def test_a_run_that_was_damaged_since_is_not_called_unchanged(
    directory: Path, tmp_path: Path, harness: Harness
) -> None:
    """Who is told that all is there may remove the only good copy."""
    runs = tmp_path / "runs"
    assert harness("adopt", directory, "--runs", runs)[0] == 0
    (run,) = [path for path in runs.iterdir() if not path.name.startswith(".")]
    (run / "evidence" / "sortie.log").unlink()
    code, out, err = harness("adopt", directory, "--runs", runs)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "damaged now" in err and "sortie.log" in err


def test_another_run_of_the_same_name_is_refused(directory: Path, tmp_path: Path, harness: Harness) -> None:
    """One byte of a file that no rule reads is another run; so is a name that some file systems take for the same."""
    runs = tmp_path / "runs"
    adopt(directory, runs)
    before = traces(runs)
    (directory / "chart" / "deep" / "pull.log").write_text("Pulled\n")
    code, out, err = harness("adopt", directory, "--runs", runs)
    assert (code, out) == (2, "")
    assert f"run {TAG} is in {runs} and holds other evidence" in err
    (directory / "run.env").write_text(ENV.replace(TAG, TAG.upper()))
    code, _, err = harness("adopt", directory, "--runs", runs)
    assert code == 2
    assert "only in upper and lower case" in err
    assert traces(runs) == before


def test_a_run_that_is_being_made_is_not_touched(directory: Path, tmp_path: Path, harness: Harness) -> None:
    root = tmp_path / "runs" / TAG
    root.mkdir(parents=True)
    (root / "run.json").write_text("{}")
    before = traces(tmp_path / "runs")
    code, _, err = harness("adopt", directory, "--runs", tmp_path / "runs")
    assert code == 2
    assert "was never saved whole" in err
    assert traces(tmp_path / "runs") == before


TAGS = [
    "", "$(touch here)", "`touch here`", "../../up", "/etc", "a/b", ".", "..", "published", "Published", "-x", "a b",
    "'; DROP TABLE runs; --", "<script>", "läuft", "x" * 64, "soak\r1", "soak\x00", " soak", '"soak"',
]  # fmt: skip


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_that_is_no_safe_name_is_only_text(
    tag: str, directory: Path, tmp_path: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is then named by its content, the same each time, and the tag stands in the evidence as it was."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (directory / "run.env").write_bytes(ENV.replace(TAG, tag).encode())
    code, out, err = harness("adopt", directory, "--json")
    assert (code, err) == (0, "")
    run = json.loads(out)["run"]
    evidence = tmp_path / "here" / "runs" / run / "evidence"
    assert run == f"adopted-{sha256_file(evidence / 'SHA256SUMS')[:16]}"
    assert (evidence / "run.env").read_bytes() == (directory / "run.env").read_bytes()
    assert harness("adopt", directory, "--runs", "other", "--json")[1] == out
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["other", "runs"]
    code, out, err = harness("gate", run, "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "PASS"), err


def test_line_ends_of_windows_are_no_part_of_a_name_or_number(
    directory: Path, tmp_path: Path, harness: Harness
) -> None:
    """In run.env as in the lists; the evidence keeps them."""
    for name in ("run.env", "shares.tsv", "engines.tsv"):
        path = directory / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    given = content(directory)
    code, out, err = harness("adopt", directory, "--runs", tmp_path / "runs", "--json")
    assert (code, json.loads(out)["run"]) == (0, TAG), err
    assert verify_sums(tmp_path / "runs" / TAG / "evidence") == given
    assert harness("gate", TAG, "--runs", tmp_path / "runs")[0] == 0


@settings(max_examples=200, deadline=None)
@given(tag=st.one_of(st.text(max_size=70), st.from_regex(RUN_ID)))
def test_whatever_the_tag_the_name_is_one_folder(tag: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    evidence = tmp_path_factory.getbasetemp() / "evidence"
    evidence.mkdir(exist_ok=True)
    (evidence / "SHA256SUMS").write_text("")
    name = run_id(evidence, {"RUN_TAG": tag})
    assert RUN_ID.fullmatch(name)
    assert name.lower() not in RESERVED
    assert name == tag or name.startswith("adopted-")


def test_a_list_of_digests_is_kept_as_it_is(directory: Path, tmp_path: Path) -> None:
    """In its own order and form, with the mark of who saved it."""
    names = sorted(content(directory), reverse=True)
    listing = "".join(f"{sha256_file(directory / name)} *{name}\n" for name in names)
    (directory / "SHA256SUMS").write_text(listing)
    (directory / "SAVED").write_text("2026-03-04T05:09:00Z\n")
    adopt(directory, tmp_path / "runs")
    evidence = tmp_path / "runs" / TAG / "evidence"
    assert content(evidence) == content(directory)
    assert (evidence / "SHA256SUMS").read_text() == listing


def test_the_mark_of_who_saved_it_is_evidence_too(directory: Path, tmp_path: Path) -> None:
    """SAVED without a list: it is listed, so that it cannot be changed afterwards."""
    (directory / "SAVED").write_text("2026-03-04T05:09:00Z\n")
    adopt(directory, tmp_path / "runs")
    evidence = tmp_path / "runs" / TAG / "evidence"
    assert (evidence / "SAVED").read_text() == "2026-03-04T05:09:00Z\n"
    assert "SAVED" in read_sums(evidence / "SHA256SUMS")


@pytest.mark.parametrize("given", [".", "evidence"])
def test_a_run_of_ours_is_the_run_it_was(given: str, own_run: Path, tmp_path: Path, harness: Harness) -> None:
    """Its folder or its evidence alone; nothing live is taken. All that knows runs knows it."""
    runs = tmp_path / "runs"
    code, out, err = harness("adopt", own_run / given, "--runs", runs)
    assert (code, err) == (0, "")
    assert f"next: harness gate {RUN} --runs {runs}" in out
    folder = RunFolder(runs / RUN)
    assert content(folder.evidence) == content(own_run / "evidence")
    assert folder.run_json.read_bytes() == (own_run / "run.json").read_bytes()
    assert not folder.live.exists()
    (state,) = list_runs(runs)
    assert (state.run, state.kind, state.profile, state.fleet, state.state) == (RUN, "soak", "quick", "local", "saved")
    assert state.created_at == "2026-03-04T05:05:00.000Z"


def test_a_run_from_elsewhere_is_listed_with_what_is_known_of_it(directory: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    adopt(directory, runs)
    (state,) = list_runs(runs)
    assert (state.kind, state.profile, state.fleet, state.created_at) == (None, "soak", "lab-west", None)
    assert (state.state, state.verdict, state.drill) == ("saved", None, None)
    sql = "SELECT run, profile, fleet, kind, created_at FROM runs"
    with open_database(run_roots(runs), sql) as opened:
        assert ask(opened, sql)[1] == [(TAG, "soak", "lab-west", None, None)]


def test_the_chain_of_digests_begins_at_the_adoption(directory: Path, tmp_path: Path, harness: Harness) -> None:
    """A list that was written anew afterwards is not the one that was adopted, also when the tables are gone."""
    adopt(directory, tmp_path / "runs")
    folder = RunFolder(tmp_path / "runs" / TAG)
    receipt = receipts.read(folder, "save")
    assert receipt is not None
    assert receipts.changed_outputs(folder, receipt) == []
    tables.check_seal(folder)
    path = folder.evidence / "report.json"
    path.write_text(path.read_text().replace("benchmark.http_5xx", "benchmark.http_2xx"))
    (folder.evidence / "sortie.log").write_text("")
    names = content(folder.evidence).keys() - {"SHA256SUMS", "SAVED"}
    folder.sums.write_text("".join(f"{sha256_file(folder.evidence / name)}  {name}\n" for name in names))
    with pytest.raises(EvidenceError, match="not the list that was saved"):
        tables.check_seal(folder)
    shutil.rmtree(folder.tables)
    code, _, err = harness("gate", TAG, "--runs", tmp_path / "runs")
    assert code == 2
    assert "not the list that was saved" in err


def added(evidence: Path) -> None:
    (evidence / "chart" / "deep" / "new.log").write_text("x")


def changed(evidence: Path) -> None:
    (evidence / "chart" / "sortie.tgz").write_bytes(b"")


def linked(evidence: Path) -> None:
    (evidence / "chart" / "link").symlink_to("/dev/null")


def replaced(evidence: Path) -> None:
    shutil.rmtree(evidence / "chart")
    (evidence / "chart").symlink_to("/")


@pytest.mark.parametrize("damage", [added, changed, linked, replaced], ids=lambda function: function.__name__)
def test_what_is_done_to_a_folder_of_the_evidence_is_noticed(
    damage: object, directory: Path, tmp_path: Path, harness: Harness
) -> None:
    adopt(directory, tmp_path / "runs")
    folder = RunFolder(tmp_path / "runs" / TAG)
    assert callable(damage)
    damage(folder.evidence)
    with pytest.raises(EvidenceError, match="chart"):
        verify_sums(folder.evidence)
    assert tables.intact(folder) or folder.evidence / "chart" / "sortie.tgz" in tables.reads(folder)
    code, _, err = harness("gate", TAG, "--runs", tmp_path / "runs")
    assert code == 2
    assert "chart" in err


REPORTS = {
    "cut off": (b'{"pass": true, "executions": [', "is not JSON"),
    "null": (b'{"pass": true, "executions": null}', "not a sortie JSON report"),
    "old": (b'{"pass": true, "executions": [{"label": "mesh/svc-1", "results": []}]}', "OLD-FORMAT"),
    "empty": (b"", "is not JSON"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_that_cannot_be_graded_is_evidence_all_the_same(
    name: str, directory: Path, tmp_path: Path, harness: Harness
) -> None:
    """It is kept, and the gate says why it is refused."""
    report, reason = REPORTS[name]
    (directory / "report.json").write_bytes(report)
    code, out, err = harness("adopt", directory, "--runs", tmp_path / "runs")
    assert (code, err) == (0, "")
    assert reason in out
    assert (tmp_path / "runs" / TAG / "evidence" / "report.json").read_bytes() == report
    code, _, err = harness("gate", TAG, "--runs", tmp_path / "runs")
    assert (code, reason in err) == (2, True)
    assert harness("adopt", directory, "--runs", tmp_path / "runs")[0] == 0


@pytest.mark.parametrize("table", ["", "svc-1\t9\tx\nsvc-1\t9\tx\n", "svc-1\tmany\n"])
def test_a_share_table_that_plans_nothing_is_evidence_and_refused_by_the_gate(
    table: str, directory: Path, tmp_path: Path, harness: Harness
) -> None:
    (directory / "shares.tsv").write_text(table)
    assert harness("adopt", directory, "--runs", tmp_path / "runs")[0] == 0
    code, _, err = harness("gate", TAG, "--runs", tmp_path / "runs")
    assert (code, "shares.tsv" in err) == (2, True)


def test_a_run_with_only_a_stream_is_graded_when_it_is_asked_for(
    directory: Path, tmp_path: Path, harness: Harness
) -> None:
    executions = json.loads((directory / "report.json").read_text())["executions"]
    (directory / "results.jsonl").write_text("".join(json.dumps(execution) + "\n" for execution in executions))
    (directory / "report.json").unlink()
    runs = tmp_path / "runs"
    code, out, _ = harness("adopt", directory, "--runs", runs)
    assert code == 0
    assert out.endswith(f"next: harness gate {TAG} --runs {runs} --stream\n")
    code, _, err = harness("gate", TAG, "--runs", runs)
    assert (code, "--stream" in err) == (2, True)
    assert harness("gate", TAG, "--runs", runs, "--stream")[0] == 0
