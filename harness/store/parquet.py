"""Rows → one Parquet file, to the table's declared schema, the same bytes for the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.store.columns import Table
from harness.store.schemas import SCHEMA_VERSION

ROWS_PER_GROUP = 50_000

Row = Mapping[str, Any]


def write_table(path: Path, table: Table, rows: Iterable[Row], *, run: str, sources: Mapping[str, str]) -> int:
    """Write ``rows`` (without their ``run`` column) to ``path`` and return how many there were.

    A column that a row lacks is NULL. ``sources`` maps evidence file names to their SHA-256; it stands in the file's
    metadata with the schema version and the run. Raises EvidenceError when a value does not fit its column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(table, run, sources)
    count = 0
    source = iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while True:
            group = list(islice(source, ROWS_PER_GROUP))
            if not group and count:
                return count
            count += len(group)
            columns = [_column(pa, schema.field(name), name, group, run, table) for name in table.names]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            if not group:
                return count


def _schema(table: Table, run: str, sources: Mapping[str, str]) -> Any:
    import pyarrow as pa

    types = {
        "text": pa.string(),
        "int64": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    metadata = {
        "harness.schema_version": str(SCHEMA_VERSION),
        "harness.table": table.name,
        "harness.run": run,
        "harness.sources": json.dumps(dict(sources), sort_keys=True),
    }
    fields = [pa.field(column.name, types[column.type], nullable=not column.required) for column in table.columns]
    return pa.schema(fields, metadata=metadata)


def _column(pa: Any, field: Any, name: str, rows: list[Row], run: str, table: Table) -> Any:
    values = [run] * len(rows) if name == "run" else [row.get(name) for row in rows]
    try:
        array = pa.array(values, type=field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError) as error:
        raise EvidenceError(f"table {table.name}, column {name}: a value does not fit ({str(error)[:120]})") from error
    if array.null_count and not field.nullable:
        raise EvidenceError(f"table {table.name}, column {name}: a row lacks its value")
    return array
