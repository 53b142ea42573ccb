# ruff: noqa: S314 - the documents that are parsed were made here
"""The verdict as JUnit XML: the form that CI servers read, the mapping, names that stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ci.junit import NO_NODE, RUN_CASE, junit
from harness.gate import Verdict, grade
from harness.gate.verdict import LostBackend
from harness.terminal import printable
from tests.ci.verdicts import finding, node, target, verdict

CASES = Path(__file__).parent.parent / "cases" / "gate"
EXPECTED = {path.name: json.loads((path / "expected.json").read_text()) for path in CASES.iterdir() if path.is_dir()}
GRADED = sorted(name for name, case in EXPECTED.items() if case["verdict"] != "REFUSED" and not case.get("stream"))

# The schema that Jenkins and Surefire agree on: element → required attributes, optional ones, children in their order.
SCHEMA: dict[str, tuple[set[str], set[str], list[str]]] = {
    "testsuites": (set(), {"name", "tests", "failures", "errors", "time"}, ["testsuite"]),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped"},
        {"time", "timestamp", "hostname", "id", "package", "disabled"},
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "properties": (set(), set(), ["property"]),
    "property": ({"name", "value"}, set(), []),
    "testcase": ({"classname", "name"}, {"time"}, ["skipped", "error", "failure", "system-out", "system-err"]),
    "skipped": (set(), {"message"}, []),
    "error": (set(), {"message", "type"}, []),
    "failure": (set(), {"message", "type"}, []),
    "system-out": (set(), set(), []),
    "system-err": (set(), set(), []),
}
HOSTILE = (
    '"',
    "'",
    "<script>alert(1)</script>",
    "&amp;",
    "]]>",
    "süd 北 \N{PILE OF POO}",
    "\x00\x1b[2J",
    "a\nb",
    "\ufffe",
)
Outcomes = dict[tuple[str, str], str]


def check(text: str) -> Xml.Element:
    """The suite of a document, held against the schema; the numbers in its head are those of its cases."""
    root = Xml.fromstring(text.encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        required, optional, children = SCHEMA[element.tag]
        assert required <= set(element.attrib) <= required | optional, element.tag
        places = [children.index(child.tag) for child in element]
        assert places == sorted(places), f"children of {element.tag} in another order"
        assert not children or not (element.text or "").strip()
    (suite,) = root
    cases = suite.findall("testcase")
    assert all(len(case) <= 1 for case in cases), "one outcome per case"
    assert all(float(case.get("time", "0")) >= 0 for case in cases)
    told = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    counts = {name: sum(case.find(tag) is not None for case in cases) for tag, name in told.items()}
    assert {name: int(suite.attrib[name]) for name in counts} == counts
    assert int(suite.attrib["tests"]) == len(cases)
    assert len(suite.findall("properties")) == 1
    return suite


def outcomes(suite: Xml.Element) -> Outcomes:
    """(classname, name) → passed, failure, error or skipped."""
    return {
        (case.attrib["classname"], case.attrib["name"]): case[0].tag if len(case) else "passed"
        for case in suite.findall("testcase")
    }


def case_of(suite: Xml.Element, classname: str, name: str) -> Xml.Element:
    """The one case of this name."""
    (found,) = (c for c in suite.findall("testcase") if (c.get("classname"), c.get("name")) == (classname, name))
    return found


def test_a_run_that_passes_has_a_passing_case_per_cell_and_one_for_itself() -> None:
    graded = verdict(target("orders"), target("basket"), notes=("send delay: not measured",))
    suite = check(junit(graded, tables_sha256="cd" * 32, beside=["DRILL  none"]))
    names = [("orders", "north"), ("orders", "south"), ("basket", "north"), ("basket", "south"), RUN_CASE]
    assert outcomes(suite) == dict.fromkeys(names, "passed")
    assert case_of(suite, "orders", "north").get("time") == "60.004"
    assert "time" not in case_of(suite, *RUN_CASE).attrib
    properties = {each.attrib["name"]: each.attrib["value"] for each in suite.iter("property")}
    assert properties == {
        "run": "quick-1",
        "verdict": "PASS",
        "gate_sha256": "ab" * 32,
        "source": "report",
        "tables_sha256": "cd" * 32,
    }
    said = suite.findtext("system-out", "").splitlines()
    assert said[:2] == ["DRILL  none", "NOTE  send delay: not measured"]
    assert said[2].startswith("VERDICT PASS targets=2")


def test_a_finding_on_a_node_fails_that_nodes_case_once() -> None:
    found = (finding("failures", "north", "http_5xx", count=12), finding("below_plan", "north", cause="driver"))
    suite = check(junit(verdict(target("orders", findings=found), target("basket"))))
    assert [key for key, outcome in outcomes(suite).items() if outcome != "passed"] == [("orders", "north"), RUN_CASE]
    (failure,) = case_of(suite, "orders", "north")
    assert failure.attrib == {"message": "failures, below_plan", "type": "driver, mesh"}
    assert failure.text == (
        "failures class=http_5xx count=12 cause=mesh: failures is broken\nbelow_plan cause=driver: below_plan is broken"
    )


def test_why_an_engine_was_lost_is_on_its_case_and_in_the_output() -> None:
    gone = node("south", state="lost, returned nothing", http_2xx=None, error="connection <reset>\x1b")
    found = (finding("lost_backend", "south", cause="driver"),)
    lost = (LostBackend("south", "south:7000", 3, "first <error>"),)
    graded = verdict(target("orders", (node("north"), gone), findings=found), lost=lost)
    suite = check(junit(graded))
    (failure,) = case_of(suite, "orders", "south")
    assert str(failure.text).splitlines() == [
        "lost_backend cause=driver: lost_backend is broken",
        "error of south:7000: connection <reset>\\x1b",
    ]
    assert len(case_of(suite, "orders", "north")) == 0
    said = suite.findtext("system-out", "").splitlines()
    assert said[0] == "LOST  south (south:7000)  targets=3  error: first <error>"
    silent = check(junit(verdict(target("orders", (gone,)))))
    assert "connection <reset>" in str(case_of(silent, "orders", "south")[0].text), "also where no finding says it"


def test_a_finding_on_the_target_fails_all_of_its_nodes() -> None:
    suite = check(junit(verdict(target("orders", findings=(finding("short_run"),)), target("basket"))))
    failed = {key for key, outcome in outcomes(suite).items() if outcome == "failure"}
    assert failed == {("orders", "north"), ("orders", "south"), RUN_CASE}


def test_a_target_that_was_not_run_is_skipped_and_the_run_fails_by_it() -> None:
    nodes = tuple(node(name, state="not graded") for name in ("north", "south"))
    found = (finding("not_run", cause="driver"),)
    suite = check(junit(verdict(target("orders"), target("basket", nodes, state="not_run", findings=found))))
    assert outcomes(suite)["basket", "north"] == outcomes(suite)["basket", "south"] == "skipped"
    (failure,) = case_of(suite, *RUN_CASE)
    assert (failure.tag, failure.get("message")) == ("failure", "not_run")
    assert "subject=basket" in str(failure.text)


def test_what_is_on_no_cell_fails_the_run() -> None:
    strangers = (finding("unplanned_target", cause="plan", subject="mesh/ghost"),)
    suite = check(junit(verdict(target("orders"), run_findings=strangers)))
    assert outcomes(suite) == {("orders", "north"): "passed", ("orders", "south"): "passed", RUN_CASE: "failure"}
    (failure,) = case_of(suite, *RUN_CASE)
    assert "subject=mesh/ghost" in str(failure.text)


def test_what_was_not_measured_is_an_error_on_its_node_and_of_the_run() -> None:
    blind = (finding("failures", "south", "stream_resets", cause="evidence"),)
    suite = check(junit(verdict(target("orders", unmeasured=blind), target("basket"))))
    errors = {key for key, outcome in outcomes(suite).items() if outcome == "error"}
    assert errors == {("orders", "south"), RUN_CASE}
    assert case_of(suite, "orders", "south")[0].get("message") == "failures"
    whole = check(junit(verdict(target("orders", unmeasured=(finding("failures"),)))))
    assert set(outcomes(whole).values()) == {"error"}
    both = check(junit(verdict(target("orders", unmeasured=blind, findings=(finding("off_plan", "south"),)))))
    assert outcomes(both)["orders", "south"] == "failure"


def test_a_cell_without_a_result_never_passes() -> None:
    """Also where no finding says why: it is an error, not a pass."""
    nodes = (node("north"), node("south", state="silent"))
    suite = check(junit(verdict(target("orders", nodes))))
    assert outcomes(suite)["orders", "south"] == "error"
    assert case_of(suite, "orders", "south")[0].get("message") == "not graded: silent"


def test_a_refusal_is_one_error_and_nothing_else() -> None:
    suite = check(junit(Verdict.refused("quick-1", "report.json is <torn> & \x00 old")))
    assert outcomes(suite) == {RUN_CASE: "error"}
    (error,) = case_of(suite, *RUN_CASE)
    assert error.attrib == {"message": "report.json is <torn> & \\x00 old", "type": "REFUSED"}


def test_a_target_without_any_node_and_a_finding_on_a_node_nobody_planned_have_a_case() -> None:
    gone = target("orders", nodes=(), state="missing", findings=(finding("missing"),))
    stranger = target("basket", findings=(finding("undispatched_backend", "10.9.0.99"),))
    twice = target("stock", nodes=("north", "north"))
    found = outcomes(check(junit(verdict(gone, stranger, twice))))
    assert found["orders", NO_NODE] == found["basket", "10.9.0.99"] == "failure"
    assert [key for key in found if key[0] == "stock"] == [("stock", "north")]


@pytest.mark.parametrize("case", GRADED)
def test_every_graded_case_keeps_the_form_and_no_finding_is_lost(case: str, tables_of: Callable[[str], Path]) -> None:
    graded = grade(tables_of(case))
    suite = check(junit(graded))
    found = outcomes(suite)
    assert (set(found.values()) == {"passed"}) == (graded.word == "PASS")
    assert found[RUN_CASE] == {"PASS": "passed", "FAIL": "failure"}.get(graded.word, "error")
    for each in graded.targets:
        mine = {outcome for (name, _), outcome in found.items() if name == printable(each.target)}
        idle = any(cell.state != "returned" for cell in each.nodes)  # a finding about the run alone may say why
        assert (mine == {"passed"}) == (each.word == "PASS" and not idle)
    texts = " ".join(str(element.text) for case in suite.iter("testcase") for element in case)
    said = [one for each in graded.targets for one in each.findings]
    assert all(printable(one.detail) in texts for one in [*said, *graded.run_findings])
    whys = [each.error for cells in graded.targets for each in cells.nodes if each.error and cells.state == "graded"]
    assert all(printable(why) in texts for why in whys)
    out = suite.findtext("system-out", "")
    assert all(printable(f"LOST  {one.node} ({one.backend})") in out for one in graded.lost)


def test_the_names_of_one_plan_are_the_same_in_every_run(tables_of: Callable[[str], Path]) -> None:
    """Two targets on two nodes: clean, failed, lost, late, cut short, never driven, not run."""
    runs = ("clean", "failures", "lost-all", "lost-backend", "driver-late", "short-run", "missing", "missing-all")
    names = {run: list(outcomes(check(junit(grade(tables_of(run)))))) for run in (*runs, "not-run", "duplicate")}
    assert {run for run, found in names.items() if set(found) != set(names["clean"])} == set()
    assert len(names["clean"]) == 5


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name: str) -> None:
    found = (finding(name, name, name, detail=name, cause=name, subject=name),)
    graded = verdict(target(name, nodes=(name,), findings=found), run_findings=found, notes=(name,), run=name)
    suite = check(junit(graded, beside=[name]))
    assert outcomes(suite) == {(printable(name), printable(name)): "failure", RUN_CASE: "failure"}


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_text_makes_a_document_that_parses(name: str, detail: str) -> None:
    """Control characters, surrogates and what else XML forbids included."""
    suite = check(junit(verdict(target(name, findings=(finding("failures", "north", detail=detail),)))))
    (failure,) = case_of(suite, printable(name), "north")
    assert str(failure.text).endswith(f": {printable(detail)}")
