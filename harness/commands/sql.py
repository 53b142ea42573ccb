"""``harness sql``: read-only questions across runs."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import runs_option
from harness.commands.output import csv_text, echo_json, printable, text_table, unique
from harness.errors import UsageError
from harness.history.queries import Query, named_queries
from harness.runs import RunFolder

if TYPE_CHECKING:
    import pyarrow

JOINS = """\
Every table has run. Statistics, counters, thresholds and backends name an execution by its number:
  JOIN executions USING (run, exec_no)     gives the label
  JOIN plan_targets USING (run, label)     gives the target
cells has a row per target and node with the usual figures: JOIN plan_targets USING (run, target_no).
NULL is not measured, never 0; capabilities says what the producer of a run counts."""
TIMEOUT_S = 60


@click.command()
@click.argument("question", required=False)
@click.option("--list", "listing", is_flag=True, help="List what can be asked; with a name, show it whole.")
@click.option("--format", "form", type=click.Choice(["table", "csv", "json", "parquet"]), help="Default: table.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="A value for $NAME, as text.")
@click.option(
    "--timeout-s",
    type=click.IntRange(1, 86_400),
    default=TIMEOUT_S,
    show_default=True,
    help="Stop a question that takes longer.",
)
@runs_option
def sql(
    question: str | None,
    listing: bool,
    form: str | None,
    as_json: bool,
    params: tuple[str, ...],
    timeout_s: int,
    runs_folder: Path,
) -> None:
    """Ask a named question, or any one SELECT, across runs.

    QUESTION sees the tables of all runs. Nothing can be written, attached, installed or read but these tables. A
    Parquet file that is torn or foreign is left out and named on stderr.

    \b
    Example:
      harness sql run-by-run
      harness sql latency --param run=quick-a
      harness sql --list statistics
      harness sql compare --param run=quick-a --param base=quick-b
      harness sql "SELECT run, max(p99) / 1e6 AS p99_ms FROM statistics
                   WHERE statistic = 'benchmark_http_client.latency_2xx' GROUP BY run" --format csv
    """
    from harness.history.database import ask, ask_arrow, open_database, run_roots
    from harness.history.published import published_files

    if as_json and form not in (None, "json"):
        raise click.UsageError("--json and --format name different forms")
    form = "json" if as_json else form or "table"
    queries = named_queries("history")
    if listing:
        return _list(queries, form, question)
    if question is None:
        raise click.UsageError("a question is missing; --list shows the named ones")
    roots, published = run_roots(runs_folder), published_files(runs_folder)
    text, values = _resolve(question, _pairs(params), queries)
    if question in queries and (asked := {run for name in ("run", "base") if (run := values.get(name))}):
        _check_runs(asked, {root.name for root in roots} | {file.stem for file in published}, runs_folder)
        roots = [root for root in roots if root.name in asked]  # no other is looked into
        for sentence in _without_tables(roots):
            click.echo(f"harness: {printable(sentence)}", err=True)
    if form == "parquet" and sys.stdout.isatty():
        raise UsageError("Parquet is no text for a terminal; send it to a file: harness sql … --format parquet > FILE")
    with open_database(roots, text, published=published) as database:
        for sentence in database.left_out:
            click.echo(f"harness: {printable(sentence)}", err=True)
        if form == "parquet":
            sys.stdout.buffer.write(_parquet(ask_arrow(database, text, values, timeout_s=timeout_s)))
            return None
        columns, rows = ask(database, text, values, timeout_s=timeout_s)
    columns = unique(columns)
    if form == "json":
        echo_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        terminal = sys.stdout.isatty()
        text = csv_text(columns, rows, terminal=terminal) if form == "csv" else text_table(columns, rows) + "\n"
        click.echo(text, nl=False, color=True)  # else click takes escape sequences out of the data
    return None


def _resolve(question: str, given: dict[str, str], queries: dict[str, Query]) -> tuple[str, dict[str, str]]:
    if query := queries.get(question):
        return query.sql, query.bind(given)
    if not any(character.isspace() for character in question.strip()):
        raise UsageError(f"there is no question named {question}; `harness sql --list` shows what there is")
    return question, given


def _check_runs(asked: set[str], known: set[str], runs_folder: Path) -> None:
    """A misspelt run would answer with an empty table, as if it had no targets."""
    if missing := sorted(asked - known):
        raise UsageError(f"there is no run {missing[0]} in {runs_folder}; `harness runs` lists what is there")


def _without_tables(roots: list[Path]) -> Iterator[str]:
    """Of which runs a question can have no rows, how far they got, and what makes their tables."""
    from harness.history.inventory import run_state

    for folder in map(RunFolder, roots):
        if not folder.tables_index.exists():
            known = run_state(folder)
            got = f"{known.state}, {known.reason}" if known.reason else known.state
            yield f"{folder.run} has no tables yet ({got}); `harness gate {folder.run}` makes them of what was saved"


def _pairs(params: tuple[str, ...]) -> dict[str, str]:
    pairs = dict(param.partition("=")[::2] for param in params)
    if bad := [param for param in params if not param.partition("=")[0].isidentifier() or "=" not in param]:
        raise click.UsageError(f"--param {bad[0]} is not NAME=VALUE")
    return pairs


def _list(queries: dict[str, Query], form: str, name: str | None) -> None:
    """What can be asked; with ``name``, the columns of one table or view, or one named question."""
    tables = _tables()
    if name is not None:
        return _list_one(name, tables.get(name), queries.get(name), form)
    if form == "json":
        return echo_json({"schema": 1, "queries": [_document(q) for q in queries.values()], "tables": tables})
    longest = max(map(len, queries))
    for query in queries.values():
        click.echo(f"{query.name:<{longest}}  {query.asks}" + (f"  [{takes}]" if (takes := _takes(query)) else ""))
    click.echo("\nTables and views; `harness sql --list NAME` shows the columns of one:")
    width = max(map(len, tables))
    for table, about in tables.items():
        click.echo(f"{table:<{width}}  {about}")
    click.echo("\n" + JOINS)
    return None


def _list_one(name: str, about: str | None, query: Query | None, form: str) -> None:
    """What bears a name: a table, a question, or both (``resources``)."""
    if about is None and query is None:
        raise UsageError(f"there is no table or question named {name}; `harness sql --list` shows what there is")
    columns = _columns(name) if about is not None else []
    if form == "json":
        listed = [dict(zip(("name", "type", "about"), column, strict=True)) for column in columns]
        table = {"name": name, "about": about, "columns": listed} if about is not None else {}
        return echo_json({"schema": 1, **table, **({**_document(query), "sql": query.sql} if query else {})})
    if about is not None:
        click.echo(f"{name}: {about}\n\n" + text_table(("column", "type", "meaning"), columns))
    if query:
        click.echo(("\n" if about is not None else "") + f"{name}: {query.asks}")
        click.echo((f"takes {takes}\n" if (takes := _takes(query)) else "") + "\n" + query.sql.rstrip())
    return None


def _columns(name: str) -> list[tuple[str, str, str]]:
    """Name, type and meaning of every column of a table or view."""
    from harness.history.database import ask, open_database
    from harness.history.meanings import meaning

    query = f"SELECT column_name, column_type FROM (DESCRIBE {name})"  # noqa: S608 - a name of our own, checked before
    with open_database([], query) as database:
        described = [(str(column), str(kind).lower()) for column, kind in ask(database, query)[1]]
    return [(column, kind, meaning(name, column)) for column, kind in described]


def _tables() -> dict[str, str]:
    from harness.gate.load import load_views
    from harness.history.beside import BESIDE
    from harness.store.schemas import TABLES

    views = {view.name: view.about for view in load_views() if view.name is not None}
    return {name: table.about for name, table in TABLES.items()} | BESIDE | views


def _document(query: Query) -> dict[str, object]:
    return {"name": query.name, "asks": query.asks, "params": dict(query.params)}


def _takes(query: Query) -> str:
    return " ".join(name if default is None else f"{name}={default}" for name, default in query.params.items())


def _parquet(table: pyarrow.Table) -> bytes:
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    try:
        pyarrow.parquet.write_table(table.rename_columns(unique(table.column_names)), buffer, compression="zstd")
    except pyarrow.ArrowNotImplementedError as error:
        raise UsageError(f"Parquet has no type for a column of the answer ({error}); cast it to VARCHAR, say") from None
    return buffer.getvalue()
