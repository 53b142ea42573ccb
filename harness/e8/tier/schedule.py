"""Which requests the model stub answers with a tool call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

from harness.e8.tier.settings import COUNTER

TOOL_USE_ID = re.compile(r"toolu_(\d+)_(\d+)")
ENDLESS = 1 << 30

Messages = Sequence[dict[str, Any]]


class Schedule(Protocol):
    """Decides request by request."""

    def tool_use_id(self, messages: Messages) -> str | None:
        """The id of the tool call that answers these messages; None answers with text."""


class PerConversation:
    """Decides once per turn, so that every turn gets its calls however many clients there are.

    At rate r a turn of n calls makes n + 1 requests, so n is r / (1 - r) on average: 0.5 is one call in every turn,
    0.07 one call in every 13th. The calls a turn still has to get stand in the id of its last one, which comes back
    with the conversation; nothing is remembered here.
    """

    def __init__(self, rate: float) -> None:
        share = Fraction(rate).limit_denominator(10_000)
        self._calls_per_turn = share / (1 - share) if share < 1 else Fraction(ENDLESS)
        self._turns = 0
        self._calls = 0

    def tool_use_id(self, messages: Messages) -> str | None:
        results = results_of_turn(messages)
        left = _left(results[-1]) if results else self._quota()
        if left < 1:
            return None
        self._calls += 1
        return f"toolu_{self._calls}_{left - 1}"

    def _quota(self) -> int:
        begun = self._turns * self._calls_per_turn
        self._turns += 1
        return int(self._turns * self._calls_per_turn) - int(begun)


class SharedCounter:
    """Every N-th request of all clients together is a tool call, N = round(1 / rate), the first one included.

    With one client and rate 0.5 that is one call per turn; with several, turns get none, one, two or more. It is kept
    to show what such a schedule does to a latency distribution.
    """

    def __init__(self, rate: float) -> None:
        self._period = round(1 / rate) if rate > 0 else 0
        self._requests = 0

    def tool_use_id(self, messages: Messages) -> str | None:
        number = self._requests
        self._requests += 1
        return f"toolu_{number}_0" if self._period and number % self._period == 0 else None


def make_schedule(name: str, rate: float) -> Schedule:
    """The schedule of that name."""
    return SharedCounter(rate) if name == COUNTER else PerConversation(rate)


def results_of_turn(messages: Messages) -> list[str]:
    """The ids of the tool results since the user last said something, oldest first."""
    found: list[str] = []
    for message in reversed(messages):
        if message.get("role") != "user":
            continue
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        ids = [str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
        if not ids:
            break
        found += reversed(ids)
    return found[::-1]


def _left(tool_use_id: str) -> int:
    match = TOOL_USE_ID.fullmatch(tool_use_id)
    return int(match[2]) if match else 0
