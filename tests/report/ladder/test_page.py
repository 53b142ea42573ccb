"""The page of a ladder: made for every verdict and any part of one, each figure under its arm, nothing invented."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.e8.advice import next_step
from harness.e8.arms import ABOUT, ARMS, CAPACITY, REALISM
from harness.errors import EvidenceError
from harness.report import render, write
from harness.report.ladder.states import STATES
from harness.runs import RunFolder
from tests.report.html import Page
from tests.report.ladder import made

EVIL = "<script>alert('x')</script>"
PUBLISHED = sorted(path.stem for path in made.PUBLISHED.glob("e8-*.json"))
SECTION = re.compile(r"<section.*?</section>", re.DOTALL)


def text_of(runs: Path, document: made.Document, *, graded: bool = True) -> str:
    return render(*made.run_of(runs, document, graded=graded))


NOBODY_ASKED = {"measured": None}
"""Somebody else's record: of one that a harness measured a PASS needs all that it leaves beside it."""


def page_of(runs: Path, document: made.Document, *, graded: bool = True) -> Page:
    return Page(text_of(runs, document, graded=graded))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_a_proven_ladder_leads_with_its_answer_and_its_claim(runs: Path) -> None:
    folder, verdict = made.run_of(runs, made.case("capacity-worker-cpu") | NOBODY_ASKED)
    page = Page(render(folder, verdict))
    assert verdict["verdict"] == "PASS"
    assert "capacity arm: The knee lies in [8, 16]; c=8 is the highest healthy level." in page.text
    assert f"by which this ladder may be quoted: {verdict['claim']}" in page.text
    assert page.row("worker-cpu")[1] == "the bound" and page.row("host-cpu")[1] == "runner-up"
    assert page.row("throughput_tps")[1:] == ["9.4/s", "18.6/s", "36.4/s", "68.2/s", "84/s", "86.5/s"]
    assert page.row("p95_ms")[1] == "106 ms" and page.row("sandbox_util_pct")[-1] == "8.2 %"
    assert "a target that is not named" in page.text and ABOUT[CAPACITY].number_is in page.text
    assert "10 ms to the first token, 1 ms a token, 64 tokens, 0.5 tool calls a request" in page.text


def test_nothing_is_said_to_have_bound_a_ladder_without_a_knee(runs: Path) -> None:
    page = page_of(runs, made.case("realism-not-observed"))
    assert "bound by nothing realism arm, up to the top rung" in page.text


def test_no_line_of_a_legend_is_wider_than_a_narrow_screen(runs: Path) -> None:
    """The meanings of the states are sentences: what may not be broken makes the whole page scroll sideways."""
    text = text_of(runs, made.case("capacity-worker-cpu"))
    rules = re.findall(r"\.legend > span \{ white-space: (\w+); \}", text)
    assert rules[-1] == "normal"


def test_what_was_measured_is_named(runs: Path) -> None:
    assert "the embedded tier" in page_of(runs, made.case("capacity-worker-cpu")).text


def test_the_key_figures_are_those_of_the_floor(runs: Path) -> None:
    page = page_of(runs, json.loads((made.PUBLISHED / "e8-capacity-w4.json").read_text()))
    assert "knee [32, 64] capacity arm, floor c=32 bound by worker-cpu capacity arm, runner-up" in page.text
    assert "throughput 212/s capacity arm, at c=32 p95 192 ms capacity arm, at c=32, bound 212 ms" in page.text
    assert "15 ms capacity arm, at c=32" in page.text
    assert "a further turn 9.7 ms" not in page.text, "no one cost of a turn gives what the levels used"


def test_the_duty_stands_with_its_basis_and_its_second_probe(runs: Path) -> None:
    page = page_of(runs, made.case("realism-duty-at-its-band") | {"duty_second": 0.0736})
    assert "second probe of the duty 0.0736" in page.text
    assert "basis of the duty e6-ocp (code review on OpenShift): 0.061 to 0.079" in page.text
    none = page_of(runs, made.case("capacity-duty-not-measured"))
    assert "duty not measured" in none.text and "basis of the duty none (capacity arm)" in none.text


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_ladder_has_a_page_with_its_source(runs: Path, name: str) -> None:
    document = json.loads((made.PUBLISHED / f"{name}.json").read_text())
    page = page_of(runs, document)
    assert "? UNPROVEN" in page.text and "There is no sentence by which this ladder may be quoted" in page.text
    assert " ".join(document["source"]["title"].split()) in page.text
    assert "What is missing" in page.text and "the model endpoint of the target" in page.text
    assert page.row("attempts")[-1] == f"{document['rungs'][-1]['attempts']:,}"


