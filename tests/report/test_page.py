"""The page of a run: made for every verdict, readable offline, and saying "not measured" where nothing was."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from harness.errors import EvidenceError
from harness.report import render, write
from harness.runs import RunFolder
from tests.report import made
from tests.report.html import Page

EVIL = "<script>alert('x')</script>"


def page_of(runs: Path, tables: made.Tables, verdict: made.Row | None) -> Page:
    folder = made.save_run(runs, "quick-1", tables, verdict)
    return Page(render(folder, verdict or {}))


@pytest.fixture
def clean() -> made.Tables:
    return made.clean_tables({"svc-1": 9, "uds-echo": 3}, ("node-a", "node-b"))


def test_a_pass_says_what_passed_and_what_its_zeros_prove(tmp_path: Path, clean: made.Tables) -> None:
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1"))
    assert "PASS" in page.text and "Nothing has to be done" in page.text
    assert page.row("svc-1 PASS")[1].startswith("✓ passed 540 of 540 p50")
    assert page.row("http_5xx") == ["http_5xx", "0", "1,440", "below 2.1 × 10⁻³ of requests, with 95 % confidence"]
    assert page.row("8 s")[:4] == ["8 s", "proxy", "node-a", "✓ ROLLED"]
    assert page.row("engine-node-a")[4:] == ["0.031", "48.0 MiB", "48.0 MiB"]
    assert page.tags.count("svg") > 2


def test_a_lost_node_is_lost_on_every_target_and_unmeasured(tmp_path: Path, clean: made.Tables) -> None:
    made.lose(clean, "node-b")
    lost = [made.finding(target, "node-b", "lost_backend", "driver", detail="gone") for target in ("svc-1", "uds-echo")]
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1", "FAIL", findings=lost))
    cell = page.row("svc-1 FAIL")[2]
    assert cell.startswith("∅ lost 2xx not measured latency not measured send delay not measured")
    assert page.row("svc-1 FAIL")[1].startswith("✓ passed 540")
    assert page.row("lost_backend") == ["lost_backend", "driver", "svc-1 , uds-echo", "node-b", "gone"]
    assert "none seen" in page.text and "1 of 2" in page.text and "node-b not counted" in page.text
    assert "because their engines returned nothing: node-b" in page.text
    assert "The engine of that node went away." in page.text  # and no file is named: this run has no evidence


def test_the_next_step_names_a_file_that_the_run_has(tmp_path: Path, clean: made.Tables) -> None:
    lost = [made.finding("svc-1", "node-b", "lost_backend", "driver", detail="gone")]
    verdict = made.verdict_of(clean, "quick-1", "FAIL", findings=lost)
    folder = made.save_run(tmp_path, "quick-1", clean, verdict)
    folder.evidence.mkdir()
    (folder.evidence / "svc-1@node-b.json").touch()
    assert "went away: read <target>@node-b.json." in Page(render(folder, verdict)).text


@pytest.mark.parametrize(
    ("source", "own", "says", "graded_from"),
    [
        ("report", True, "counted from the moment a request should have been sent", "the driver's report"),
        ("stream", False, "encoded on a connection, as sortie measures it", "the results stream"),
        ("nighthawk", False, "encoded on a connection, as nighthawk measures it", "nighthawk's result files"),
        ("k6", False, "Latency is http_req_duration of k6", "k6's summaries"),
    ],
)
def test_the_page_says_what_its_latency_covers(
    tmp_path: Path, clean: made.Tables, source: str, own: bool, says: str, graded_from: str
) -> None:
    clean["runs"][0]["source"] = source
    for backend in clean["backends"]:
        backend["released_requests"] = 540 if own else None
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1"))
    assert says in page.text and f"graded from {graded_from}" in page.text
    assert ("should have been sent" in page.text) == own


def test_where_nobody_measured_a_latency_nothing_is_said_of_it(tmp_path: Path, clean: made.Tables) -> None:
    made.lose(clean, "node-a", "node-b")
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1", "FAIL"))
    assert "Latency is" not in page.text and "Latency starts" not in page.text
    assert "measured by not measured" in page.text


def test_a_failure_is_placed_on_its_cell_with_its_class(tmp_path: Path, clean: made.Tables) -> None:
    place = {"exec_no": 1, "backend_no": 2, "backend": "127.0.1.2:7000", "node": "node-b"}
    clean["counters"].append({**place, "counter": "benchmark.http_5xx", "value": 12})
    findings = [made.finding("svc-1", "node-b", "failures", "mesh", "http_5xx", 12, "http_5xx=12")]
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1", "FAIL", findings=findings))
    assert page.row("svc-1 FAIL")[2].startswith("✕ failed 540 of 540 http_5xx 12")
    assert page.row("svc-1 FAIL")[1].startswith("✓ passed")
    assert page.row("uds-echo PASS")[2].startswith("✓ passed")
    assert page.row("http_5xx")[1:4] == ["12", "1,440", "not zero"]


def test_what_the_driver_did_is_not_shown_as_a_failed_mesh(tmp_path: Path, clean: made.Tables) -> None:
    late = [made.finding("svc-1", "node-a", "driver_late", "driver", detail="p99 612 ms")]
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1", "FAIL", findings=late))
    assert page.row("svc-1 FAIL")[1].startswith("△ driver")


def test_a_refused_run_has_its_reason_and_no_cell_is_called_passed(tmp_path: Path, clean: made.Tables) -> None:
    verdict = made.verdict_of(clean, "quick-1", "REFUSED", f"report.json is not JSON {EVIL}")
    page = page_of(tmp_path, clean, verdict)
    assert f"report.json is not JSON {EVIL}" in page.text and "REFUSED" in page.text
    assert page.row("svc-1 not graded")[1].startswith("· not graded 540 of 540")


@pytest.mark.parametrize("word", ["PASS", "FAIL", "REFUSED", "UNPROVEN", None])
def test_a_run_without_any_table_still_has_a_page(tmp_path: Path, word: str | None) -> None:
    folder = RunFolder(tmp_path / "quick-1")
    folder.root.mkdir()
    verdict = {"verdict": word, "reason": "nothing was saved", "counts": {}, "targets": []} if word else {}
    page = Page(render(folder, verdict))
    assert (word or "NOT GRADED") in page.text
    assert "Not measured: there is no table of this run" in page.text


@pytest.mark.parametrize("table", ["counters", "resources", "index.json"])
def test_of_a_damaged_table_there_is_no_page(tmp_path: Path, clean: made.Tables, table: str) -> None:
    """Without its counters a run would read as one without failures. The page that was there stays as it is."""
    folder = made.save_run(tmp_path, "quick-1", clean, None)
    folder.report.write_text("as it was")
    path = folder.tables / table if table == "index.json" else folder.tables / f"{table}.parquet"
    path.unlink()
    for verdict in ({}, made.verdict_of(clean, "quick-1")):
        with pytest.raises(EvidenceError, match=rf"{table}.*`harness gate quick-1` makes them from the evidence$"):
            write(folder, verdict)
    assert folder.report.read_text() == "as it was"
    page = Page(render(folder, made.verdict_of(clean, "quick-1", "REFUSED", f"{table} is damaged")))
    assert f"Reason: {table} is damaged" in page.text and "No table was read: left out" in page.text
    assert "failure classes not measured" in page.text and "Not measured: there is no table of this run" in page.text


def test_an_unknown_counter_is_not_measured_and_proves_nothing(tmp_path: Path, clean: made.Tables) -> None:
    clean["capabilities"] = [{"counter": "benchmark.http_inflight_lost", "counted": False}]
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1"))
    assert page.row("http_inflight_lost")[1:] == ["not measured", "1,440", "not measured"]


def test_a_node_that_does_not_say_what_it_released_is_counted_by_its_outcomes(
    tmp_path: Path, clean: made.Tables
) -> None:
    clean["backends"][0]["released_requests"] = None
    clean["counters"][0]["value"] -= 40
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1"))
    assert page.row("http_5xx")[1:3] == ["0", "1,400"]


def test_what_the_producer_does_not_count_is_neither_none_nor_passed(tmp_path: Path, clean: made.Tables) -> None:
    for row in clean["capabilities"]:
        row["counted"] = row["counter"] not in ("benchmark.http_2xx", "benchmark.stream_resets")
    clean["counters"] = [row | {"counter": "benchmark.http_3xx"} for row in clean["counters"]]
    verdict = made.verdict_of(clean, "quick-1", "UNPROVEN")
    verdict["targets"] = [target | {"verdict": "UNPROVEN", "http_2xx": None} for target in verdict["targets"]]
    page = page_of(tmp_path, clean, verdict)
    assert "failure classes none seen of the zero-failure set, 1 not counted" in page.text
    assert "engines that returned 2 of 2" in page.text and "2xx answers not measured" in page.text
    assert page.row("stream_resets")[1] == "not measured"
    assert page.row("svc-1 UNPROVEN")[1].startswith("○ unproven")
    assert "Only a run whose load generator counts it can pass" in page.text


def test_one_node_whose_counters_cannot_be_read_leaves_the_sum_unknown(tmp_path: Path, clean: made.Tables) -> None:
    clean["backends"][0] |= {"released_requests": None, "bad_counters": "counters is no object"}
    clean["counters"] = clean["counters"][1:]
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1"))
    assert page.row("http_5xx")[1:] == ["not measured", "not measured", "not measured"]


def test_a_planned_roll_that_never_happened_is_shown_as_such(tmp_path: Path, clean: made.Tables) -> None:
    clean["events"] = clean["events"][:1]
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1"))
    assert page.row("41 s")[:5] == ["41 s", "proxy", "node-b", "✕ NOT ROLLED", "not measured"]


def test_names_from_the_data_are_text_and_never_markup(tmp_path: Path) -> None:
    tables = made.clean_tables({EVIL: 9}, (EVIL + "n", "node-b"))
    tables["events"][0].update(detail=EVIL, name=EVIL)
    findings = [made.finding(EVIL, EVIL + "n", EVIL, EVIL, EVIL, 1, EVIL)]
    verdict = made.verdict_of(tables, "quick-1", "FAIL", EVIL, findings, [made.finding(EVIL, None, EVIL, detail=EVIL)])
    folder = made.save_run(tmp_path, "quick-1", tables, {**verdict, "lines": [EVIL]})
    text = render(folder, {**verdict, "lines": [EVIL]})
    assert "script" not in Page(text).tags
    assert "<script" not in text


def test_the_page_needs_no_network_and_no_script(tmp_path: Path, clean: made.Tables) -> None:
    text = render(made.save_run(tmp_path, "quick-1", clean, None), made.verdict_of(clean, "quick-1"))
    assert not re.search(r"https?://|src=|@import|url\(|<link|<script|<iframe|\son\w+=", text)


def test_the_same_tables_and_verdict_give_the_same_page(tmp_path: Path, clean: made.Tables) -> None:
    folder = made.save_run(tmp_path, "quick-1", clean, None)
    verdict = made.verdict_of(clean, "quick-1")
    once, twice = (re.sub(r"Made \S+ by", "", render(folder, verdict)) for _ in range(2))
    assert once == twice


def test_writing_the_page_leaves_one_whole_file(tmp_path: Path, clean: made.Tables) -> None:
    folder = made.save_run(tmp_path, "quick-1", clean, None)
    write(folder, made.verdict_of(clean, "quick-1"))
    assert folder.report.read_text().rstrip().endswith("</html>")
    assert not list(folder.root.glob(".*tmp"))


def test_with_many_nodes_only_the_slowest_are_drawn_and_the_page_says_so(tmp_path: Path) -> None:
    tables = made.clean_tables({"svc-1": 1}, [f"node-{i}" for i in range(20)], duration_s=10)
    page = page_of(tmp_path, tables, made.verdict_of(tables, "quick-1"))
    assert "12 slowest of 20 nodes are drawn" in page.text
    assert len(page.row("svc-1")) == 21


def test_a_fault_is_placed_at_its_second_of_the_load(tmp_path: Path, clean: made.Tables) -> None:
    """Counted from the engines' start: the dispatch comes before it and would move every fault."""
    for execution in clean["executions"]:
        execution["started_at"] = made.T0 - timedelta(seconds=1)
    fault = {"event_no": 9, "source": "faults", "at": made.T0 + timedelta(seconds=20), "outcome": "BEGINS"}
    clean["events"].append({**fault, "detail": "FAULT kill-engine node-b at 20s : begins"})
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1"))
    assert "20 s: FAULT kill-engine node-b at 20s : begins" in page.text


