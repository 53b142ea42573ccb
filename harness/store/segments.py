"""Tables of many runs in one file each: a copy that spares opening a dozen small files per run.

A run's own tables are the truth and a segment is a cache of them. It may be deleted at any time, and is used for a run
only while the run's index of tables is byte for byte the one that the segment was made beside.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from harness.files import fsync_folder, read_json, sha256_file, write_json
from harness.store.columns import SOAK
from harness.store.schemas import SCHEMA_VERSION, schema_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FOLDER = ".segments"
MANIFEST = "manifest.json"
SCHEMA = 1


@dataclass(frozen=True)
class Segment:
    """``runs``: run → SHA-256 of the index of its tables. ``tables``: table → SHA-256 of the segment's file."""

    root: Path
    runs: Mapping[str, str]
    tables: Mapping[str, str]

    def file(self, table: str) -> Path:
        """The file of a table."""
        return self.root / f"{table}.parquet"

    def is_whole(self) -> bool:
        """True when every file is the one that was written."""
        with suppress(OSError):
            return all(sha256_file(self.file(table)) == digest for table, digest in self.tables.items())
        return False

    def drop(self) -> None:
        """Remove it: what it holds stands in the runs' own tables."""
        shutil.rmtree(self.root, ignore_errors=True)


def read_segments(runs: Path) -> list[Segment]:
    """The segments beside the runs in a folder; what is none, or of other schemas, is passed over."""
    found = []
    for manifest in sorted((runs / FOLDER).glob(f"*/{MANIFEST}")):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            document = read_json(manifest)
            if (document["schema"], document["schema_sha256"]) == (SCHEMA, schema_of(SOAK)):
                found.append(Segment(manifest.parent, dict(document["runs"]), dict(document["tables"])))
    return found


def write_segment(connection: DuckDBPyConnection, runs: Path, of: Mapping[str, str], tables: Iterable[str]) -> None:
    """Write what a connection holds of the runs ``of`` (run → SHA-256 of its index) as a segment, whole or not at all.

    Raises OSError when the disk is full, and then leaves nothing behind.
    """
    import _duckdb

    staging = runs / FOLDER / f".{uuid4().hex}"
    staging.mkdir(parents=True)
    try:
        segment = Segment(staging, of, {})
        for table in tables:
            connection.execute(f"COPY {table} TO '{_quoted(segment.file(table))}' (FORMAT parquet)")
        digests = {table: sha256_file(segment.file(table)) for table in tables}
        about = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "schema_sha256": schema_of(SOAK)}
        write_json(staging / MANIFEST, about | {"runs": dict(of), "tables": digests})
        staging.rename(staging.with_name(staging.name[1:]))
        fsync_folder(staging.parent)
    except _duckdb.Error as error:
        shutil.rmtree(staging, ignore_errors=True)
        raise OSError(f"{staging.parent} cannot be written: {str(error).splitlines()[0]}") from error
    except OSError:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
