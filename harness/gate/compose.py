"""Rows of gates and what is printed beside them → the verdict of one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from harness.errors import EvidenceError
from harness.gate.load import Gate
from harness.gate.notes import notes
from harness.gate.row import Row
from harness.gate.summary import Record, Summary
from harness.gate.verdict import FAIL, PASS, UNPROVEN, Finding, NodeResult, TargetResult, Verdict
from harness.store.readers import one_line

# Findings by which a survivor of a lost backend is called FAIL.
JUDGE_SURVIVORS = frozenset({"failures", "driver_saturated", "in_flight", "below_plan", "above_plan", "off_plan"})


def compose(gates: list[Gate], rows: Iterable[Row], summary: Summary, gate_sha256: str) -> Verdict:
    """The verdict: PASS only without a finding, and with nothing unmeasured that a rule needs.

    Raises EvidenceError when a row is on no planned target.
    """
    failed: dict[int | None, list[Row]] = {}
    unmeasured: dict[int | None, list[Row]] = {}
    for row in rows:
        (failed if row.verdict == "FAIL" else unmeasured).setdefault(row.target_no, []).append(row)
    of_run = failed.pop(None, [])
    targets = tuple(
        _target(gates, failed.pop(record["target_no"], []), unmeasured.pop(record["target_no"], []), record, summary)
        for record in summary.targets
    )
    if failed or unmeasured:
        raise EvidenceError("a gate found something on a target that is not in the plan; make the tables again")
    run = summary.run
    return Verdict(
        run=run["run"],
        word=_word(bool(of_run), targets),
        targets=targets,
        run_findings=tuple(row.finding() for row in of_run),
        run_reasons=tuple(
            (one_line(subject or "run"), " | ".join(reasons(gates, list(group))))
            for subject, group in groupby(of_run, key=lambda row: row.subject)
        ),
        lost=tuple(summary.lost),
        window=summary.window,
        notes=tuple(notes(summary, targets)),
        backends=run["backends"],
        not_run=summary.not_run,
        report_pass=run["report_pass"],
        source=run["source"],
        skipped_lines=run["skipped_lines"],
        send_delay_limit_ms=run["max_send_delay_ms"],
        not_measured=tuple(summary.uncounted),
        rules=tuple(gate.rule for gate in gates),
        gate_sha256=gate_sha256,
    )


def _word(run_failed: bool, targets: tuple[TargetResult, ...]) -> str:
    words = {target.word for target in targets}
    if run_failed or FAIL in words:
        return FAIL
    return UNPROVEN if UNPROVEN in words else PASS


def _target(
    gates: list[Gate], failed: list[Row], unmeasured: list[Row], record: Record, summary: Summary
) -> TargetResult:
    nodes = tuple(_told(node, unmeasured) for node in summary.nodes.get(record["target_no"], ()))
    said: list[str] = []
    for gate in gates if failed else ():
        mine = [row for row in failed if row.rule == gate.rule]
        said += reasons([gate], mine)
        if gate.rule == "lost_backend" and mine:
            said.append(_survivors(nodes, {row.node for row in failed if row.rule in JUDGE_SURVIVORS}))
    return TargetResult(
        **{key: record[key] for key in TARGET_FIELDS},
        findings=tuple(row.finding() for row in failed),
        reasons=tuple(said),
        nodes=nodes,
        unmeasured=tuple(_unmeasured(row) for row in unmeasured),
        unruled=summary.unruled.get(record["target_no"], {}),
    )


TARGET_FIELDS = (
    "target", "state", "share_rps", "http_2xx", "planned", "sent", "rate_rps", "survivors", "p50_ns", "p99_ns",
    "max_ns", "send_delay_p99_ns",
)  # fmt: skip


def _told(node: NodeResult, unmeasured: list[Row]) -> NodeResult:
    """The node with what was not measured there."""
    mine = tuple(row.failure_class or row.rule for row in unmeasured if row.node == node.node)
    return node._replace(unmeasured=mine) if mine else node


def _unmeasured(row: Row) -> Finding:
    """What a rule needed and nobody counted: whose it is, is the evidence's."""
    what = row.failure_class or row.rule
    return Finding(row.rule, row.node, row.failure_class, None, "evidence", f"{what} was not measured")


def reasons(gates: list[Gate], failed: list[Row]) -> Iterator[str]:
    """Findings of one target (or of one subject) in words, in the gates' order, the parts of each said together."""
    for gate in gates:
        mine = [row for row in failed if row.rule == gate.rule]
        groups: dict[tuple[str | None, str | None], list[str]] = {}
        for row in mine:
            groups.setdefault((row.lead, row.tail), []).extend([row.part] if row.part is not None else [])
        texts = [
            one_line(f"{lead or gate.rule}{' '.join(parts)}{tail or ''}") for (lead, tail), parts in groups.items()
        ]
        if texts:
            yield gate.reason.replace("{}", gate.between.join(texts))


def _survivors(nodes: tuple[NodeResult, ...], failing: set[str | None]) -> str:
    words = [f"{node.node}={'FAIL' if node.node in failing else 'ok'}" for node in nodes if node.state == "returned"]
    return "survivors " + " ".join(words) if words else "no backend survived"
