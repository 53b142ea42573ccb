"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from harness.errors import UsageError
from harness.runs import RunFolder, check_run_id

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _existing(context: click.Context, parameter: click.Parameter, folder: Path) -> Path:
    """A folder that was named must be there: a misspelt one would read as one without runs."""
    named = {ParameterSource.COMMANDLINE: "--runs", ParameterSource.ENVIRONMENT: "HARNESS_RUNS"}
    source = named.get(context.get_parameter_source(parameter.name or "") or ParameterSource.DEFAULT)
    if source and not folder.is_dir():
        raise UsageError(f"{source} names {folder}, which is no folder; name the one that holds the runs")
    return folder


runs_option: Decorator = click.option(
    "--runs",
    "runs_folder",
    type=click.Path(path_type=Path),
    callback=_existing,
    envvar="HARNESS_RUNS",
    default=Path("runs"),
    help="The runs folder. Default: $HARNESS_RUNS, else ./runs.",
)
json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")


def find_run(runs_folder: Path, run: str) -> RunFolder:
    """The folder of ``run``. Raises UsageError when there is none, or when the name is none a run may have."""
    folder = RunFolder(runs_folder / check_run_id(run))
    if folder.root.is_symlink():
        raise UsageError(f"{folder.root} is a link; name the runs folder that holds the run itself", run=run)
    if not folder.root.is_dir():
        raise UsageError(f"there is no run {run} in {runs_folder}; `harness runs` lists what is there", run=run)
    return folder
