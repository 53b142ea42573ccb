"""How far a ladder got, in one word, from its live files and from who holds the runs folder."""

from __future__ import annotations

from harness.errors import HarnessError
from harness.graph import lock
from harness.progress import read_object
from harness.runs import RUNG_NAME, RunFolder

SAVED, CLOSED, CREATED, PREPARING, CLIMBING, LEFT = "saved", "closed", "created", "preparing", "climbing", "left"
"""What the word of a ladder begins with; it was ``left`` at a rung by whoever climbed it."""


def climb_word(folder: RunFolder) -> str:
    """``saved``, ``closed`` (given up, not saved yet), ``created``, ``preparing``, ``climbing c8`` or ``left at c8``.

    A ladder goes on in one process, which holds the runs folder. Without it, nothing of the ladder goes on.
    """
    climbed = is_climbed(folder)  # asked first: it may be saved, and let go of, at any moment
    if folder.saved.exists():
        return SAVED
    if folder.closed.exists():
        return CLOSED
    rung = read_object(folder.progress_json).get("rung")
    rung = rung if isinstance(rung, str) and RUNG_NAME.fullmatch(rung) else None
    if climbed:
        return f"{CLIMBING} {rung}" if rung else PREPARING
    return f"{LEFT} at {rung}" if rung else CREATED


def is_going_on(word: str) -> bool:
    """Whether the word is of a ladder that is climbed now."""
    return word.startswith((PREPARING, CLIMBING))


def is_climbed(folder: RunFolder) -> bool:
    """Whether the runs folder is held by a process whose unfinished run is this one."""
    runs = folder.root.parent
    if not (runs / lock.LOCK).exists() or lock.unfinished(runs) != folder:
        return False
    try:
        return lock.is_held(runs)
    except HarnessError:  # a folder in which nothing may be written: who holds it cannot be asked
        return True


def again(folder: RunFolder) -> str:
    """What to type to go on with a ladder that was left."""
    return f"./doit e8 run={folder.run}"
