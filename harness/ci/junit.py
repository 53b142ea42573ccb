"""The verdict as JUnit XML: a case per target × node under names that stay, and one for what no cell can show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree as Xml

from harness.gate.text import render
from harness.gate.verdict import FAIL, PASS, Finding, NodeResult, TargetResult, Verdict
from harness.terminal import printable

SUITE = "harness gate"
RUN_CASE = ("run", "verdict")
NO_NODE = "(no node)"  # the one case of a target for which neither plan nor report names a node
OUTCOMES = {"failure": "failures", "error": "errors", "skipped": "skipped"}


@dataclass(frozen=True)
class Case:
    """One testcase. ``outcome`` is failure, error, skipped, or None for what passed; ``kind`` is its type."""

    classname: str
    name: str
    elapsed_ms: float | None = None
    outcome: str | None = None
    message: str = ""
    kind: str = ""
    lines: tuple[str, ...] = ()


def junit(verdict: Verdict, *, tables_sha256: str | None = None, beside: Sequence[str] = ()) -> str:
    """The whole document, in UTF-8 when written.

    A case fails by findings on its node, or on its target as a whole. It is an error where nothing was measured, and
    skipped where the target was not run. CI shows skipped as good, so the case ``run``/``verdict`` stands for the run:
    it passes with a PASS only. ``tables_sha256`` is the digest of the graded tables' index; ``beside`` are lines that
    belong before the verdict's own.
    """
    cases = [*(case for target in verdict.targets for case in _cells(target)), _run(verdict)]
    return document(cases, _properties(verdict, tables_sha256), [*beside, *_said(verdict)])


def document(cases: Sequence[Case], properties: Iterable[tuple[str, str]], said: Iterable[str]) -> str:
    """One suite with these cases; ``said`` are the lines of its system-out."""
    counts = {name: str(sum(case.outcome == outcome for case in cases)) for outcome, name in OUTCOMES.items()}
    root = Xml.Element("testsuites", name=SUITE)
    suite = Xml.SubElement(root, "testsuite", {"name": SUITE, "tests": str(len(cases)), **counts})
    listed = Xml.SubElement(suite, "properties")
    for name, value in properties:
        Xml.SubElement(listed, "property", name=name, value=printable(value))
    for case in cases:
        _add(suite, case)
    Xml.SubElement(suite, "system-out").text = _text(said)
    Xml.indent(root)
    whole: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return whole.decode() + "\n"


def _properties(verdict: Verdict, tables_sha256: str | None) -> Iterator[tuple[str, str]]:
    yield "run", verdict.run
    yield "verdict", verdict.word
    yield "gate_sha256", verdict.gate_sha256
    yield "source", verdict.source
    if tables_sha256:
        yield "tables_sha256", tables_sha256


def _said(verdict: Verdict) -> list[str]:
    """The run's own lines: who was lost and why, what was noted, and the verdict."""
    *lines, last = render(verdict)
    return [*(line for line in lines if line.startswith(("LOST  ", "NOTE  "))), last]


def _cells(target: TargetResult) -> Iterator[Case]:
    """A case per node of a target, results that share a node's name together."""
    cells: dict[str, list[NodeResult]] = {}
    for node in target.nodes:
        cells.setdefault(node.node, []).append(node)
    for finding in (*target.findings, *target.unmeasured):
        if finding.node is not None:
            cells.setdefault(finding.node, [])
    for name, results in (cells or {NO_NODE: []}).items():
        yield _cell(target, name, results)


def _cell(target: TargetResult, node: str, results: list[NodeResult]) -> Case:
    elapsed_ms = max((result.elapsed_ms for result in results if result.elapsed_ms is not None), default=None)
    if target.state == "not_run":
        return Case(target.target, node, elapsed_ms, "skipped", "not run", lines=target.reasons)
    errors = [f"error of {result.backend}: {result.error}" for result in results if result.error]
    for outcome, findings in (("failure", target.findings), ("error", target.unmeasured)):
        if found := [finding for finding in findings if finding.node in (None, node)]:
            return _found(target.target, node, elapsed_ms, outcome, found, errors)
    if not results or any(result.state != "returned" for result in results):
        states = " and ".join(result.state for result in results) or "no result"
        return Case(
            target.target, node, elapsed_ms, "error", f"not graded: {states}", "evidence", (*target.reasons, *errors)
        )
    return Case(target.target, node, elapsed_ms)


def _found(
    target: str,
    node: str,
    elapsed_ms: int | None,
    outcome: str,
    found: Sequence[Finding],
    errors: Sequence[str] = (),
) -> Case:
    """One outcome, however many findings: CI shows the first of a case only. ``errors``: what the driver said there."""
    message = ", ".join(dict.fromkeys(finding.rule for finding in found))
    causes = ", ".join(sorted({finding.cause for finding in found}))
    return Case(target, node, elapsed_ms, outcome, message, causes, (*map(_finding, found), *errors))


def _finding(finding: Finding) -> str:
    told = [("subject", finding.subject), ("class", finding.failure_class), ("count", finding.count)]
    about = " ".join(f"{name}={value}" for name, value in [*told, ("cause", finding.cause)] if value is not None)
    return f"{finding.rule} {about}: {finding.detail}"


def _run(verdict: Verdict) -> Case:
    """The run as a case: it carries the verdict's word, and the findings that are on no cell."""
    if verdict.word == PASS:
        return Case(*RUN_CASE)
    if verdict.word != FAIL:
        message = verdict.reason or verdict.word
        return Case(*RUN_CASE, None, "error", message, verdict.word, (render(verdict)[-1],))
    found = list(verdict.run_findings)
    for target in verdict.targets:
        if target.state == "not_run":  # its cases are skipped, so they do not show it
            found += [replace(finding, subject=target.target) for finding in target.findings]
    if found:
        return _found(*RUN_CASE, None, "failure", found)
    return Case(*RUN_CASE, None, "failure", FAIL, FAIL, ("The cases of the targets say why.",))


def _add(suite: Xml.Element, case: Case) -> None:
    names = {"classname": printable(case.classname), "name": printable(case.name)}
    element = Xml.SubElement(suite, "testcase", names)
    if case.elapsed_ms is not None:
        element.set("time", f"{case.elapsed_ms / 1000:.3f}")
    if case.outcome:
        outcome = Xml.SubElement(element, case.outcome, message=printable(case.message))
        if case.kind:
            outcome.set("type", printable(case.kind))
        outcome.text = _text(case.lines)


def _text(lines: Iterable[str]) -> str:
    return "\n".join(printable(line) for line in lines)
