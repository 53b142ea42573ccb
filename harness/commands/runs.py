"""``harness runs``."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.options import json_option, runs_option
from harness.commands.output import echo_json, text_table
from harness.history.inventory import list_runs


@click.command()
@runs_option
@json_option
def runs(runs_folder: Path, as_json: bool) -> None:
    """List the runs, soaks and ladders, newest first, with state and verdict.

    A run is as new as it was created; one from elsewhere, which does not say that, as its load: by T_LOAD of its
    run.env, else by the first start that its report names. Those that say neither come last.

    A run with a fault under "drill" had that fault put in on purpose: its verdict says nothing of the mesh.

    \b
    Example:
      harness runs
      harness runs --json | jq -r '.runs[] | select(.verdict == "FAIL") | .run'
    """
    found = list_runs(runs_folder)
    if as_json:
        echo_json({"schema": 1, "runs": [state.to_json() for state in found]})
    elif not found:
        click.echo(f"There is no run in {runs_folder} yet; `./doit soak` or `./doit e8` makes one.")
    else:
        columns = ("run", "kind", "fleet", "at", "state", "verdict", "drill", "reason")
        kinds = {s.run: " ".join(filter(None, (s.kind, s.arm))) for s in found}
        lines = [(s.run, kinds[s.run], s.fleet, s.at, s.state, s.verdict, s.drill, s.reason) for s in found]
        click.echo(text_table(columns, [[value or "-" for value in line] for line in lines]))
