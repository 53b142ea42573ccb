"""Stored verdicts: every grading is kept, in order, and the newest can be repeated without grading."""

from __future__ import annotations

import json
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


def test_latest_of_nothing_is_none_and_of_damage_is_a_sentence(tmp_path: Path) -> None:
    """A damaged newest verdict is not silently replaced by the one before."""
    assert store.latest(tmp_path / "absent") is None
    assert store.latest(tmp_path) is None
    path = store.append(tmp_path, Verdict.refused("r", "x"), "")
    store.append(tmp_path, Verdict.refused("r", "y"), "").write_text('{"verdict"')
    with pytest.raises(EvidenceError, match="grade again"):
        store.latest(tmp_path)
    assert json.loads(path.read_text())["reason"] == "x"