def test_where_no_engine_returned_nothing_reads_as_zero_or_none(tmp_path: Path, clean: made.Tables) -> None:
    made.lose(clean, "node-a", "node-b")
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1", "FAIL"))
    assert page.row("http_5xx")[1:] == ["not measured"] * 3
    assert "failure classes not measured" in page.text and "engines that returned 0 of 2" in page.text
    assert "2xx per second" in page.text  # the progress that was kept is drawn all the same


def test_a_node_whose_own_value_breaks_a_threshold_is_not_called_passed(tmp_path: Path, clean: made.Tables) -> None:
    place = {"exec_no": 1, "threshold_no": 1, "backend": "x"}
    clean["threshold_actuals"] = [
        {**place, "backend_no": 1, "node": "node-a", "actual": "4ms", "holds": True},
        {**place, "backend_no": 2, "node": "node-b", "actual": "2s", "holds": False},
    ]
    broken = [made.finding("svc-1", None, "threshold", detail="latency_2xx.p99 < 500ms on [node-b=2s]")]
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1", "FAIL", findings=broken))
    assert page.row("svc-1 FAIL")[1].startswith("✓ passed")
    assert page.row("svc-1 FAIL")[2].startswith("≠ threshold broken 540 of 540")
    assert page.row("uds-echo PASS")[2].startswith("✓ passed")
    assert page.row("threshold")[3] == "node-b"