@pytest.mark.parametrize("name", made.cases_of_each_kind())
def test_no_page_speaks_of_an_ideal_and_each_figure_stands_under_its_arm(tmp_path: Path, runs: Path, name: str) -> None:
    """Whatever was adopted: its verdict may be any."""
    folder, verdict = made.run_of(runs, made.case(name))
    text = render(folder, verdict)
    page = Page(text)
    assert "ideal" not in text.lower()
    assert str(verdict["verdict"]) in page.text
    arm = verdict["arm"]
    other = {CAPACITY: REALISM, REALISM: CAPACITY}.get(arm)
    for section in SECTION.findall(text):
        if "<h2>Receipts" in section or "<h2>What the gate printed" in section:
            continue
        assert (f"{arm} arm" if arm in ARMS else "arm ") in section, section[:200]
    assert other is None or ABOUT[other].number_is not in text
    for refusal in verdict["refusals"]:
        assert page.row(refusal["rule"])[3] == " ".join((next_step(refusal["rule"]) or "–").split())


@pytest.mark.parametrize("graded", [True, False])
@pytest.mark.parametrize("rungs", [0, 1])
def test_a_ladder_of_hardly_any_rung_has_a_page(runs: Path, rungs: int, graded: bool) -> None:
    document = made.case("capacity-worker-cpu")
    document["rungs"] = document["rungs"][:rungs]
    page = page_of(runs, document, graded=graded)
    assert ("⊘ REFUSED" if graded else "? NOT GRADED") in page.text
    assert ("c=1" if rungs else "there is no rung to draw") in page.text
    assert page.tags.count("svg") == 3 * rungs


def test_what_was_not_graded_has_no_answer_and_no_state(runs: Path) -> None:
    text = text_of(runs, made.case("capacity-worker-cpu"), graded=False)
    page = Page(text)
    assert "No answer yet: the ladder was not graded." in page.text and "harness gate" in page.text
    assert page.row("capacity arm")[1:] == [f"c{c} ○ not graded" for c in (1, 2, 4, 8, 16, 32)]
    assert 'class="knee"' not in text
    assert "throughput not known capacity arm p95 not known capacity arm" in page.text


def test_without_a_budget_memory_is_held_against_none(runs: Path) -> None:
    row = page_of(runs, made.case("capacity-worker-cpu") | {"rss_budget_bytes": None}).row("memory")
    assert (row[1], row[4], row[5]) == ("no budget: not judged", "no budget", "not known")
    budget = page_of(runs, made.case("capacity-worker-cpu") | {"rss_budget_bytes": 2**30}).row("memory")
    assert "no budget" not in budget


def test_a_ladder_of_which_nothing_is_known_reads_not_measured_and_never_zero(runs: Path) -> None:
    text = text_of(runs, made.bare(made.case("capacity-worker-cpu")))
    page = Page(text)
    assert "arm not recorded" in page.text
    assert page.row("attempts")[1:] == ["30", "60", "120", "240", "480", "960"]
    assert not any(row[0].startswith("p95_ms") for row in page.rows if row)
    assert "p95_ms (of successful turns, nearest rank): not measured, and the record gives no reason" in re.sub(
        r" ([:)])", r"\1", page.text
    )
    assert "throughput not quoted: refused arm not recorded" in page.text
    assert page.text.count("Not measured.") == 1  # of the lag there is nothing to draw


def test_a_ladder_without_tables_has_a_page(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "e8-1")
    folder.root.mkdir()
    folder.run_json.write_text('{"kind": "e8", "created_at": "2026-11-30T10:00:00Z"}')
    page = Page(render(folder, {}))
    assert "? NOT GRADED" in page.text and "2026-11-30T10:00:00Z" in page.text
    assert "there is no table of this ladder" in page.text
    folder.closed.write_text('{"reason": "the stub did not start"}')
    page = Page(render(folder, {}))
    assert "the stub did not start" in page.text and "There is nothing to grade" in page.text


def test_of_a_damaged_table_there_is_no_page(runs: Path) -> None:
    folder, verdict = made.run_of(runs, made.case("capacity-worker-cpu"))
    folder.report.write_text("as it was")
    (folder.tables / "rungs.parquet").write_bytes(b"x")
    for known in ({}, verdict):
        with pytest.raises(EvidenceError, match=r"rungs\.parquet.*makes them from the evidence$"):
            write(folder, known)
    assert folder.report.read_text() == "as it was"
    refused = {"verdict": "REFUSED", "reason": "rungs.parquet is damaged"}
    page = Page(render(folder, refused))
    assert "Nothing can be said, because rungs.parquet is damaged" in page.text
    assert "No table was read:" in page.text


def test_a_value_that_is_unknown_has_its_reason(runs: Path) -> None:
    document = made.case("capacity-worker-cpu")
    document["rungs"][1] |= {"host_cpu_s": None, "why_unknown": {"host_cpu_s": "the counter was reset"}}
    text = text_of(runs, document)
    page = Page(text)
    assert page.row("host_cpu_s")[1:3] == ["0.60 s", "not measured 1"]
    assert page.row("host_cpu_util_pct")[2] == "not measured 1"  # what follows from it has the same reason
    assert text.count('title="the counter was reset"') == 2
    assert "<li>the counter was reset</li>" in text


def test_of_what_no_rung_measured_each_reason_is_told(runs: Path) -> None:
    document = made.case("capacity-worker-cpu")
    for rung in document["rungs"]:
        rung["why_unknown"] = {"relay_cpu_s": "its process cannot be read", "runqueue": "no schedstat here"}
    page = page_of(runs, document)
    assert "relay_cpu_s (of the exec relay): its process cannot be read" in re.sub(r" ([:)])", r"\1", page.text)
    assert "c1, runqueue: no schedstat here" in page.text


