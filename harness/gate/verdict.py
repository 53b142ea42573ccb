"""What a grading comes to: findings per target and node, counts, a word, an exit code.

Named tuples where there can be: making such a class takes a quarter of the time of a frozen dataclass, of which every
grading of one run would make six, and of its objects a grading of many makes tens of thousands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from harness.errors import EXIT_FAIL, EXIT_PASS, EXIT_REFUSED

SCHEMA = 1
PASS, FAIL, UNPROVEN, REFUSED = "PASS", "FAIL", "UNPROVEN", "REFUSED"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. ``cause`` is mesh, driver, plan or evidence: whose it is.

    ``count`` is requests, where the rule counts some. ``detail`` is the finding in words. ``subject`` names what a
    finding about the run is about (a label, a file).
    """

    rule: str
    node: str | None
    failure_class: str | None
    count: int | None
    cause: str
    detail: str
    subject: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The form of ``--json``; ``subject`` only where there is one."""
        value: dict[str, Any] = {
            "rule": self.rule,
            "node": self.node,
            "class": self.failure_class,
            "count": self.count,
            "cause": self.cause,
            "detail": self.detail,
        }
        return value | {"subject": self.subject} if self.subject else value


class NodeResult(NamedTuple):
    """One cell of the grid: what a node did for a target. None is not measured.

    ``sent`` requests left the engine; ``outcomes`` are those that ended in some way, in the engine's own queue too;
    ``released`` is what its pacing let go. ``failures`` holds the counters of the zero-failure set that moved,
    ``unmeasured`` the rules and classes that this node's producer did not count.
    """

    node: str
    backend: str
    state: str  # returned | lost | lost, returned nothing | refused | silent | not dispatched | not graded
    http_2xx: int | None
    planned: int | None
    sent: int | None
    outcomes: int | None
    released: int | None
    rate_rps: float | None
    elapsed_ms: int | None
    started_at: str | None
    p50_ns: float | None
    p99_ns: float | None
    max_ns: float | None
    send_delay_p99_ns: float | None
    error: str | None
    failures: dict[str, int] | None
    unmeasured: tuple[str, ...] = ()

    @property
    def zero_below(self) -> float | None:
        """The failure rate ruled out by no failure; None where one was seen or not counted, or nothing was sent."""
        clean = self.failures is not None and not self.failures and not self.unmeasured
        return rule_of_three(self.sent) if clean else None

    @property
    def unaccounted(self) -> int | None:
        """Released requests without an outcome, negative for outcomes of none; None where either was not counted."""
        return None if self.released is None or self.outcomes is None else self.released - self.outcomes

    def to_json(self) -> dict[str, Any]:
        """The form of ``--json``."""
        own = {**self._asdict(), "unmeasured": list(self.unmeasured)}
        return own | {"zero_below": self.zero_below, "unaccounted": self.unaccounted}


def rule_of_three(requests: int | None) -> float | None:
    """The rate that 0 failures among ``requests`` rule out with 95 % confidence: 3/n (ASQ 2007, the rule of three)."""
    return 3 / requests if requests else None


class TargetResult(NamedTuple):
    """One planned target. ``reasons`` are its findings in words, in the gates' order.

    ``unmeasured`` is what a rule needed and the producer did not count; ``unruled`` maps a node to the counters that
    moved and that no rule judges.
    """

    target: str
    state: str  # graded | missing | duplicate | not_run
    share_rps: int
    http_2xx: int | None
    planned: int | None
    sent: int | None
    rate_rps: float | None
    survivors: int
    p50_ns: float | None
    p99_ns: float | None
    max_ns: float | None
    send_delay_p99_ns: float | None
    findings: tuple[Finding, ...]
    reasons: tuple[str, ...]
    nodes: tuple[NodeResult, ...]
    unmeasured: tuple[Finding, ...] = ()
    unruled: Mapping[str, Mapping[str, int]] = MappingProxyType({})

    @property
    def word(self) -> str:
        """A target passes only without a single finding, and with all measured that a rule needs."""
        return FAIL if self.findings else UNPROVEN if self.unmeasured else PASS

    @property
    def zero_below(self) -> float | None:
        """The failure rate ruled out by no failure on any node; None where one was seen or something not measured."""
        seen = [node for node in self.nodes if node.failures is not None]
        clean = seen and not self.unmeasured and not any(node.failures for node in seen)
        return rule_of_three(self.sent) if clean else None

    def to_json(self) -> dict[str, Any]:
        """The form of ``--json``."""
        return {
            "target": self.target,
            "verdict": self.word,
            "http_2xx": self.http_2xx,
            "planned": self.planned,
            "sent": self.sent,
            "zero_below": self.zero_below,
            "rate_rps": self.rate_rps,
            "p50_ns": self.p50_ns,
            "p99_ns": self.p99_ns,
            "max_ns": self.max_ns,
            "send_delay_p99_ns": self.send_delay_p99_ns,
            "findings": [finding.to_json() for finding in self.findings],
            "unmeasured": [finding.to_json() for finding in self.unmeasured],
            "unruled": {node: dict(counters) for node, counters in self.unruled.items()},
            "nodes": [node.to_json() for node in self.nodes],
        }


class LostBackend(NamedTuple):
    """A lost address: on how many targets, and the first error that was given for it."""

    node: str
    backend: str
    targets: int
    error: str


class Window(NamedTuple):
    """When the load was, from the report's own times (``…Z``, three decimals); a driver's, where there was one."""

    dispatched: str | None
    ended: str | None
    engines_started_first: str | None
    engines_started_last: str | None

    def to_json(self) -> dict[str, Any]:
        """The form of ``--json``."""
        return self._asdict()


class Verdict(NamedTuple):
    """The whole of a grading. ``run_findings`` concern no planned target; ``run_reasons`` (subject, words) say them."""

    run: str
    word: str
    reason: str | None = None
    targets: tuple[TargetResult, ...] = ()
    run_findings: tuple[Finding, ...] = ()
    run_reasons: tuple[tuple[str, str], ...] = ()
    lost: tuple[LostBackend, ...] = ()
    window: Window | None = None
    notes: tuple[str, ...] = ()
    backends: int = 0
    not_run: int = 0
    report_pass: bool | None = None
    source: str = "report"
    skipped_lines: int = 0
    send_delay_limit_ms: float | None = None
    not_measured: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    gate_sha256: str = ""

    @classmethod
    def refused(cls, run: str, reason: str) -> Verdict:
        """Evidence that cannot be graded, and why, in one sentence."""
        from harness.gate.load import digest

        return cls(run=run, word=REFUSED, reason=reason, gate_sha256=digest())

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 2 REFUSED or UNPROVEN."""
        return {PASS: EXIT_PASS, FAIL: EXIT_FAIL}.get(self.word, EXIT_REFUSED)

    @property
    def unproven(self) -> int:
        """Targets without a finding on which something was not measured that a rule needs."""
        return sum(target.word == UNPROVEN for target in self.targets)

    @property
    def counts(self) -> dict[str, int]:
        """``failed`` counts failed targets and labels outside the plan, so passed + failed may exceed targets.

        A target that is UNPROVEN is in neither.
        """
        words = [target.word for target in self.targets]
        failed = words.count(FAIL)
        strangers = sum(finding.rule == "unplanned_target" for finding in self.run_findings)
        return {
            "targets": len(self.targets),
            "passed": words.count(PASS),
            "failed": failed + strangers,
            "not_run": self.not_run,
            "backends": self.backends,
            "lost_backends": len(self.lost),
        }

    def to_json(self) -> dict[str, Any]:
        """The machine's form. A refusal has ``reason`` and no counts."""
        return {
            "schema": SCHEMA,
            "run": self.run,
            "verdict": self.word,
            "reason": self.reason,
            "exit_code": self.exit_code,
            "counts": None if self.word == REFUSED else self.counts,
            "targets": [target.to_json() for target in self.targets],
            "run_findings": [finding.to_json() for finding in self.run_findings],
            "lost_backends": [lost._asdict() for lost in self.lost],
            "window": self.window.to_json() if self.window else None,
            "notes": list(self.notes),
            "source": self.source,
            "skipped_lines": self.skipped_lines,
            "report_pass": self.report_pass,
            "send_delay_limit_ms": self.send_delay_limit_ms,
            "not_measured": list(self.not_measured),
            "unproven": self.unproven,
            "rules": list(self.rules),
            "gate_sha256": self.gate_sha256,
        }
