"""Result files of other load generators: one file per cell of the plan, put together as executions of a report.

A cell is one target on one node, and its file is called ``<target>@<node>.json``. A target may hold an ``@``, a node
may not. The plan is not in these files: it is ``run.env``, ``shares.tsv`` and ``engines.tsv`` beside them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.store import readers
from harness.store.source import Json
from harness.store.sums import shown

PLAN_FILES = ("run.env", "shares.tsv", "engines.tsv")


@dataclass(frozen=True)
class Plan:
    """What was to be done: how long, target → its share on one node, node → its address; each in the plan's order."""

    duration_ms: int
    shares: Mapping[str, readers.Share]
    addresses: Mapping[str, str]

    def address(self, node: str) -> str:
        """The address of a node; one that the plan does not know is its own, and is found to be undispatched."""
        address = self.addresses.get(node, node)
        # the reader of executions takes what looks like a port off an address: an IPv6 one must not lose its end
        return address if readers.without_port(address) == address else f"{address}:0"


def read_plan(folder: Path) -> Plan:
    """The plan beside the result files. Raises EvidenceError when a part is absent or says two things."""
    env = readers.read_env(folder / "run.env")
    duration_s = readers.positive(env, "DURATION_S", "run.env")
    shares = readers.read_shares(folder / "shares.tsv")
    engines = readers.read_engines(folder / "engines.tsv")
    if not engines:
        raise EvidenceError("engines.tsv names no node, so no result file can be said to be missing; list every node")
    addresses: dict[str, str] = {}
    for engine in engines:
        if addresses.setdefault(engine.node, engine.ip) != engine.ip:
            raise EvidenceError(
                f"engines.tsv lists node {said(engine.node)} twice, so nothing says which one a result file is of; "
                "give each engine a node name of its own"
            )
    return Plan(duration_s * 1000, {share.target: share for share in shares}, addresses)


def said(value: object) -> str:
    """Anything from a file, short enough for a sentence."""
    return "nothing" if value is None else shown(str(value))[:80]


@dataclass(frozen=True)
class CellFile:
    """A result file: where it is, and the target and node that its name says."""

    path: Path
    target: str
    node: str

    @property
    def name(self) -> str:
        """The file's name for a sentence."""
        return shown(self.path.name)

    def refuse(self, what: str) -> EvidenceError:
        """The error that says what is wrong with this file."""
        return EvidenceError(f"{self.name} {what}")


def cell_files(folder: Path, suffixes: Sequence[str]) -> list[CellFile]:
    """Result files by name. Raises EvidenceError when one is no regular file or names no cell."""
    found = []
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise EvidenceError(f"the folder {shown(folder.name)} cannot be read ({error.strerror or error})") from error
    for entry in entries:
        stem, suffix = os.path.splitext(entry.name)  # noqa: PTH122 - Path hides what starts with a dot
        if "@" not in stem or suffix not in suffixes:
            continue
        if not entry.is_file(follow_symlinks=False):
            raise EvidenceError(f"{shown(entry.name)} is no regular file; put the result file itself there")
        target, _, node = stem.rpartition("@")
        if not target or not node:
            raise EvidenceError(f"{shown(entry.name)} names no cell; call it <target>@<node>{suffix}")
        found.append(CellFile(folder / entry.name, target, node))
    return found


@dataclass
class Cell:
    """What one file says of one target on one node, in the form of a report's ``results`` and ``backend_errors``.

    ``result``: counters, statistics (ns), elapsed_ms, started_at; None: it has none. ``error``: why the load there did
    not end as it should. ``thresholds``: the producer's own, expression → whether it held.
    """

    file: CellFile
    target: str
    result: dict[str, Any] | None
    error: str | None = None
    thresholds: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """All cells of a run, and counter → whether their producer counts it."""

    cells: list[Cell]
    capabilities: Mapping[str, bool]


def executions(plan: Plan, cells: Iterable[Cell], scenario: str) -> list[Json]:
    """One execution per target, planned ones first, with the results of its nodes; every node was to be driven.

    A planned node without a file has no result and no error: it is silent. Raises EvidenceError when two files are of
    one cell.
    """
    known = {target: number for number, target in enumerate(plan.shares)}
    nodes = {node: number for number, node in enumerate(plan.addresses)}
    by_target: dict[str, dict[str, Cell]] = {}
    for cell in sorted(cells, key=lambda cell: (nodes.get(cell.file.node, len(nodes)), cell.file.path.name)):
        seen = by_target.setdefault(cell.target, {}).setdefault(plan.address(cell.file.node), cell)
        if seen is not cell:
            raise cell.file.refuse(
                f"and {seen.file.name} are both of {shown(cell.target)} on one node; keep the right one"
            )
    order = sorted(by_target, key=lambda target: (known.get(target, len(known)), target))
    return [_execution(plan, f"{scenario}/{target}", plan.shares.get(target), by_target[target]) for target in order]


def _execution(plan: Plan, label: str, share: readers.Share | None, cells: Mapping[str, Cell]) -> Json:
    """No time and no ``pass``: nothing of the producer's stands above its nodes."""
    return {
        "label": label,
        "rate": share.rate_rps if share else None,
        "per_backend": True,
        "duration_ms": plan.duration_ms,
        "refused": None,
        "backends": [plan.address(node) for node in plan.addresses],
        "results": [{"backend": at} | cell.result for at, cell in cells.items() if cell.result is not None],
        "backend_errors": [{"backend": at, "error": cell.error} for at, cell in cells.items() if cell.error],
        "thresholds": _thresholds(cells.values()),
    }


def _thresholds(cells: Iterable[Cell]) -> list[Json]:
    """Each expression once; it holds where it held on every node that states it."""
    broken_on: dict[str, list[str]] = {}
    for cell in cells:
        for expr, held in cell.thresholds.items():
            broken_on.setdefault(expr, []).extend([] if held else [shown(cell.file.node)])
    return [
        {
            "expr": expr,
            "scope": "node",
            "pass": not nodes,
            "actual": f"broken on {', '.join(nodes)}" if nodes else "held",
        }
        for expr, nodes in broken_on.items()
    ]
