"""What the tables of a ladder say, and what stands in files beside them. A ladder without tables has no facts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from harness.e8.questions import NOTHING, Answers, ask, database, ladder_in, load_files
from harness.e8.record import Ladder, Rung
from harness.errors import EvidenceError
from harness.history.tables import DAMAGED, WHOLE, hold
from harness.runs import RunFolder
from harness.store.columns import LADDER
from harness.store.kinds import tables_of
from harness.store.ladder_files import FAULTS_FILE
from harness.store.made import check_run

MOST_FAULTS = 1000


@dataclass(frozen=True)
class Facts:
    """A ladder with its rungs, worked out and in order, and what the SQL says of its levels.

    ``ladder`` is None where there are no tables; ``note`` says why those that are there were not read.
    """

    ladder: Ladder | None
    rungs: tuple[Rung, ...] = ()
    answers: Answers = NOTHING
    note: str | None = None

    @property
    def p95_bound_ms(self) -> float | None:
        """Over it a level is no longer healthy; None where no c=1 stands that it could be a multiple of."""
        return self.answers.walk[0]["p95_bound_ms"] if self.answers.walk else None

    def level(self, c: int | None) -> dict[str, Any]:
        """What all repeats of one concurrency come to; nothing where it was not measured."""
        return next((level for level in self.answers.levels if level["c"] == c), {})


def read_facts(folder: RunFolder, *, refused: bool = False) -> Facts:
    """The ladder of a run.

    Raises EvidenceError when a table is not what was made. A run that was ``refused`` has nothing to be believed in, so
    that its page says why, and no number.
    """
    try:
        return _read(folder)
    except EvidenceError as error:
        if not refused:
            raise
        return Facts(None, note=error.message)


def _read(folder: RunFolder) -> Facts:
    (held,) = hold([folder.root], list(tables_of(LADDER)))
    if held.state == DAMAGED:
        raise EvidenceError(str(held.reason), run=folder.run)
    if held.state != WHOLE:
        return Facts(None, note=held.reason)
    with database() as connection:
        load_files(connection, held.files)
        run, ladder = ladder_in(connection)
        check_run(folder, run, "tables")
        answers = ask(connection).get(run, NOTHING)
    rungs = sorted(map(ladder.settle, ladder.rungs), key=lambda rung: (rung.c, rung.repeat))
    return Facts(ladder, tuple(rungs), answers)


@dataclass(frozen=True)
class Fault:
    """Something that was injected: when, at which rung, what was asked for, what was done."""

    at: str
    rung: str
    fault: str
    did: str


def read_faults(folder: RunFolder) -> tuple[list[Fault], int]:
    """What was injected, from the evidence, else as it stands; and how many lines of it could not be read."""
    path = next((p for place in (folder.evidence, folder.live) if (p := place / FAULTS_FILE).is_file()), None)
    if path is None:
        return [], 0
    lines = path.read_bytes().splitlines()[:MOST_FAULTS]
    faults = [fault for one in lines if (fault := _fault(one)) is not None]
    return faults, len(lines) - len(faults)


def _fault(text: bytes) -> Fault | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    return Fault(*(str(document.get(key) or "–") for key in ("at", "rung", "fault", "did")))
