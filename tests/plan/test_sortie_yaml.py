"""The plan file: what is rendered reads back the same, and what no driver may run is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import PlanError
from harness.plan.build import build_plan
from harness.plan.sortie_yaml import read_plan, render_plan
from harness.settings import Settings


def test_the_default_plan_reads_back_equal(tmp_path: Path) -> None:
    planned = build_plan(Settings())
    path = tmp_path / "plan.yaml"
    path.write_text(render_plan(planned.plan))
    assert read_plan(path) == planned.plan


def test_the_default_plan_is_the_contracts_document() -> None:
    """Eight thresholds, the shares as weights, a queue of 18, the floor of the smallest share on five nodes."""
    document = yaml.safe_load(render_plan(build_plan(Settings()).plan))
    scenario = document["scenarios"][0]
    assert scenario["concurrency"] == "1"
    assert scenario["max_pending_requests"] == 18
    assert scenario["executor"] == {
        "type": "constant-rate", "rate": 60, "duration": "60s", "per_backend": True, "open_loop": True
    }  # fmt: skip
    assert [target["weight"] for target in scenario["targets"]] == [9] * 6 + [3] * 2
    assert len(scenario["thresholds"]) == 8
    assert scenario["thresholds"][-1] == "rate:benchmark.http_2xx >= 14.85"


def test_max_pending_zero_leaves_the_field_out() -> None:
    plan = build_plan(dataclasses.replace(Settings(), max_pending=0)).plan
    assert "max_pending_requests" not in render_plan(plan)


def test_a_bad_threshold_is_refused_before_anything_starts() -> None:
    with pytest.raises(PlanError):
        build_plan(dataclasses.replace(Settings(), thresholds="latency_2xx.p99 < soon"))


def change(document: dict[str, Any], path: str, value: object) -> None:
    *parents, last = path.split(".")
    for part in parents:
        document = document[int(part) if part.isdigit() else part]  # type: ignore[call-overload]
    document[last] = value


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("version", "v2", "version must be v1"),
        ("extra", 1, "the plan has unknown keys: extra"),
        ("scenarios.0.executor.open_loop", False, "the executor must be constant-rate, per_backend and open_loop"),
        ("scenarios.0.executor.rate", 61, "the targets' weights must be their shares and sum to executor.rate"),
        ("scenarios.0.executor.duration", "1h", "executor.duration must be whole seconds, like 900s"),
        ("scenarios.0.concurrency", 1, 'concurrency must be a positive whole number in quotes, like "1"'),
        ("scenarios.0.headers", ["no colon"], "must be 'Name: value'"),
        ("scenarios.0.headers", ["A: b\r\nHost: x"], "a header must be one line of text"),
        ("scenarios.0.pool", "other", "the scenario's pool must be 'nodes'"),
        ("scenarios.0.targets", [], "targets must be a list with at least one entry"),
        ("scenarios.0.name", "../up", "must be lower-case letters, digits and underscores"),
        ("pools.0.dns", "nodes", "must be host:port"),
    ],
)
def test_a_plan_that_no_driver_may_run_is_refused(tmp_path: Path, path: str, value: object, sentence: str) -> None:
    document = yaml.safe_load(render_plan(build_plan(Settings()).plan))
    change(document, path, value)
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(PlanError) as refused:
        read_plan(file)
    assert sentence in str(refused.value)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["version", "pools", "scenarios", "name", "executor", "targets"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(json_like)
def test_any_document_is_a_plan_or_a_plan_error(document: object) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(yaml.safe_dump(document))
        file.flush()
        with pytest.raises(PlanError):
            read_plan(Path(file.name))
