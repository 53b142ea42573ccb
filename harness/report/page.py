"""From facts and a verdict to the page. The template holds the words that do not depend on the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import __version__
from harness.files import utc_stamp
from harness.history.inventory import drill_of, run_settings
from harness.report import findings, words
from harness.report.charts import Mark, Moment, Range, range_plot, timeline
from harness.report.facts import Facts, read_document, read_facts
from harness.report.figures import by_kind, tiles
from harness.report.grid import STATES, GridRow, build_grid
from harness.report.provenance import digests, receipts
from harness.report.templates import fill
from harness.runs import RunFolder
from harness.store.source import KINDS

Verdict = Mapping[str, Any]
PLOTTED_NODES = 12
SYMBOL_OF = {"PASS": "✓", "FAIL": "✕", "REFUSED": "⊘", "UNPROVEN": "?"}
COLOUR_OF = {"PASS": "good", "FAIL": "bad", "REFUSED": "warn", "UNPROVEN": "warn"}


def render(folder: RunFolder, verdict: Verdict) -> str:
    """The page of one run as text. ``verdict`` is a grading's JSON; an empty one is a run that was not graded.

    Works for every verdict and for any part of a run: what is absent is said to be so. Raises EvidenceError where a
    table is not what was made, unless the verdict is that nothing could be graded.
    """
    return fill("page.html.j2", context(folder, verdict))


def context(folder: RunFolder, verdict: Verdict) -> dict[str, Any]:
    """Everything the template shows."""
    word = str(verdict.get("verdict") or "NOT GRADED")
    facts = read_facts(folder, refused=word == "REFUSED")
    closed = read_document(folder, folder.closed.name).get("reason") if not verdict else None
    found = findings.of_verdict(verdict)
    grid = build_grid(facts.cells, facts.failures, verdict)
    marks = happened(facts)
    return {
        "run": folder.run,
        "word": word,
        "symbol": SYMBOL_OF.get(word, "?"),
        "colour": COLOUR_OF.get(word, "warn"),
        "drill": drill(folder, facts),
        "what": what_ran(folder, facts),
        "line": verdict.get("verdict_line") or verdict_line(word, verdict),
        "reason": verdict.get("reason") or closed,
        "next_steps": findings.next_steps(folder, word, found, closed=closed is not None),
        "tiles": tiles(facts, verdict),
        "about": about(folder, facts),
        "pins": sorted((read_document(folder, "pins.json").get("pins") or {}).items()),
        "grid": grid,
        "nodes": list(dict.fromkeys(cell.node for row in grid for cell in row.cells)),
        "legend": [(state, *said) for state, said in STATES.items()],
        "findings": findings.grouped(found),
        "range_plot": ranges(grid, facts.latency),
        "latency": facts.latency,
        "left_out": max(0, len({c["node"] for c in facts.cells}) - PLOTTED_NODES),
        "timeline": over_time(facts, marks),
        "no_timeline": no_timeline(folder),
        "unreturned": facts.unreturned,
        "marks": marks,
        "thresholds": facts.thresholds,
        "resources": facts.resources,
        "kinds": by_kind(facts),
        "rolls": facts.rolls,
        "zeros": [{**zero, "proves": words.zero_bound(zero["requests"])} for zero in facts.zeros],
        "left_out_files": facts.notes,
        "notes": verdict.get("notes") or [],
        "receipts": receipts(folder),
        "digests": digests(places(folder), verdict),
        "gate_lines": verdict.get("lines") or [],
        "made_at": utc_stamp(),
        "version": __version__,
    }


def verdict_line(word: str, verdict: Verdict) -> str:
    """The one line that a grading prints last, from its counts; without a grading there is none."""
    if not verdict:
        return ""
    counts = verdict.get("counts") or {}
    numbers = " ".join(
        f"{name}={counts[name]}"
        for name in ("targets", "passed", "failed", "not_run", "backends", "lost_backends")
        if counts.get(name) is not None
    )
    return f"VERDICT {word} {numbers}".rstrip()


def about(folder: RunFolder, facts: Facts) -> list[tuple[str, str]]:
    """What ran, as name and value."""
    document = {**read_document(folder, "run.json"), **{k: v for k, v in facts.run.items() if v is not None}}
    settings = document.get("settings") or {}
    rate = document.get("rate_rps_per_node") or settings.get("rate")
    nodes = document.get("backends") or settings.get("nodes")
    targets = document.get("targets_planned")
    known = [
        ("profile", document.get("profile")),
        ("fleet", document.get("fleet")),
        (
            "load",
            f"{words.count(rate)} requests per second and node, {words.number(nodes, 'node')}, "
            + (words.number(targets, "target") if targets else "targets not known")
            if rate and nodes
            else None,
        ),
        ("duration", words.duration(document.get("duration_s") or settings.get("duration_s") or None)),
        ("first dispatch", words.utc(document.get("started_at"))),
        ("last answer", words.utc(document.get("ended_at"))),
        ("faults put in", drill(folder, facts) or (drill_of(run_settings(folder)) and "none")),
        ("graded from", KINDS.get(str(document.get("source")))),
        ("measured by", document.get("measured_by")),
        ("run created", words.utc(document.get("created_at"))),
    ]
    return [(name, str(value) if value is not None else words.NOT_MEASURED) for name, value in known]


def drill(folder: RunFolder, facts: Facts) -> str | None:
    """The faults that were put in on purpose; None when there were none."""
    asked = drill_of(run_settings(folder))
    if asked in (None, "no"):
        asked = "; ".join(dict.fromkeys(str(fault["detail"]) for fault in facts.faults if fault["detail"])) or None
    return asked


def what_ran(folder: RunFolder, facts: Facts) -> str:
    """What ran, on one line; parts that are not known are left out here and named as such below."""
    known = dict(about(folder, facts))
    names = ("profile", "fleet", "load", "duration", "first dispatch")
    return " · ".join(known[name] for name in names if known[name] != words.NOT_MEASURED)


def ranges(grid: list[GridRow], covers: str) -> Any:
    """The latency picture; with many nodes, the slowest of each target. None when nothing was measured."""
    rows: list[Range] = []
    for row in grid:
        cells = row.cells
        if len(cells) > PLOTTED_NODES:
            slowest = sorted(cells, key=lambda cell: cell.numbers["p99_ns"] or 0, reverse=True)[:PLOTTED_NODES]
            cells = [cell for cell in cells if cell in slowest]
        rows += [
            Range(
                row.target,
                cell.node,
                cell.numbers["p50_ns"],
                cell.numbers["p99_ns"],
                cell.numbers["max_ns"],
                failed=cell.colour == "bad",
            )
            for cell in cells
        ]
    return range_plot(rows, covers) if any(row.p99_ns is not None for row in rows) else None


def happened(facts: Facts) -> list[Mark]:
    """Rolls and faults in the order of time, numbered as the pictures and tables show them."""
    rolls = [(roll["at_s"], roll["kind"], f"{roll['kind']} {roll['name']}: {roll['outcome']}") for roll in facts.rolls]
    faults = [(fault["at_s"], "fault", str(fault["detail"] or fault["outcome"])) for fault in facts.faults]
    timed = sorted((entry for entry in [*rolls, *faults] if entry[0] is not None), key=lambda entry: entry[0])
    return [
        Mark(at_s, kind, number, f"{words.seconds(at_s)}: {text}") for number, (at_s, kind, text) in enumerate(timed, 1)
    ]


def no_timeline(folder: RunFolder) -> str:
    """Why there is no picture over the load."""
    kept = folder.evidence / "progress.jsonl"
    if kept.is_file() and kept.stat().st_size:
        return "Not drawn: no table was made of the progress that was kept; it is in evidence/progress.jsonl."
    return "Not measured: the run kept no progress."


def over_time(facts: Facts, marks: list[Mark]) -> Any:
    """The picture over the load, None without progress rows."""
    if not facts.timeline:
        return None
    rate, backends = facts.run.get("rate_rps_per_node"), facts.run.get("backends")
    planned_rps = float(rate * backends) if rate and backends else None
    moments = [
        Moment(row["at_s"], row["p99_ns"], row["max_ns"], row["rate_2xx_rps"], row["target"]) for row in facts.timeline
    ]
    return timeline(
        moments, marks, duration_s=facts.run.get("duration_s") or 0.0, planned_rps=planned_rps, node=facts.worst_node
    )


def places(folder: RunFolder) -> dict[str, list[Path]]:
    """The chain from the pins to the tables: what each link is called, and where it stands, the best place first."""
    return {
        "plan (plan.yaml)": [folder.evidence / "plan.yaml", folder.plan],
        "pins (pins.json)": [folder.evidence / "pins.json", folder.pins],
        "evidence (SHA256SUMS)": [folder.sums],
        "report of the driver (report.json)": [folder.evidence / "report.json", folder.report_json],
        "tables (index.json)": [folder.tables_index],
    }
