"""SQL over the tables of all runs, read-only in earnest.

The tables a question names are taken into an in-memory database from an explicit list of files with an explicit list
of columns; then every door is shut: no file, no extension, no other database, and no setting that could open one.
A folder is not left open for reading, because DuckDB 2.0.1 runs ``WITH x AS (COPY … TO 'file')`` inside a SELECT, in a
read-only transaction too, and a folder it may read is a folder that could be written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.gate.load import View, load_views
from harness.history.beside import BESIDE, load_beside
from harness.runs import RESERVED, RUN_ID
from harness.store.database import DUCKDB_TYPES, connect, native
from harness.store.schemas import TABLES

if TYPE_CHECKING:
    import duckdb
    import pyarrow

TYPES = {**DUCKDB_TYPES, "timestamp": "TIMESTAMP"}
"""Times are read as UTC without a zone: what DuckDB calls a zone needs a further package to come out again."""

Files = dict[str, set[str]]
"""File → the declared columns it has."""

IN_MEMORY_BYTES = 64 * 2**20
"""A table whose files are larger together is scanned where it lies, through Arrow, and not copied into memory."""

LOCK = (
    "SET enable_external_access = false",
    "SET allow_community_extensions = false",
    "SET python_enable_replacements = false",
    "SET lock_configuration = true",
    "BEGIN TRANSACTION READ ONLY",
)


@dataclass
class Database:
    """An open, locked database, and the files that were left out of it with the reason, one sentence each."""

    connection: duckdb.DuckDBPyConnection
    quarantined: list[str] = field(default_factory=list)


@contextmanager
def open_database(roots: Sequence[Path], sql: str, *, published: Sequence[Path] = ()) -> Iterator[Database]:
    """A locked database over the runs in ``roots``: the tables and views that ``sql`` mentions, all tables if none.

    ``published`` are the files of runs of which only totals are known (see ``published_files``).
    """
    views = load_views()
    wanted = mentioned(sql, views) or {*TABLES, *BESIDE}
    connection = connect()
    try:
        connection.execute("SET TimeZone = 'UTC'")
        database = Database(connection)
        roots = _distinct(database, roots)
        database.quarantined += _take_in(connection, [name for name in TABLES if name in wanted], roots)
        for name in BESIDE:
            if name in wanted:
                database.quarantined += load_beside(connection, name, roots, published)
        for view in views:
            if view.name is None:
                connection.execute(view.sql)
            elif view.name in wanted:
                connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
        for setting in LOCK:
            connection.execute(setting)
        yield database
    finally:
        connection.close()


def ask(
    database: Database, sql: str, parameters: Mapping[str, object] | None = None, *, timeout_s: float | None = None
) -> tuple[list[str], list[tuple[object, ...]]]:
    """Column names and rows of one SELECT. Raises UsageError for anything else and for SQL that does not work.

    After ``timeout_s`` it is stopped, and UsageError raised; None has no limit. DuckDB looks between two batches of
    rows, so that one call of a function that takes long by itself ends first.
    """
    with _in_a_sentence(), _stopped_after(database, timeout_s):
        _check_select(database, sql)
        cursor = database.connection.execute(sql, dict(parameters or {}))
        return [column[0] for column in cursor.description or []], cursor.fetchall()


def ask_arrow(
    database: Database, sql: str, parameters: Mapping[str, object] | None = None, *, timeout_s: float | None = None
) -> pyarrow.Table:
    """``ask``, as an Arrow table."""
    import duckdb  # noqa: F401 - gives connections their relations, and those Arrow

    with _in_a_sentence(), _stopped_after(database, timeout_s):
        _check_select(database, sql)
        return database.connection.sql(sql, params=dict(parameters or {})).to_arrow_table()


def _check_select(database: Database, sql: str) -> None:
    if not _is_text(sql):
        raise UsageError("the question is not UTF-8 text; ask it again without the bytes that are no characters")
    try:
        kinds = [statement.type for statement in database.connection.extract_statements(sql)]
    except ValueError:  # a statement so new that the client has no name for its kind
        kinds = []
    if kinds != [native().StatementType.SELECT]:
        raise UsageError("only one SELECT can be asked here: nothing is changed, written, attached or installed")


def _is_text(sql: str) -> bool:
    """False where an argument held bytes that are no UTF-8: Python carries each as half a surrogate pair."""
    return not any("\ud800" <= character <= "\udfff" for character in sql)


@contextmanager
def _stopped_after(database: Database, timeout_s: float | None) -> Iterator[None]:
    if timeout_s is None:
        yield
        return
    timer = Timer(timeout_s, database.connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except native().InterruptException:
        raise UsageError(
            f"the question took longer than {timeout_s:g} s and was stopped; ask for less, or allow more time with "
            "--timeout-s"
        ) from None
    finally:
        timer.cancel()


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    try:
        yield
    except native().PermissionException as error:
        raise UsageError(f"only the runs' own tables can be read here: {_first_line(error)}") from None
    except native().Error as error:
        raise UsageError(f"the query does not work: {_first_line(error)}") from None


def mentioned(sql: str, views: Sequence[View]) -> set[str]:
    """The tables and views that a text names, with all that those views stand on."""
    texts = {view.name: view.sql for view in views if view.name is not None}
    found: set[str] = set()
    todo = [sql]
    while todo:
        text = todo.pop()
        for name in {*TABLES, *texts, *BESIDE} - found:
            if re.search(rf"\b{name}\b", text, re.IGNORECASE):
                found.add(name)
                todo.append(texts.get(name, ""))
    return found


def run_roots(runs_folder: Path) -> list[Path]:
    """The folders of all runs, those kept whole under ``published/`` included, sorted by name."""
    if not runs_folder.is_dir():
        return []
    entries = _folders(runs_folder)
    published = [entry for folder in entries if folder.name.lower() in RESERVED for entry in _folders(folder)]
    return [entry for entry in entries if entry.name.lower() not in RESERVED] + published


def _folders(folder: Path) -> list[Path]:
    return [entry for entry in sorted(folder.iterdir()) if RUN_ID.fullmatch(entry.name) and entry.is_dir()]


def _distinct(database: Database, roots: Sequence[Path]) -> list[Path]:
    """The folders without copies of a run that is there already: joined by its id, each copy would count again.

    A run's id is what its ``runs`` table was written for; the folder that bears that name is the run.
    """
    files = {str(path): root for root in roots if _has_magic(path := root / "tables" / "runs.parquet")}
    ids = {root: root.name for root in roots}
    ids |= {files[file]: run for file, run in _run_ids(database.connection, list(files)).items()}
    kept: dict[str, Path] = {}
    for root in sorted(roots, key=lambda root: (ids[root] != root.name, root.name)):
        if kept.setdefault(ids[root], root) is not root:
            database.quarantined.append(f"left out {root}: run {ids[root]} is there already, as {kept[ids[root]]}")
    return sorted(kept.values(), key=lambda root: root.name)


def _run_ids(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> dict[str, str]:
    """File → the run in its metadata; a file that cannot be read has none."""
    query = "SELECT file_name, decode(value) FROM parquet_kv_metadata(?) WHERE decode(key) = 'harness.run'"
    try:
        return dict(connection.execute(query, [list(files)]).fetchall()) if files else {}
    except native().Error:
        if len(files) == 1:
            return {}
        return {file: run for single in files for file, run in _run_ids(connection, [single]).items()}


def _take_in(connection: duckdb.DuckDBPyConnection, names: Sequence[str], roots: Sequence[Path]) -> list[str]:
    """Make the tables out of the files of all roots. Returns a sentence for each file that was left out.

    Opening a small file is most of the work, and DuckDB opens them one after another: two tables go side by side.
    """
    from concurrent.futures import ThreadPoolExecutor

    def taken(name: str) -> tuple[Files, list[str]]:
        cursor = connection.cursor()
        files, left_out = _whole(cursor, [root / "tables" / f"{name}.parquet" for root in roots], _columns_of(name))
        if _bytes(files) <= IN_MEMORY_BYTES:
            left_out += _load(cursor, name, _columns_of(name), files)
        return files, left_out

    sentences: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        for name, (files, left_out) in zip(names, pool.map(taken, names), strict=True):
            sentences += left_out
            if _bytes(files) > IN_MEMORY_BYTES:
                _scan(connection, name, _columns_of(name), files)
    return sentences


def _columns_of(table: str) -> dict[str, str]:
    return {column.name: TYPES[column.type] for column in TABLES[table].columns}


def _bytes(files: Files) -> int:
    return sum(Path(file).stat().st_size for file in files)


def _whole(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], columns: Mapping[str, str]
) -> tuple[Files, list[str]]:
    """The files that can be read, and a sentence for each that is torn or is no table of ours."""
    files = [path for path in paths if path.is_file()]
    found: dict[str, dict[str, str]] = {}
    try:
        found = _schemas_of(connection, [str(path) for path in files if _has_magic(path)])
    except native().Error:
        for path in filter(_has_magic, files):
            try:
                found |= _schemas_of(connection, [str(path)])
            except native().Error:
                continue
    whole: Files = {}
    left_out = []
    for path in files:
        seen = found.get(str(path))
        if seen is None:
            left_out.append(f"left out {path}: it is torn or is not Parquet")
        elif "run" not in seen:
            left_out.append(f"left out {path}: it is not a table of a run (no column run)")
        elif wrong := [name for name, kind in columns.items() if seen.get(name, kind).split(" WITH")[0] != kind]:
            left_out.append(
                f"left out {path}: column {wrong[0]} is {seen[wrong[0]]}, and {columns[wrong[0]]} was declared"
            )
        else:
            whole[str(path)] = set(seen) & set(columns)
    return whole, left_out


def _schemas_of(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> dict[str, dict[str, str]]:
    if not files:
        return {}
    rows = connection.execute(
        "SELECT file_name, name, duckdb_type FROM parquet_schema(?) WHERE duckdb_type IS NOT NULL", [list(files)]
    ).fetchall()
    found: dict[str, dict[str, str]] = {file: {} for file in files}
    for file, name, kind in rows:
        found[file][name] = kind
    return found


def _has_magic(path: Path) -> bool:
    """A file that was written to its end begins and ends with PAR1; this costs two small reads."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(4)
        size = file.seek(0, 2)
        file.seek(max(size - 4, 0))
        return head == b"PAR1" == file.read(4) and size > 12


