"""The check that costs no run: the sandboxes' CPU time of a realism ladder beside what its duty predicted.

c clients whose turns keep a sandbox busy for a share ``duty`` of the time keep c × duty sandboxes busy. That is set
beside the CPU time that was measured, rung by rung, with the share of the target's cores that it took and the memory of
the worst worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.e8.arms import REALISM, threshold
from harness.e8.record import Ladder, Rung
from harness.errors import EvidenceError

AGREE_PCT = 2 * threshold("noise_pct")
"""Measured and predicted agree within this share of the predicted: both rest on rungs that have their noise."""


@dataclass(frozen=True)
class Row:
    """One rung. Shares are of all sandboxes, in %; ``held`` is predicted from the turns really in flight.

    ``duty_that_fits`` is the one from which the measured share would have been predicted.
    """

    name: str
    c: int
    cpu_s: float | None
    wall_s: float | None
    cores_used: float | None
    measured_pct: float | None
    predicted_pct: float | None
    held_pct: float | None
    duty_that_fits: float | None
    worst_rss_bytes: int | None

    @property
    def off_pct(self) -> float | None:
        """By what share of the predicted the measured lies above it; None where one of both is not known."""
        if self.measured_pct is None or not self.predicted_pct:
            return None
        return round(100 * (self.measured_pct / self.predicted_pct - 1), 1)


@dataclass(frozen=True)
class FreeCheck:
    """All rungs of one realism ladder; ``duty`` is what was measured before it, or what the caller gave."""

    measured: str
    pool: int
    cores: int | None
    duty: float | None
    rows: tuple[Row, ...]
    source_said: str | None = None

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        known = {"schema": 1, "arm": REALISM, "measured": self.measured, "pool": self.pool, "cores": self.cores}
        known |= {"duty": self.duty, "source_said": self.source_said}
        off_pct = None if self.top is None else self.top.off_pct
        return known | {"off_pct": off_pct, "agree_pct": AGREE_PCT, "rungs": [vars(row) for row in self.rows]}

    @property
    def top(self) -> Row | None:
        """The highest rung with both figures, where the sandboxes were busiest; None where no rung has both."""
        return max((row for row in self.rows if row.off_pct is not None), key=lambda row: row.c, default=None)

    def lines(self) -> list[str]:
        """For people."""
        duty = "not recorded" if self.duty is None else f"{self.duty:.4f}"
        return [
            f"realism arm, {self.measured}: sandbox CPU beside c × duty; duty {duty}, {self.pool} sandboxes, "
            f"{_said(self.cores, 'g')} cores",
            *map(self._line, self.rows),
            *([f"its source says: {self.source_said}"] if self.source_said else []),
            self._conclusion(),
        ]

    def _conclusion(self) -> str:
        """How far measured and predicted are apart, and whether that counts as agreement."""
        top = self.top
        if top is None or top.off_pct is None:
            return "nothing was predicted, as no duty is recorded: nothing agrees or disagrees"
        apart = (
            f"at {top.name}, {_said(top.measured_pct, '.1f')} % was measured and {_said(top.predicted_pct, '.1f')} % "
            f"predicted, {abs(top.off_pct):.1f} % apart:"
        )
        if abs(top.off_pct) <= AGREE_PCT:
            return f"{apart} they agree, as within {AGREE_PCT:g} % they do"
        why = (
            "a turn costs more than its duty says, or something else ran in the sandboxes"
            if top.off_pct > 0
            else "a turn costs less than its duty says, or fewer turns were in flight than clients"
        )
        return f"{apart} they do not agree, as only within {AGREE_PCT:g} % they do; {why}"

    def _line(self, row: Row) -> str:
        return (
            f"{row.name:>6}  {_said(row.cpu_s, '.2f')} s in {_said(row.wall_s, '.2f')} s = "
            f"{_said(row.cores_used, '.2f')} of {_said(self.cores, 'g')} cores, "
            f"{_said(row.measured_pct, '.1f')} % of {self.pool} sandboxes; "
            + (
                f"predicted {row.predicted_pct:.1f} %"
                if row.predicted_pct is not None
                else f"a duty of {_said(row.duty_that_fits, '.4f')} would predict that"
            )
            + (f" ({row.held_pct:.1f} % by the turns in flight)" if row.held_pct is not None else "")
            + (f"; worst worker {row.worst_rss_bytes / 1e6:.1f} MB" if row.worst_rss_bytes is not None else "")
        )


def free_check(ladder: Ladder, *, duty: float | None = None) -> FreeCheck:
    """The check of a ladder; ``duty`` goes for one that recorded none. Raises EvidenceError where there is nothing."""
    if ladder.arm != REALISM:
        raise EvidenceError(
            f"the free check is of a realism ladder, and this is one of the {ladder.arm or 'unknown'} arm"
        )
    if ladder.pool is None:
        raise EvidenceError("the ladder does not say how many sandboxes there were, so nothing can be predicted")
    known = ladder.duty if ladder.duty is not None else duty
    rows = tuple(_row(ladder.settle(rung), ladder.pool, known) for rung in ladder.rungs)
    if all(row.cpu_s is None for row in rows):
        raise EvidenceError(
            "no rung recorded the sandboxes' CPU time; e8.sandbox_cpu_cmd= names a command that tells it"
        )
    name = ladder.measured or ladder.source_title or "an unnamed target"
    return FreeCheck(name, ladder.pool, ladder.cores, known, rows, ladder.source_said)


def _row(rung: Rung, pool: int, duty: float | None) -> Row:
    wall_s, cpu_s = rung.wall_s, rung.sandbox_cpu_s
    sizes = [worker.rss_bytes for worker in rung.workers if worker.rss_bytes is not None]
    return Row(
        name=rung.name,
        c=rung.c,
        cpu_s=cpu_s,
        wall_s=None if wall_s is None else round(wall_s, 3),
        cores_used=round(cpu_s / wall_s, 3) if cpu_s is not None and wall_s else None,
        measured_pct=None if rung.sandbox_util_pct is None else round(rung.sandbox_util_pct, 1),
        predicted_pct=_predicted(rung.c, pool, duty),
        held_pct=_predicted(rung.achieved_c, pool, duty),
        duty_that_fits=round(cpu_s / wall_s / rung.c, 4) if cpu_s is not None and wall_s else None,
        worst_rss_bytes=max(sizes, default=None),
    )


def _predicted(turns: float | None, pool: int, duty: float | None) -> float | None:
    return None if turns is None or duty is None else round(100 * turns * duty / pool, 1)


def _said(value: float | None, form: str) -> str:
    return "?" if value is None else f"{value:{form}}"
