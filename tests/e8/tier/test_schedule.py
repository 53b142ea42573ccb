"""Which requests get a tool call: per conversation exact for every turn, with the counter only for one client."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.e8.tier.schedule import PerConversation, Schedule, SharedCounter, make_schedule, results_of_turn
from harness.e8.tier.settings import CONVERSATION, COUNTER

PROMPT = {"role": "user", "content": "x"}


def answered(messages: list[dict[str, Any]], call: str) -> list[dict[str, Any]]:
    """The conversation with one more call and its result."""
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": call}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call}]}
    return [*messages, use, result]


def run(schedule: Schedule, turns: int, at_once: int = 1) -> Counter[int]:
    """Execs per turn of turns of which always ``at_once`` take requests in rotation."""
    found: Counter[int] = Counter()
    open_turns: list[list[dict[str, Any]]] = []
    begun = 0
    while begun < turns or open_turns:
        while len(open_turns) < at_once and begun < turns:
            open_turns.append([PROMPT])
            begun += 1
        messages = open_turns.pop(0)
        call = schedule.tool_use_id(messages)
        if call is None:
            found[len(results_of_turn(messages))] += 1
        else:
            open_turns.append(answered(messages, call))
    return found


@pytest.mark.parametrize("at_once", [1, 2, 7, 32])
def test_at_one_half_every_conversation_has_exactly_one_call(at_once: int) -> None:
    assert run(PerConversation(0.5), 100, at_once) == {1: 100}


def test_the_shared_counter_gives_one_call_per_turn_to_one_client_only() -> None:
    assert run(SharedCounter(0.5), 50) == {1: 50}
    crowd = run(SharedCounter(0.5), 90, at_once=9)
    assert len(crowd) > 1 and crowd[0] > 0


@pytest.mark.parametrize(
    ("rate", "turns", "calls"), [(0.0, 50, 0), (0.07, 93, 7), (0.25, 30, 10), (0.75, 10, 30), (0.9, 10, 90)]
)
def test_the_rate_is_the_share_of_requests(rate: float, turns: int, calls: int) -> None:
    found = run(PerConversation(rate), turns, at_once=3)
    made = sum(execs * number for execs, number in found.items())
    assert made == calls
    assert made / (made + turns) == pytest.approx(rate, abs=0.001)


@given(st.floats(0, 0.9), st.integers(1, 60))
def test_turns_of_one_rate_differ_by_at_most_one_call(rate: float, turns: int) -> None:
    found = run(PerConversation(rate), turns)
    assert max(found) - min(found) <= 1


def test_rate_one_never_ends_a_turn() -> None:
    schedule, messages = PerConversation(1.0), [PROMPT]
    for _ in range(50):
        call = schedule.tool_use_id(messages)
        assert call is not None
        messages = answered(messages, call)


def test_a_quarter_is_every_fourth_request_of_the_counter() -> None:
    schedule = make_schedule(COUNTER, 0.25)
    assert [schedule.tool_use_id([PROMPT]) is not None for _ in range(8)] == [True, False, False, False] * 2
    assert make_schedule(COUNTER, 0).tool_use_id([PROMPT]) is None


def test_a_second_turn_of_a_session_is_a_turn_of_its_own() -> None:
    schedule = make_schedule(CONVERSATION, 0.5)
    first = schedule.tool_use_id([PROMPT])
    assert first is not None
    whole = answered([PROMPT], first)
    assert schedule.tool_use_id(whole) is None
    assert schedule.tool_use_id([*whole, {"role": "assistant", "content": []}, PROMPT]) is not None


def test_a_result_of_a_foreign_call_ends_the_turn() -> None:
    assert PerConversation(0.9).tool_use_id(answered([PROMPT], "call_abc")) is None
