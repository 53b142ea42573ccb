"""``harness explain``: what a rule asserts, from the rule's own file."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import find_run, json_option, runs_option
from harness.commands.output import echo_json
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.gate.load import Gate
    from harness.report.advice import Kept


@click.command()
@click.argument("rule", required=False)
@click.option("--run", help="Say what to do in this run: name the files that it has.")
@click.option("--sql", "with_sql", is_flag=True, help="Print the rule's SQL below it.")
@runs_option
@json_option
def explain(rule: str | None, run: str | None, with_sql: bool, runs_folder: Path, as_json: bool) -> None:
    """Say what a rule asserts and what to do if it is broken.

    Without RULE, list all rules in their order. What to do depends on what a run has: one from elsewhere has no logs of
    engines and proxies, and no settings of this harness. Both are told; with --run, what is right for that run.

    \b
    Example:
      harness explain lost_backend
      harness explain lost_backend --run quick-20261008T101500Z
    """
    from harness.gate.load import load_gates
    from harness.report.advice import kept

    of = kept(find_run(runs_folder, run)) if run else None

    rules = {gate.rule: gate for gate in load_gates()}
    if rule is None:
        if as_json:
            echo_json({"schema": 1, "rules": [_document(gate, of) for gate in rules.values()]})
            return
        for gate in rules.values():
            click.echo(f"{gate.rule:<22} {gate.asserts}")
        return
    if rule not in rules:
        near = difflib.get_close_matches(rule, rules, n=1)
        raise UsageError(
            f"there is no rule {rule}; " + (f"did you mean {near[0]}?" if near else "`harness explain` lists them all")
        )
    document = _document(rules[rule], of)
    if as_json:
        echo_json({"schema": 1, **document, **({"sql": rules[rule].sql} if with_sql else {})})
        return
    for name, value in document.items():
        click.echo(f"{name.replace('_', ' '):<10} {value}")
    if with_sql:
        click.echo("\n" + rules[rule].sql.rstrip())


def _document(gate: Gate, of: Kept | None) -> dict[str, str]:
    from harness.report.advice import ANY_FROM_ELSEWHERE, ANY_MADE_HERE, advice

    told = {"if_broken": advice(gate.rule, of or ANY_MADE_HERE)}
    if of is None and (elsewhere := advice(gate.rule, ANY_FROM_ELSEWHERE)) != told["if_broken"]:
        told["elsewhere"] = elsewhere
    return {
        "rule": gate.rule,
        "asserts": gate.asserts,
        "cause": gate.cause,
        "looks_at": ", ".join(gate.items),
        **told,
        "file": f"sql/gates/{gate.path.name}",
    }