def test_a_refused_rung_still_shows_its_numbers(runs: Path) -> None:
    page = page_of(runs, made.case("capacity-over-the-ceiling"))
    assert "⊘ REFUSED" in page.text and "25.1% at c8" in page.row("sandbox_over_ceiling")[2]
    assert page.row("sandbox_util_pct")[4] == "25.1 %"
    assert "Nothing is convicted: the ladder has no answer." in page.text


def test_repeats_and_interrupted_tries_are_told(runs: Path) -> None:
    document = made.case("capacity-worker-cpu")
    first = document["rungs"][0]
    document["rungs"] += [made.repeated(first, 2, p95Ms=130), made.repeated(first, 3, p95Ms=108)]
    document["rungs"][3]["cut_tries"] = 2
    text = text_of(runs, document)
    page = Page(text)
    assert page.row("p95_ms")[1:4] == ["106 ms", "130 ms", "108 ms"]
    assert "bound, 2 × c=1: 216 ms" in page.text  # by the median of the three
    assert "c8 was measured again: 2 earlier tries of it were cut off." in page.text


def test_a_drill_is_named_and_nothing_of_it_may_be_quoted(runs: Path) -> None:
    folder, verdict = made.run_of(runs, made.case("capacity-worker-cpu") | NOBODY_ASKED)
    said = {"at": "2026-11-30T20:00:00Z", "rung": "c8", "fault": f"freeze worker 1 {EVIL}", "did": "SIGSTOP"}
    (folder.evidence / "faults.jsonl").write_text(f"{json.dumps(said)}\nnot JSON\n")
    text = render(folder, verdict)
    page = Page(text)
    assert "DRILL, not a result" in page.text and "(drill)" in page.text
    assert page.row("2026-11-30T20:00:00Z") == ["2026-11-30T20:00:00Z", "c8", said["fault"], "SIGSTOP"]
    assert "1 line of faults.jsonl could not be read" in page.text
    assert verdict["claim"] and verdict["claim"] not in page.text.partition("What the gate printed")[0]
    assert "<script" not in text


def test_where_the_ladder_came_from_is_told_with_digests(runs: Path) -> None:
    folder, verdict = made.run_of(runs, made.case("capacity-worker-cpu"))
    page = Page(render(folder, verdict))
    assert "adopted from given.json" in page.text
    assert verdict["gate_sha256"] in page.text
    assert "boot id 5d0c" in page.text and "worker pids 4101 4102" in page.text
    document = made.case("capacity-stub-swapped")
    assert "; from c" in page_of(runs, document).text


def test_a_ladder_without_a_knee_shades_nothing_and_convicts_nobody(runs: Path) -> None:
    document = made.case("capacity-worker-cpu")
    document |= {"rungs": document["rungs"][:4], "planned": ["c1", "c2", "c4", "c8"]}
    text = text_of(runs, document)
    assert 'class="knee"' not in text and "No knee was observed up to c=8." in Page(text).text
    assert "what did not stop was stopped by nothing" in text


@pytest.mark.parametrize("field", ["arm", "measured", "basis", "stub_url", "success_by"])
def test_hostile_words_are_text_and_never_markup(runs: Path, field: str) -> None:
    document = made.case("capacity-worker-cpu") | {field: EVIL}
    rung = document["rungs"][2]
    rung |= {"why_unknown": {EVIL: EVIL, "relay_cpu_s": EVIL}, "system": {EVIL: EVIL}}
    document["source"] = {"title": EVIL, "where": EVIL, "said": EVIL}
    text = text_of(runs, document)
    assert "<script" not in text
    assert EVIL in Page(text).text


def test_a_verdict_that_was_changed_by_hand_still_gives_a_page(runs: Path) -> None:
    folder, verdict = made.run_of(runs, made.case("capacity-worker-cpu"))
    rungs: list[dict[str, Any]] = [{"name": "c1", "state": EVIL}, {"name": EVIL}]
    hostile = verdict | {"rungs": rungs, "notes": [EVIL], "claim": EVIL, "lines": [EVIL], "missing": [EVIL]}
    text = render(folder, hostile)
    assert "<script" not in text and EVIL in Page(text).text


def test_the_page_needs_no_network_and_no_script_and_is_the_same_each_time(runs: Path) -> None:
    document = made.case("capacity-worker-cpu")
    folder, verdict = made.run_of(runs, document | {"stub_url": None, "stub_url_echoed": None})
    once, twice = (re.sub(r"Made \S+ by", "", render(folder, verdict)) for _ in range(2))
    assert once == twice
    assert not re.search(r"https?://|src=|@import|url\(|<link|<script|<iframe|\son\w+=", once)


def test_a_state_has_one_symbol_and_no_other(runs: Path) -> None:
    assert len({state.symbol for state in STATES.values()}) == len(STATES)
    page = page_of(runs, made.case("knee-below-a-rung-that-measured-its-generator"))
    assert any(cell.endswith("■ generator") for row in page.rows for cell in row)
