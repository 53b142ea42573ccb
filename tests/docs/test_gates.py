"""docs/gates.md is made from the headers of sql/gates; run as a program, this file writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/gates.md"
HEAD = """# Rules

Each rule is one file in `sql/gates/`. It returns a row per planned item, so that what is absent is found like what is
wrong. An item is a target, a node, a cell (one target on one node), or the run. The cause says whose a finding is:
`mesh`, `driver`, `plan` or `evidence`.

This page is made from the headers of those files by `tests/docs/test_gates.py`.

| rule | holds when | judges | cause of a finding |
| --- | --- | --- | --- |
"""


def header(path: Path) -> dict[str, str]:
    """The ``-- key: value`` lines that open a rule's file."""
    lines = path.read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    return dict(found.groups() for line in lines if (found := re.fullmatch(r"-- (\w+): (.*)", line)))


def page() -> str:
    """What docs/gates.md should read."""
    rows = []
    for path in sorted((ROOT / "sql/gates").glob("[0-9]*.sql")):
        rule = header(path)
        cells = [f"[`{rule['gate']}`](../sql/gates/{path.name})", rule["asserts"], rule["items"], rule["cause"]]
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n")
    return HEAD + "".join(rows)


def test_the_page_of_rules_says_what_the_rules_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), f".venv/bin/python {Path(__file__).relative_to(ROOT)}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
