"""``harness explain``: what a rule asserts; one of soaks from its own file, one of ladders from its own function."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import find_run, json_option, runs_option
from harness.commands.output import echo_json, printable
from harness.errors import UsageError
from harness.runs import RunFolder

if TYPE_CHECKING:
    from harness.gate.load import Gate

WIDTH = 22


@click.command()
@click.argument("rule", required=False)
@click.option("--run", help="Say what to do in this run: name the files that it has, or what a ladder was refused for.")
@click.option("--sql", "with_sql", is_flag=True, help="Print the SQL of a soak's rule below it.")
@runs_option
@json_option
def explain(rule: str | None, run: str | None, with_sql: bool, runs_folder: Path, as_json: bool) -> None:
    """Say what a rule asserts, whose a finding is, and what to do if it is broken.

    Without RULE, list all rules in their order, those of ladders last; with --run, those of its kind. What to do about
    a soak depends on what a run has: one from elsewhere has no logs of engines and proxies, and no settings of this
    harness. Both are told; with --run, what is right for that run.

    \b
    Example:
      harness explain lost_backend
      harness explain lost_backend --run quick-20261008T101500Z
      harness explain sandbox_over_ceiling
    """
    from harness.e8.advice import ADVICE
    from harness.gate.load import load_gates

    folder = find_run(runs_folder, run) if run else None
    gates = {gate.rule: gate for gate in load_gates()}
    if rule is None:
        of_kind = None if folder is None else _is_ladder(folder)
        listed = [_of_soaks(gate, folder) for gate in gates.values() if of_kind is not True]
        listed += [_of_ladders(name, folder) for name in ADVICE if of_kind is not False]
        if as_json:
            echo_json({"schema": 1, "rules": listed})
        else:
            click.echo("\n".join(f"{each['rule']:<{WIDTH}} {each['asserts']}" for each in listed))
        return
    if rule not in gates and rule not in ADVICE:
        near = difflib.get_close_matches(rule, [*gates, *ADVICE], n=1)
        raise UsageError(
            f"there is no rule {rule}; " + (f"did you mean {near[0]}?" if near else "`harness explain` lists them all")
        )
    _check_kind(rule, folder, is_of_ladders=rule in ADVICE)
    document = _of_ladders(rule, folder) if rule in ADVICE else _of_soaks(gates[rule], folder)
    sql = gates[rule].sql if with_sql and rule in gates else None
    if as_json:
        echo_json({"schema": 1, **document, **({"sql": sql} if sql else {})})
        return
    for name, value in document.items():
        click.echo(f"{name.replace('_', ' '):<10} {printable(value)}")
    if sql:
        click.echo("\n" + sql.rstrip())


def _is_ladder(folder: RunFolder) -> bool:
    from harness.store.columns import LADDER
    from harness.store.kinds import kind_of_run

    return kind_of_run(folder) == LADDER


def _check_kind(rule: str, folder: RunFolder | None, *, is_of_ladders: bool) -> None:
    """A soak is never judged by a rule of ladders, nor a ladder by one of soaks. Raises UsageError."""
    if folder is not None and _is_ladder(folder) != is_of_ladders:
        kinds = ("ladders", "soak") if is_of_ladders else ("soaks", "ladder")
        raise UsageError(f"{rule} is a rule of {kinds[0]}, and run {folder.run} is a {kinds[1]}; leave --run out")


def _of_soaks(gate: Gate, folder: RunFolder | None) -> dict[str, str]:
    from harness.report.advice import ANY_FROM_ELSEWHERE, ANY_MADE_HERE, advice, kept

    told = {"if_broken": advice(gate.rule, kept(folder) if folder else ANY_MADE_HERE)}
    if folder is None and (elsewhere := advice(gate.rule, ANY_FROM_ELSEWHERE)) != told["if_broken"]:
        told["elsewhere"] = elsewhere
    return {
        "rule": gate.rule,
        "asserts": gate.asserts,
        "cause": gate.cause,
        "looks_at": ", ".join(gate.items),
        **told,
        "file": f"sql/gates/{gate.path.name}",
    }


def _of_ladders(rule: str, folder: RunFolder | None) -> dict[str, str]:
    from harness.e8.advice import ADVICE, explained

    about = explained(rule)
    return {
        "rule": rule,
        "asserts": about.asserts,
        "cause": ADVICE[rule].owner,
        "looks_at": f"a ladder, {about.judged}",
        "if_broken": ADVICE[rule].next_step,
        **({"found": _found(rule, folder)} if folder else {}),
        "file": about.file,
    }


def _found(rule: str, folder: RunFolder) -> str:
    """What the newest verdict of a ladder says by this rule."""
    from harness.history.inventory import DAMAGED, newest_verdict

    document = newest_verdict(folder)
    if document is None or document["verdict"] == DAMAGED:
        return f"no verdict that can be read; harness gate {folder.run} makes one"
    found = [str(each["sentence"]) for each in document["refusals"] if each["rule"] == rule]
    return "; ".join(found) or "nothing in the newest verdict"
