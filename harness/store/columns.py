"""What a table is: columns with a name, a type and a meaning, declared a line each."""

from __future__ import annotations

from dataclasses import dataclass

TYPES = frozenset({"text", "int64", "double", "bool", "timestamp"})
SOAK, LADDER = "soak", "e8"
"""Kinds of runs."""


@dataclass(frozen=True)
class Column:
    """A column: its name, its type (one of ``TYPES``), whether every row has a value, and what it means."""

    name: str
    type: str
    required: bool
    about: str


@dataclass(frozen=True)
class Table:
    """A table: its name, what a row is, its columns, and the kind of run that has it."""

    name: str
    about: str
    columns: tuple[Column, ...]
    kind: str = SOAK

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(column.name for column in self.columns)


def table(name: str, about: str, declared: str, kind: str = SOAK) -> Table:
    """One line per column: ``name type what it means``; a type that ends in ``!`` is never NULL.

    Raises ValueError for a type that there is not.
    """
    columns = [Column("run", "text", True, "the run's id")]
    for line in declared.strip().splitlines():
        column, typed, *meaning = line.split(maxsplit=2)
        columns.append(Column(column, typed.rstrip("!"), typed.endswith("!"), "".join(meaning)))
    if unknown := {column.type for column in columns} - TYPES:
        raise ValueError(f"table {name}: no such type: {', '.join(sorted(unknown))}")
    return Table(name, about, tuple(columns), kind)
