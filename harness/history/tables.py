"""Which runs a question sees, and their tables: each held against the index that says what was made, then loaded.

A table that is absent or torn would read as one without rows: no failures, nothing sent. A run with such a table is
left out whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import EvidenceError
from harness.runs import RunFolder
from harness.store.columns import SOAK
from harness.store.database import DUCKDB_TYPES, native
from harness.store.kinds import tables_of
from harness.store.made import check_run, check_tables, is_of_today, made_again, read_index
from harness.store.schemas import TABLES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TYPES = {**DUCKDB_TYPES, "timestamp": "TIMESTAMP"}
"""Times are read as UTC without a zone: what DuckDB calls a zone needs a further package to come out again."""

WHOLE, DAMAGED, REFUSED, NONE = "whole", "damaged", "refused", "none"

IN_MEMORY_BYTES = 64 * 2**20
"""A table whose files are larger together is scanned where it lies, through Arrow, and not copied into memory."""

Columns = dict[str, set[str]]
"""File → the declared columns it has."""


@dataclass(frozen=True)
class Held:
    """A run as a question sees it.

    ``state``: its tables, those that were asked for, are ``whole`` or ``damaged``, were ``refused`` when they were to
    be made, or there are ``none``; ``reason`` says why they are not whole, in one sentence. ``files``: table → file, a
    table without rows left out. ``outdated``: made to schemas of another version, so that columns may be lacking.
    """

    folder: RunFolder
    state: str
    reason: str | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    outdated: bool = False


def hold(roots: Iterable[Path], names: Sequence[str]) -> list[Held]:
    """Every run once, by name, with its tables ``names`` held against its index; of two of one name the first."""
    folders: dict[str, RunFolder] = {}
    for root in roots:
        folders.setdefault(root.name, RunFolder(root))
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda run: _held(folders[run], names), sorted(folders)))


def _held(folder: RunFolder, names: Sequence[str]) -> Held:
    try:
        index = read_index(folder)
        if index is None:
            if not any(folder.tables.glob("*")):
                return Held(folder, NONE)
            raise EvidenceError(f"nothing says which tables were made (index.json); {made_again(folder)}")
        if index.get("refused") is not None:
            return Held(folder, REFUSED, str(index["refused"]))
        check_run(folder, index.get("run"), folder.tables_index.name)
        made = index.get("tables")
        has = {*tables_of(index.get("kind", SOAK)), *(made if isinstance(made, dict) else ())}
        files = check_tables(folder, made, [name for name in names if name in has])
        return Held(folder, WHOLE, files=files, outdated=not is_of_today(index))
    except (EvidenceError, OSError) as error:
        return Held(folder, DAMAGED, str(error))


def load(connection: DuckDBPyConnection, names: Sequence[str], runs: Sequence[Held]) -> list[Held]:
    """Make the tables ``names`` out of the files of the runs that are whole.

    Returns the runs; one of which a file cannot be read after all is damaged, and not loaded.
    """
    while faults := _load_all(connection, names, [run for run in runs if run.state == WHOLE]):
        runs = [
            replace(run, state=DAMAGED, reason=faults[run.folder], files={}) if run.folder in faults else run
            for run in runs
        ]
    return list(runs)


def _load_all(connection: DuckDBPyConnection, names: Sequence[str], runs: Sequence[Held]) -> dict[RunFolder, str]:
    """Run → why it cannot be loaded; the tables are made where none is at fault.

    Opening a small file is most of the work, and DuckDB opens them one after another: two tables go side by side.
    """

    def made(name: str) -> tuple[Columns, dict[RunFolder, str]]:
        cursor = connection.cursor()
        owners = {str(run.files[name]): run for run in runs if name in run.files}
        files, faults = _columns_of(cursor, name, owners)
        if not faults and _bytes(files) <= IN_MEMORY_BYTES:
            faults = {owners[file].folder: why for file, why in _load(cursor, name, files).items()}
        return files, faults

    with ThreadPoolExecutor(2) as pool:
        tables = dict(zip(names, pool.map(made, names), strict=True))
    faults = {folder: why for _, faults in tables.values() for folder, why in faults.items()}
    for name, (files, _) in tables.items():
        if not faults and _bytes(files) > IN_MEMORY_BYTES:
            _scan(connection, name, files)
    return faults


def declared(table: str) -> dict[str, str]:
    """Column → its type in a question."""
    return {column.name: TYPES[column.type] for column in TABLES[table].columns}


def _bytes(files: Iterable[str]) -> int:
    return sum(Path(file).stat().st_size for file in files)


def _columns_of(
    connection: DuckDBPyConnection, table: str, owners: Mapping[str, Held]
) -> tuple[Columns, dict[RunFolder, str]]:
    """The columns of every file, and why a run's is no such table. Only those of other schemas are looked into."""
    columns = declared(table)
    files = {file: set(columns) for file in owners}
    faults: dict[RunFolder, str] = {}
    for file, run in owners.items():
        if run.outdated:
            seen = _schema(connection, file)
            wrong = [name for name, kind in columns.items() if seen.get(name, kind).split(" WITH")[0] != kind]
            if wrong or "run" not in seen:
                faults[run.folder] = f"{Path(file).name} is of another form than today's; {made_again(run.folder)}"
            files[file] = set(seen) & set(columns)
    return files, faults


