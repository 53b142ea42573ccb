"""What stands beside a verdict and judges nothing: what a zero proves, what the count range allows, what adds up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from harness.gate.summary import Summary
from harness.gate.text import ms
from harness.gate.verdict import NodeResult, TargetResult

NAMED = 8  # places that one note names


def notes(summary: Summary, targets: tuple[TargetResult, ...]) -> Iterator[str]:
    """One sentence each, in a fixed order."""
    run = summary.run
    if run["skipped_lines"]:
        yield f"{run['skipped_lines']} line(s) of the results stream hold no execution (torn, or not of this driver)"
    if run["log_present"] and run["log_summary"] is None and run["source"] == "report":
        yield "the sortie log has no summary line, so it does not say whether something was not run"
    if differ := [str(target["target"]) for target in summary.targets if target["totals_differ"]]:
        yield f"totals of the report are not the sum of its results: {', '.join(differ)}"
    yield from _contradictions(summary, targets)
    yield from _send_delay(summary)
    if summary.uncounted:
        yield f"not counted by the producer of this report, and so not measured: {', '.join(summary.uncounted)}"
    graded = [target for target in targets if target.state == "graded"]
    yield from _unruled(graded)
    yield from _zeros(graded)
    yield from _range(graded, run["floor_pct"])
    yield from _accounting(graded)


def _contradictions(summary: Summary, targets: tuple[TargetResult, ...]) -> Iterator[str]:
    """Where a finding already says that something is wrong, that two files disagree may be why."""
    for record, target in zip(summary.targets, targets, strict=True):
        if record["contradiction"] and all(finding.rule != "report_failed" for finding in target.findings):
            yield f"the evidence contradicts itself about {target.target}: {record['contradiction']}"
    if summary.run["contradiction"] and any(target.findings for target in targets):
        yield f"the evidence contradicts itself: {summary.run['contradiction']}"


def _send_delay(summary: Summary) -> Iterator[str]:
    """The engines' own lateness, worst node per target; said also where it was not measured."""
    measured = {target["target"]: target["send_delay_p99_ns"] for target in summary.targets}
    if all(value is None for value in measured.values()):
        yield "send delay (intended time to written): not measured"
    else:
        limit = summary.run["max_send_delay_ms"]
        words = [f"{name}={'not measured' if value is None else ms(value)}" for name, value in measured.items()]
        against = "no limit" if limit is None else f"limit {limit:g}"
        yield f"send delay (intended time to written), p99 of the worst node in ms, {against}: {' '.join(words)}"
    blind = [str(t["target"]) for t in summary.targets if t["own_engine"] and t["send_delay_p99_ns"] is None]
    if blind and summary.run["max_send_delay_ms"] is not None:
        yield f"send delay not measured although this engine measures it: {', '.join(blind)}"


def _zeros(targets: list[TargetResult]) -> Iterator[str]:
    """The rule of three beside every zero: for each target, and for the single node that proves least."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for target in targets:
        if target.sent and target.zero_below is not None:
            groups.setdefault(rounded_up(target.zero_below), []).append((target.target, target.sent))
    cells = [
        (node.sent, f"{t.target}/{node.node}") for t in targets for node in t.nodes if node.sent and node.zero_below
    ]
    words = [
        f"below {below} with 95 % confidence for {_few([name for name, _ in members])} "
        f"(0 of {_span(sent for _, sent in members)})"
        for below, members in groups.items()
    ]
    if cells:
        sent, where = min(cells)
        words.append(f"below {rounded_up(3 / sent)} for the node that was sent least (0 of {sent:,}, {where})")
    if words:
        yield f"what no failure says of the failure rate: {', '.join(words)}"


def rounded_up(value: float) -> str:
    """Two digits, never below ``value``: a bound must not promise more than it proves."""
    exponent = math.floor(math.log10(value))
    digits = math.ceil(value / 10.0 ** (exponent - 1) - 1e-9)
    if digits == 100:
        digits, exponent = 10, exponent + 1
    return f"{digits / 10:.1f}e{exponent}"


def _range(targets: list[TargetResult], floor_pct: int) -> Iterator[str]:
    """How many requests may be missing from a node before the count range tells."""
    allowed: dict[tuple[int, int], list[str]] = {}
    for target in targets:
        for planned in {node.planned for node in target.nodes if node.planned}:
            missing = planned - -(-planned * floor_pct // 100)
            allowed.setdefault((missing, planned), []).append(target.target)
    words = [f"{missing:,} of {planned:,} ({_few(names)})" for (missing, planned), names in allowed.items()]
    if words:
        yield f"missing on a node and still within {floor_pct} to {200 - floor_pct} % of its plan: {', '.join(words)}"


def _accounting(targets: list[TargetResult]) -> Iterator[str]:
    """Every released request has one outcome; where releases are not told, the plan stands in for them."""
    answered = [(t.target, node) for t in targets for node in t.nodes if node.outcomes is not None]
    told = [(name, node) for name, node in answered if node.released is not None]
    if told:
        off = [f"{name}/{node.node} {_gap(node)}" for name, node in told if node.unaccounted]
        held = f"one outcome for every request that was released, on {len(told) - len(off)} of {len(told)} backends"
        yield f"accounting: {held}{f'; not on {_few(off)}' if off else ''}"
    elif short := [node.planned - node.outcomes for _, node in answered if node.planned and node.outcomes is not None]:
        yield (
            "accounting: this report does not say how many requests were released; "
            f"outcomes short of the plan, per backend: {_span(short)}"
        )


def _gap(node: NodeResult) -> str:
    return f"({node.released:,} released, {node.outcomes:,} outcomes)"


def _unruled(targets: list[TargetResult]) -> Iterator[str]:
    """Counters that moved and that no rule judges, unknown ones above all: shown, never dropped."""
    totals: dict[str, int] = {}
    places: dict[str, list[str]] = {}
    for target in targets:
        for node, counters in target.unruled.items():
            for name, value in counters.items():
                totals[name] = totals.get(name, 0) + value
                places.setdefault(name, []).append(f"{target.target}/{node}={value}")
    if totals:
        words = [f"{name}={total} [{_few(places[name])}]" for name, total in sorted(totals.items())]
        yield f"counters that moved and that no rule judges: {' '.join(words)}"


def _span(numbers: Iterable[int]) -> str:
    listed = sorted(set(numbers))
    return f"{listed[0]:,}" if len(listed) == 1 else f"{listed[0]:,} to {listed[-1]:,}"


def _few(names: list[str]) -> str:
    """All names, or the first ones and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
