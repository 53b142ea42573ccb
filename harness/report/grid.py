"""The grid target × node: what every cell says, in a word, a symbol and a colour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.report.facts import Row

PASSED = "passed"
FAILED = "failed"
LOST = "lost"
THRESHOLD = "threshold broken"
DRIVER = "driver"
REFUSED = "refused"
NOT_RUN = "not run"
MISSING = "missing"
UNPROVEN = "unproven"
NOT_GRADED = "not graded"
NOT_MEASURED = "not measured"

STATES: dict[str, tuple[str, str, str]] = {
    PASSED: ("✓", "good", "every rule holds"),
    FAILED: ("✕", "bad", "a rule was broken, and not by the load generator"),
    THRESHOLD: ("≠", "bad", "its own value breaks a threshold of the plan"),
    LOST: ("∅", "bad", "the engine of this node went away"),
    DRIVER: ("△", "warn", "the load generator fell short, the mesh is not blamed"),
    REFUSED: ("⊘", "warn", "an engine was full and refused"),
    NOT_RUN: ("–", "warn", "the driver never attempted it"),
    MISSING: ("?", "bad", "planned, and not in the report"),
    UNPROVEN: ("○", "warn", "nothing was found, and not all that a rule needs was counted"),
    NOT_GRADED: ("·", "none", "the gate did not judge it"),
    NOT_MEASURED: ("·", "none", "there is no number to judge"),
}
"""State → its symbol, its CSS class, and what it means."""

SHOWN_CLASSES = 3
Finding = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One target on one node. Numbers are None where they were not measured."""

    node: str
    state: str
    numbers: Row
    failures: list[tuple[str, int]]
    rules: list[str]

    @property
    def most_failures(self) -> list[tuple[str, int]]:
        """The classes that moved most, as many as a cell has room for."""
        return sorted(self.failures, key=lambda failure: -failure[1])[:SHOWN_CLASSES]

    @property
    def symbol(self) -> str:
        """The state as one character."""
        return STATES[self.state][0]

    @property
    def colour(self) -> str:
        """The state as a CSS class."""
        return STATES[self.state][1]


@dataclass(frozen=True)
class GridRow:
    """One target over all nodes, with the findings that name no node."""

    target: str
    verdict: str
    http_2xx: int | None
    planned: int | None
    rules: list[str]
    cells: list[Cell] = field(default_factory=list)

    @property
    def colour(self) -> str:
        """The verdict as a CSS class."""
        return {"PASS": "good", "FAIL": "bad"}.get(self.verdict, "none")


def build_grid(cells: Iterable[Row], failures: Iterable[Row], verdict: Mapping[str, Any]) -> list[GridRow]:
    """Rows in plan order, cells in node order. Without a verdict (REFUSED) no cell is called passed."""
    graded = {target.get("target"): target for target in verdict.get("targets") or []}
    moved: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for failure in failures:
        moved[failure["target"], failure["node"]].append((failure["class"], failure["value"]))
    rows: dict[str, GridRow] = {}
    for numbers in cells:
        name, node = numbers["target"], numbers["node"]
        target = graded.get(name, {})
        findings: list[Finding] = target.get("findings") or []
        if name not in rows:
            rows[name] = GridRow(
                name,
                target.get("verdict") or "not graded",
                target.get("http_2xx"),
                target.get("planned"),
                _rules(f for f in findings if not f.get("node")),
            )
        own = [finding for finding in findings if finding.get("node") == node]
        if numbers["breaks_threshold"]:
            own += [{**finding, "node": node} for finding in findings if finding.get("rule") == "threshold"][:1]
        state = cell_state(own, findings, numbers, verdict=target.get("verdict"))
        rows[name].cells.append(Cell(node, state, numbers, moved[name, node], _rules(own)))
    for name, target in graded.items():
        if name not in rows:
            findings = target.get("findings") or []
            rows[name] = GridRow(
                name,
                target.get("verdict") or "not graded",
                target.get("http_2xx"),
                target.get("planned"),
                _rules(findings),
            )
    return list(rows.values())


def cell_state(own: list[Finding], of_target: list[Finding], numbers: Row, *, verdict: str | None) -> str:
    """The worst that is known of a cell: what names its node first, then what the whole target has.

    ``verdict`` is the target's, None where it was not graded.
    """
    rules = {finding.get("rule") for finding in own}
    if "lost_backend" in rules:
        return LOST
    if "refused_at_cap" in rules:
        return REFUSED
    if rules == {"threshold"}:
        return THRESHOLD
    if own:
        return DRIVER if all(finding.get("cause") == "driver" for finding in own) else FAILED
    whole_target = {finding.get("rule") for finding in of_target}
    for rule, state in (("missing", MISSING), ("not_run", NOT_RUN), ("refused_at_cap", REFUSED)):
        if rule in whole_target and not numbers["returned"]:
            return state
    if verdict is None:
        return NOT_GRADED
    if verdict == "UNPROVEN" and numbers["readable"]:
        return UNPROVEN
    return PASSED if numbers["returned"] and numbers["http_2xx"] is not None else NOT_MEASURED


def _rules(findings: Iterable[Finding]) -> list[str]:
    return sorted({str(finding.get("rule")) for finding in findings})
