"""``harness gate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import find_run, json_option, runs_option
from harness.commands.output import echo_json
from harness.errors import EvidenceError
from harness.files import read_json, sha256_file
from harness.runs import RunFolder

if TYPE_CHECKING:
    from harness.gate import Verdict

INDEX = "index.json"


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
    verdict = grade_run(find_run(runs_folder, run))
    if as_json:
        echo_json(verdict.to_json())
    else:
        for line in verdict.lines(per_node=per_node):
            click.echo(line)
    return verdict.exit_code


def grade_run(folder: RunFolder) -> Verdict:
    """Grade a run and store the verdict. What cannot be graded is REFUSED with the reason, and is stored as well.

    Raises EvidenceError when the run has no tables at all: then nothing was there to be graded, and nothing is stored.
    """
    from harness.gate import Verdict, grade
    from harness.gate.store import append

    index_path = folder.tables / INDEX
    try:
        index = read_json(index_path)
        refused, tables = index["refused"], index["tables"]
    except (OSError, ValueError, KeyError, TypeError):
        raise EvidenceError(
            f"run {folder.run} has no tables to grade; `./doit tables:{folder.run}` makes them from its evidence",
            run=folder.run,
        ) from None
    if refused is None:
        try:
            check_tables(folder, tables)
            verdict = grade(folder.tables)
        except EvidenceError as error:
            verdict = Verdict.refused(folder.run, error.message)
    else:
        verdict = Verdict.refused(folder.run, str(refused))
    append(folder.verdicts, verdict, sha256_file(index_path))
    return verdict


def check_tables(folder: RunFolder, tables: dict[str, dict[str, object]]) -> None:
    """Raise EvidenceError when a table that is graded is not the one that was made from the evidence."""
    from harness.gate.run import READS

    for name in READS:
        path = folder.tables / f"{name}.parquet"
        made = tables.get(name, {}).get("sha256")
        if made is not None and (not path.is_file() or sha256_file(path) != made):
            raise EvidenceError(
                f"{path.name} is not what was made from the evidence; `./doit tables:{folder.run}` makes it again",
                run=folder.run,
            )
