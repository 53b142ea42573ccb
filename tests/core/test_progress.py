"""The live line of a ladder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.files import write_json
from harness.progress import NO_COUNTS, UNREADABLE, ladder_line, progress_line
from harness.runs import RunFolder
from tests.core.progress import LADDER_SEEN as SEEN


def test_it_names_arm_and_rung_and_counts_turns_and_rungs() -> None:
    assert ladder_line(SEEN) == "capacity c8  1,200 of 2,400 turns  1,199 ok  1 failed  0:03  3 of 4 rungs done"


def test_of_an_automatic_ladder_nobody_knows_how_many_rungs_there_are() -> None:
    assert ladder_line({**SEEN, "complete": False}).endswith("3 of ? rungs done")


def test_before_the_first_rung_there_are_no_counts() -> None:
    assert ladder_line({}) == NO_COUNTS
    assert ladder_line({"kind": "e8", "arm": "capacity"}) == NO_COUNTS


@pytest.mark.parametrize("damage", [{"attempts": None}, {"ok": "many"}, {"rungs_done": 3}, {"elapsed_s": 1e400}])
def test_counts_that_cannot_be_read_are_said_so(damage: dict[str, Any]) -> None:
    assert ladder_line({**SEEN, **damage}) == UNREADABLE


@pytest.mark.parametrize("name", sorted(SEEN.keys() - {"kind", "rung", "c"}))
def test_a_count_that_is_not_there_is_not_made_up(name: str) -> None:
    assert ladder_line({key: value for key, value in SEEN.items() if key != name}) == UNREADABLE


def test_a_run_is_told_as_what_it_is(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "e8-1-capacity")
    folder.live.mkdir(parents=True)
    write_json(folder.progress_json, SEEN)
    assert progress_line(folder) == ladder_line(SEEN)
