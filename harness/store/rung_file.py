"""The table of one rung, on disk as soon as the rung is over: a ladder can be looked at while it is climbed."""

from __future__ import annotations

import os
from pathlib import Path

from harness.e8.record import Ladder, Rung
from harness.files import fsync_folder
from harness.store.formats.e8 import rows
from harness.store.parquet import write_table
from harness.store.schemas import TABLES


def write_rung(path: Path, rung: Rung, *, run: str) -> None:
    """Write the rung's row, in the schema of table ``rungs``, whole or not at all. Raises OSError."""
    unfinished = path.with_name(f".{path.name}.tmp")
    write_table(unfinished, TABLES["rungs"], rows(Ladder(rungs=(rung,)))["rungs"], run=run, sources={})
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.replace(path)
    fsync_folder(path.parent)
