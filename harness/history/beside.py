"""Tables beside the Parquet ones, read from documents: verdicts, settings, folders, and what others published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.e8.record import Ladder
from harness.errors import UsageError
from harness.history.inventory import newest_verdict, run_settings, run_state
from harness.history.published import Published, read_published
from harness.history.tables import DAMAGED, NONE, Held, declared
from harness.store.columns import LADDER
from harness.store.kinds import kind_of_run

if TYPE_CHECKING:
    import duckdb

BESIDE = {
    "run_folders": "Every run that there is, those without tables too: are its tables whole, and why not?",
    "verdicts": "The newest grading of each run; counts are NULL where it was refused.",
    "settings": "The settings each run was made with, a row per key; a run with a fault was a drill.",
    "published": "Runs that others published, totals only, with the source; NULL is what the source does not say.",
    "ladder_verdicts": "The newest grading of each ladder: its knee, what bound it, and the runner-up.",
    "ladder_thresholds": "The numbers by which ladders are judged today, where a ladder names no other.",
    "published_ladders": "Ladders that others published, as the table ladders has them, with the source.",
    "published_rungs": "The rungs of these, as the table rungs has them; NULL is what the source does not say.",
}
"""Each table's name, and what it holds."""

COUNTS = ("targets", "passed", "failed", "not_run", "backends", "lost_backends")

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "run_folders": dict.fromkeys(("run", "kind", "state", "reason"), "VARCHAR"),
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
    "ladder_verdicts": {
        **dict.fromkeys(("run", "graded_at", "verdict", "arm", "answer"), "VARCHAR"),
        **dict.fromkeys(("floor_c", "lo_c", "hi_c"), "BIGINT"),
        "saturated": "BOOLEAN",
        **dict.fromkeys(("bound", "runner_up", "reason"), "VARCHAR"),
    },
    "ladder_thresholds": {"name": "VARCHAR", "value": "DOUBLE", "unit": "VARCHAR", "why": "VARCHAR"},
    "published_ladders": declared("ladders"),
    "published_rungs": declared("rungs"),
}

Rows = list[list[object]]


def load_beside(
    connection: duckdb.DuckDBPyConnection, table: str, runs: Sequence[Held], published: Sequence[Path]
) -> list[str]:
    """Make one table of ``BESIDE``. Returns a sentence for each file that was left out of it.

    A run with damaged tables stands in ``run_folders`` alone: beside its verdict, no rows would read as no failure.
    """
    columns = COLUMNS[table]
    connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns.items())})")
    left_out: list[str] = []
    sound = [run for run in runs if run.state != DAMAGED]
    if table == "run_folders":
        rows: Rows = [
            [run.folder.run, kind_of_run(run.folder), run.state, run.reason or _why_none(run)] for run in runs
        ]
    elif table == "verdicts":
        rows = _verdicts(sound)
    elif table == "settings":
        rows = _settings(sound)
    elif table == "ladder_verdicts":
        rows = _ladder_verdicts(sound)
    elif table == "ladder_thresholds":
        rows = _ladder_thresholds()
    else:
        here = {run.folder.run for run in runs}
        rows = _published(published, here, left_out) if table == "published" else _ladders(published, here, table)
    if rows:  # a list per column: row by row, a thousand runs would take seconds
        lists = ", ".join(f"unnest(?::{kind}[])" for kind in columns.values())
        connection.execute(f"INSERT INTO {table} SELECT {lists}", [list(column) for column in zip(*rows, strict=True)])
    return left_out


def _why_none(run: Held) -> str | None:
    """How far a run without tables got."""
    if run.state != NONE:
        return None
    state = run_state(run.folder)
    return f"no tables: {state.state}" + (f" ({state.reason})" if state.reason else "")


def _verdicts(runs: Sequence[Held]) -> Rows:
    """A row per run that was graded."""
    rows: Rows = []
    for run in runs:
        document = newest_verdict(run.folder)
        if document is not None:
            counts = document.get("counts") or {}
            numbers = [counts.get(key) for key in COUNTS]
            texts = [document.get(key) for key in ("graded_at", "verdict", "reason")]
            rows.append([run.folder.run, *texts, *numbers, document.get("gate_sha256")])
    return rows


def _settings(runs: Sequence[Held]) -> Rows:
    """A row per run and key, values as text; none for a run that does not say them."""
    return [
        [run.folder.run, key, str(value)]
        for run in runs
        for key, value in sorted((run_settings(run.folder) or {}).items())
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
        if isinstance(published, Ladder):
            continue
        if published.run in runs:
            left_out.append(f"left out {path}: run {published.run} is there itself")
        else:
            rows.append(_published_row(published))
    return rows


def _ladders(files: Sequence[Path], runs: set[str], table: str) -> Rows:
    """Rows of published ladders that are not here themselves; what is wrong with a file is said of ``published``."""
    from harness.store.formats.e8 import rows

    made: Rows = []
    for path in files:
        try:
            ladder = read_published(path)
        except UsageError:
            continue
        if isinstance(ladder, Ladder) and path.stem not in runs:
            of = rows(ladder)[table.removeprefix("published_")]
            made += [[{"run": path.stem, **row}.get(name) for name in COLUMNS[table]] for row in of]
    return made


def _ladder_verdicts(runs: Sequence[Held]) -> Rows:
    """A row per ladder that was graded."""
    made: Rows = []
    for run in runs:
        document = newest_verdict(run.folder)
        if document is not None and document.get("kind") == LADDER:
            found = document["knee"]
            knee = [found.get(key) for key in ("answer", "floor", "lo", "hi")]
            told = [document.get(key) for key in ("saturated", "bound", "runner_up", "reason")]
            made.append([run.folder.run, *(document.get(key) for key in ("graded_at", "verdict", "arm")), *knee, *told])
    return made


def _ladder_thresholds() -> Rows:
    """A row per threshold."""
    from harness.e8.arms import THRESHOLDS

    return [[name, each.value, each.unit, each.reason] for name, each in THRESHOLDS.items()]


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
