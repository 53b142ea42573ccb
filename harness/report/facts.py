"""What the tables of one run say, asked by the SQL files under ``sql/report``. A run without tables has no facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.files import read_json
from harness.history.database import Database, ask, open_database
from harness.history.queries import Query, named_queries
from harness.report import words
from harness.runs import RunFolder

Row = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """Rows by question, column names as in the SQL; ``notes`` says why the tables that are there were not read."""

    run: Row
    cells: list[Row]
    failures: list[Row]
    zeros: list[Row]
    thresholds: list[Row]
    rolls: list[Row]
    faults: list[Row]
    resources: list[Row]
    memory: list[Row]
    worst_node: str | None
    timeline: list[Row]
    notes: list[str]

    @property
    def latency(self) -> str:
        """What the latencies cover, in words; nothing where nobody measured one."""
        return words.LATENCY.get(self.run.get("measured_by") or "", "")

    @property
    def engines(self) -> dict[str, bool]:
        """Node → whether its engine returned anything that can be counted, on any target."""
        found: dict[str, bool] = {}
        for cell in self.cells:
            found[cell["node"]] = found.get(cell["node"], False) or cell["readable"]
        return found

    @property
    def unreturned(self) -> list[str]:
        """Nodes of which nothing can be said: no count of theirs is in any figure."""
        return [node for node, returned in self.engines.items() if not returned]


def read_facts(folder: RunFolder, *, refused: bool = False) -> Facts:
    """Ask every question once.

    Raises EvidenceError when a table is not what was made: without it a page would say of failures that there were
    none. A run that was ``refused`` has nothing to be believed in, so that its page says why, and no number.
    """
    queries = named_queries("report")
    sql = "\n".join(query.sql for query in queries.values())
    with open_database([folder.root], sql, strict=not refused) as database:
        cells = _rows(database, queries["cells"])
        run = _rows(database, queries["run"])
        worst = max((c for c in cells if c["p99_ns"] is not None), key=lambda c: c["p99_ns"], default=None)
        worst_node = worst["node"] if worst else None
        timeline = _rows(database, queries["timeline"], node=worst_node or "")
        return Facts(
            run=run[0] if run else {},
            cells=cells,
            failures=_rows(database, queries["failures"]),
            zeros=_rows(database, queries["zeros"]) if cells else [],
            thresholds=_rows(database, queries["thresholds"]),
            rolls=_rows(database, queries["rolls"]),
            faults=_rows(database, queries["faults"]),
            resources=_rows(database, queries["resources"]),
            memory=_rows(database, queries["memory"]),
            worst_node=timeline[0]["node"] if timeline else worst_node,
            timeline=timeline,
            notes=database.left_out,
        )


def _rows(database: Database, query: Query, **parameters: str) -> list[Row]:
    columns, rows = ask(database, query.sql, query.bind(parameters))
    return [dict(zip(columns, row, strict=True)) for row in rows]


def read_document(folder: RunFolder, name: str) -> dict[str, Any]:
    """A JSON object of the run: from the evidence, else as it stands live, else empty."""
    for place in (folder.evidence / name, folder.live / name, folder.root / name):
        try:
            value = read_json(place)
        except (OSError, ValueError):
            continue
        if isinstance(value, dict):
            return value
    return {}
