"""Turns and polls held against the evidence, row by row: the record's tables are held where a ladder is graded."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from harness.errors import EvidenceError
from harness.runs import RunFolder
from harness.store import ladder_files
from harness.store.database import connect, load_table
from harness.store.made import check_tables, made_again, read_index
from harness.store.parquet import Row
from harness.store.schemas import TABLES
from harness.store.sums import read_sums


def hold_rows(folder: RunFolder) -> None:
    """Raise EvidenceError where the tables of turns or polls hold other rows than the files that they were made from.

    Of a ladder. A run without tables, or whose evidence could make none, is left to the grading.
    """
    index = read_index(folder)
    if index is None or index.get("refused") is not None:
        return
    read = {"turns": ladder_files.turn_rows, "polls": ladder_files.poll_rows}
    try:
        tables, files = check_tables(folder, index.get("tables"), read), read_sums(folder.sums)
    except EvidenceError:  # by its digest: the grading says so, and keeps the verdict
        return
    with connect() as connection:
        for name, rows_of in read.items():
            columns = [column for column in TABLES[name].names if column != "run"]
            load_table(connection, name, [tables[name]])
            listed = ", ".join(f'"{column}"' for column in columns)
            held = connection.execute(f"SELECT {listed} FROM {name}").fetchall()  # noqa: S608 - our own names
            if any(one != other for one, other in zip_longest(held, _tuples(rows_of(folder.evidence, files), columns))):
                raise EvidenceError(
                    f"{name}.parquet is not what was made from the evidence; {made_again(folder)}", run=folder.run
                )


def _tuples(rows: Iterable[Row], columns: list[str]) -> Iterable[tuple[object, ...]]:
    return (tuple(row.get(column) for column in columns) for row in rows)