def _load(connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, str], files: Files) -> list[str]:
    """Make ``table`` out of ``files``; a sentence for each that cannot be read.

    A column that no file has is NULL throughout: unknown, not zero.
    """
    present = set().union(*files.values())
    union = any(seen != present for seen in files.values())  # it opens every file a second time
    select = _select(columns, present)
    try:
        source = f"read_parquet(?, union_by_name = {union})" if files else "(SELECT 1) WHERE false"
        statement = f'CREATE TABLE "{table}" AS SELECT {select} FROM {source}'  # noqa: S608 - names of our own schema
        connection.execute(statement, [list(files)] if files else [])
    except native().Error:
        sound: Files = {}
        left_out = []
        for file, seen in files.items():
            try:
                connection.execute(f"SELECT {_select(columns, seen)} FROM read_parquet(?)", [[file]]).fetchall()  # noqa: S608 - names of our own schema
                sound[file] = seen
            except native().Error as error:
                left_out.append(f"left out {file}: {_first_line(error)}")
        if len(sound) == len(files):
            raise
        return left_out + _load(connection, table, columns, sound)
    return []


def _scan(connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, str], files: Files) -> None:
    """Register a lazy Arrow scan: columns and rows are read as the question needs them."""
    import duckdb  # noqa: F401 - gives connections their relations, and those Arrow
    from pyarrow import dataset

    stored = {column.name: DUCKDB_TYPES[column.type] for column in TABLES[table].columns}
    empty = connection.sql(f"SELECT {_select(stored, set())} WHERE false").to_arrow_table()
    connection.register(f"{table}_files", dataset.dataset(list(files), schema=empty.schema, format="parquet"))
    connection.execute(f'CREATE VIEW "{table}" AS SELECT {_select(columns, set(columns))} FROM "{table}_files"')  # noqa: S608 - our own names


def _select(columns: Mapping[str, str], present: set[str]) -> str:
    return ", ".join(
        f'"{name}"::{kind} AS "{name}"' if name in present else f'NULL::{kind} AS "{name}"'
        for name, kind in columns.items()
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
