"""``harness gate``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from harness.commands.options import find_run, json_option, runs_option
from harness.commands.output import echo_json
from harness.errors import EXIT_REFUSED, EvidenceError, StageError, UsageError
from harness.terminal import printable

if TYPE_CHECKING:
    from harness.e8.verdict import LadderVerdict
    from harness.gate import Verdict
    from harness.runs import RunFolder

AnyVerdict = TypeVar("AnyVerdict", "Verdict", "LadderVerdict")

file_option = click.Path(path_type=Path)


@click.command()
@click.argument("run", required=False)
@click.option("--all", "every_run", is_flag=True, help="Grade every run in the runs folder, one line each.")
@click.option("--per-node", is_flag=True, help="A line for every node of every target too.")
@click.option(
    "--stream",
    is_flag=True,
    help="Grade the results stream of a run that has no report; later gradings then do so too.",
)
@click.option(
    "--junit",
    "junit_file",
    type=file_option,
    help="Write the verdict as JUnit XML: a case per target × node, of a ladder per rung.",
)
@click.option("--markdown", "markdown_file", type=file_option, help="Write a summary; to $GITHUB_STEP_SUMMARY, append.")
@click.option("--history", is_flag=True, help="Grade nothing: list every grading, and what it changed.")
@runs_option
@json_option
def gate(
    run: str | None,
    every_run: bool,
    per_node: bool,
    stream: bool,
    junit_file: Path | None,
    markdown_file: Path | None,
    history: bool,
    runs_folder: Path,
    as_json: bool,
) -> int:
    """Grade a saved run: a soak per target and per node, a ladder of rungs by its knee and what bound it.

    Tables are made from the evidence where there are none.

    The verdict is stored beside the earlier ones and printed; a refusal is one line on stderr, with --json after its
    object. The exit code follows the verdict: 0 PASS, 1 FAIL, 2 REFUSED or UNPROVEN; with --history the newest stored
    one, 2 where there is none or it is damaged. It is 4 where a file for CI could not be written, whatever the verdict.
    With --all it is 2 where any run is REFUSED or UNPROVEN, else 1 where any is FAIL, else 0.

    \b
    Example:
      harness gate quick-20261008T101500Z --per-node
      harness gate quick-20261008T101500Z --json | jq -r .verdict
      harness gate quick-20261008T101500Z --junit gate.xml --markdown "$GITHUB_STEP_SUMMARY"
      harness gate quick-20261008T101500Z --history
      harness gate --all
    """
    if every_run:
        if run or per_node or stream or junit_file or markdown_file or history:
            raise UsageError("--all grades every run: of the other options it goes with --json and --runs only")
        from harness.commands.gate_all import grade_all

        return grade_all(runs_folder, as_json=as_json)
    if run is None:
        raise UsageError("gate of which run? `harness runs` lists them, and --all grades every one")
    folder = find_run(runs_folder, run)
    for path in filter(None, (junit_file, markdown_file)):
        if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(runs_folder)):
            raise UsageError(f"{path} lies in the runs folder, whose files are evidence; name one outside of it")
    if history:
        if per_node or stream or junit_file or markdown_file:
            raise UsageError("--history grades nothing: of the other options it goes with --json and --runs only")
        return _history(folder, as_json)

    from harness.store.columns import LADDER
    from harness.store.kinds import kind_of_run

    verdict: Verdict | LadderVerdict
    if kind_of_run(folder) == LADDER:
        if per_node or stream:
            raise UsageError(f"run {run} is a ladder, which has no nodes and no results stream", run=run)
        verdict = _grade_ladder(folder)
    else:
        if stream and (folder.evidence / "report.json").exists():
            raise UsageError(
                f"run {run} has a report.json and is graded by it, whole or damaged: leave out --stream", run=run
            )
        verdict = _grade(folder, stream=stream or None)
    troubles = _publish(folder, verdict, junit_file, markdown_file) if junit_file or markdown_file else []
    _say(folder, verdict, per_node=per_node, as_json=as_json)
    if troubles:
        raise StageError(f"{' and '.join(troubles)}: the verdict {verdict.word} stands, name another file", run=run)
    return verdict.exit_code


def _grade(folder: RunFolder, *, stream: bool | None) -> Verdict:
    from harness.gate.saved import grade_run
    from harness.gate.verdict import Verdict

    return _graded(folder, grade_run, Verdict.refused, stream=stream)


def _grade_ladder(folder: RunFolder) -> LadderVerdict:
    from harness.e8.grade import grade_run, refused
    from harness.store.held import hold_rows

    def grade(folder: RunFolder) -> tuple[LadderVerdict, Path]:
        hold_rows(folder)
        return grade_run(folder)

    return _graded(folder, grade, refused)


def _graded(
    folder: RunFolder,
    grade: Callable[[RunFolder], tuple[AnyVerdict, Path]],
    refused: Callable[[str, str], AnyVerdict],
    *,
    stream: bool | None = None,
) -> AnyVerdict:
    """The verdict of a run whose tables were made where there were none. Without any it is refused, unstored."""
    from harness.stages.gate import check_verdicts
    from harness.store.made import ensure_tables

    check_verdicts(folder)
    try:
        ensure_tables(folder, seal=_seal, stream=stream)
        return grade(folder)[0]
    except EvidenceError as error:
        return refused(folder.run, error.message)


def _seal(folder: RunFolder) -> None:
    """Tables are made seldom, and what holds evidence against receipts takes its time to import."""
    from harness.stages.tables import check_seal

    check_seal(folder)


def _publish(
    folder: RunFolder, verdict: Verdict | LadderVerdict, junit_file: Path | None, markdown_file: Path | None
) -> list[str]:
    """Write the files for CI; returns why one could not be."""
    from harness.ci.publish import publish
    from harness.files import sha256_file
    from harness.stages.gate import beside

    return publish(
        verdict,
        junit_file=junit_file,
        markdown_file=markdown_file,
        tables_sha256=sha256_file(folder.tables_index) if folder.tables_index.is_file() else None,
        beside=beside(folder),
    )


def _say(folder: RunFolder, verdict: Verdict | LadderVerdict, *, per_node: bool, as_json: bool) -> None:
    from harness.gate.verdict import Verdict

    if isinstance(verdict, Verdict):
        _say_soak(folder, verdict, per_node=per_node, as_json=as_json)
    else:
        _say_ladder(folder, verdict, as_json=as_json)


def _say_soak(folder: RunFolder, verdict: Verdict, *, per_node: bool, as_json: bool) -> None:
    from harness.gate.text import render
    from harness.gate.verdict import REFUSED
    from harness.stages.gate import beside, drill

    lines = render(verdict, per_node=per_node)
    if as_json:
        echo_json({**verdict.to_json(), "drill": drill(folder)})
    if verdict.word == REFUSED:
        click.echo("\n".join(f"harness: {printable(line)}" for line in lines), err=True)
    elif not as_json:
        click.echo("\n".join([*lines[:-1], *beside(folder), lines[-1]]))


def _say_ladder(folder: RunFolder, verdict: LadderVerdict, *, as_json: bool) -> None:
    """Lines or one object; the numbers of a ladder that may not be quoted are shown too, and why on stderr."""
    from harness.e8.text import render
    from harness.gate.verdict import REFUSED
    from harness.stages.gate import beside, drill

    lines = render(verdict)
    if as_json:
        echo_json({**verdict.to_json(), "drill": drill(folder)})
    elif not verdict.ungraded:
        click.echo("\n".join([*lines[:-1], *beside(folder), lines[-1]]))
    if verdict.word == REFUSED:
        click.echo(f"harness: {printable(f'REFUSED {verdict.run}: {verdict.reason}')}", err=True)


def _history(folder: RunFolder, as_json: bool) -> int:
    from harness.history.gradings import gradings, render

    found = gradings(folder)
    if as_json:
        echo_json({"schema": 1, "run": folder.run, "gradings": [grading.to_json() for grading in found]})
    elif found:
        click.echo("\n".join(render(found)))
    else:
        click.echo(f"harness: {folder.run} was not graded yet; `harness gate {folder.run}` grades it", err=True)
    return found[-1].exit_code if found else EXIT_REFUSED
