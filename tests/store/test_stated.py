"""What stands beside the report: read to its form, of any generation, and refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import EvidenceError
from harness.store.stated import StatedPlan, StatedTarget, read_plan_statement, read_stream_statement

PLAN = """\
version: v1
thresholds: ['counter:a == 0']
scenarios:
  - name: edge
    thresholds: [' counter:b == 0 ']
  - name: mesh
    executor: {rate: 60, duration: 1h30m, per_backend: true, open_loop: true}
    targets:
      - {name: on, url: 'http://on/', weight: 3}
      - {name: 1e3, url: 'http://1e3/'}
    thresholds: ['counter:a == 0']
"""


def plan_of(tmp_path: Path, text: str) -> StatedPlan:
    """The statement of a plan file with this text."""
    path = tmp_path / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return read_plan_statement(path, "mesh")


def test_a_plan_tells_its_thresholds_and_the_scenario_that_is_graded(tmp_path: Path) -> None:
    """Names are text whatever YAML would make of them; a share is the rate by weight, and a weight is 1."""
    assert plan_of(tmp_path, PLAN) == StatedPlan(
        thresholds=("counter:a == 0", "counter:b == 0", "counter:a == 0"),
        has_scenario=True,
        targets=(StatedTarget("on", "http://on/", 45), StatedTarget("1e3", "http://1e3/", 15)),
        duration_s=5400,
    )
    assert read_plan_statement(tmp_path / "none.yaml", "mesh") == StatedPlan()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("per_backend: true", "per_backend: false", None),
        ("rate: 60, ", "", None),
        ("rate: 60", "rate: 61", 45.75),
        ("weight: 3", "weight: 0", 0),
    ],
)
def test_only_a_rate_of_each_backend_is_what_a_node_sends(
    old: str, new: str, told: float | None, tmp_path: Path
) -> None:
    """A rate of the pool is divided among backends that the plan does not know."""
    assert plan_of(tmp_path, PLAN.replace(old, new)).targets[0].rate_rps == told


@pytest.mark.parametrize(
    ("duration", "seconds"), [("30600s", 30600), ("8h", 28800), ("1d", 86400), ("1d500ms", 86400.5), ("1.5m", 90)]
)
def test_a_duration_has_any_unit_that_a_plan_may_have(duration: str, seconds: float, tmp_path: Path) -> None:
    """Sums and fractions too."""
    assert plan_of(tmp_path, PLAN.replace("1h30m", duration)).duration_s == seconds


def test_an_alias_is_what_it_stands_for_and_an_escaped_pair_is_one_character(tmp_path: Path) -> None:
    """Both are YAML that a driver reads, or JSON that is taken for it."""
    aliased = PLAN.replace("rate: 60", "rate: &rate 60").replace("weight: 3", "weight: *rate")
    assert plan_of(tmp_path, aliased).targets[0].rate_rps == 60 * 60 / 61
    escaped = PLAN.replace("name: on", 'name: "\\ud83d\\ude80"')
    assert plan_of(tmp_path, escaped).targets[0].target == "\N{ROCKET}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a",
        "scenarios: []",
        "scenarios: [a]",
        "scenarios: {a: b}",
        "a: [",
        "a: b\na: c\nscenarios: [{name: mesh}]",
        "scenarios: &a [*a]",
        "? [a]\n: b",
        "scenarios: " + "[" * 5000,
        PLAN.replace("rate: 60", "rate: sixty"),
        PLAN.replace("weight: 3", "weight: -3"),
        PLAN.replace("1h30m", "5400"),
        PLAN.replace("1h30m", "[1h]"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, tmp_path: Path) -> None:
    """One sentence that names the file and says what to do."""
    with pytest.raises(EvidenceError, match=r"^plan\.yaml .*; put the file back as it was saved$") as caught:
        plan_of(tmp_path, text)
    assert "\n" not in str(caught.value)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(st.binary(max_size=80), st.text(alphabet="-:{}[]&*a\n \"'?!|>%@\t#", max_size=80).map(str.encode))
)
def test_any_bytes_are_a_plan_or_none(tmp_path: Path, content: bytes) -> None:
    """No other exception, and never two lines."""
    path = tmp_path / "plan.yaml"
    path.write_bytes(content)
    try:
        read_plan_statement(path, "mesh")
    except EvidenceError as error:
        assert str(error).splitlines() == [str(error)]
    read_stream_statement(path)


def test_lines_of_the_stream_that_are_no_execution_say_nothing(tmp_path: Path) -> None:
    """The first of two with one label and start counts, and a line without either is nobody's."""
    path = tmp_path / "results.jsonl"
    path.write_text(
        '{"label": "a", "started_at": "1", "n": 1}\n[]\n\n{"label": "a"}\n{"started_at": "1"}\n'
        '{"label": 1, "started_at": 1}\n{"label": "a", "started_at": "1", "n": 2}\n'
        '{"label": "a", "started_at": "2"}\n{"label": "b", "star'
    )
    found = read_stream_statement(path)
    assert {key: value.get("n") for key, value in found.items()} == {("a", "1"): 1, ("a", "2"): None}
    assert read_stream_statement(tmp_path / "none.jsonl") == {}
