"""What a page shows of texts that others wrote: nothing that moves a cursor, turns text around or ends a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.report import render
from harness.report.templates import breakable, shown
from harness.runs import RunFolder
from tests.report import made

BAD = "a\x00b\u202ec\nd\u2028e\ud800"
GOOD = r"a\x00b\u202ec\nd\u2028e\ud800"


def test_texts_are_shown_as_a_terminal_shows_them() -> None:
    from markupsafe import Markup

    assert shown(BAD) == str(breakable(BAD)) == GOOD
    assert shown(Markup("<b>\n\x00é</b>")) == Markup("<b>\n\\x00é</b>") and isinstance(shown(Markup("")), Markup)
    assert (shown(3), shown(None), shown("3 × 5 – é")) == (3, None, "3 × 5 – é")


@pytest.mark.parametrize("place", ["reason", "summary"])
def test_a_page_holds_no_control_of_a_record(place: str, tmp_path: Path) -> None:
    tables = made.clean_tables({"svc-1": 9})
    tables["runs"][0]["log_summary"] = BAD[:-1]
    tables["events"][0]["detail"] = BAD[:-1]
    finding = made.finding("svc-1", "node-b", "lost_backend", "driver", detail=BAD)
    verdict = made.verdict_of(tables, "quick-1", "FAIL", findings=[finding]) | {place: BAD}
    folder: RunFolder = made.save_run(tmp_path, "quick-1", tables, verdict)
    page = render(folder, verdict)
    assert GOOD in page
    assert not [c for c in page if not c.isprintable() and c != "\n"]
