"""What each rung came to, in a word, a mark and a colour; the same in every picture and table."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

NOT_GRADED = "not graded"


@dataclass(frozen=True)
class State:
    """``symbol`` stands beside the word, ``colour`` is a CSS class."""

    symbol: str
    colour: str
    means: str


STATES: dict[str, State] = {
    "healthy": State("●", "good", "p95 within its bound, and throughput no lower than at any healthy level below"),
    "miss": State("◆", "bad", "p95 over its bound, or throughput lower than at a healthy level below"),
    "cut": State("✕", "bad", "too few turns succeeded, here or below: left out of the ladder"),
    "generator": State("■", "warn", "the load generator was measured, here or below: left out of the ladder"),
    "above": State("△", "none", "could not be held against c=1"),
    NOT_GRADED: State("○", "none", "the gate did not judge it"),
}


def state_of(word: str) -> State:
    """The state that a verdict calls ``word``."""
    return STATES.get(word, STATES[NOT_GRADED])


def mark(x: float, y: float, state: str, size: float = 4.5) -> Markup:
    """The mark of a state, with its middle at (x, y)."""
    shape = {
        "healthy": f"M{x - size:.1f} {y:.1f} a{size} {size} 0 1 0 {2 * size} 0 a{size} {size} 0 1 0 {-2 * size} 0 z",
        "miss": f"M{x - size - 1:.1f} {y:.1f} l{size + 1} {-size - 1} l{size + 1} {size + 1} l{-size - 1} {size + 1} z",
        "cut": f"M{x - size:.1f} {y - size:.1f} l{2 * size} {2 * size} m0 {-2 * size} l{-2 * size} {2 * size}",
        "generator": f"M{x - size:.1f} {y - size:.1f} h{2 * size} v{2 * size} h{-2 * size} z",
        "above": f"M{x:.1f} {y - size - 1:.1f} l{size + 1} {2 * size} h{-2 * size - 2} z",
    }
    known = state if state in shape else "healthy"
    name = state if state in shape else "ungraded"
    return Markup('<path d="{}" class="rung {}"/>').format(shape[known], name)
