"""``harness report``."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.options import find_run, json_option, runs_option
from harness.commands.output import echo_json
from harness.history.inventory import newest_verdict


@click.command()
@click.argument("run")
@runs_option
@json_option
def report(run: str, runs_folder: Path, as_json: bool) -> None:
    """Write the page of a run, and print its path.

    It is one file that needs no network and no script, made from the tables and the newest verdict of RUN. Every
    verdict has a page, and so has a run that was not graded: what is absent is said to be so.

    \b
    Example:
      harness report quick-20261008T101500Z
    """
    from harness.report import write

    folder = find_run(runs_folder, run)
    verdict = newest_verdict(folder) or {}
    write(folder, verdict)
    if as_json:
        echo_json({"schema": 1, "run": run, "verdict": verdict.get("verdict"), "report": str(folder.report)})
    else:
        click.echo(folder.report)
