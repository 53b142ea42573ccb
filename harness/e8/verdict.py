"""What grading a ladder comes to: the knee or none, what bound it, every reason against it, a word, an exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.e8.arms import THRESHOLDS
from harness.errors import EXIT_FAIL, EXIT_PASS, EXIT_REFUSED
from harness.gate.verdict import FAIL, PASS, REFUSED
from harness.store.columns import LADDER

if TYPE_CHECKING:
    from harness.e8.questions import Row, Suspect
    from harness.e8.refusals import Refusal
    from harness.e8.usl import Usl

SCHEMA = 1
KNEE, NOT_OBSERVED, INVALID = "knee", "not-observed", "invalid"


@dataclass(frozen=True)
class Knee:
    """One of three answers. ``floor`` is the highest healthy rung; the knee lies from ``lo`` to ``hi``.

    ``not-observed``: the ladder was healthy up to ``floor``, and ``hi`` is None. ``invalid``: nothing can be said.
    """

    answer: str
    floor: int | None = None
    lo: int | None = None
    hi: int | None = None


@dataclass(frozen=True)
class LadderVerdict:
    """The whole of a grading.

    ``rungs`` are plain rows. ``marginal_ms_per_turn`` is the workers' CPU for a further turn, ``marginal_range_ms`` the
    least and the most it comes to as each level in turn is left out, ``background_ms_per_s`` their CPU without turns;
    all None where no such cost gives what the levels used.
    """

    run: str
    word: str
    reason: str | None = None
    arm: str | None = None
    measured: str | None = None
    knee: Knee = Knee(INVALID)
    saturated: bool = False
    bound: str | None = None
    runner_up: str | None = None
    suspects: tuple[Suspect, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    claim: str | None = None
    usl: Usl | None = None
    degrade_x: float | None = None
    min_c: int | None = None
    marginal_ms_per_turn: float | None = None
    marginal_range_ms: tuple[float, float] | None = None
    background_ms_per_s: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    rungs: tuple[Row, ...] = ()
    gate_sha256: str = ""

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 2 REFUSED or UNPROVEN."""
        return {PASS: EXIT_PASS, FAIL: EXIT_FAIL}.get(self.word, EXIT_REFUSED)

    @property
    def ungraded(self) -> bool:
        """Whether there was no ladder to judge at all: evidence or tables that cannot be read."""
        return self.word == REFUSED and not self.refusals and not self.rungs

    def _own_thresholds(self) -> dict[str, float]:
        """What this ladder asked to be judged by in the place of the usual numbers."""
        own = {"degrade_x": self.degrade_x, "min_c": self.min_c}
        return {name: float(value) for name, value in own.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """The machine's form. ``thresholds`` are the numbers that it was judged by."""
        return {
            "schema": SCHEMA,
            "run": self.run,
            "kind": LADDER,
            "arm": self.arm,
            "measured": self.measured,
            "verdict": self.word,
            "reason": self.reason,
            "exit_code": self.exit_code,
            "knee": dict(self.knee.__dict__),
            "saturated": self.saturated,
            "bound": self.bound,
            "runner_up": self.runner_up,
            "suspects": [dict(suspect.__dict__) for suspect in self.suspects],
            "refusals": [dict(refusal.__dict__) for refusal in self.refusals],
            "missing": list(self.missing),
            "notes": list(self.notes),
            "claim": self.claim,
            "usl": self.usl.to_json() if self.usl else None,
            "degrade_x": self.degrade_x,
            "min_c": self.min_c,
            "thresholds": {name: each.value for name, each in THRESHOLDS.items()} | self._own_thresholds(),
            "marginal_ms_per_turn": self.marginal_ms_per_turn,
            "marginal_range_ms": list(self.marginal_range_ms) if self.marginal_range_ms else None,
            "background_ms_per_s": self.background_ms_per_s,
            "facts": dict(self.facts),
            "rungs": [dict(rung) for rung in self.rungs],
            "gate_sha256": self.gate_sha256,
        }
