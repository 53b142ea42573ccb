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
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING

from harness.errors import EvidenceError, UsageError
from harness.gate.load import View, load_views
from harness.history import tables
from harness.history.beside import BESIDE, load_beside
from harness.history.published import FOLDER as PUBLISHED
from harness.runs import RESERVED, RUN_ID
from harness.store.database import connect, native
from harness.store.schemas import TABLES

if TYPE_CHECKING:
    import duckdb
    import pyarrow

LOCK = (
    "SET enable_external_access = false",
    "SET allow_community_extensions = false",
    "SET python_enable_replacements = false",
    "SET lock_configuration = true",
    "BEGIN TRANSACTION READ ONLY",
)

REFUSED = "refused: "
"""What a question begins the text of ``error()`` with when it is not to be answered; a sentence follows."""


@dataclass(frozen=True)
class Database:
    """An open, locked database, and what was left out of it with the reason, one sentence each."""

    connection: duckdb.DuckDBPyConnection
    left_out: list[str]


@contextmanager
def open_database(
    roots: Sequence[Path], sql: str, *, published: Sequence[Path] = (), strict: bool = False
) -> Iterator[Database]:
    """A locked database over the runs in ``roots``: the tables and views that ``sql`` mentions, all tables if none.

    A run of which one of these tables is not what was made is left out of all of them; with ``strict`` EvidenceError is
    raised instead. ``published`` are the files of runs of which only totals are known (see ``published_files``).
    """
    views = load_views()
    wanted = mentioned(sql, views) or {*TABLES, *BESIDE}
    names = [name for name in TABLES if name in wanted]
    connection = connect()
    try:
        connection.execute("SET TimeZone = 'UTC'")
        runs = tables.load(connection, names, tables.hold(roots, names))
        damaged = [run for run in runs if run.state == tables.DAMAGED]
        if strict and damaged:
            raise EvidenceError(str(damaged[0].reason), run=damaged[0].folder.run)
        left_out = _copies(roots, runs) + [f"left out {run.folder.root}: {run.reason}" for run in damaged]
        for name in BESIDE:
            if name in wanted:
                left_out += load_beside(connection, name, runs, published)
        for view in views:
            if view.name is None:
                connection.execute(view.sql)
            elif view.name in wanted:
                connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
        for setting in LOCK:
            connection.execute(setting)
        yield Database(connection, left_out)
    finally:
        connection.close()


def _copies(roots: Sequence[Path], runs: Sequence[tables.Held]) -> list[str]:
    """A sentence for each folder of a run that is there already under the same name: it would count again."""
    kept = {run.folder.run: run.folder.root for run in runs}
    return [
        f"left out {root}: run {root.name} is there already, as {kept[root.name]}"
        for root in roots
        if root != kept[root.name]
    ]


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
        said = _first_line(error)
        _, refuses, why = said.partition(REFUSED)
        raise UsageError(why if refuses else f"the query does not work: {said}") from None


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
    published = [entry for folder in entries if folder.name.lower() == PUBLISHED for entry in _folders(folder)]
    return [entry for entry in entries if entry.name.lower() not in RESERVED] + published


def _folders(folder: Path) -> list[Path]:
    return [entry for entry in sorted(folder.iterdir()) if RUN_ID.fullmatch(entry.name) and entry.is_dir()]


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
