"""``harness watch`` of a ladder: looks at its files until it is saved or nobody climbs it, and never without an end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli import main
from harness.commands import watch
from harness.files import write_json
from harness.graph import lock
from harness.runs import RunFolder
from tests.core.progress import LADDER_SEEN

RUN = "e8-1-capacity"
LINE = "capacity c8  1,200 of 2,400 turns  1,199 ok  1 failed  0:03  3 of 4 rungs done"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A ladder in the middle of its fourth rung, left by whoever climbed it."""
    found = RunFolder(tmp_path / RUN)
    found.live.mkdir(parents=True)
    write_json(found.run_json, {"schema": 1, "run": RUN, "kind": "e8", "arm": "capacity"})
    write_json(found.progress_json, LADDER_SEEN)
    lock.begin(found)
    monkeypatch.setenv("HARNESS_RUNS", str(tmp_path))
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(watch, "PLAIN_EVERY_S", 0.0)
    return found


@pytest.fixture
def climbed(folder: RunFolder) -> Iterator[RunFolder]:
    """The same ladder while somebody climbs it."""
    with lock.hold(folder.root.parent):
        yield folder


def save(folder: RunFolder) -> None:
    folder.evidence.mkdir()
    folder.saved.write_text("")


def test_it_follows_a_ladder_until_it_is_saved(climbed: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    saving = threading.Timer(0.3, save, [climbed])
    saving.start()
    assert main(["watch", RUN]) == 0
    saving.join()
    output = capsys.readouterr().out
    assert LINE in output and output.splitlines()[-1] == f"The ladder is saved; `harness gate {RUN}` grades it."


def test_a_ladder_that_nobody_climbs_ends_the_watch(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", RUN]) == 4
    output, error = capsys.readouterr()
    assert (output, error) == (
        "",
        f"harness: nobody climbs the ladder (left at c8); ./doit e8 run={RUN} goes on with it.\n",
    )


def test_another_run_that_holds_the_folder_does_not_climb_this_one(
    climbed: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    other = RunFolder(climbed.root.parent / "quick-1")
    other.root.mkdir()
    write_json(other.run_json, {"run": "quick-1"})
    lock.begin(other)
    assert main(["watch", RUN]) == 4
    assert "left at c8" in capsys.readouterr().err


def test_the_end_of_the_process_that_climbs_is_seen(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    held = lock.hold(folder.root.parent)
    held.__enter__()
    leaving = threading.Timer(0.3, held.__exit__, [None, None, None])
    leaving.start()
    assert main(["watch", RUN]) == 4
    leaving.join()
    output, error = capsys.readouterr()
    assert LINE in output and "left at c8" in error


def test_before_the_first_rung_it_is_prepared(climbed: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    climbed.progress_json.unlink()
    assert main(["watch", RUN, "--timeout-s", "0.1"]) == 4
    output, error = capsys.readouterr()
    assert "preparing" in output and "the ladder is preparing and the time to watch is up" in error


def test_it_gives_up_by_itself_where_nothing_moves(climbed: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "QUIET_S", 0.1)
    assert main(["watch", RUN]) == 4


def test_a_ladder_that_was_given_up_says_why(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(folder.closed, {"reason": "the tier is gone", "saved": f"./doit teardown:{RUN} saves it"})
    assert main(["watch", RUN]) == 4
    told = f"the ladder was given up: the tier is gone; ./doit teardown:{RUN} saves it."
    assert capsys.readouterr().err == f"harness: {told}\n"
    folder.closed.write_text("{")
    assert main(["watch", RUN]) == 4
    assert str(folder.closed) in capsys.readouterr().err
    save(folder)
    assert main(["watch", RUN]) == 0


def test_json_is_one_look(climbed: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", RUN, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["state"], document["progress"]["ok"]) == ("climbing c8", 1199)
    assert document["progress"]["plan_complete"] is True and "complete" not in document["progress"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"kind": "e8", "rung": "\\u001b[31m"}', '{"kind": "e8", "rung": 8}'])
def test_a_progress_file_that_is_no_such_thing_is_no_error(
    text: str, climbed: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    climbed.progress_json.write_text(text)
    assert main(["watch", RUN, "--timeout-s", "0.1"]) == 4
    assert "time to watch is up" in (said := "".join(capsys.readouterr())) and "\x1b[31m" not in said
