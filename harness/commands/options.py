"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from harness.errors import UsageError
from harness.runs import RunFolder, check_run_id

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

runs_option: Decorator = click.option(
    "--runs",
    "runs_folder",
    type=click.Path(path_type=Path),
    envvar="HARNESS_RUNS",
    default=Path("runs"),
    help="The runs folder. Default: $HARNESS_RUNS, else ./runs.",
)
json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")


def find_run(runs_folder: Path, run: str) -> RunFolder:
    """The folder of ``run``. Raises UsageError when there is none, or when the name is none a run may have."""
    folder = RunFolder(runs_folder / check_run_id(run))
    if not folder.root.is_dir():
        raise UsageError(f"there is no run {run} in {runs_folder}; `harness runs` lists what is there", run=run)
    return folder