def _schema(connection: DuckDBPyConnection, file: str) -> dict[str, str]:
    """Column → its type; nothing where the file is no Parquet."""
    query = "SELECT name, duckdb_type FROM parquet_schema(?) WHERE duckdb_type IS NOT NULL"
    try:
        return dict(connection.execute(query, [file]).fetchall())
    except native().Error:
        return {}


def _load(connection: DuckDBPyConnection, table: str, files: Columns) -> dict[str, str]:
    """Copy the rows of all ``files`` into memory. Returns file → why it cannot be read.

    A column that no file has is NULL throughout: unknown, not zero.
    """
    columns = declared(table)
    present = set().union(*files.values())
    union = any(seen != present for seen in files.values())  # it opens every file a second time
    source = f"read_parquet(?, union_by_name = {union})" if files else "(SELECT 1) WHERE false"
    statement = f'CREATE OR REPLACE TABLE "{table}" AS SELECT {_select(columns, present)} FROM {source}'  # noqa: S608 - names of our own schema
    try:
        connection.execute(statement, [list(files)] if files else [])
    except native().Error:
        faults = {file: why for file, seen in files.items() if (why := _unreadable(connection, table, file, seen))}
        if not faults:
            raise
        return faults
    return {}


def _unreadable(connection: DuckDBPyConnection, table: str, file: str, present: set[str]) -> str | None:
    try:
        connection.execute(f"SELECT {_select(declared(table), present)} FROM read_parquet(?)", [[file]]).fetchall()  # noqa: S608 - names of our own schema
    except native().Error as error:
        folder = RunFolder(Path(file).parents[1])
        return f"{Path(file).name} cannot be read ({str(error).strip().splitlines()[0][:160]}); {made_again(folder)}"
    return None


def _scan(connection: DuckDBPyConnection, table: str, files: Iterable[str]) -> None:
    """Register a lazy Arrow scan: columns and rows are read as the question needs them."""
    import duckdb  # noqa: F401 - gives connections their relations, and those Arrow
    from pyarrow import dataset

    stored = {column.name: DUCKDB_TYPES[column.type] for column in TABLES[table].columns}
    empty = connection.sql(f"SELECT {_select(stored, set())} WHERE false").to_arrow_table()
    connection.register(f"{table}_files", dataset.dataset(list(files), schema=empty.schema, format="parquet"))
    columns = declared(table)
    connection.execute(f'CREATE VIEW "{table}" AS SELECT {_select(columns, set(columns))} FROM "{table}_files"')  # noqa: S608 - our own names


def _select(columns: Mapping[str, str], present: set[str]) -> str:
    return ", ".join(
        f'"{name}"::{kind} AS "{name}"' if name in present else f'NULL::{kind} AS "{name}"'
        for name, kind in columns.items()
    )
