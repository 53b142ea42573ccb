"""One row of a gate."""

from __future__ import annotations

from dataclasses import dataclass

from harness.gate.verdict import Finding
from harness.store.readers import one_line


@dataclass(frozen=True)
class Row:
    """One row of a gate: a planned item and what was found there.

    ``verdict`` is PASS, FAIL, SKIP (another rule says why nothing can be judged here) or UNMEASURED. A finding in
    words is ``lead + part + tail``; findings of one target with equal lead and tail are said together. ``place`` is the
    item's order among those of its target.
    """

    rule: str
    run: str
    item: str
    verdict: str
    cause: str
    target_no: int | None = None
    place: int | None = None
    node: str | None = None
    failure_class: str | None = None
    count: int | None = None
    subject: str | None = None
    lead: str | None = None
    part: str | None = None
    tail: str | None = None

    def finding(self) -> Finding:
        """The row as a finding."""
        detail = one_line(f"{self.lead or ''}{self.part or ''}{self.tail or ''}")
        count = None if self.count is None else int(self.count)
        return Finding(self.rule, self.node, self.failure_class, count, self.cause, detail, self.subject)
