"""``harness adopt``."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path

import click

from harness.commands.options import json_option
from harness.commands.output import echo_json, printable

QUIET_S = 1.0  # a copy that takes no longer shows no progress


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--runs",
    "runs_folder",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="HARNESS_RUNS",
    default=Path("runs"),
    help="The runs folder, made where it is not there. Default: $HARNESS_RUNS, else ./runs.",
)
@click.option("--format", "form", default="sortie", metavar="sortie|nighthawk|k6", help="Default: sortie.")
@click.option("--engine", default="upstream", metavar="upstream|sortie", help="Whose nighthawk. Default: upstream.")
@json_option
def adopt(directory: Path, runs_folder: Path, form: str, engine: str, as_json: bool) -> None:
    """Take in a run that was saved elsewhere, byte for byte.

    DIRECTORY holds run.env, shares.tsv, engines.tsv and report.json, as a soak on Kubernetes leaves them, or is the
    evidence of a run of this harness, or the folder of one. The run is named by its RUN_TAG where that is a safe name,
    else by its content. Nothing in the files is run; the same run twice changes nothing.

    \b
    Example:
      harness adopt /mnt/soaks/soak-20261101T060809Z
      harness gate soak-20261101T060809Z --per-node
      harness adopt old-k6 --format k6 --json | jq -r .run
    """
    from harness.adopt import adopt as take_in
    from harness.terminal import LiveLine

    live, began = LiveLine("adopt", plain_every_s=0, stream=sys.stderr), time.monotonic()

    def told(copied: int, total: int) -> None:
        if live.rewrites and time.monotonic() - began > QUIET_S:
            live.show(f"{copied / max(total, 1):4.0%}  {copied / 1e6:,.0f} of {total / 1e6:,.0f} MB")

    try:
        adopted = take_in(directory, runs_folder, format=form, engine=engine, told=told)
    finally:
        live.close()
    if as_json:
        return echo_json({"schema": 1, **asdict(adopted)})
    words = ["harness", "gate", adopted.run]
    words += ["--runs", str(runs_folder)] if runs_folder != Path("runs") else []
    words += ["--stream"] if adopted.stream_only else []
    what = f"adopted {adopted.run}" if adopted.fresh else f"{adopted.run} was adopted before, nothing changed"
    why = f"; no tables could be made ({adopted.refused})" if adopted.refused and not adopted.stream_only else ""
    size = f"{adopted.files} files, {adopted.bytes:,} bytes"
    return click.echo(printable(f"{what}: {size}{why}; next: {shlex.join(words)}"))
