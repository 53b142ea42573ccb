"""The verdict as lines of text, in the shapes that people and scripts know. Free text never makes a line of its own."""

from __future__ import annotations

from collections.abc import Iterator

from harness.gate.verdict import FAIL, PASS, REFUSED, NodeResult, TargetResult, Verdict
from harness.store.readers import one_line


def render(verdict: Verdict, *, per_node: bool = False) -> list[str]:
    """All lines, the verdict line last. A refusal is one line, which is no VERDICT line."""
    if verdict.word == REFUSED:
        return [one_line(f"REFUSED {verdict.run}: {verdict.reason}")]
    return [_whole(line) for line in _lines(verdict, per_node)]


def _lines(verdict: Verdict, per_node: bool) -> Iterator[str]:
    for target in verdict.targets:
        yield _target(target, verdict.backends)
        if per_node and target.state == "graded":
            yield from _nodes(target)
    for subject, reason in verdict.run_reasons:
        yield f"FAIL  {subject}  -- {reason}"
    for lost in verdict.lost:
        address = "" if lost.backend == lost.node else f" ({lost.backend})"
        yield f"LOST  {lost.node}{address}  targets={lost.targets}  error: {lost.error}"
    if window := verdict.window:
        engines = ""
        if window.engines_started_first:
            engines = f" engines_started={window.engines_started_first}..{window.engines_started_last}"
        yield f"WINDOW  dispatched={window.dispatched or '?'} ended={window.ended or '?'}{engines}"
    for note in verdict.notes:
        yield f"NOTE  {note}"
    yield _verdict(verdict)


def _target(target: TargetResult, backends: int) -> str:
    line = f"{target.word}  {target.target}"
    reason = " | ".join(target.reasons) if target.word == FAIL else f"not measured: {_unmeasured(target)}"
    if target.state != "graded":
        return f"{line}  -- {reason}"
    rate = "?" if target.rate_rps is None else brief(target.rate_rps)
    line += f"  rate={rate}/{target.share_rps * backends}rps"
    if target.http_2xx is not None:
        line += f" http_2xx={target.http_2xx}/{'?' if target.planned is None else target.planned}"
    elif target.sent is not None:
        line += f" requests={target.sent}/{'?' if target.planned is None else target.planned}"
    line += f" backends={target.survivors}/{backends}  "
    line += "failures=none" if target.word == PASS else f"-- {reason}"
    if target.p50_ns is not None and target.p99_ns is not None:
        line += f"  lat p50<={ms(target.p50_ns)} p99<={ms(target.p99_ns)} max<={ms(target.max_ns)}"
    return line


def _unmeasured(target: TargetResult) -> str:
    """The rules that lacked a count, each with the classes of failure that nobody counted."""
    classes: dict[str, list[str]] = {}
    for finding in target.unmeasured:
        named = classes.setdefault(finding.rule, [])
        if finding.failure_class and finding.failure_class not in named:
            named.append(finding.failure_class)
    return " | ".join(f"{rule} [{' '.join(names)}]" if names else rule for rule, names in classes.items())


def _nodes(target: TargetResult) -> Iterator[str]:
    for node in target.nodes:
        if node.state in ("returned", "lost"):
            yield _node(target, node)
    for node in target.nodes:
        if node.state == "lost, returned nothing":
            yield f"NODE  {target.target}  {node.node}  LOST, returned nothing"
    for node in target.nodes:
        if node.state == "refused":
            yield f"NODE  {target.target}  {node.node}  REFUSED the start: {node.error or 'no error given'}"
    for node in target.nodes:
        if node.state in ("silent", "not dispatched"):
            said = "dispatched, returned nothing" if node.state == "silent" else "not dispatched"
            yield f"NODE  {target.target}  {node.node}  {said}"


def _node(target: TargetResult, node: NodeResult) -> str:
    count = "?" if node.http_2xx is None else node.http_2xx
    rate = "?" if node.rate_rps is None else brief(node.rate_rps)
    line = f"NODE  {target.target}  {node.node}  http_2xx={count}/{node.planned} rate={rate}/{target.share_rps}rps"
    if node.http_2xx is None and node.sent is not None:
        line += f" requests={node.sent}"
    if node.started_at:
        line += f" started={node.started_at}"
    if node.p50_ns is not None and node.p99_ns is not None:
        line += f" p50={ms(node.p50_ns)} p99={ms(node.p99_ns)} max={ms(node.max_ns)}"
    moved = " ".join(f"{name}={value}" for name, value in sorted((node.failures or {}).items()))
    none = "failures=none of those counted" if node.unmeasured else "failures=none"
    return f"{line} {f'failures {moved}' if moved else none}{' LOST' if node.state == 'lost' else ''}"


def _verdict(verdict: Verdict) -> str:
    counts = " ".join(f"{name}={value}" for name, value in verdict.counts.items())
    passed = {True: "true", False: "false", None: "absent"}[verdict.report_pass]
    line = f"VERDICT {verdict.word} {counts} report_pass={passed}"
    if verdict.source == "stream":
        line += f" source=stream skipped_lines={verdict.skipped_lines}"
    return f"{line} unproven={verdict.unproven}" if verdict.unproven else line


def brief(number: float) -> str:
    """Two decimals at most, trailing zeros dropped."""
    return _trimmed(f"{number:.2f}")


def ms(value_ns: float | None) -> str:
    """Nanoseconds as milliseconds: no decimals from 100, one from 10, else two, zeros dropped; None is ``?``."""
    if value_ns is None:
        return "?"
    value = value_ns / 1e6
    return _trimmed(f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}")


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _whole(line: str) -> str:
    """The line without line ends and control characters; its double spaces, which separate fields, are kept."""
    if line.isprintable():
        return line
    return "".join(character if character.isprintable() else " " for character in line)
