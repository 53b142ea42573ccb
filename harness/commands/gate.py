"""``harness gate``."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.options import find_run, json_option, runs_option
from harness.commands.output import echo_json


@click.command()
@click.argument("run")
@click.option("--per-node", is_flag=True, help="A line for every node of every target too.")
@runs_option
@json_option
def gate(run: str, per_node: bool, runs_folder: Path, as_json: bool) -> int:
    """Grade the tables of a saved run, per target and per node.

    The verdict is stored beside the earlier ones and printed; the exit code follows it: 0 PASS, 1 FAIL, 2 REFUSED.

    \b
    Example:
      harness gate quick-20261008T101500Z --per-node
      harness gate quick-20261008T101500Z --json | jq -r .verdict
    """
    from harness.gate import render
    from harness.gate.saved import grade_run
    from harness.stages.gate import beside, drill

    folder = find_run(runs_folder, run)
    verdict, _ = grade_run(folder)
    if as_json:
        echo_json({**verdict.to_json(), "drill": drill(folder)})
    else:
        for line in render(verdict, per_node=per_node):
            if line.startswith("VERDICT "):
                click.echo("\n".join(beside(folder)))
            click.echo(line)
    return verdict.exit_code