def test_nodes_of_one_rule_and_target_share_a_row_and_its_sum(tmp_path: Path, clean: made.Tables) -> None:
    findings = [
        made.finding("svc-1", node, "failures", "mesh", "http_5xx", count, f"http_5xx=24 [{node}={count}]")
        for node, count in (("node-a", 10), ("node-b", 14))
    ]
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1", "FAIL", findings=findings))
    assert page.row("failures") == ["failures", "mesh", "svc-1", "node-a, node-b", "http_5xx=24 [node-a=10 node-b=14]"]


def test_many_classes_are_counted_the_worst_named_and_the_rest_folded(tmp_path: Path, clean: made.Tables) -> None:
    place = {"exec_no": 1, "backend_no": 2, "backend": "127.0.1.2:7000", "node": "node-b"}
    classes = [f"stream_resets_{number}" for number in range(19)]
    clean["counters"] += [
        {**place, "counter": f"benchmark.{name}", "value": number + 1} for number, name in enumerate(classes)
    ]
    findings = [
        made.finding("svc-1", "node-b", "failures", "mesh", name, 1, f"{name}=1 [node-b=1]") for name in classes
    ]
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1", "FAIL", findings=findings))
    most = "stream_resets_18, stream_resets_17, stream_resets_16"
    assert f"failure classes 19 {most} and 16 more" in page.text
    assert "stream_resets_18 19 stream_resets_17 18 stream_resets_16 17 and 16 more" in page.row("svc-1 FAIL")[2]
    assert "and 15 more" in page.row("failures")[4]


