"""What a grading comes to: findings per target and node, counts, a word, an exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.errors import EXIT_FAIL, EXIT_PASS, EXIT_REFUSED

SCHEMA = 1
PASS, FAIL, REFUSED = "PASS", "FAIL", "REFUSED"


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


@dataclass(frozen=True)
class NodeResult:
    """One cell of the grid: what a node did for a target. None is not measured."""

    node: str
    backend: str
    state: str  # returned | lost | lost, returned nothing | refused | silent | not dispatched | not graded
    http_2xx: int | None
    planned: int | None
    rate_rps: float | None
    elapsed_ms: int | None
    started_at: str | None
    p50_ns: float | None
    p99_ns: float | None
    max_ns: float | None
    send_delay_p99_ns: float | None
    failures: dict[str, int] | None
    error: str | None

    def to_json(self) -> dict[str, Any]:
        """The form of ``--json``."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class TargetResult:
    """One planned target. ``reasons`` are its findings in words, in the gates' order."""

    target: str
    state: str  # graded | missing | duplicate | not_run
    share_rps: int
    http_2xx: int | None
    planned: int | None
    rate_rps: float | None
    survivors: int
    p50_ns: float | None
    p99_ns: float | None
    max_ns: float | None
    send_delay_p99_ns: float | None
    findings: tuple[Finding, ...]
    reasons: tuple[str, ...]
    nodes: tuple[NodeResult, ...]

    @property
    def word(self) -> str:
        """A target passes only without a single finding."""
        return FAIL if self.findings else PASS

    def to_json(self) -> dict[str, Any]:
        """The form of ``--json``."""
        return {
            "target": self.target,
            "verdict": self.word,
            "http_2xx": self.http_2xx,
            "planned": self.planned,
            "rate_rps": self.rate_rps,
            "p50_ns": self.p50_ns,
            "p99_ns": self.p99_ns,
            "max_ns": self.max_ns,
            "send_delay_p99_ns": self.send_delay_p99_ns,
            "findings": [finding.to_json() for finding in self.findings],
            "nodes": [node.to_json() for node in self.nodes],
        }


@dataclass(frozen=True)
class LostBackend:
    """A lost address: on how many targets, and the first error that was given for it."""

    node: str
    backend: str
    targets: int
    error: str


@dataclass(frozen=True)
class Window:
    """When the load was, from the report's own times (``…Z``, three decimals)."""

    dispatched: str
    ended: str | None
    engines_started_first: str | None
    engines_started_last: str | None

    def to_json(self) -> dict[str, Any]:
        """The form of ``--json``."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Verdict:
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
    gate_sha256: str = ""

    @classmethod
    def refused(cls, run: str, reason: str) -> Verdict:
        """Evidence that cannot be graded, and why, in one sentence."""
        from harness.gate.load import digest

        return cls(run=run, word=REFUSED, reason=reason, gate_sha256=digest())

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 2 REFUSED."""
        return {PASS: EXIT_PASS, FAIL: EXIT_FAIL}.get(self.word, EXIT_REFUSED)

    @property
    def counts(self) -> dict[str, int]:
        """``failed`` counts failed targets and labels outside the plan, so passed + failed may exceed targets."""
        failed = sum(target.word == FAIL for target in self.targets)
        strangers = sum(finding.rule == "unplanned_target" for finding in self.run_findings)
        return {
            "targets": len(self.targets),
            "passed": len(self.targets) - failed,
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
            "lost_backends": [dict(lost.__dict__) for lost in self.lost],
            "window": self.window.to_json() if self.window else None,
            "notes": list(self.notes),
            "source": self.source,
            "skipped_lines": self.skipped_lines,
            "report_pass": self.report_pass,
            "send_delay_limit_ms": self.send_delay_limit_ms,
            "gate_sha256": self.gate_sha256,
        }
