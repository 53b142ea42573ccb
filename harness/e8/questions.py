"""Asks the SQL of ``sql/e8`` over the tables of ladders, of one or of many at once: levels, knee, suspects.

Each file makes one table out of those before it, set-based by run; its numbers are bound from ``harness.e8.arms``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.e8.arms import MISSES, THRESHOLDS
from harness.e8.record import Ladder
from harness.e8.rung_rules import generator_bound
from harness.e8.turns import RUNG_DEADLINE
from harness.errors import EvidenceError, HarnessError
from harness.sqlfiles import sql_files
from harness.store.database import DUCKDB_TYPES, connect, load_table, native
from harness.store.formats.e8 import RECORD_TABLES, from_rows, rows
from harness.store.readers import one_line
from harness.store.schemas import TABLES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PARAMETERS: Mapping[str, float | str] = {
    **{name: each.value for name, each in THRESHOLDS.items()},
    "misses": MISSES,
    "rung_deadline": RUNG_DEADLINE,
}
NAMED = re.compile(r"\$([a-z0-9_]+)")
LEAN = ("SET threads = 1", "PRAGMA disable_optimizer")
"""For one ladder: on a few dozen rows, planning a query well takes longer than running it."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Suspect:
    """One way to be convicted: what was measured of a tier against its threshold, at which c.

    ``ratio`` is the share of the threshold that was reached; None: not measured, so that the tier is not cleared.
    """

    bound: str
    what: str
    measured: float | None
    threshold: float | None
    c: int | None
    ratio: float | None
    convicts: bool


@dataclass(frozen=True)
class Answers:
    """What the SQL says of one ladder. ``knee`` is None where no level of c=1 stands, so that nothing can be said."""

    levels: tuple[Row, ...]
    walk: tuple[Row, ...]
    knee: Row | None
    worker_cpu: Row
    suspects: tuple[Suspect, ...]


NOTHING = Answers((), (), None, {}, ())


@contextmanager
def database(*, lean: bool = True) -> Iterator[DuckDBPyConnection]:
    """An empty database in memory, for one ladder (``lean``) or for many."""
    connection = connect()
    try:
        for setting in LEAN if lean else ():
            connection.execute(setting)
        connection.execute("BEGIN")
        yield connection
    finally:
        connection.close()


def load_files(connection: DuckDBPyConnection, files: Mapping[str, Path]) -> None:
    """A ladder's record, from its Parquet files. Raises EvidenceError naming one that cannot be read."""
    for name in RECORD_TABLES:
        load_table(connection, name, [files[name]] if name in files else [])


def tell_client_bound(connection: DuckDBPyConnection, ladders: Mapping[str, Ladder]) -> None:
    """The rungs that measured their generator, as a table: what is one, a rule says and not the SQL."""
    connection.execute("CREATE TABLE client_bound_rungs (run VARCHAR, c BIGINT)")
    found = [(run, rung.c) for run, ladder in ladders.items() for rung in ladder.rungs if generator_bound(ladder, rung)]
    if found:
        runs, rungs = map(list, zip(*found, strict=True))
        connection.execute(
            "INSERT INTO client_bound_rungs SELECT unnest(?::VARCHAR[]), unnest(?::BIGINT[])", [runs, rungs]
        )


def load_ladders(connection: DuckDBPyConnection, ladders: Mapping[str, Ladder]) -> None:
    """The tables of ladders that are in memory, run → ladder."""
    made: dict[str, list[Row]] = {name: [] for name in RECORD_TABLES}
    for run, ladder in ladders.items():
        for name, of_one in rows(ladder).items():
            made[name] += [{"run": run, **row} for row in of_one]
    for name in RECORD_TABLES:
        table = TABLES[name]
        columns = ", ".join(f'"{column.name}" {DUCKDB_TYPES[column.type]}' for column in table.columns)
        connection.execute(f"CREATE TABLE {name} ({columns})")
        if made[name]:
            lists = ", ".join(f"unnest(?::{DUCKDB_TYPES[column.type]}[])" for column in table.columns)
            values = [[row.get(column.name) for row in made[name]] for column in table.columns]
            connection.execute(f"INSERT INTO {name} SELECT {lists}", values)
    tell_client_bound(connection, ladders)


