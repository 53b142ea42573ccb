"""Turns as they were sent: one JSON line each in a rung's ``.turns.jsonl``, and what they come to by count."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ALL_TURNS, TIME_IS_UP, RUNG_DEADLINE = ENDS = ("all turns", "time is up", "rung deadline")
"""How a rung ends."""
NO_ANSWER = "000"
FAILED_STOPS = frozenset({"error", "aborted"})
CUT_BY_TURN, CUT_BY_RUNG = CUTS = ("turn", "rung")
FAILURES = ("refused_429", "refused_503", "errors_in_200", "timed_out", "failed_otherwise")
"""Kinds of failure, by the names that they have in a record."""


@dataclass(frozen=True)
class Turn:
    """One attempt: times in ms, ``code`` of three digits, ``stop`` as the answer gave it.

    ``cut`` says whose deadline ended it, the turn's or the rung's.
    """

    client: int
    start_ms: float
    ms: float
    code: str
    stop: str | None
    error: str | None = None
    session: str | None = None
    cut: str | None = None

    @property
    def ok(self) -> bool:
        """Success: status 200, a stop reason that is no error, and no error message.

        A 200 alone may be a model call that failed.
        """
        stop = (self.stop or "").strip().lower()
        return self.code == "200" and stop != "" and stop not in FAILED_STOPS and self.error is None

    @property
    def failure(self) -> str | None:
        """Which of ``FAILURES`` it is; None of a success."""
        if self.ok:
            return None
        if self.code in ("429", "503"):
            return f"refused_{self.code}"
        if self.code == "200":
            return "errors_in_200"
        return "timed_out" if self.cut else "failed_otherwise"

    def to_line(self) -> str:
        """One line of the turns file; what is not there is left out."""
        known = {name: value for name, value in dataclasses.asdict(self).items() if value is not None or name == "stop"}
        return json.dumps(known, separators=(",", ":"))


def parse_turn(line: str) -> Turn:
    """Inverse of ``to_line``. Raises ValueError for a line that is no turn."""
    try:
        turn = Turn(**json.loads(line))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    is_turn = (
        type(turn.client) is int
        and turn.client > 0
        and _is_time(turn.start_ms)
        and _is_time(turn.ms)
        and isinstance(turn.code, str)
        and len(turn.code) == 3
        and turn.code.isdecimal()
        and turn.cut in (None, *CUTS)
        and all(isinstance(text, str | None) for text in (turn.stop, turn.error, turn.session))
    )
    if not is_turn:
        raise ValueError("a value is not what a turn has there")
    return turn


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def turns_in(path: Path) -> Iterator[Turn]:
    """Every turn of a file, one after another. Raises OSError and ValueError (a torn or foreign line)."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("it does not end")
                yield parse_turn(line.decode("utf-8"))
            except ValueError as error:
                raise ValueError(f"{path.name}: line {number} is no turn") from error


def read_turns(path: Path) -> list[Turn]:
    """All of them. Raises as ``turns_in`` does."""
    return list(turns_in(path))


def failures(turns: Iterable[Turn]) -> dict[str, Any]:
    """Turns that did not succeed, by kind; every one is in exactly one kind."""
    kinds = Counter(turn.failure for turn in turns)
    return {name: kinds[name] for name in FAILURES}
