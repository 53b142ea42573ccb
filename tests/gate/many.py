"""Many damaged runs, from evidence to verdict as the stages do it, graded together."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from harness.errors import EvidenceError
from harness.gate import Verdict
from harness.gate.run import files_in, grade_many
from harness.store.ingest import build_tables

TOGETHER = 128
About = TypeVar("About")


class Many(Generic[About]):
    """Takes runs one by one and gives back each with its verdict. ``about`` is whatever tells the caller which it is.

    A refusal must be one line. Any other exception than a refusal goes through: it is what a test here looks for.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._waiting: list[tuple[About, Path]] = []
        self._number = 0

    def take(self, about: About, files: Mapping[str, bytes]) -> Iterator[tuple[About, Verdict]]:
        """Make the run's tables. Gives the verdicts of all that wait when enough do, or one refusal at once."""
        self._number += 1
        folder = self._scratch / f"run-{self._number}"
        (folder / "evidence").mkdir(parents=True)
        for name, content in files.items():
            (folder / "evidence" / name).write_bytes(content)
        try:
            build_tables(folder / "evidence", folder / "tables", run=folder.name)
        except EvidenceError as error:
            assert str(error).splitlines() == [str(error)], f"{about}: a refusal is one line: {error!r}"
            shutil.rmtree(folder)
            yield about, Verdict.refused(folder.name, str(error))
        else:
            self._waiting.append((about, folder))
        if len(self._waiting) == TOGETHER:
            yield from self.rest()

    def rest(self) -> Iterator[tuple[About, Verdict]]:
        """The verdicts of all that wait."""
        waiting, self._waiting = self._waiting, []
        verdicts = grade_many([files_in(folder / "tables") for _, folder in waiting])
        for (about, folder), found in zip(waiting, verdicts, strict=True):
            refused = isinstance(found, EvidenceError)
            yield about, Verdict.refused(folder.name, str(found)) if refused else found
            shutil.rmtree(folder)
