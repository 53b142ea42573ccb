"""Ladders to draw pages of: documents as a harness saves them, adopted and graded as any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.adopt import adopt
from harness.e8.grade import grade_run
from harness.history.inventory import newest_verdict
from harness.runs import RunFolder

Document = dict[str, Any]
CASES = Path(__file__).parents[2] / "cases" / "e8"
PUBLISHED = Path(__file__).parents[3] / "runs" / "published"


def case(name: str) -> Document:
    """The ladder of a case."""
    document: Document = json.loads((CASES / name / "ladder.json").read_text())
    return document


def cases_of_each_kind() -> list[str]:
    """A case for each arm and verdict, for each rule and each bound; none that is refused before a rule is asked."""
    found: dict[object, str] = {}
    for folder in sorted(CASES.iterdir()):
        expected: Document = json.loads((folder / "expected.json").read_text())
        rules, word = expected["rules"], expected["verdict"]
        if (folder / "ladder.json").exists() and (rules or word != "REFUSED"):
            for kind in [(expected["arm"], word), expected["bound"], *rules]:
                found.setdefault(kind, folder.name)
    return sorted(set(found.values()))


def run_of(runs: Path, document: Document, *, graded: bool = True) -> tuple[RunFolder, Document]:
    """A run of this ladder, and its verdict; an empty one where it is not ``graded``."""
    runs.mkdir(exist_ok=True)
    file = runs.parent / "given.json"
    file.write_text(json.dumps(document))
    folder = RunFolder(runs / adopt(file, runs, format="e8").run)
    if graded:
        grade_run(folder)
    return folder, newest_verdict(folder) or {}


def repeated(rung: Document, repeat: int, **changes: Any) -> Document:
    """Another repeat of a rung."""
    return {**rung, "repeat": repeat, **changes}


def bare(document: Document, keep: Callable[[str], bool] = lambda name: False) -> Document:
    """The ladder with nothing known but how many turns there were and how many succeeded."""
    needed = {"c", "repeat", "attempts", "ok_n"}
    rungs = [{name: v for name, v in rung.items() if name in needed or keep(name)} for rung in document["rungs"]]
    return {"schema": 1, "rungs": rungs}
