"""The verdict as a step summary: the verdict first, nothing out of data that means anything, never over 1 MiB."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ci.markdown import LIMIT_BYTES, LONGEST, data, markdown
from harness.gate import Verdict, grade
from harness.gate.verdict import LostBackend
from harness.store.source import KINDS
from harness.terminal import printable
from tests.ci.verdicts import finding, node, target, verdict

MIB = 1 << 20
CODE = re.compile(r"<code>(?P<html>.*?)</code>|(?<!`)(?P<fence>`{1,2})(?!`)(?P<span>.+?)(?<!`)(?P=fence)(?!`)")
INERT = re.compile(r"(?:[A-Za-z0-9 ,;()'\"/+=%?!{}^-]|[^\x00-\x7f]|&#[0-9]+;(?:<!-- -->)?)*")
OWN = re.compile(r"</?details>|</?summary>|^#{2,3} ", re.MULTILINE)
NASTY = "|`*_~\\<>&@#[]()!:/.\n\r\t\x00\x1b\u202e'\"$-+=1aé北"


def check(text: str) -> list[list[str]]:
    """Hold a summary against what GitHub makes of it; returns the rows of its tables, cells apart.

    What came out of data stands in code spans, without what ends a cell or begins a formula in them, or in code
    elements, where it is inert; what is left, once these and the markup that is ours are gone, holds no character that
    means anything. A row has as many cells as the head of its table.
    """
    for code in CODE.finditer(text):
        assert INERT.fullmatch(code["html"] or ""), code
        assert not set(code["span"] or "") & set("|$<\n"), code
    bare = OWN.sub("", CODE.sub("X", text))
    assert not set(bare) & set("<>&@#`*_~[]\\$"), bare
    assert text.count("<details>") == text.count("</details>") <= 1
    rows: list[list[str]] = []
    width = 0
    for line, after in zip(text.splitlines(), [*text.splitlines()[1:], ""], strict=True):
        cells = [cell.strip() for cell in line.split("|")[1:-1]] if line.startswith("|") else []
        if set(after) == set("| -"):
            width = len(cells)
        elif cells and set(line) != set("| -"):
            assert len(cells) == width, line
            rows.append(cells)
        assert line.startswith("|") or "|" not in line
    return rows


def said(text: str) -> list[str]:
    """What each piece of code shows to a reader; a span that has a space at both ends shows neither."""
    return [
        html.unescape(code["html"].replace("<!-- -->", ""))
        if code["span"] is None
        else code["span"][1:-1]
        if code["span"].startswith(" ") and code["span"].endswith(" ")
        else code["span"]
        for code in CODE.finditer(text)
    ]


def left_out(text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"^([0-9,]+) more left out here", text, re.MULTILINE)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_graded_is_said_as_a_sentence(kind: str) -> None:
    text = markdown(verdict(target("cart"), source=kind))
    assert f"Graded: {KINDS[kind]}." in text


def test_the_verdict_comes_first_then_failing_targets_then_what_is_wrong() -> None:
    found = (finding("failures", "north", "http_5xx", count=1200, detail="http_5xx=1200 [north=1200]"),)
    blind = (finding("in_flight", "south", cause="evidence"),)
    cells = (node("north", failures={"http_5xx": 1200}), node("south", failures={}))
    graded = verdict(
        target("basket"),
        target("stock", unmeasured=blind),
        target("orders", cells, findings=found, http_2xx=None),
        run_findings=(finding("log_skips", cause="driver", subject="sortie.log"),),
        notes=("send delay: not measured",),
    )
    text = markdown(graded, beside=["DRILL  freeze"])
    rows = check(text)
    assert text.splitlines()[0] == "## FAIL `quick-1`"
    assert "targets 3, passed 1, failed 1, not run 0, backends 2, lost backends 0" in text.splitlines()[2]
    assert text.index("DRILL") < text.index("| target |")
    assert [row[:2] for row in rows[:3]] == [
        ["`orders`", "FAIL"],
        ["`stock`", "UNPROVEN"],
        ["`basket`", "PASS"],
    ]
    assert rows[0][2:] == ["not measured", "1.5", "`failures`"]
    assert rows[2][2:] == ["1,080 of 1,080", "1.5", ""]
    assert [(row[0], row[5]) for row in rows[3:5]] == [
        ("the run: `sortie.log`", "driver"),
        ("`orders`", "mesh"),
    ]
    assert rows[4][4] == "1,200"
    assert rows[5][:2] == ["`stock`", "`south`"]
    assert (
        text.index("### Findings") < text.index("### Not measured") < text.index("<details>") < text.index("### Notes")
    )
    assert rows[6][2:5] == ["returned", "540 of 540", "not measured"]
    assert said(rows[6][8]) == ["http_5xx=1200"]
    assert rows[7][8] == "none"
    assert rows[8][8] == "not measured"
    assert left_out(text) == []


def test_why_an_engine_was_lost_is_told() -> None:
    found = (finding("lost_backend", "south", cause="driver"),)
    lost = (LostBackend("south", "10.9.0.12:7000", 3, "connection <reset> by @peer"),)
    text = markdown(verdict(target("orders", findings=found), lost=lost))
    rows = check(text)
    assert text.index("### Findings") < text.index("### Lost backends") < text.index("<details>")
    (row,) = [row for row in rows if len(row) == 4]
    assert [said(row[0]), said(row[1]), row[2], said(row[3])] == [
        ["south"],
        ["10.9.0.12:7000"],
        "3",
        ["connection <reset> by @peer"],
    ]
    assert "Lost backends" not in markdown(verdict(target("orders")))


def test_no_failure_is_said_of_what_was_counted_alone() -> None:
    cells = (node("north", failures={}), node("south", failures={}, unmeasured=("pool_overflow",)))
    rows = check(markdown(verdict(target("orders", cells))))
    assert [row[8] for row in rows if len(row) == 9] == ["none", "none of those counted"]


def test_a_refusal_is_its_reason() -> None:
    text = markdown(Verdict.refused("quick-1", "report.json is *torn* <at> @byte 9"), beside=["DRILL  x"])
    assert check(text) == []
    assert text.splitlines()[0] == "## REFUSED `quick-1`"
    assert "report.json is *torn* <at> @byte 9" in said(text)


@pytest.mark.parametrize("case", ["clean", "hostile-names", "lost-backend", "missing", "no-engine-list", "not-run"])
def test_graded_cases_keep_the_form(case: str, tables_of: Callable[[str], Path]) -> None:
    graded = grade(tables_of(case))
    text = markdown(graded)
    check(text)
    shown = said(text)
    assert all(printable(each.target) in shown for each in graded.targets)
    assert all(one.detail in shown for each in graded.targets for one in each.findings)
    assert all(one.error in shown for one in graded.lost)


@given(st.text(st.characters()) | st.text(NASTY))
def test_any_text_is_shown_as_it_is_and_means_nothing(text: str) -> None:
    """Markup, tables, HTML, links, mentions, references, control characters, surrogates."""
    shown = data(text)
    check(shown)
    assert CODE.fullmatch(shown)
    assert "<code>" not in shown or shown.count("&#64;") == shown.count("&#64;<!-- -->"), "GitHub links addresses"
    assert said(shown) == [printable(text) if len(text) <= LONGEST else printable(text[:LONGEST] + "…")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sandbox utilisation is 25.1% at c=8 [4, 8]", "`sandbox utilisation is 25.1% at c=8 [4, 8]`"),
        ("a_b*c* @team #12 http://x.example", "`a_b*c* @team #12 http://x.example`"),
        ("<b> (2 + 2 = 4)", "<code>&#60;b&#62; (2 + 2 = 4)</code>"),
        ("see `harness runs`", "`` see `harness runs` ``"),
        ("`a``b", "<code>&#96;a&#96;&#96;b</code>"),
        ("a|b", "<code>a&#124;b</code>"),
        ("$x$", "<code>&#36;x&#36;</code>"),
        (" x", "<code> x</code>"),
        ("", "<code></code>"),
    ],
)
def test_what_can_stand_as_it_is_does(text: str, shown: str) -> None:
    """A summary is read in logs and mails too; entities are for what would end the span or its cell."""
    assert data(text) == shown


@given(st.lists(st.text(NASTY, max_size=9), min_size=1, max_size=4), st.integers(0, 4_000))
def test_any_verdict_keeps_the_form_however_little_room_there_is(names: list[str], limit_bytes: int) -> None:
    targets = [target(name, names, findings=(finding(name, name, name, detail=name),)) for name in names]
    text = markdown(verdict(*targets, notes=tuple(names), run=names[0]), beside=names, limit_bytes=limit_bytes)
    check(text)
    assert text.startswith("## FAIL ")
    opening = len(markdown(verdict(*targets, run=names[0]), beside=names, limit_bytes=0).encode())
    assert opening <= len(text.encode()) <= max(limit_bytes, opening)


def test_ten_thousand_hostile_targets_stay_under_the_limit_with_the_failing_ones_first() -> None:
    """The worst one is the last of the plan, and every text is longer than it may be."""
    worst = "|@`<" * 1_000
    found = (finding("failures", worst, worst, detail=worst),)
    cells = (node(worst, failures={f"{worst}{number}": number for number in range(100)}),)
    passing = [target(f"{number}{worst}", cells) for number in range(10_000)]
    graded = verdict(*passing, target(f"failing{worst}", cells, findings=found), notes=(worst,) * 1_000)
    text = markdown(graded)
    assert 100_000 < len(text.encode()) <= LIMIT_BYTES < MIB
    rows = check(text)
    assert text.startswith("## FAIL")
    assert rows[0][0].startswith("<code>failing") and rows[0][1] == "FAIL"
    targets = [row for row in rows if len(row) == 5]
    cells_shown = [row for row in rows if len(row) == 9]
    notes = text.count("\n- ")
    assert left_out(text) == [10_001 - len(targets), 10_001 - len(cells_shown), 1_000 - notes]
    assert min(len(targets), len(cells_shown), notes) > 10
    assert len([row for row in rows if len(row) == 7]) == 1


def test_what_one_part_does_not_need_the_others_may_use() -> None:
    """A long per-node part gets more than its share beside one target and no finding."""
    cells = tuple(node(f"node-{number}") for number in range(5_000))
    text = markdown(verdict(target("orders", cells)), limit_bytes=100_000)
    check(text)
    assert 90_000 < len(text.encode()) <= 100_000
