"""Verdicts made by hand: what no field says is not measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.gate.verdict import FAIL, PASS, UNPROVEN, Finding, NodeResult, TargetResult, Verdict


def finding(rule: str, node: str | None = None, failure_class: str | None = None, **other: Any) -> Finding:
    """A finding of the mesh, unless ``cause`` says whose it is."""
    return Finding(
        **{"rule": rule, "node": node, "failure_class": failure_class, "count": None, "cause": "mesh"}
        | {"detail": f"{rule} is broken"}
        | other
    )


def node(name: str, **other: Any) -> NodeResult:
    """A cell that returned all of its 540 requests within a minute."""
    fields = {"node": name, "backend": f"{name}:7000", "state": "returned", "http_2xx": 540, "planned": 540}
    fields |= {"elapsed_ms": 60_004, "unmeasured": ()}
    return NodeResult(**dict.fromkeys(NodeResult._fields) | fields | other)


def target(name: str, nodes: Iterable[str | NodeResult] = ("north", "south"), **other: Any) -> TargetResult:
    """A target that was graded on these nodes, without finding."""
    fields = {"target": name, "state": "graded", "share_rps": 9, "survivors": 2, "http_2xx": 1080, "planned": 1080}
    fields |= {"p99_ns": 1.5e6, "findings": (), "reasons": (), "unmeasured": (), "unruled": {}}
    fields |= {"nodes": tuple(node(each) if isinstance(each, str) else each for each in nodes)}
    return TargetResult(**dict.fromkeys(TargetResult._fields) | fields | other)


def verdict(*targets: TargetResult, **other: Any) -> Verdict:
    """The verdict of run quick-1 that follows from its targets and run findings."""
    words = {each.word for each in targets} | ({FAIL} if other.get("run_findings") else set())
    word = next(word for word in (FAIL, UNPROVEN, PASS) if word in words | {PASS})
    fields = {"run": "quick-1", "word": word, "targets": targets, "backends": 2, "gate_sha256": "ab" * 32}
    return Verdict(**fields | other)
