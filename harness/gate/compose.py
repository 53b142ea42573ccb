"""Rows of gates and what is printed beside them → the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from harness.errors import EvidenceError
from harness.gate.load import Gate, digest
from harness.gate.row import Row
from harness.gate.summary import Record, Summary
from harness.gate.text import ms
from harness.gate.verdict import FAIL, PASS, NodeResult, TargetResult, Verdict
from harness.store.readers import one_line

# Findings by which a survivor of a lost backend is called FAIL.
JUDGE_SURVIVORS = frozenset({"failures", "driver_saturated", "in_flight", "below_plan", "above_plan", "off_plan"})


def compose(gates: list[Gate], rows: list[Row], summary: Summary) -> Verdict:
    """The verdict: PASS only without a single finding. Raises EvidenceError when a finding is on no planned target."""
    failed: dict[int | None, list[Row]] = {}
    for row in rows:
        if row.verdict == "FAIL":
            failed.setdefault(row.target_no, []).append(row)
    of_run = failed.pop(None, [])
    targets = tuple(_target(gates, failed.pop(record["target_no"], []), record, summary) for record in summary.targets)
    if failed:
        raise EvidenceError("a gate found something on a target that is not in the plan; make the tables again")
    run = summary.run
    return Verdict(
        run=run["run"],
        word=FAIL if of_run or any(target.findings for target in targets) else PASS,
        targets=targets,
        run_findings=tuple(row.finding() for row in of_run),
        run_reasons=tuple(
            (one_line(subject or "run"), " | ".join(reasons(gates, list(group))))
            for subject, group in groupby(of_run, key=lambda row: row.subject)
        ),
        lost=summary.lost,
        window=summary.window,
        notes=tuple(_notes(summary)),
        backends=run["backends"],
        not_run=summary.not_run,
        report_pass=run["report_pass"],
        source=run["source"],
        skipped_lines=run["skipped_lines"],
        send_delay_limit_ms=run["max_send_delay_ms"],
        gate_sha256=digest(),
    )


def _target(gates: list[Gate], failed: list[Row], record: Record, summary: Summary) -> TargetResult:
    nodes = tuple(summary.nodes.get(record["target_no"], ()))
    said: list[str] = []
    for gate in gates:
        mine = [row for row in failed if row.rule == gate.rule]
        said += reasons([gate], mine)
        if gate.rule == "lost_backend" and mine:
            said.append(_survivors(nodes, {row.node for row in failed if row.rule in JUDGE_SURVIVORS}))
    return TargetResult(
        **{key: record[key] for key in TargetResult.__dataclass_fields__ if key in record},
        findings=tuple(row.finding() for row in failed),
        reasons=tuple(said),
        nodes=nodes,
    )


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


def _notes(summary: Summary) -> Iterator[str]:
    run = summary.run
    if run["skipped_lines"]:
        yield f"{run['skipped_lines']} line(s) of the results stream hold no execution (torn, or not of this driver)"
    if run["log_present"] and run["log_summary"] is None and run["source"] == "report":
        yield "the sortie log has no summary line, so it does not say whether something was not run"
    if summary.totals_differ:
        yield f"totals of the report are not the sum of its results: {', '.join(summary.totals_differ)}"
    yield _send_delay(summary)
    blind = [str(target["target"]) for target in summary.targets if _should_have_delay(target)]
    if blind and run["max_send_delay_ms"] is not None:
        yield f"send delay not measured although this engine measures it: {', '.join(blind)}"


def _should_have_delay(target: Record) -> bool:
    return bool(target["own_engine"]) and target["send_delay_p99_ns"] is None


def _send_delay(summary: Summary) -> str:
    """The engines' own lateness, worst node per target; said also where it was not measured."""
    measured = {target["target"]: target["send_delay_p99_ns"] for target in summary.targets}
    if all(value is None for value in measured.values()):
        return "send delay (intended time to written): not measured"
    limit = summary.run["max_send_delay_ms"]
    words = [f"{name}={'not measured' if value is None else ms(value)}" for name, value in measured.items()]
    against = "no limit" if limit is None else f"limit {limit:g}"
    return f"send delay (intended time to written), p99 of the worst node in ms, {against}: {' '.join(words)}"
