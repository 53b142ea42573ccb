"""Tables of runs in DuckDB: in memory, two threads, explicit files and explicit columns.

A glob lets the first file decide on columns and types in silence; here every file is named and every column asked
for. duckdb is imported where it is used, pyarrow not at all.

What is imported is duckdb's native module, ``_duckdb``, which does all that SQL needs in 30 ms; the package around it
takes 150 ms more for a relational API and for asking its own version. A test holds that both are one and the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from harness.errors import EvidenceError
from harness.store.schemas import TABLES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def native() -> ModuleType:
    """duckdb's native module: ``connect``, and the exceptions."""
    import _duckdb

    return _duckdb


def connect() -> DuckDBPyConnection:
    """An empty database in memory that installs and loads no extension, spills nothing to disk and stays bounded."""
    return native().connect(  # type: ignore[no-any-return]
        ":memory:",
        config={
            "threads": 2,
            "memory_limit": "4GB",
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )


def load_table(
    connection: DuckDBPyConnection,
    name: str,
    files: Sequence[Path],
    *,
    without: Sequence[str] = (),
    only: Sequence[str] = (),
) -> None:
    """Copy a table's rows out of all ``files`` into memory, but for the columns ``without``; no file, no row.

    ``only``: of these runs alone.

    Raises EvidenceError naming a file that is absent or damaged.
    """
    if absent := [path for path in files if not path.is_file()]:
        raise EvidenceError(f"{absent[0].name} is not among the tables; make them again from the evidence")
    columns = ", ".join(f'"{column}"' for column in TABLES[name].names if column not in without)
    source = "read_parquet($1)" if files else f"({_empty(name)})"
    where = "WHERE run IN (SELECT unnest($2::VARCHAR[]))" if only else ""
    parameters: list[object] = [[str(path) for path in files]] if files else []
    try:
        connection.execute(
            f"CREATE TABLE {name} AS SELECT {columns} FROM {source} {where}",  # noqa: S608 - our own names
            [*parameters, list(only)] if only else parameters,
        )
    except native().Error as error:
        reason = str(error).splitlines()[0][:160]
        raise EvidenceError(f"{name}.parquet cannot be read ({reason}); make the tables again") from error


def create_views(connection: DuckDBPyConnection, folders: Sequence[Path]) -> None:
    """One view per table over the runs whose table folders are given; a run that lacks a table is left out of it.

    A table that no run has is a view without rows. Raises EvidenceError when a file cannot be read.
    """
    for name in TABLES:
        paths = [path for folder in folders if (path := folder / f"{name}.parquet").is_file()]
        source = f"read_parquet([{', '.join(map(_literal, paths))}])" if paths else f"({_empty(name)})"
        try:
            connection.execute(f"CREATE VIEW {name} AS SELECT {_columns(name)} FROM {source}")  # noqa: S608 - paths quoted
        except native().Error as error:
            raise EvidenceError(f"table {name} cannot be read ({str(error).splitlines()[0][:160]})") from error


DUCKDB_TYPES: Mapping[str, str] = {
    "text": "VARCHAR",
    "int64": "BIGINT",
    "double": "DOUBLE",
    "bool": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ",
}


def _columns(table: str) -> str:
    return ", ".join(f'"{name}"' for name in TABLES[table].names)


def _empty(table: str) -> str:
    columns = (f'NULL::{DUCKDB_TYPES[column.type]} AS "{column.name}"' for column in TABLES[table].columns)
    return f"SELECT {', '.join(columns)} WHERE false"


def _literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
