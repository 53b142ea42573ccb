"""Tables beside the Parquet ones, read from documents: verdicts, settings, and what others published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.history.inventory import newest_verdict, run_settings
from harness.history.published import Published, read_published
from harness.runs import RunFolder

if TYPE_CHECKING:
    import duckdb

BESIDE = {
    "verdicts": "The newest grading of each run; counts are NULL where it was refused.",
    "settings": "The settings each run was made with, a row per key; a run with a fault was a drill.",
    "published": "Runs that others published, totals only, with the source; NULL is what the source does not say.",
}
"""Each table's name, and what it holds."""

COUNTS = ("targets", "passed", "failed", "not_run", "backends", "lost_backends")

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "verdicts": {
        **dict.fromkeys(("run", "graded_at", "verdict", "reason"), "VARCHAR"),
        **dict.fromkeys(COUNTS, "BIGINT"),
        "gate_sha256": "VARCHAR",
    },
    "settings": dict.fromkeys(("run", "key", "value"), "VARCHAR"),
    "published": {
        **dict.fromkeys(("run", "title", "found_in", "kind", "profile"), "VARCHAR"),
        **dict.fromkeys(("duration_s", "backends", "rate_rps"), "BIGINT"),
        "shares": "VARCHAR",
        **dict.fromkeys(("rolls", "planned", "sent", "http_2xx"), "BIGINT"),
        "failures": "VARCHAR",
        "lost_backends": "BIGINT",
        **dict.fromkeys(("worst_p50_ms", "worst_p99_ms", "worst_max_ms"), "DOUBLE"),
        **dict.fromkeys(("dispatched", "ended"), "TIMESTAMP"),
        **dict.fromkeys(("verdict", "unknown"), "VARCHAR"),
    },
}

Rows = list[list[object]]


def load_beside(
    connection: duckdb.DuckDBPyConnection, table: str, roots: Sequence[Path], published: Sequence[Path]
) -> list[str]:
    """Make one table of ``BESIDE``. Returns a sentence for each file that was left out of it."""
    columns = COLUMNS[table]
    connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns.items())})")
    left_out: list[str] = []
    if table == "verdicts":
        rows = _verdicts(roots)
    elif table == "settings":
        rows = _settings(roots)
    else:
        rows = _published(published, {root.name for root in roots}, left_out)
    if rows:  # a list per column: row by row, a thousand runs would take seconds
        lists = ", ".join(f"unnest(?::{kind}[])" for kind in columns.values())
        connection.execute(f"INSERT INTO {table} SELECT {lists}", [list(column) for column in zip(*rows, strict=True)])
    return left_out


def _verdicts(roots: Sequence[Path]) -> Rows:
    """A row per run that was graded."""
    rows: Rows = []
    for root in roots:
        document = newest_verdict(RunFolder(root))
        if document is not None:
            counts = document.get("counts") or {}
            numbers = [counts.get(key) for key in COUNTS]
            texts = [document.get(key) for key in ("graded_at", "verdict", "reason")]
            rows.append([root.name, *texts, *numbers, document.get("gate_sha256")])
    return rows


def _settings(roots: Sequence[Path]) -> Rows:
    """A row per run and key, values as text; none for a run that does not say them."""
    return [
        [root.name, key, str(value)]
        for root in roots
        for key, value in sorted((run_settings(RunFolder(root)) or {}).items())
        if value is not None
    ]


def _published(files: Sequence[Path], runs: set[str], left_out: list[str]) -> Rows:
    """A row per file; a run that is here itself is not told of a second time by its totals."""
    rows: Rows = []
    for path in files:
        try:
            published = read_published(path)
        except UsageError as error:
            left_out.append(f"left out {error}")
            continue
        if published.run in runs:
            left_out.append(f"left out {path}: run {published.run} is there itself")
        else:
            rows.append(_published_row(published))
    return rows


def _published_row(published: Published) -> list[object]:
    about = published.values
    shares, failures = about["plan.targets"], about["totals.failures"]
    return [
        published.run,
        about["source.title"],
        about["source.where"],
        about["kind"],
        about["plan.profile"],
        about["plan.duration_s"],
        about["plan.backends"],
        about["plan.rate_rps"],
        None if shares is None else " ".join(f"{target}={share}" for target, share in sorted(shares.items())),
        about["plan.rolls"],
        about["totals.planned"],
        about["totals.sent"],
        about["totals.http_2xx"],
        None if failures is None else ", ".join(f"{c} {n}" for c, n in sorted(failures.items())) or "none",
        *(about[f"totals.{key}"] for key in ("lost_backends", "worst_p50_ms", "worst_p99_ms", "worst_max_ms")),
        about["window.dispatched"],
        about["window.ended"],
        about["verdict"],
        ", ".join(published.unknown) or None,
    ]
