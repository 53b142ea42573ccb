"""Files for CI: whole or appended, never in the place of something that is no file, never over what GitHub takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.ci.publish import publish
from harness.gate import Verdict
from tests.ci.verdicts import node, target, verdict

PASSED = verdict(target("orders"))


def test_both_files_are_written_whole_in_the_place_of_older_ones(tmp_path: Path) -> None:
    junit, summary = tmp_path / "gate.xml", tmp_path / "gate.md"
    junit.write_text("old" * 10_000)
    summary.write_text("old" * 10_000)
    assert publish(PASSED, junit_file=junit, markdown_file=summary, tables_sha256="cd", beside=["DRILL  x"]) == []
    assert junit.read_text().endswith("</testsuites>\n")
    assert 'value="cd"' in junit.read_text() and "DRILL  x" in junit.read_text()
    assert summary.read_text().startswith("## PASS") and "DRILL  x" in summary.read_text()
    assert sorted(tmp_path.iterdir()) == [summary, junit]


def test_nothing_is_written_that_was_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    assert publish(PASSED) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("named_as", ["itself", "a link", "a path of its own"])
def test_the_step_summary_is_appended_to(named_as: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = tmp_path / "summary"
    summary.write_text("| a table of another step |")
    names = {
        "itself": summary,
        "a link": tmp_path / "link",
        "a path of its own": tmp_path / "." / "x" / ".." / "summary",
    }
    (tmp_path / "link").symlink_to(summary)
    (tmp_path / "x").mkdir()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    for _ in range(2):
        assert publish(PASSED, markdown_file=names[named_as]) == []
    text = summary.read_text()
    assert text.startswith("| a table of another step |\n## PASS")
    assert text.count("\n\n## PASS") == 1 and text.count("\n## PASS") == 2


def test_the_step_summary_is_made_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    assert publish(PASSED, markdown_file=tmp_path / "summary") == []
    assert (tmp_path / "summary").read_text().startswith("## PASS")


def test_what_is_appended_leaves_room_for_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub drops a summary over 1 MiB whole; the verdict itself is there in any case."""
    summary = tmp_path / "summary"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    long = verdict(*(target(f"orders-{number}", [node("north")] * 50) for number in range(1_000)))
    for held in (900_000, 999_900):
        summary.write_text("x" * held)
        assert publish(long, markdown_file=summary) == []
        assert held + 100 < summary.stat().st_size < 1 << 20
        assert "\n## PASS" in summary.read_text()


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gate.xml")
    assert publish(PASSED, junit_file=tmp_path / "link") == []
    assert (tmp_path / "link").is_symlink() and (tmp_path / "gate.xml").is_file()


def test_what_cannot_be_written_is_told_and_the_other_file_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    reasons = {
        "none/gate.xml": "No such file or directory",
        "file/gate.xml": "Not a directory",
        "pipe": "it is no regular file",
        ".": "it is no regular file",
        "a\0b": "null",
        "long" * 100: "File name too long",
    }
    for name, reason in reasons.items():
        (trouble,) = publish(PASSED, junit_file=tmp_path / name, markdown_file=tmp_path / "gate.md")
        assert "cannot be written (" in trouble and reason in trouble and trouble.isprintable()
        assert (tmp_path / "gate.md").read_text().startswith("## PASS")
        (tmp_path / "gate.md").unlink()
    assert len(publish(PASSED, junit_file=tmp_path, markdown_file=tmp_path)) == 2
    assert (tmp_path / "pipe").is_fifo()


def test_links_in_a_circle_are_no_crash(tmp_path: Path) -> None:
    """Some versions of Python resolve them to themselves, some raise."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert len(publish(PASSED, junit_file=tmp_path / "loop")) == (tmp_path / "loop").is_symlink()


def test_a_refusal_is_published_too(tmp_path: Path) -> None:
    refused = Verdict.refused("quick-1", "report.json is torn")
    assert publish(refused, junit_file=tmp_path / "gate.xml", markdown_file=tmp_path / "gate.md") == []
    assert 'errors="1"' in (tmp_path / "gate.xml").read_text()
    assert "REFUSED" in (tmp_path / "gate.md").read_text()
