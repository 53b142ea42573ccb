"""``harness sql``: read-only questions across runs."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from harness.commands.options import find_run, runs_option
from harness.commands.output import csv_text, echo_json, plain, printable, text_table, unique
from harness.errors import UsageError
from harness.history.queries import Query, named_queries


@click.command()
@click.argument("question", required=False)
@click.option("--list", "listing", is_flag=True, help="List the named questions, and the tables and views to ask.")
@click.option("--format", "form", type=click.Choice(["table", "csv", "json", "parquet"]), help="Default: table.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="A value for $NAME, as text.")
@runs_option
def sql(
    question: str | None, listing: bool, form: str | None, as_json: bool, params: tuple[str, ...], runs_folder: Path
) -> None:
    """Ask a named question, or any one SELECT, across runs.

    QUESTION sees the tables of all runs. Nothing can be written, attached, installed or read but these tables. A
    Parquet file that is torn or foreign is left out and named on stderr.

    \b
    Example:
      harness sql run-by-run
      harness sql compare --param run=quick-a --param base=quick-b
      harness sql "SELECT run, max(p99) / 1e6 AS p99_ms FROM statistics
                   WHERE statistic = 'benchmark_http_client.latency_2xx' GROUP BY run" --format csv
    """
    from harness.history.database import ask, ask_arrow, open_database, run_roots

    if as_json and form not in (None, "json"):
        raise click.UsageError("--json and --format name different forms")
    form = "json" if as_json else form or "table"
    queries = named_queries("history")
    if listing:
        return _list(queries, form)
    if question is None:
        raise click.UsageError("a question is missing; --list shows the named ones")
    text, values = _resolve(question, _pairs(params), queries, runs_folder)
    if form == "parquet" and sys.stdout.isatty():
        raise UsageError("Parquet is no text for a terminal; send it to a file: harness sql … --format parquet > FILE")
    with open_database(run_roots(runs_folder), text) as database:
        for sentence in database.quarantined:
            click.echo(f"harness: {printable(sentence)}", err=True)
        if form == "parquet":
            sys.stdout.buffer.write(_parquet(ask_arrow(database, text, values)))
            return None
        columns, rows = ask(database, text, values)
    columns = unique(columns)
    if form == "json":
        echo_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        click.echo(csv_text(columns, rows) if form == "csv" else text_table(columns, rows) + "\n", nl=False)
    return None


def _resolve(
    question: str, given: dict[str, str], queries: dict[str, Query], runs_folder: Path
) -> tuple[str, dict[str, str]]:
    if query := queries.get(question):
        values = query.bind(given)
        for name in ("run", "base"):
            if values.get(name):  # a misspelt run would answer with an empty table, as if it had no targets
                find_run(runs_folder, values[name])
        return query.sql, values
    if not any(character.isspace() for character in question.strip()):
        raise UsageError(f"there is no question named {question}; `harness sql --list` shows what there is")
    return question, given


def _pairs(params: tuple[str, ...]) -> dict[str, str]:
    pairs = dict(param.partition("=")[::2] for param in params)
    if bad := [param for param in params if not param.partition("=")[0].isidentifier() or "=" not in param]:
        raise click.UsageError(f"--param {bad[0]} is not NAME=VALUE")
    return pairs


def _list(queries: dict[str, Query], form: str) -> None:
    from harness.gate.load import load_views
    from harness.store.schemas import TABLES

    tables = {name: table.about for name, table in TABLES.items()}
    tables["verdicts"] = "The newest grading of each run."
    for view in load_views():
        if view.name is not None:
            tables[view.name] = view.sql.splitlines()[0].removeprefix("-- about:").strip()
    if form == "json":
        listed = [{"name": q.name, "asks": q.asks, "params": dict(q.params)} for q in queries.values()]
        return echo_json({"schema": 1, "queries": plain(listed), "tables": tables})
    for query in queries.values():
        takes = " ".join(name if default is None else f"{name}={default}" for name, default in query.params.items())
        click.echo(f"{query.name:<12} {query.asks}" + (f"  [{takes}]" if takes else ""))
    click.echo("\nTables and views:")
    for name, about in tables.items():
        click.echo(f"{name:<16} {about}")
    return None


def _parquet(table: object) -> bytes:
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
