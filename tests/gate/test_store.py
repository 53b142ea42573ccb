"""Stored verdicts: every grading is kept, in order, and the newest can be repeated without grading."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.errors import EvidenceError
from harness.gate import Verdict, store


def test_a_grading_is_kept_beside_the_earlier_ones(tmp_path: Path) -> None:
    """Names sort by time, contents stay as written, and the newest is found."""
    paths = [store.append(tmp_path / "verdicts", Verdict.refused("r", f"reason {n}"), "digest") for n in range(12)]
    assert paths == sorted(paths) == store.stored(tmp_path / "verdicts")
    assert [json.loads(path.read_text())["reason"] for path in paths] == [f"reason {n}" for n in range(12)]
    newest = store.latest(tmp_path / "verdicts")
    assert newest is not None
    assert newest["reason"] == "reason 11"
    assert newest["exit_code"] == 2
    assert newest["tables_sha256"] == "digest"
    assert newest["lines"][-1] == newest["verdict_line"] == "REFUSED r: reason 11"
    assert len(newest["gate_sha256"]) == 64


def test_gradings_at_the_same_moment_do_not_write_over_each_other(tmp_path: Path) -> None:
    """Each gets a number of its own."""
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda n: store.append(tmp_path, Verdict.refused("r", str(n)), ""), range(20)))
    assert len(set(paths)) == 20
    assert {json.loads(path.read_text())["reason"] for path in paths} == {str(n) for n in range(20)}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_verdict_that_was_edited_is_not_believed(tmp_path: Path) -> None:
    """Word, exit code, lines, time, or a key more: the seal is over all of it."""
    path = store.append(tmp_path, Verdict.refused("r", "torn"), "digest")
    whole = json.loads(path.read_text())
    assert store.read(path)["reason"] == "torn"
    changed = [whole | {key: "PASS"} for key in (*whole, "more")]
    changed += [{k: v for k, v in whole.items() if k != "seal"}, whole | {"targets": float("nan")}]
    for document in changed:
        path.write_text(json.dumps(document))
        with pytest.raises(EvidenceError, match="grade again"):
            store.read(path)
    for text in ("", "[]", "null", "[" * 100_000, '{"verdict": "\\ud800"}'):
        path.write_text(text)
        with pytest.raises(EvidenceError, match="grade again"):
            store.read(path)
    path.write_text(json.dumps(whole, indent=7))
    assert store.latest(tmp_path) == store.read(path)


def test_a_planted_file_is_named_and_stands_in_nobodys_way(tmp_path: Path) -> None:
    """A good verdict copied to the highest number of six digits is no newer verdict; the next grading goes past it."""
    first = store.append(tmp_path, Verdict.refused("r", "first"), "")
    planted = tmp_path / "999999-20261008T101700000Z.json"
    planted.write_text(first.read_text())
    with pytest.raises(EvidenceError, match=f"{planted.name} is a copy"):
        store.latest(tmp_path)
    paths = [store.append(tmp_path, Verdict.refused("r", f"later {n}"), "") for n in range(2)]
    assert [path.name.partition("-")[0] for path in paths] == ["1000000", "1000001"]
    assert store.stored(tmp_path) == [first, planted, *paths]
    newest = store.latest(tmp_path)
    assert newest is not None
    assert newest["reason"] == "later 1"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_no_verdict(make: Callable[[Path], None], tmp_path: Path) -> None:
    """It is never opened, and the next grading gets past it."""
    make(tmp_path / "000007-20261008T101700000Z.json")
    with pytest.raises(EvidenceError, match="no regular file"):
        store.latest(tmp_path)
    assert store.append(tmp_path, Verdict.refused("r", "x"), "").name.startswith("000008-")


def test_latest_of_nothing_is_none_and_of_damage_is_a_sentence(tmp_path: Path) -> None:
    """A damaged newest verdict is not silently replaced by the one before."""
    assert store.latest(tmp_path / "absent") is None
    assert store.latest(tmp_path) is None
    path = store.append(tmp_path, Verdict.refused("r", "x"), "")
    store.append(tmp_path, Verdict.refused("r", "y"), "").write_text('{"verdict"')
    with pytest.raises(EvidenceError, match="grade again"):
        store.latest(tmp_path)
    assert json.loads(path.read_text())["reason"] == "x"
