"""What the views say of a cell beyond the findings: whose value broke a threshold, what was held, what is unknown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.gate import grade
from harness.gate.load import load_views
from harness.gate.run import files_in, load_runs
from harness.store.database import connect

TablesOf = Callable[[str], Path]


def ask(tables: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of one question over a run's tables and views."""
    connection = connect()
    try:
        load_runs(connection, [files_in(tables)])
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_the_cell_that_breaks_a_threshold_is_marked(tables_of: TablesOf) -> None:
    """One of two nodes; NULL for a target whose thresholds do not tell the backends apart."""
    marks = ask(
        tables_of("threshold-names-nodes"), "SELECT node, breaks_threshold FROM cells ORDER BY target_no, node_no"
    )
    assert marks == [("north", False), ("south", True), ("north", None), ("south", None)]


def test_held_is_said_of_the_node_whose_requests_were_not_answered(tables_of: TablesOf) -> None:
    """Of no other, and of none where the engine was late or no limit is known."""
    question = "SELECT node FROM cells WHERE held"
    for case in ("mesh-holds-connections", "mesh-holds-connections-briefly", "mesh-never-answers"):
        assert ask(tables_of(case), question) == [("south",)], case
    for case in ("driver-frozen", "driver-frozen-briefly", "mesh-holds-connections-no-limit", "driver-saturated"):
        assert ask(tables_of(case), question) == [], case


def test_what_returned_nothing_has_no_counts(tables_of: TablesOf) -> None:
    """NULL, not 0 and not an empty list, which would read as no failure."""
    tables = tables_of("lost-all")
    cells = "SELECT DISTINCT http_2xx, sent, breaks_threshold FROM cells WHERE NOT returned"
    assert ask(tables, cells) == [(None, None, None)]
    summary = "SELECT http_2xx, rate_rps, p99_ns, survivors FROM target_summary WHERE target = 'orders'"
    assert ask(tables, summary) == [(None, None, None, 0)]
    orders, basket = (target.to_json() for target in grade(tables).targets)
    assert [node["failures"] for node in orders["nodes"]] == [None, None]
    assert [node["failures"] for node in basket["nodes"]] == [{}, {}]


def test_a_view_says_what_it_is_in_whole_sentences() -> None:
    """Lines that go on are joined, and nothing is cut off."""
    for view in load_views():
        assert view.about.endswith("."), view.path.name
        assert "--" not in view.about
        assert "  " not in view.about
