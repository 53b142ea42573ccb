"""What to do about a broken rule, naming only what the run has: its files, and the settings of runs made here."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from harness.history.inventory import run_settings
from harness.runs import RunFolder

RESULTS = ("<target>@<node>.json", "<target>@<node>.yaml")
"""Result files of other load generators."""

FILES_NAMED = 2


@dataclass(frozen=True)
class Advice:
    """``found``: what the rule found. ``files``: where more of it stands, the best first; a run has some of them.

    ``then``: what to do, ``elsewhere`` instead of it where a run was not made here.
    """

    found: str
    files: tuple[str, ...] = ()
    then: str = ""
    elsewhere: str | None = None


NEXT_STEP: dict[str, Advice] = {
    "missing": Advice("The target was planned and never driven", ("plan.yaml", "sortie.log", "shares.tsv")),
    "duplicate": Advice("Two runs share one file", then="Save each run under a name of its own and grade again."),
    "not_run": Advice("The driver never attempted this target", ("sortie.log",), "Repeat the run."),
    "refused_at_cap": Advice(
        "The engine was full",
        then="Raise engine.max_executions, or drive fewer targets at once.",
        elsewhere="Raise its cap of executions, or drive fewer targets at once.",
    ),
    "lost_backend": Advice(
        "The engine of that node went away",
        ("engine-<node>.log", "proxy-<node>.log", "sortie.log", *RESULTS, "report.json"),
    ),
    "execution_error": Advice("The finding holds the driver's own sentence", ("sortie.log",)),
    "short_run": Advice("The load ended before its time", ("sortie.log",), "Find the first error, and repeat the run."),
    "off_plan": Advice(
        "The engine of that node ran longer or shorter than planned", then="Was its process frozen or starved of CPU?"
    ),
    "pool_size": Advice(
        "Not every node took part", ("engines.tsv", "report.json"), "Compare the nodes with those that were dispatched."
    ),
    "failures": Advice(
        "The finding names the class",
        ("access-<node>.log", "proxy-<node>.log", *RESULTS, "churn.log"),
        "Look around its time.",
        "Then look into the logs of the mesh itself, around that time.",
    ),
    "driver_saturated": Advice(
        "The engine's queue was full",
        then="Find what stalled, by its latency. If nothing did, the load is too much for one engine: raise "
        "connections= or stall_budget_s=, lower rate=, or spread it over more nodes=.",
        elsewhere="Find what stalled, by its latency. If nothing did, the load is too much for one engine: give it "
        "more connections or a longer queue, or spread the load over more nodes.",
    ),
    "in_flight": Advice(
        "Requests had no outcome at the end",
        then="Look for a stalled server, or raise engine.timeout_s.",
        elsewhere="Look for a stalled server, or let the engine wait longer at the end.",
    ),
    "below_plan": Advice(
        "Fewer answers than planned", then="Read the same node's other findings first, then its latency."
    ),
    "above_plan": Advice("More answers than planned", then="Is something else sending through the same engine?"),
    "threshold": Advice("A limit of the plan was passed", then="The finding shows the value that was seen."),
    "unplanned_target": Advice(
        "The report holds a target outside the plan", ("shares.tsv",), "Report and share table are of two runs."
    ),
    "undispatched_backend": Advice(
        "A result came from an address that was not dispatched",
        ("engines.tsv", "sortie.log"),
        "Report and list of engines are of two runs.",
    ),
    "silent_backend": Advice(
        "A node took the load and returned nothing, unlisted",
        then="The report may be cut off.",
        elsewhere="The report may be cut off, or the result file of that node was not saved.",
    ),
    "report_failed": Advice(
        "The driver says FAIL and nothing says why, or two files disagree", ("sortie.log",), "The finding says which."
    ),
    "log_skips": Advice("The driver's log says that something was skipped", ("sortie.log",), "Find its SKIP lines."),
    "no_results": Advice("The execution ended without one result", ("sortie.log", "engine-<node>.log", *RESULTS)),
    "bad_counters": Advice(
        "A counter is not a whole number",
        ("report.json", *RESULTS, "results.jsonl"),
        "It was changed, or its producer is broken.",
    ),
    "driver_late": Advice(
        "The engine itself sent late",
        then="Free CPU on its machine or lower rate=, then repeat the run.",
        elsewhere="Free CPU on its machine or lower its rate, then repeat the run.",
    ),
    "churn_incomplete": Advice(
        "What was rolled is not what was planned", ("churn.log",), "Repair the cause and repeat the run."
    ),
}

ANY_RULE = Advice("The finding has a detail", then="See what the gate says of each node: harness gate RUN --per-node")
"""For a rule that has none of its own here."""


@dataclass(frozen=True)
class Kept:
    """What a run has to look into. ``has``: whether it has a file, of one of these nodes where the name has a node.

    ``here``: it was made by this harness, so that its settings can be changed.
    """

    here: bool
    has: Callable[[str, Collection[str]], bool]


ANY_MADE_HERE = Kept(here=True, has=lambda file, nodes: file not in RESULTS)
ANY_FROM_ELSEWHERE = Kept(here=False, has=lambda file, nodes: not file.endswith(("-<node>.log", ".yaml")))


def kept(folder: RunFolder) -> Kept:
    """What one run has: the files of its evidence."""
    names = [path.name for path in folder.evidence.iterdir()] if folder.evidence.is_dir() else []

    def has(file: str, nodes: Collection[str]) -> bool:
        of_nodes = "|".join(map(re.escape, nodes)) or ".+"
        pattern = re.compile(re.escape(file).replace("<target>", ".+").replace("<node>", f"(?:{of_nodes})"), re.DOTALL)
        return any(map(pattern.fullmatch, names))

    return Kept(run_settings(folder) is not None, has)


def advice(rule: str, of: Kept, nodes: Collection[str] = ()) -> str:
    """What to do when a rule is broken, in a sentence or two; files of the one node it names bear that node's name."""
    told = NEXT_STEP.get(rule, ANY_RULE)
    files = _listed((file for file in told.files if of.has(file, nodes)), nodes)
    then = told.then if of.here or told.elsewhere is None else told.elsewhere
    return " ".join(filter(None, [f"{told.found}{f': read {files}' if files else ''}.", then]))


def _listed(files: Iterable[str], nodes: Collection[str]) -> str:
    found = list(files)[:FILES_NAMED]
    if len(nodes) == 1:
        found = [file.replace("<node>", next(iter(nodes))) for file in found]
    return ", then ".join(found)
