"""From a ladder's facts and verdict to its page. The template holds the words that do not depend on the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import __version__
from harness.e8.arms import threshold
from harness.e8.verdict import INVALID
from harness.files import read_json, utc_stamp
from harness.history.inventory import drill_of, run_settings
from harness.report import words
from harness.report.facts import read_document
from harness.report.ladder import sentences
from harness.report.ladder.facts import Facts, Fault, read_facts, read_faults
from harness.report.ladder.measures import measures, milliseconds, per_second, told
from harness.report.ladder.pictures import Dot, Knee, Limit, Panel, stacked
from harness.report.ladder.states import NOT_GRADED, STATES, state_of
from harness.report.ladder.tiers import small_multiples
from harness.report.page import COLOUR_OF, SYMBOL_OF
from harness.report.provenance import digests, receipts
from harness.report.templates import fill
from harness.runs import RUN_JSON, RunFolder
from harness.store.kinds import LADDER_FILES

Verdict = Mapping[str, Any]
NO_BUDGET = "no budget"


def render(folder: RunFolder, verdict: Verdict) -> str:
    """The page of one ladder as text; see ``harness.report.render``."""
    return fill("ladder/page.html.j2", context(folder, verdict))


def context(folder: RunFolder, verdict: Verdict) -> dict[str, Any]:
    """Everything the template shows."""
    word = str(verdict.get("verdict") or "NOT GRADED")
    facts = read_facts(folder, refused=word == "REFUSED")
    ladder = facts.ladder
    arm = sentences.arm_of(ladder.arm if ladder else verdict.get("arm"))
    closed = read_document(folder, folder.closed.name).get("reason") if not verdict else None
    states = _states(facts, verdict)
    answered = (verdict.get("knee") or {}).get("answer", INVALID) if verdict else None
    faults, unread = read_faults(folder)
    drill = _drill(folder, faults)
    return {
        "run": folder.run,
        "word": word,
        "symbol": SYMBOL_OF.get(word, "?"),
        "colour": COLOUR_OF.get(word, "warn"),
        "arm": arm,
        "what": _what(facts, arm),
        "drill": drill,
        "line": verdict.get("verdict_line"),
        "answer": sentences.answer(verdict),
        "claim": verdict.get("claim") if drill is None else None,
        "reason": closed if answered is None else verdict.get("reason") if answered != INVALID else None,
        "next_steps": sentences.next_steps(
            folder.run, word, verdict, closed=closed is not None, drill=drill is not None
        ),
        "tiles": sentences.tiles(facts, verdict, arm),
        "refusals": sentences.refusals(verdict),
        "missing": verdict.get("missing") or [],
        "notes": verdict.get("notes") or [],
        "note": facts.note,
        "about": list(sentences.about(ladder, verdict)) if ladder else [],
        **_pictures(facts, verdict, arm, states),
        "legend": [(word, state) for word, state in STATES.items() if word in states.values()],
        "rungs": [(rung, states[rung.name], state_of(states[rung.name])) for rung in facts.rungs],
        "measures": measures(facts.rungs, _judged(verdict)),
        "lag_convicts": ladder is not None and ladder.lag_discriminates is True,
        "workers": [(rung.name, number, one) for rung in facts.rungs for number, one in enumerate(rung.workers, 1)],
        "told": told,
        "suspects": list(_suspects(verdict)),
        "usl": _usl(verdict),
        "cut_tries": [(rung.name, rung.cut_tries) for rung in facts.rungs if rung.cut_tries],
        "faults": faults,
        "unread": unread,
        "system": _system(facts),
        "source": _source(folder, facts),
        "pins": sorted((read_document(folder, "pins.json").get("pins") or {}).items()),
        "receipts": receipts(folder),
        "digests": digests(_places(folder), verdict),
        "gate_lines": verdict.get("lines") or [],
        "made_at": utc_stamp(),
        "version": __version__,
    }


def _what(facts: Facts, arm: str) -> str:
    if (ladder := facts.ladder) is None:
        return arm
    rungs = " ".join(dict.fromkeys(f"c={rung.c}" for rung in facts.rungs)) or "no rung"
    return f"{arm} · {sentences.measured_short(ladder)} · {rungs}"


def _drill(folder: RunFolder, faults: Sequence[Fault]) -> str | None:
    """The faults that were put in on purpose; None when there were none."""
    asked = drill_of(run_settings(folder))
    if asked in (None, "no"):
        asked = "; ".join(dict.fromkeys(fault.fault for fault in faults)) or None
    return asked


def _judged(verdict: Verdict) -> dict[str, dict[str, Any]]:
    """Rung → what the verdict says of it."""
    return {str(rung.get("name")): dict(rung) for rung in verdict.get("rungs") or []}


def _states(facts: Facts, verdict: Verdict) -> dict[str, str]:
    """Rung → what the verdict calls it."""
    judged = _judged(verdict)
    found = {rung.name: str(judged.get(rung.name, {}).get("state")) for rung in facts.rungs}
    return {name: word if word in STATES else NOT_GRADED for name, word in found.items()}


# --- pictures


def _pictures(facts: Facts, verdict: Verdict, arm: str, states: Mapping[str, str]) -> dict[str, Any]:
    ladder, rungs = facts.ladder, facts.rungs
    if ladder is None or not rungs:
        return {"curves": None, "tiers": None, "lag": None}
    told_knee = verdict.get("knee") or {}
    knee = Knee(*(told_knee.get(name) if told_knee.get("answer") == "knee" else None for name in ("lo", "hi", "floor")))
    bound = facts.p95_bound_ms
    first = facts.level(1).get("p95_ms")
    bounds = [Limit(bound, f"bound, {bound / first:g} × c=1: {milliseconds(bound)}")] if bound and first else []
    curves = [
        Panel(
            f"throughput, {arm}",
            [Dot(rung.c, rung.name, states[rung.name], rung.throughput_tps) for rung in rungs],
            per_second,
        ),
        Panel(
            f"p95 latency of successful turns, {arm}",
            [Dot(rung.c, rung.name, states[rung.name], rung.p95_ms) for rung in rungs],
            milliseconds,
            bounds,
        ),
    ]
    lag = _lag_panel(facts, arm, states)
    return {
        "curves": stacked(f"Throughput and p95 against concurrency, {arm}", curves, knee),
        "tiers": small_multiples(f"Use of CPU by tier against concurrency, {arm}", ladder, rungs, dict(states), knee),
        "lag": stacked(f"Event-loop lag against concurrency, {arm}", [lag], knee) if lag.measured else None,
    }


def _lag_panel(facts: Facts, arm: str, states: Mapping[str, str]) -> Panel:
    """The worst worker of each rung, every worker beside it, and what the lag is held against."""
    worst = {
        rung.name: max((w.lag_p99_ms for w in rung.workers if w.lag_p99_ms is not None), default=rung.lag_p99_worst_ms)
        for rung in facts.rungs
    }
    limits = []
    resolution = facts.ladder.lag_resolution_ms if facts.ladder else None
    if resolution:
        limits.append(Limit(resolution, f"resolution: {milliseconds(resolution)}", "plan"))
    if first := facts.level(1).get("lag_p99_ms"):
        most = threshold("lag_bound_x")
        limits.append(Limit(most * first, f"{most:g} × c=1: {milliseconds(most * first)}"))
    return Panel(
        f"event-loop lag p99 of the worst worker, {arm}",
        [Dot(rung.c, rung.name, states[rung.name], worst[rung.name]) for rung in facts.rungs],
        milliseconds,
        limits,
        [(rung.c, one.lag_p99_ms) for rung in facts.rungs for one in rung.workers if one.lag_p99_ms is not None],
    )


# --- tables


def _suspects(verdict: Verdict) -> Iterator[dict[str, Any]]:
    """Each way to be convicted, with what came of it; the first that convicts is the bound."""
    found = [dict(suspect) for suspect in verdict.get("suspects") or []]
    bound = next((one for one in found if one.get("convicts")), None)
    near = [one for one in found if one.get("bound") == verdict.get("runner_up") and one.get("ratio")]
    runner_up = max(near, key=lambda one: one["ratio"], default=None)
    for one in found:
        came_to = (
            ("the bound", "bad")
            if one is bound
            else ("runner-up", "warn")
            if one is runner_up
            else (f"{NO_BUDGET}: not judged", "none")
            if _has_no_budget(one)
            else ("not measured: not cleared", "none")
            if one.get("ratio") is None
            else ("would convict too", "none")
            if one.get("convicts")
            else ("cleared", "good")
        )
        says = words.mebibytes if one.get("bound") == "memory" else _figure
        yield (
            one
            | {"says": says(one.get("measured")), "against": _against(one, says)}
            | {"came_to": came_to[0], "colour": came_to[1]}
        )


def _against(suspect: Verdict, says: Callable[[float | None], str]) -> str:
    return NO_BUDGET if _has_no_budget(suspect) else says(suspect.get("threshold"))


def _has_no_budget(suspect: Verdict) -> bool:
    """Memory has no threshold of its own, but a budget where one was given."""
    return suspect.get("bound") == "memory" and suspect.get("threshold") is None


def _figure(value: float | None) -> str:
    return words.NOT_MEASURED if value is None else f"{value:.4g}"


def _usl(verdict: Verdict) -> str:
    fit = verdict.get("usl")
    if (verdict.get("knee") or {}).get("answer") in (None, INVALID):
        return "Not fitted: the ladder has no answer."
    if not fit:
        return "Not fitted: the law takes at least five levels, c=1 among them, each with turns that succeeded."
    if fit.get("peak_c") is None:
        least = fit["lower_bound_c"]
        return (
            "No peak is told, which takes levels up to twice its c. If there is a peak of throughput, it is at "
            f"c={least:g} or above."
        )
    return (
        f"Throughput peaks at c={fit['peak_c']:.0f}, between {fit['lo_c']:.0f} and {fit['hi_c']:.0f} by bootstrap: "
        f"one client {fit['lambda_tps']:.4g} turns/s, contention {fit['sigma']:.3g}, crosstalk {fit['kappa']:.3g}."
    )


def _system(facts: Facts) -> list[tuple[str, str]]:
    """What was said of the system under test, and where it changed between rungs."""
    seen: dict[str, dict[str, str]] = {}
    for rung in facts.rungs:
        for when, said in ((rung.name, rung.system), (f"{rung.name}, at its end", rung.system_end)):
            for name, says in (said or {}).items():
                seen.setdefault(name, {}).setdefault(says, when)
    return [
        (name, next(iter(said)) if len(said) == 1 else "; ".join(f"from {when}: {says}" for says, when in said.items()))
        for name, said in seen.items()
    ]


def _source(folder: RunFolder, facts: Facts) -> list[tuple[str, str]]:
    """Where the ladder was taken in from, and who published it."""
    adopted = _document(folder.adopted)
    ladder = facts.ladder
    known = [
        ("adopted from", adopted.get("source")),
        ("adopted at", adopted.get("adopted_at")),
        ("published as", ladder.source_title if ladder else None),
        ("its place in the source", ladder.source_where if ladder else None),
        ("what the source itself concluded", ladder.source_said if ladder else None),
        ("run created", read_document(folder, RUN_JSON).get("created_at")),
    ]
    return [(name, str(value)) for name, value in known if value]


def _document(path: Path) -> dict[str, Any]:
    """A JSON object, an empty one where there is none."""
    try:
        value = read_json(path)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _places(folder: RunFolder) -> dict[str, list[Path]]:
    """The chain from what was asked for to the tables; what an adopted ladder need not have is named where it is."""
    own = {
        "run (run.json)": [folder.evidence / RUN_JSON, folder.run_json],
        **{
            f"{what} ({name})": [folder.evidence / name, folder.live / name]
            for what, name in (
                ("plan of the rungs", "rungs.json"),
                ("pins", "pins.json"),
                ("workload", "workload.json"),
                ("target", "target.json"),
            )
        },
        "adoption (adopted.json)": [folder.adopted],
    }
    there = {name: paths for name, paths in own.items() if any(path.is_file() for path in paths)}
    return there | {
        "ladder (ladder.json or record.json)": [folder.evidence / name for name in LADDER_FILES],
        "evidence (SHA256SUMS)": [folder.sums],
        "tables (index.json)": [folder.tables_index],
    }
