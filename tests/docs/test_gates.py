"""docs/gates.md is made from the headers of sql/gates; run as a program, this file writes it anew."""

from __future__ import annotations

from pathlib import Path

from harness.gate.load import load_gates

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


def page() -> str:
    """What docs/gates.md should read."""
    rows = []
    for gate in load_gates():
        cells = [f"[`{gate.rule}`](../sql/gates/{gate.path.name})", gate.asserts, ", ".join(gate.items), gate.cause]
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n")
    return HEAD + "".join(rows)


def test_the_page_of_rules_says_what_the_rules_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), f".venv/bin/python {Path(__file__).relative_to(ROOT)}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
