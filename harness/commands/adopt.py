"""``harness adopt``."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import json_option
from harness.commands.output import echo_json, printable
from harness.errors import EXIT_PASS, HarnessError
from harness.terminal import LiveLine

if TYPE_CHECKING:
    from harness.adopt import Adopted

QUIET_S = 1.0  # a copy that takes no longer shows no progress


@click.command()
@click.argument("directories", metavar="DIRECTORY...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--runs",
    "runs_folder",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="HARNESS_RUNS",
    default=Path("runs"),
    help="The runs folder, made where it is not there. Default: $HARNESS_RUNS, else ./runs.",
)
@click.option("--format", "form", default="sortie", metavar="sortie|nighthawk|k6|e8", help="Default: sortie.")
@click.option("--engine", metavar="upstream|sortie", help="Of --format nighthawk: whose it was. Default: upstream.")
@json_option
def adopt(directories: tuple[Path, ...], runs_folder: Path, form: str, engine: str | None, as_json: bool) -> int:
    """Take in runs that were saved elsewhere, byte for byte.

    DIRECTORY holds run.env, shares.tsv, engines.tsv and report.json, as a soak on Kubernetes leaves them, or is the
    evidence of a run of this harness, or the folder of one. The run is named by its RUN_TAG where that is a safe name,
    else by its content. Nothing in the files is run; the same run twice changes nothing.

    With --format e8 it is a JSON file: an array of rung records, or a ladder as it was saved or published here.

    Of several directories each is taken in or refused for itself; the exit code is the worst.

    \b
    Example:
      harness adopt /mnt/soaks/soak-20261101T060809Z
      harness gate soak-20261101T060809Z --per-node
      harness adopt /mnt/soaks/*
      harness adopt old-k6 --format k6 --json | jq -r .run
      harness adopt rungs.json --format e8
    """
    from harness.adopt import check_words

    check_words(form, engine)
    if len(directories) == 1:
        adopted = _take_in(directories[0], runs_folder, form, engine)
        if as_json:
            echo_json({"schema": 1, **asdict(adopted)})
        else:
            click.echo(_line(adopted, runs_folder))
        return EXIT_PASS

    taken, refused, worst = [], [], EXIT_PASS
    for directory in directories:
        try:
            adopted = _take_in(directory, runs_folder, form, engine)
        except HarnessError as error:
            worst = max(worst, error.exit_code)
            refused.append({"directory": str(directory), "reason": error.message, "exit_code": error.exit_code})
            click.echo(f"harness: {printable(error.message)}", err=True)
            continue
        taken.append(asdict(adopted))
        if not as_json:
            click.echo(_line(adopted, runs_folder))
    if as_json:
        echo_json({"schema": 1, "runs": taken, "refused": refused})
    return worst


def _take_in(directory: Path, runs_folder: Path, form: str, engine: str | None) -> Adopted:
    from harness.adopt import adopt as take_in

    live, began = LiveLine("adopt", plain_every_s=0, stream=sys.stderr), time.monotonic()

    def told(copied: int, total: int) -> None:
        if live.rewrites and time.monotonic() - began > QUIET_S:
            live.show(f"{copied / max(total, 1):4.0%}  {copied / 1e6:,.0f} of {total / 1e6:,.0f} MB")

    try:
        return take_in(directory, runs_folder, format=form, engine=engine, told=told)
    finally:
        live.close()


def _line(adopted: Adopted, runs_folder: Path) -> str:
    """What became of one directory, and the command that grades it."""
    words = ["harness", "gate", adopted.run]
    words += ["--runs", str(runs_folder)] if runs_folder != Path("runs") else []
    words += ["--stream"] if adopted.stream_only else []
    what = f"adopted {adopted.run}" if adopted.fresh else f"{adopted.run} was adopted before, nothing changed"
    why = f"; no tables could be made ({adopted.refused})" if adopted.refused and not adopted.stream_only else ""
    size = f"{adopted.files} files, {adopted.bytes:,} bytes"
    return printable(f"{what}: {size}{why}; next: {shlex.join(words)}")