def test_a_drill_says_so_before_its_verdict(tmp_path: Path, clean: made.Tables) -> None:
    verdict = made.verdict_of(clean, "quick-1")
    folder = made.save_run(tmp_path, "quick-1", clean, verdict)
    assert "DRILL" not in Page(render(folder, verdict)).text
    made.put_fault(folder, "freeze proxy node-b at 3s for 3s")
    text = Page(render(folder, verdict)).text
    assert text.index("DRILL") < text.index("✓ PASS") and "(freeze proxy node-b at 3s for 3s)" in text


def test_a_closed_run_has_its_reason_and_what_was_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "quick-1")
    folder.evidence.mkdir(parents=True)
    folder.closed.write_text('{"reason": "the load ended without a report"}')
    (folder.evidence / "progress.jsonl").write_text("{}\n")
    text = Page(render(folder, {})).text
    assert "Reason: the load ended without a report" in text and "a new run is needed" in text
    assert "evidence/progress.jsonl" in text and "kept no progress" not in text and "none planned" not in text


def test_the_timeline_names_the_target_that_it_shows(tmp_path: Path, clean: made.Tables) -> None:
    for row in clean["progress"]:
        row["p99_ns"] = 10**9 if (row["node"], row["label"]) == ("node-b", "mesh/uds-echo") else 10**6
    for row in clean["statistics"]:
        row["p99"] = 1e9 if row["node"] == "node-b" else 1e6
    page = page_of(tmp_path, clean, made.verdict_of(clean, "quick-1"))
    assert "latency of uds-echo on node-b, per interval" in page.text
