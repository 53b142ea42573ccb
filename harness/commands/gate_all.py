"""``harness gate --all``: every run graded in one process, one line each."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from harness.commands.output import echo_json
from harness.e8 import text as ladder_text
from harness.e8.verdict import LadderVerdict
from harness.errors import EXIT_PASS, EvidenceError, StageError, UsageError
from harness.gate.saved import grade_runs
from harness.gate.text import render
from harness.gate.verdict import REFUSED, Verdict
from harness.runs import RunFolder, run_folders
from harness.store.columns import LADDER
from harness.store.kinds import kind_of_run
from harness.terminal import LiveLine, printable


def grade_all(runs: Path, *, as_json: bool) -> int:
    """Grade every run in the folder, those without tables too, and store the verdicts. Returns the exit code.

    Raises UsageError for a folder without runs: nothing was graded, and that is no pass.
    """
    folders = run_folders(runs)
    if not folders:
        raise UsageError(f"there is no run in {runs}; `./doit soak` makes one, `harness adopt DIR` takes one in")
    words: Counter[str] = Counter()
    short: list[dict[str, object]] = []
    code = EXIT_PASS
    for verdict in _graded(runs, folders):
        words[verdict.word] += 1
        code = max(code, verdict.exit_code)
        if as_json:
            short.append(_short(verdict))
        else:
            click.echo(_line(verdict))
    told = " ".join(f"{word}={words[word]}" for word in ("PASS", "FAIL", "UNPROVEN", "REFUSED"))
    if as_json:
        echo_json({"schema": 1, "words": words, "runs": short})
    else:
        click.echo(f"RUNS {words.total()} {told}")
    return code


def _graded(runs: Path, folders: list[RunFolder]) -> Iterator[Verdict | LadderVerdict]:
    """Every run graded, in order; a run that has no tables and cannot have any is REFUSED."""
    from harness.e8 import grade as of_ladder

    refused = _make_tables(folders)
    ladders = {folder.run for folder in folders if kind_of_run(folder) == LADDER}
    graded = grade_runs(runs, [folder for folder in folders if folder.run not in refused.keys() | ladders])
    live = LiveLine("gate", plain_every_s=float("inf"), stream=sys.stderr)
    for number, folder in enumerate(folders, start=1):
        if live.rewrites and not number % 50:
            live.show(f"{number} of {len(folders)} runs graded")
        reason, is_ladder = refused.get(folder.run), folder.run in ladders
        verdict: Verdict | LadderVerdict
        if is_ladder:
            verdict = of_ladder.grade_run(folder)[0] if reason is None else of_ladder.refused(folder.run, reason)
        else:
            verdict = next(graded).verdict if reason is None else Verdict.refused(folder.run, reason)
        live.close()
        yield verdict


def _make_tables(folders: list[RunFolder]) -> dict[str, str]:
    """Make the tables of the runs that have none. Run → why it cannot have any."""
    from harness.stages.gate import check_verdicts
    from harness.store.held import hold_rows
    from harness.store.made import ensure_tables

    refused = {}
    live = LiveLine("tables", plain_every_s=float("inf"), stream=sys.stderr)
    for number, folder in enumerate(folders, start=1):
        if live.rewrites and not number % 50:
            live.show(f"{number} of {len(folders)} runs have tables")
        try:
            check_verdicts(folder)
            ensure_tables(folder, seal=_seal)
            if kind_of_run(folder) == LADDER:
                hold_rows(folder)
        except (EvidenceError, StageError) as error:
            refused[folder.run] = error.message
    live.close()
    return refused


def _seal(folder: RunFolder) -> None:
    from harness.stages.tables import check_seal

    check_seal(folder)


def _line(verdict: Verdict | LadderVerdict) -> str:
    """``WORD  run  counts``, or the reason of a refusal; the rules that found something are named."""
    if verdict.word == REFUSED:
        return printable(f"REFUSED  {verdict.run}  {verdict.reason}")
    if not isinstance(verdict, Verdict):
        return printable(f"{verdict.word}  {verdict.run}  {ladder_text.render(verdict)[-1].split(' ', 2)[2]}")
    counts = render(verdict)[-1].split(" ", 2)[2]
    found = [*(f for target in verdict.targets for f in target.findings), *verdict.run_findings]
    rules = dict.fromkeys(finding.rule for finding in found)
    return printable(f"{verdict.word}  {verdict.run}  {counts}" + (f"  rules={','.join(rules)}" if rules else ""))


def _short(verdict: Verdict | LadderVerdict) -> dict[str, object]:
    whole = verdict.to_json()
    if not isinstance(verdict, Verdict):
        kept = ("run", "kind", "arm", "verdict", "reason", "exit_code", "knee", "saturated", "bound", "runner_up")
        return {key: whole[key] for key in kept}
    return {key: whole[key] for key in ("run", "verdict", "reason", "exit_code", "counts", "run_findings")} | {
        "targets": {target.target: target.word for target in verdict.targets}
    }
