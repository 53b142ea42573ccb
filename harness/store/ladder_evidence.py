"""A ladder as its evidence has it: its record, what contradicts it, and whether a harness left its files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.store.contradictions.ladder import of_ladder
from harness.store.formats import e8
from harness.store.ladder_files import read_ladder_files


@dataclass(frozen=True)
class LadderEvidence:
    """``rows`` are those of the tables of the record, without their run.

    ``proven``: the files stand beside it from which a harness made it, so that it was held against them.
    """

    rows: e8.Rows
    contradiction: str | None
    proven: bool


def read_ladder_evidence(evidence: Path, *, run: str, files: Mapping[str, str]) -> LadderEvidence:
    """The ladder in the evidence of ``run``; ``files`` are those that stand there. Raises EvidenceError."""
    ladder = e8.read_evidence(evidence, run=run, files=files)
    beside = read_ladder_files(evidence, files)
    contradiction = of_ladder(ladder, beside)
    return LadderEvidence(e8.rows(ladder, contradiction), contradiction, beside is not None)
