"""``harness explain``: what a rule asserts, from the rule's own file."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import click

from harness.commands.options import json_option
from harness.commands.output import echo_json
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.gate.load import Gate


@click.command()
@click.argument("rule", required=False)
@click.option("--sql", "with_sql", is_flag=True, help="Print the rule's SQL below it.")
@json_option
def explain(rule: str | None, with_sql: bool, as_json: bool) -> None:
    """Say what a rule asserts and what to do if it is broken.

    Without RULE, list all rules in their order.

    \b
    Example:
      harness explain lost_backend
    """
    from harness.gate.load import load_gates

    rules = {gate.rule: gate for gate in load_gates()}
    if rule is None:
        if as_json:
            echo_json({"schema": 1, "rules": [_document(gate) for gate in rules.values()]})
            return
        for gate in rules.values():
            click.echo(f"{gate.rule:<22} {gate.asserts}")
        return
    if rule not in rules:
        near = difflib.get_close_matches(rule, rules, n=1)
        raise UsageError(
            f"there is no rule {rule}; " + (f"did you mean {near[0]}?" if near else "`harness explain` lists them all")
        )
    document = _document(rules[rule])
    if as_json:
        echo_json({"schema": 1, **document, **({"sql": rules[rule].sql} if with_sql else {})})
        return
    for name, value in document.items():
        click.echo(f"{name.replace('_', ' '):<10} {value}")
    if with_sql:
        click.echo("\n" + rules[rule].sql.rstrip())


def _document(gate: Gate) -> dict[str, str]:
    from harness.report.words import advice

    return {
        "rule": gate.rule,
        "asserts": gate.asserts,
        "cause": gate.cause,
        "looks_at": ", ".join(gate.items),
        "if_broken": advice(gate.rule),
        "file": f"sql/gates/{gate.path.name}",
    }
