"""What is printed beside the findings: counts, rates, latency, the grid, the window, lost backends. See sql/verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.gate.verdict import LostBackend, NodeResult, Window
from harness.sqlfiles import sql_folder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Record = dict[str, Any]


@dataclass
class Summary:
    """Plain values of one run; ``targets`` in plan order, ``nodes`` by target number, in results order.

    ``unruled``: target number → node → counters that moved and that no rule judges. ``uncounted``: what the producer
    of the report does not count.
    """

    run: Record
    targets: list[Record] = field(default_factory=list)
    nodes: dict[int, list[NodeResult]] = field(default_factory=dict)
    unruled: dict[int, dict[str, dict[str, int]]] = field(default_factory=dict)
    lost: list[LostBackend] = field(default_factory=list)
    window: Window | None = None
    uncounted: list[str] = field(default_factory=list)

    @property
    def not_run(self) -> int:
        """Executions never attempted: as marked in the report or as told in the log, whichever is more."""
        return int(max(self.run["marked_not_run"], self.run["log_not_run"] or 0))


def read_summaries(connection: DuckDBPyConnection) -> dict[str, Summary]:
    """Run → summary, of every run in a database with tables and views."""
    runs = {record["run"]: Summary(record) for record in _records(connection, "runs")}
    for record in _records(connection, "targets"):
        runs[record["run"]].targets.append(record)
    failures, others = _counters(connection)
    for record in _records(connection, "nodes"):
        summary, number = runs[record.pop("run")], record.pop("target_no")
        place = (summary.run["run"], record.pop("exec_no"), record.pop("backend_no"))
        returned = record.pop("returned")
        summary.nodes.setdefault(number, []).append(
            NodeResult(**record, failures=failures.get(place, {}) if returned else None)
        )
        if place in others:
            summary.unruled.setdefault(number, {})[record["node"]] = others[place]
    for record in _records(connection, "lost"):
        runs[record.pop("run")].lost.append(LostBackend(**record))
    for record in _records(connection, "windows"):
        run = record.pop("run")
        runs[run].window = Window(**record) if record["dispatched"] or record["engines_started_first"] else None
    for record in _records(connection, "uncounted"):
        runs[record["run"]].uncounted = record["counters"]
    return runs


Counters = dict[tuple[str, int, int], dict[str, int]]


def _counters(connection: DuckDBPyConnection) -> tuple[Counters, Counters]:
    """(run, execution, backend) → counters that moved: those of the zero-failure set, and those no rule judges."""
    judged: Counters = {}
    others: Counters = {}
    for record in _records(connection, "counters"):
        place = (record["run"], record["exec_no"], record["backend_no"])
        (judged if record["judged"] else others).setdefault(place, {})[record["name"]] = record["value"]
    return judged, others


def _records(connection: DuckDBPyConnection, query: str) -> Iterator[Record]:
    cursor = connection.execute((sql_folder("verdict") / f"{query}.sql").read_text(encoding="utf-8"))
    names = [column[0] for column in cursor.description or ()]
    return (dict(zip(names, values, strict=True)) for values in cursor.fetchall())