def hold_against(connection: DuckDBPyConnection, run: str, made: Mapping[str, Sequence[Row]]) -> None:
    """Raise EvidenceError unless the tables of the record hold these rows and no other.

    Where the evidence contradicts itself is found anew at each grading, so what the table says of it decides nothing.
    """
    for name in RECORD_TABLES:
        names = [column for column in TABLES[name].names if column != "contradiction"]
        columns = ", ".join(f'"{column}"' for column in names)
        held = connection.execute(f"SELECT {columns} FROM {name}").fetchall()  # noqa: S608 - our own names
        if Counter(held) != Counter(tuple((row | {"run": run}).get(column) for column in names) for row in made[name]):
            raise EvidenceError(f"{name}.parquet does not hold what the evidence comes to; make the tables again")


def ladder_in(connection: DuckDBPyConnection) -> tuple[str, Ladder]:
    """The run and the ladder of a database that holds one, whose client-bound rungs are told to it.

    Raises EvidenceError where it holds none, or more.
    """
    tables = {name: _fetch(connection, f"SELECT * FROM {name}") for name in RECORD_TABLES}  # noqa: S608 - our own
    runs = {row["run"] for of_one in tables.values() for row in of_one}
    if len(runs) != 1 or len(tables["ladders"]) != 1:
        raise EvidenceError("the tables do not hold one ladder; make them again")
    run, ladder = runs.pop(), from_rows(tables)
    tell_client_bound(connection, {run: ladder})
    return run, ladder


def ask(connection: DuckDBPyConnection) -> dict[str, Answers]:
    """Run → answers, of every ladder in the database. Raises EvidenceError where a value cannot be worked with."""
    found: dict[str, dict[str, list[Row]]] = {}
    for path in sql_files("e8"):
        name = path.stem.partition("_")[2]
        text = path.read_text(encoding="utf-8")
        bound = {key: PARAMETERS[key] for key in NAMED.findall(text)}
        _execute(connection, f"CREATE TABLE {name} AS\n{text}", bound, path)
        for row in _fetch(connection, f"SELECT * FROM {name}"):  # noqa: S608 - a file of ours
            found.setdefault(row.pop("run"), {}).setdefault(name, []).append(row)
    return {run: _answers(tables) for run, tables in found.items()}


def ask_of(ladder: Ladder) -> Answers:
    """The answers for one ladder that is in memory."""
    with database() as connection:
        load_ladders(connection, {"": ladder})
        return ask(connection).get("", NOTHING)


def _answers(tables: Mapping[str, Sequence[Row]]) -> Answers:
    def sorted_by(name: str, key: str) -> Iterable[Row]:
        return sorted(tables.get(name, ()), key=lambda row: int(row[key]))

    suspects = [
        Suspect(**{key: value for key, value in row.items() if key not in ("place", "run")})
        for row in sorted_by("suspects", "place")
    ]
    return Answers(
        levels=tuple(sorted_by("levels", "c")),
        walk=tuple(sorted_by("walk", "c")),
        knee=next(iter(tables.get("knees", ())), None),
        worker_cpu=next(iter(tables.get("worker_cpu", ())), {}),
        suspects=tuple(suspects),
    )


def _fetch(connection: DuckDBPyConnection, sql: str) -> list[Row]:
    cursor = connection.execute(sql)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]


def _execute(connection: DuckDBPyConnection, sql: str, bound: Mapping[str, float | str], path: Path) -> None:
    errors = native()
    try:
        connection.execute(sql, dict(bound))
    except (errors.ParserException, errors.BinderException, errors.CatalogException) as error:
        raise HarnessError(f"{path.name} is not SQL that runs ({one_line(str(error))[:300]})") from error
    except errors.Error as error:
        reason = one_line(str(error))[:200]
        raise EvidenceError(f"the tables cannot be graded ({path.name}: {reason}); make them again") from error
