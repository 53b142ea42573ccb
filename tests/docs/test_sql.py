"""docs/sql.md lists the questions as their files ask them."""

from __future__ import annotations

from pathlib import Path

from harness.history.queries import named_queries

PAGE = Path(__file__).parents[2] / "docs/sql.md"


def test_the_page_lists_every_question_as_it_is_asked() -> None:
    rows = "| question | asks | takes |\n| --- | --- | --- |\n"
    for query in named_queries("history").values():
        takes = " ".join(
            f"`{name}`" if default is None else f"`{name}={default}`" for name, default in query.params.items()
        )
        rows += f"| `{query.name}` | {query.asks} | {takes} |\n"
    assert f"<!-- questions -->\n{rows}<!-- /questions -->\n" in PAGE.read_text(encoding="utf-8"), rows
