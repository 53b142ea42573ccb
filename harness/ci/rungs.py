"""The rungs of a ladder's verdict as CI lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.e8.verdict import LadderVerdict

if TYPE_CHECKING:
    from harness.e8.questions import Row


def arm_of(verdict: LadderVerdict) -> str:
    """The arm that every number names, also where it is not known."""
    return verdict.arm or "arm?"


def planned_rungs(verdict: LadderVerdict) -> Iterator[tuple[str, Row | None]]:
    """Every rung in the order of the plan, then any that nobody planned; None where it was not measured."""
    measured = {str(rung["name"]): rung for rung in verdict.rungs}
    for name in dict.fromkeys([*(verdict.facts.get("planned") or ()), *measured]):
        yield name, measured.get(name)
