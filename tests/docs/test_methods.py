"""docs/methods/e8.md tells thresholds, rows of duty and rules as the code has them.

Run as a program, it writes these tables anew: ``.venv/bin/python tests/docs/test_methods.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

from harness.e8.arms import BASES, BOUNDS, SEARCH, THRESHOLDS
from harness.e8.refusals import AFTER_FIRST, AT_THE_END, BEFORE, OF_A_RUNG

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/methods/e8.md"
WHEN = {
    "before any turn": BEFORE,
    "after the first rung": AFTER_FIRST,
    "at every rung": OF_A_RUNG,
    "at the end": AT_THE_END,
}


def blocks() -> dict[str, str]:
    """Name of a block → its table."""
    bases = "| row | duty | sessions per sandbox | workload |\n| --- | --- | --- | --- |\n"
    for name, basis in BASES.items():
        duty, sessions = (f"{low:g} to {high:g}" for low, high in (basis.duty, basis.sessions))
        bases += f"| `{name}` | {duty} | {sessions} | {basis.workload} |\n"
    thresholds = "| threshold | value | why |\n| --- | --- | --- |\n"
    for name, each in {**THRESHOLDS, **SEARCH}.items():
        thresholds += f"| `{name}` | {each.value:g} {each.unit} | {each.reason} |\n"
    rules = "| rule | judged | why |\n| --- | --- | --- |\n"
    for when, checks in WHEN.items():
        for check in checks:
            rules += f"| `{check.__name__}` | {when} | {first_line(check.__doc__)} |\n"
    return {"bases": bases, "thresholds": thresholds, "rules": rules}


def first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0]


def marked(page: str, name: str) -> str:
    found = re.search(f"<!-- {name} -->\n(.*?)<!-- /{name} -->", page, re.DOTALL)
    assert found, f"the page has no block {name}"
    return found[1]


def test_the_page_lists_thresholds_rows_and_rules_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, table in blocks().items():
        assert marked(page, name) == table, f"write the page anew: python {Path(__file__).relative_to(ROOT)}"


def test_every_threshold_and_rule_has_its_reason() -> None:
    assert all(len(each.reason) > 8 for each in {**THRESHOLDS, **SEARCH}.values())
    assert all(first_line(check.__doc__).endswith(".") for checks in WHEN.values() for check in checks)


def test_the_page_tells_every_bound() -> None:
    page = PAGE.read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE))
    assert set(BOUNDS) - {"not-observed"} <= listed
    assert "`not-observed`" in page


def test_nothing_is_told_as_a_share_of_an_ideal() -> None:
    """The ideal would be mostly the stub's sleep. The words stand nowhere in what the product says of a ladder."""
    files = [*(ROOT / "harness/e8").rglob("*.py"), *(ROOT / "sql/e8").glob("*.sql"), *(ROOT / "docs").rglob("*.md")]
    files += [*(ROOT / "sql/history").glob("*.sql"), ROOT / "README.md"]
    found = [str(path) for path in files if re.search(r"ideal", path.read_text(encoding="utf-8"), re.IGNORECASE)]
    assert len(files) > 40
    assert found == []


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    for block, content in blocks().items():
        text = re.sub(
            f"<!-- {block} -->\n.*?<!-- /{block} -->",
            lambda _, name=block, table=content: f"<!-- {name} -->\n{table}<!-- /{name} -->",
            text,
            flags=re.DOTALL,
        )
    PAGE.write_text(text, encoding="utf-8")
