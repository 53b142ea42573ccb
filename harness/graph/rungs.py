"""The rungs of a ladder as the graph draws them: what its plan file says, read anew each time the graph is drawn."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import EvidenceError
from harness.files import read_json
from harness.runs import RUNG_NAME, RunFolder


@dataclass(frozen=True)
class Planned:
    """Rungs in the order in which they are measured, and whether that is all of them.

    ``automatic``: the ladder finds its own rungs, one step after another.
    """

    names: tuple[str, ...] = ()
    complete: bool = False
    automatic: bool = False


def planned(folder: RunFolder) -> Planned:
    """What is planned so far; nothing, and more to come, where the plan file is not there yet.

    Raises EvidenceError when it cannot be read: a ladder never goes on by another plan than its own.
    """
    if not folder.rungs_json.exists():
        return Planned()
    try:
        document = read_json(folder.rungs_json)
        names, complete = tuple(document["planned"]), document["complete"]
        if not isinstance(complete, bool) or not all(RUNG_NAME.fullmatch(name) for name in names):
            raise ValueError("it holds something else than names of rungs")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvidenceError(
            f"{folder.rungs_json}: does not say which rungs there are ({error})", run=folder.run
        ) from error
    return Planned(names, complete, str(document.get("ladder")).startswith("auto"))
