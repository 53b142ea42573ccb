"""Findings as a person reads them: one row per rule, cause and target, with its nodes; and what to do about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.report import words
from harness.report.advice import advice, kept
from harness.report.facts import Row
from harness.runs import RunFolder

BRACKETED = re.compile(r"(?P<lead>.*\[)(?P<part>[^\[\]]*)(?P<tail>\].*)")
"""How a gate says a node's share of a finding: ``http_5xx=24 [node-b=12]``, with the sum of the target before it."""

SHOWN = 4


@dataclass(frozen=True)
class Group:
    """What one rule found on targets that are alike in it. No targets: the finding is about the run itself."""

    rule: str
    cause: str | None
    nodes: tuple[str, ...]
    details: tuple[str, ...]
    targets: list[str] = field(default_factory=list)

    @property
    def shown(self) -> tuple[str, ...]:
        """The details that are printed at once."""
        return self.details if len(self.details) <= SHOWN + 1 else self.details[:SHOWN]

    @property
    def folded(self) -> tuple[str, ...]:
        """The others."""
        return self.details[len(self.shown) :]


def of_verdict(verdict: Mapping[str, Any]) -> list[tuple[str | None, Row]]:
    """Every finding with its target, None for the run's own, which come first."""
    found: list[tuple[str | None, Row]] = [(None, dict(finding)) for finding in verdict.get("run_findings") or []]
    for target in verdict.get("targets") or []:
        found += [(target.get("target"), dict(finding)) for finding in target.get("findings") or []]
    return found


def grouped(findings: Iterable[tuple[str | None, Row]]) -> list[Group]:
    """One group per rule, cause and target, rules in the order they were found; targets that say the same share one."""
    parts: dict[tuple[str, str | None, str | None], list[Row]] = {}
    for target, finding in findings:
        parts.setdefault((str(finding.get("rule")), finding.get("cause"), target), []).append(finding)
    groups: dict[tuple[Any, ...], Group] = {}
    for (rule, cause, target), rows in parts.items():
        nodes = tuple(dict.fromkeys(node for row in rows for node in _nodes(row)))
        details = tuple(_together(str(row.get("detail") or "") for row in rows))
        key = (rule, cause, nodes, details, target is None)
        group = groups.setdefault(key, Group(rule, cause, nodes, details))
        if target is not None:
            group.targets.append(target)
    order = list(dict.fromkeys(group.rule for group in groups.values()))
    return sorted(groups.values(), key=lambda group: order.index(group.rule))


def _nodes(finding: Row) -> list[str]:
    """The node of a finding; of one on a whole target, those that its detail names, as in ``[node-b=1.2s]``."""
    if finding.get("node"):
        return [str(finding["node"])]
    match = BRACKETED.fullmatch(str(finding.get("detail") or ""))
    pairs = [word.partition("=") for word in match["part"].split()] if match else []
    return [name for name, equals, _ in pairs if equals]


def _together(details: Iterable[str]) -> list[str]:
    """Details that differ only in the node's part are one, with the parts of all nodes."""
    said: dict[tuple[str, str], list[str]] = {}
    for detail in details:
        match = BRACKETED.fullmatch(detail)
        lead, part, tail = match.group("lead", "part", "tail") if match else (detail, "", "")
        said.setdefault((lead, tail), []).append(part)
    return [f"{lead}{' '.join(dict.fromkeys(parts))}{tail}" for (lead, tail), parts in said.items()]


def next_steps(
    folder: RunFolder, word: str, findings: Iterable[tuple[str | None, Row]], *, closed: bool = False
) -> list[str]:
    """What to do now, a sentence per broken rule in the order they were found.

    ``closed``: the run ended before it could be graded.
    """
    if closed:
        return ["There is nothing to grade. What was kept is in evidence/; a new run is needed: ./doit soak"]
    if word == "PASS":
        return ["Nothing has to be done. To set it beside other runs: harness sql run-by-run"]
    if word == "REFUSED":
        return [
            f"Nothing was judged: the evidence cannot be graded. Mend or restore what the reason names, "
            f"then: harness gate {folder.run}"
        ]
    if word == "UNPROVEN":
        return [
            "Nothing was found to be wrong, and not all that the rules need was counted: the notes name what. "
            "Only a run whose load generator counts it can pass"
        ]
    if word != "FAIL":
        return [f"Grade it: harness gate {folder.run}"]
    nodes: dict[str, set[str]] = {}
    causes: dict[str, set[str]] = {}
    for _, finding in findings:
        rule = str(finding.get("rule"))
        nodes.setdefault(rule, set()).update(_nodes(finding))
        causes.setdefault(rule, set()).add(str(finding.get("cause")))
    of = kept(folder)
    steps = [words.next_step(rule, advice(rule, of, names), causes[rule]) for rule, names in nodes.items()]
    return steps or [f"Read what the gate says: harness gate {folder.run} --per-node"]
