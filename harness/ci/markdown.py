"""The verdict as a step summary of GitHub: the verdict first, details folded, never so long that it is dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.gate.text import brief, ms
from harness.gate.verdict import FAIL, PASS, REFUSED, Finding, LostBackend, NodeResult, TargetResult, Verdict
from harness.store.source import KINDS
from harness.terminal import printable

LIMIT_BYTES = 1_000_000
"""GitHub drops the summary of a step whole when it is over 1 MiB; the rest is room for what others append."""

LONGEST = 200  # characters of a name; a longer one is cut
LONGEST_PROSE = 2_000
MOST = 20  # failure classes in one row
UNKNOWN = "not measured"
WORST_FIRST = {FAIL: 0, PASS: 2}  # any other word stands between them
PLAIN = frozenset(" -,;()'\"/+=%?!{}^")  # mean nothing where all that could begin something is an entity
BACKTICKS = re.compile("`+")
FENCES = ("`", "``")
OUTSIDE = frozenset("|$<")  # in a code span too: end a cell, may begin a formula, are a tag to what reads HTML first
PIECES = {"@": "&#64;<!-- -->"}  # an address is found even between entities, but not across a comment


def markdown(verdict: Verdict, *, beside: Sequence[str] = (), limit_bytes: int = LIMIT_BYTES) -> str:
    """The summary; at most ``limit_bytes`` long, but for the verdict itself, which is always there.

    Where rows do not fit, the last line of their table says how many were left out; failing targets come first.
    ``beside`` are lines that belong before the verdict's own.
    """
    return summary(_opening(verdict), beside, _sections(verdict), verdict.gate_sha256, limit_bytes)


def summary(
    opening: Iterable[str], beside: Sequence[str], sections: Iterable[Section], gate_sha256: str, limit_bytes: int
) -> str:
    """A whole summary: its opening, the lines beside it, and as much of its sections as there is room for."""
    head = "\n".join([*opening, *(f"- {data(line, LONGEST_PROSE)}" for line in beside), ""])
    closing = f"\nRules: SHA-256 `{gate_sha256}`\n" if gate_sha256 else ""
    room = limit_bytes - len((head + closing).encode())
    text, filled = [head], [section for section in sections if section.items]
    for number, section in enumerate(filled):
        part = section.render(room // (len(filled) - number))  # what one part leaves goes to those after it
        room -= len(part.encode())
        text.append(part)
    return "".join([*text, closing])


def data(text: str, longest: int = LONGEST) -> str:
    """Any text as code that is text and nothing else: no markup, no link, no mention, no reference, on one line.

    In a code span all of it stands as it is, and can be read where nothing is rendered. What no span can hold is
    written in entities.
    """
    text = printable(text if len(text) <= longest else text[:longest] + "…")
    fence = next((fence for fence in FENCES if len(fence) not in map(len, BACKTICKS.findall(text))), None)
    if fence is None or text != text.strip(" ") or not text or OUTSIDE & set(text):
        return f"<code>{''.join(map(_literal, text))}</code>"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _literal(character: str) -> str:
    """An entity for everything that means something in Markdown, in a table, in HTML or to GitHub."""
    if character.isalnum() or character in PLAIN or not character.isascii():
        return character
    return PIECES.get(character) or f"&#{ord(character)};"


@dataclass(frozen=True)
class Section:
    """A part that can be cut: what stands above the rows, one row per item, and what stands below."""

    above: str
    items: Sequence[Any]
    row: Callable[[Any], str]
    below: str = ""

    def render(self, room_bytes: int) -> str:
        """As many rows as there is room for, and a line about the others; nothing where not even that fits."""
        room = room_bytes - len((self.above + _left_out(len(self.items)) + self.below).encode())
        if room < 0:
            return ""
        rows: list[str] = []
        for item in self.items:
            row = self.row(item) + "\n"
            room -= len(row.encode())
            if room < 0:
                break
            rows.append(row)
        more = len(self.items) - len(rows)
        return "".join([self.above, *rows, _left_out(more) if more else "", self.below])


def _left_out(rows: int) -> str:
    return f"\n{rows:,} more left out here; `harness gate RUN --json` has them all.\n"


def table(*columns: str) -> str:
    """The head of a table."""
    return f"\n| {' | '.join(columns)} |\n|{' --- |' * len(columns)}\n"


def row(*cells: str) -> str:
    """One row of a table."""
    return f"| {' | '.join(cells)} |"


def _opening(verdict: Verdict) -> Iterator[str]:
    yield f"## {verdict.word} {data(verdict.run)}"
    yield ""
    if verdict.reason is not None:
        yield f"{data(verdict.reason, LONGEST_PROSE)}\n"
    if verdict.word != REFUSED:
        counts = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in verdict.counts.items())
        passed = {True: "pass", False: "fail", None: "nothing"}[verdict.report_pass]
        graded = KINDS.get(verdict.source, "what nobody knows")
        yield f"{counts}. The driver's own report says {passed}. Graded: {graded}.\n"


def _sections(verdict: Verdict) -> Iterator[Section]:
    targets = sorted(verdict.targets, key=lambda target: WORST_FIRST.get(target.word, 1))
    found: list[tuple[str, Finding]] = [("the run", finding) for finding in verdict.run_findings]
    found += [(data(target.target), finding) for target in targets for finding in target.findings]
    blind = [(data(target.target), finding) for target in targets for finding in target.unmeasured]
    cells = [(target, node) for target in targets for node in target.nodes]
    yield Section(table("target", "verdict", "2xx of planned", "p99 of the worst node, ms", "rules"), targets, _target)
    findings = table("target", "node", "rule", "class", "requests", "whose", "what")
    yield Section("\n### Findings\n" + findings, found, lambda item: _finding(*item))
    yield Section("\n### Not measured\n" + findings, blind, lambda item: _finding(*item))
    lost = "\n### Lost backends\n" + table("node", "address", "targets", "error")
    yield Section(lost, verdict.lost, _lost)
    folded = f"\n<details><summary>{len(cells):,} cells: every target on every node</summary>\n" + table(
        "target", "node", "state", "2xx of planned", "rps", "p50, ms", "p99, ms", "max, ms", "failures"
    )
    yield Section(folded, cells, lambda item: _cell(*item), "\n</details>\n")
    yield Section("\n### Notes\n\n", verdict.notes, lambda note: f"- {data(note, LONGEST_PROSE)}")


def _target(target: TargetResult) -> str:
    rules = ", ".join(dict.fromkeys(data(finding.rule) for finding in target.findings))
    done = _of(target.http_2xx, target.planned)
    return row(data(target.target), target.word, done, _ms(target.p99_ns), rules)


def _finding(target: str, finding: Finding) -> str:
    place = f"{target}: {data(finding.subject)}" if finding.subject else target
    node, failure_class = (data(text) if text else "" for text in (finding.node, finding.failure_class))
    count = "" if finding.count is None else f"{finding.count:,}"
    return row(
        place, node, data(finding.rule), failure_class, count, finding.cause, data(finding.detail, LONGEST_PROSE)
    )


def _lost(lost: LostBackend) -> str:
    return row(data(lost.node), data(lost.backend), f"{lost.targets:,}", data(lost.error, LONGEST_PROSE))


def _cell(target: TargetResult, node: NodeResult) -> str:
    done = _of(node.http_2xx, node.planned)
    rate = UNKNOWN if node.rate_rps is None else brief(node.rate_rps)
    latency = (_ms(node.p50_ns), _ms(node.p99_ns), _ms(node.max_ns))
    return row(data(target.target), data(node.node), node.state, done, rate, *latency, _failures(node))


def _failures(node: NodeResult) -> str:
    """Those that moved; that none did is said of what was counted alone."""
    if node.failures is None:
        return UNKNOWN
    if not node.failures:
        return "none of those counted" if node.unmeasured else "none"
    counts = sorted(node.failures.items())
    told = " ".join(data(f"{name}={value}") for name, value in counts[:MOST])
    return f"{told} and {len(counts) - MOST:,} more" if len(counts) > MOST else told


def _of(count: int | None, planned: int | None) -> str:
    if count is None:
        return UNKNOWN
    return f"{count:,} of {'?' if planned is None else f'{planned:,}'}"


def _ms(value_ns: float | None) -> str:
    return UNKNOWN if value_ns is None else ms(value_ns)
