"""One offline HTML page per run: verdict first, then what it rests on. No script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.runs import RunFolder

__all__ = ["render", "write"]


def write(folder: RunFolder, verdict: Mapping[str, Any]) -> None:
    """Write ``report.html``, whole or not at all. Raises EvidenceError for damaged tables, OSError for a full disk."""
    from harness.files import write_atomic

    write_atomic(folder.report, render(folder, verdict))


def render(folder: RunFolder, verdict: Mapping[str, Any]) -> str:
    """The page of one run as text. ``verdict`` is a grading's JSON; an empty one is a run that was not graded.

    Works for every verdict and for any part of a run of either kind: what is absent is said to be so. Raises
    EvidenceError where a table is not what was made, unless the verdict is that nothing could be graded.
    """
    from harness.store.columns import LADDER
    from harness.store.kinds import kind_of_run

    if kind_of_run(folder) == LADDER:
        from harness.report.ladder.page import render as of_ladder

        return of_ladder(folder, verdict)
    from harness.report.page import render as of_soak

    return of_soak(folder, verdict)
