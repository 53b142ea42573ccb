"""Which rung comes next: records so far → rungs to measure, none when the ladder is done. Nothing is kept in between.

A ladder is given, or ``auto``: it doubles from c=1 until two levels in a row miss, halves what lies between the highest
healthy level and the one above it until it is narrow, and then measures c=1 and both ends of that bracket again until
each was seen three times. What is healthy is asked of the same SQL by which the ladder is graded; where repeats move
the bracket, the search goes on from there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.e8.arms import BRACKET_X, MISSES, REPEATS, TOP_C
from harness.e8.questions import ask_of
from harness.e8.record import Ladder, rung_name
from harness.errors import SettingsError

AUTO = "auto"
MOST_RUNGS = 60  # of an automatic ladder: its levels and their repeats are a third of that
PLAIN = re.compile(r"[1-9][0-9]{0,5}")


@dataclass(frozen=True)
class Step:
    """One rung to be measured."""

    c: int
    repeat: int = 1

    @property
    def name(self) -> str:
        """``c32``, or ``c32.r2`` for a repeat."""
        return rung_name(self.c, self.repeat)


def parse_ladder(text: str) -> tuple[tuple[int, ...] | None, int]:
    """The rungs of a ladder, None for ``auto`` and ``auto 64``, and how high it goes at most.

    Raises SettingsError, which says what is wrong.
    """
    words = text.split()
    if words[:1] == [AUTO] and len(words) <= 2 and all(map(PLAIN.fullmatch, words[1:])):
        return None, int(words[1]) if words[1:] else TOP_C
    if words[:1] == [AUTO]:
        raise SettingsError(f"ladder={text!r}: {AUTO} stands alone, or with the most clients, like {AUTO} 64")
    if wrong := [word for word in words if not PLAIN.fullmatch(word)]:
        raise SettingsError(
            f"ladder={text!r}: {wrong[0]!r} is no number of clients from 1 to 999999; give {AUTO}, "
            f"{AUTO} 64, or numbers like 1 2 4 8"
        )
    rungs = tuple(map(int, words))
    if 1 not in rungs:
        raise SettingsError(f"ladder={text!r} has no c=1 rung, against which all others are held; begin it with 1")
    if list(rungs) != sorted(set(rungs)):
        raise SettingsError(f"ladder={text!r} must rise from rung to rung, and name each once")
    return rungs, rungs[-1]


def next_steps(so_far: Ladder, ladder: tuple[int, ...] | None, *, top: int = TOP_C) -> tuple[Step, ...]:
    """The rungs to measure next, in order; empty when the ladder is done.

    ``ladder`` is the given one, None for an automatic one, which goes no higher than ``top``. Rungs that were measured
    are never asked for again.
    """
    done = so_far.rungs
    measured = {rung.name for rung in done}
    if ladder is not None:
        return tuple(step for step in map(Step, ladder) if step.name not in measured)
    if not done:
        return (Step(1),)
    if len(done) >= MOST_RUNGS:
        return ()
    answers = ask_of(so_far)  # with its own facts: what is healthy is a matter of its degrade_x
    if answers.knee is None:
        return ()  # c=1 does not stand: there is nothing to search
    floor = int(answers.knee["floor_c"])
    levels = [int(level["c"]) for level in answers.levels]
    above = [int(level["c"]) for level in answers.levels if level["c"] > floor and not level["client_bound"]]
    client_bound = any(level["client_bound"] for level in answers.levels)
    if levels[-1] < top and len(above) < MISSES and not client_bound:
        return (Step(min(2 * levels[-1], top)),)
    if not above:
        return ()
    low, high = floor, above[0]
    if high - low > 1 and high > BRACKET_X * low:
        return (Step((low + high) // 2),)
    counts = {c: sum(rung.c == c for rung in done) for c in (1, low, high)}
    return tuple(Step(c, count + 1) for c, count in counts.items() if count < REPEATS)
