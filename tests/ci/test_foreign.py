# ruff: noqa: S314 - the document that is parsed was made here
"""Verdicts of what nighthawk and k6 measured: what a producer says of itself is no counter of requests."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

import pyarrow.parquet as pq
import pytest

from harness.ci.junit import junit
from harness.ci.markdown import markdown
from harness.gate import grade
from harness.store.ingest import build_tables

FORMATS = Path(__file__).parent.parent / "cases" / "formats"
GRADED = (
    *(f"nighthawk/{name}" for name in ("clean", "closed-loop", "loop-not-said", "cancelled", "engine-of-sortie")),
    *(f"k6/{name}" for name in ("summary-export", "many-targets", "no-requests")),
)


@pytest.mark.parametrize("case", GRADED)
def test_what_a_producer_says_of_itself_is_never_shown_as_a_counter(case: str, tmp_path: Path) -> None:
    """Whether it sent in an open loop, say; the note of what it does not count is of requests."""
    build_tables(FORMATS / case, tmp_path / "tables", run="r")
    graded = grade(tmp_path / "tables")
    xml, summary = junit(graded, tables_sha256="ab"), markdown(graded)
    texts = [*Xml.fromstring(xml.encode()).itertext(), xml, summary, *graded.not_measured]
    for name in ("driver.", "open_loop"):
        assert not [text for text in texts if name in text]


def test_a_closed_loop_is_told_by_what_it_does_not_count(tmp_path: Path) -> None:
    """The tables say of the loop itself that it was not open: the words are left out above, not merely absent."""
    build_tables(FORMATS / "nighthawk" / "closed-loop", tmp_path / "tables", run="r")
    counted = pq.read_table(tmp_path / "tables" / "capabilities.parquet").to_pylist()
    assert {row["counter"]: row["counted"] for row in counted}["driver.open_loop"] is False
    graded = grade(tmp_path / "tables")
    assert graded.word == "UNPROVEN"
    assert "pool_overflow" in markdown(graded)
    assert "pool_overflow" in junit(graded)
