"""What stands beside the report: read to its form, of any generation, and refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import EvidenceError
from harness.store.stated import StatedStream, read_dates, read_stream_statement, read_times_statement
from harness.store.stated_plan import StatedPlan, StatedTarget, read_plan_statement

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
    return read_plan_statement(path, "mesh", backends=4)


def test_a_plan_tells_its_thresholds_and_the_scenario_that_is_graded(tmp_path: Path) -> None:
    """Names are text whatever YAML would make of them; a share is the rate by weight, and a weight is 1."""
    assert plan_of(tmp_path, PLAN) == StatedPlan(
        thresholds=("counter:a == 0", "counter:b == 0", "counter:a == 0"),
        has_scenario=True,
        targets=(StatedTarget("on", "http://on/", 45), StatedTarget("1e3", "http://1e3/", 15)),
        duration_s=5400,
        scenarios=("edge", "mesh"),
        open_loop=True,
    )
    assert read_plan_statement(tmp_path / "none.yaml", "mesh", backends=4) == StatedPlan()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("per_backend: true", "per_backend: false", 11.25),
        ("per_backend: true, ", "", 11.25),
        ("rate: 60, ", "", None),
        ("rate: 60", "rate: 61", 45.75),
        ("weight: 3", "weight: 0", 0),
    ],
)
def test_a_rate_of_the_pool_is_divided_among_its_backends(
    old: str, new: str, told: float | None, tmp_path: Path
) -> None:
    """There are four, and what is not said to be each backend's rate is the pool's."""
    assert plan_of(tmp_path, PLAN.replace(old, new)).targets[0].rate_rps == told


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("30600s", 30600), ("8h", 28800), ("1d", 86400), ("1d500ms", 86400.5), ("1.5m", 90), ("12h1d", 129600)],
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
        PLAN.replace("1h30m", "1d2"),
        PLAN.replace("thresholds: ['counter:a == 0']", "thresholds: 'counter:a == 0'", 1),
        PLAN.replace("thresholds: ['counter:a == 0']", "thresholds: [counter: a]", 1),
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
        read_plan_statement(path, "mesh", backends=4)
    except EvidenceError as error:
        assert str(error).splitlines() == [str(error)]
    read_stream_statement(path)


def test_what_a_scenario_leaves_out_its_defaults_say(tmp_path: Path) -> None:
    """A default stands for what is unset, the executor as a whole; its thresholds are no one's."""
    pools = "pools: [{name: a, dns: 'd:1'}]\n"
    defaults = f"defaults: {{pool: a, thresholds: [x], executor: {{duration: 5s, open_loop: false}}}}\n{pools}"
    told = plan_of(tmp_path, defaults + PLAN)
    assert (told.pool, told.dns, told.duration_s, told.open_loop) == ("a", "d:1", 5400, True)
    executor = "    executor: {rate: 60, duration: 1h30m, per_backend: true, open_loop: true}\n"
    told = plan_of(tmp_path, defaults + PLAN.replace(executor, ""))
    assert (told.duration_s, told.open_loop, told.targets[0].rate_rps) == (5, False, None)


def test_a_staircase_is_as_long_as_its_stages(tmp_path: Path) -> None:
    """One that does not say its length makes the sum unknown."""
    stages = PLAN.replace("rate: 60, duration: 1h30m", "stages: [{rate: 1, duration: 1h}, {rate: 2, duration: 90s}]")
    assert plan_of(tmp_path, stages).duration_s == 3690
    assert plan_of(tmp_path, stages.replace(", duration: 90s", "")).duration_s is None


def test_lines_of_the_stream_are_kept_by_label(tmp_path: Path) -> None:
    """A torn line says nothing; what is whole and no execution is counted."""
    path = tmp_path / "results.jsonl"
    path.write_text(
        '{"label": "a", "started_at": "1", "n": 1}\n[]\n\n{"label": "a"}\n{"started_at": "1"}\n'
        '{"label": 1, "started_at": 1}\n{"label": "b", "n": 2}\n{"label": "b", "star'
    )
    found = read_stream_statement(path)
    assert {label: [line.get("n") for line in lines] for label, lines in found.executions.items()} == {
        "a": [1, None],
        "b": [2],
    }
    assert found.strangers == 3
    assert read_stream_statement(tmp_path / "none.jsonl") == StatedStream()


def test_rows_of_times_are_kept_by_label(tmp_path: Path) -> None:
    """A row of another number of columns says nothing."""
    path = tmp_path / "times.tsv"
    path.write_text("a\t-\t-\t0\t-\t-\tpass\r\na\t-\t-\t0\t-\t-\tfail\nb\tfail\n\n")
    assert read_times_statement(path) == {"a": {"pass", "fail"}}
    assert read_times_statement(tmp_path / "none.tsv") == {}


@pytest.mark.parametrize(
    ("env", "dated"),
    [
        ({"T_JOB": "1793513258", "T_LOAD": ""}, {"T_JOB": "2026-11-01T06:07:38+00:00"}),
        ({"RUN_TAG": "soak-20261101T060809Z"}, {"RUN_TAG": "2026-11-01T06:08:09+00:00"}),
        ({"RUN_TAG": "soak-20261301T060809Z", "T_JOB": "0", "T_LOAD": "soon"}, {}),
        ({"RUN_TAG": "20261101T060809Z-again"}, {}),
    ],
)
def test_run_env_names_times(env: dict[str, str], dated: dict[str, str]) -> None:
    """A tag that ends in no time is a name."""
    assert {key: at.isoformat() for key, at in read_dates(env).items()} == dated
