"""What is printed beside the findings: counts, rates, latency, the grid, the window, the lost backends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.gate.verdict import LostBackend, NodeResult, Window

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Record = dict[str, Any]


@dataclass(frozen=True)
class Summary:
    """Plain values read from the views; ``targets`` in plan order, ``nodes`` by target number, in results order."""

    run: Record
    targets: list[Record]
    nodes: dict[int, list[NodeResult]]
    lost: tuple[LostBackend, ...]
    window: Window | None
    not_run: int
    totals_differ: list[str]


def read_summary(connection: DuckDBPyConnection) -> Summary:
    """Read it all from a database with one run and its views."""
    run = next(_records(connection, "SELECT * EXCLUDE (created_at) FROM runs"))
    targets = list(_records(connection, "SELECT * FROM target_summary ORDER BY target_no"))
    marked = next(_records(connection, "SELECT count(*) FILTER (not_run) AS marked FROM executions"))["marked"]
    return Summary(
        run=run,
        targets=targets,
        nodes=_nodes(connection),
        lost=tuple(LostBackend(**record) for record in _records(connection, LOST)),
        window=_window(connection),
        not_run=max(marked, run["log_not_run"] or 0),
        totals_differ=[str(target["target"]) for target in targets if target["totals_differ"]],
    )


NODES = """
SELECT target_no, node, backend, round(planned_2xx)::BIGINT AS planned, http_2xx, elapsed_ms,
    stamp(started_at) AS started_at, p50_ns, p99_ns, max_ns, send_delay_p99_ns, error, returned,
    CASE WHEN elapsed_ms > 0 THEN http_2xx::DOUBLE * 1000 / elapsed_ms END AS rate_rps,
    CASE
        WHEN state <> 'graded' THEN 'not graded'
        WHEN returned AND lost THEN 'lost'
        WHEN returned THEN 'returned'
        WHEN lost THEN 'lost, returned nothing'
        WHEN refusal THEN 'refused'
        WHEN dispatched THEN 'silent'
        ELSE 'not dispatched'
    END AS state,
    coalesce(exec_no, 0) AS exec_no, coalesce(backend_no, 0) AS backend_no
FROM cells
ORDER BY target_no, backend_no NULLS LAST, node_no
"""

FAILURES = """
SELECT exec_no, backend_no, metric(counter) AS name, value
FROM counters
WHERE is_failure(counter) AND value > 0
"""

LOST = """
SELECT node, backend, count(*) AS targets, first(coalesce(error, 'no error given') ORDER BY exec_no) AS error
FROM (
    SELECT node, backend, exec_no, first(error ORDER BY backend_no) AS error
    FROM backend_states
    WHERE lost
    GROUP BY node, backend, exec_no
)
GROUP BY node, backend
ORDER BY backend
"""

WINDOW = """
SELECT stamp(min(started_at)) AS dispatched, stamp(max(ended_at)) AS ended,
    (SELECT stamp(min(started_at)) FROM backends) AS engines_started_first,
    (SELECT stamp(max(started_at)) FROM backends) AS engines_started_last
FROM executions
"""


def _nodes(connection: DuckDBPyConnection) -> dict[int, list[NodeResult]]:
    failures: dict[tuple[int, int], dict[str, int]] = {}
    for record in _records(connection, FAILURES):
        failures.setdefault((record["exec_no"], record["backend_no"]), {})[record["name"]] = record["value"]
    nodes: dict[int, list[NodeResult]] = {}
    for record in _records(connection, NODES):
        number = record.pop("target_no")
        place = (record.pop("exec_no"), record.pop("backend_no"))
        record["failures"] = failures.get(place, {}) if record.pop("returned") else None
        nodes.setdefault(number, []).append(NodeResult(**record))
    return nodes


def _window(connection: DuckDBPyConnection) -> Window | None:
    record = next(_records(connection, WINDOW))
    return Window(**record) if record["dispatched"] else None


def _records(connection: DuckDBPyConnection, sql: str) -> Iterator[Record]:
    cursor = connection.execute(sql)
    names = [column[0] for column in cursor.description or ()]
    return (dict(zip(names, values, strict=True)) for values in cursor.fetchall())
