"""Targets and shares: whole numbers or a refusal with the file, the line and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import PlanError
from harness.plan import shares
from harness.plan.model import PlannedTarget

REFUSALS = [
    ("svc http://h/", "targets.tsv:1: wants three fields (name url weight), has 2"),
    (
        "Svc http://h/ 1",
        "targets.tsv:1: target name 'Svc' must be at most 40 lower-case letters, digits and inner hyphens",
    ),
    (
        "svc- http://h/ 1",
        "targets.tsv:1: target name 'svc-' must be at most 40 lower-case letters, digits and inner hyphens",
    ),
    ("a http://h/ 1\n# note\na http://h/ 1", "targets.tsv:3: target 'a' is listed twice"),
    ("a https://h/ 1", "targets.tsv:1: url 'https://h/' must start with http:// and a host"),
    ("a http:// 1", "targets.tsv:1: url 'http://' must start with http:// and a host"),
    ("a http://h/ 0", "targets.tsv:1: weight '0' must be a positive whole number"),
    ("a http://h/ 1.5", "targets.tsv:1: weight '1.5' must be a positive whole number"),
    ("# nothing", "targets.tsv: names no target"),
    (
        "\n".join(f"t{i} http://h/ 1" for i in range(17)),
        "targets.tsv: names 17 targets, an engine runs at most 16 at once",
    ),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSALS)
def test_a_targets_file_that_no_run_may_have_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "targets.tsv"
    path.write_text(text)
    with pytest.raises(PlanError) as refused:
        shares.read_targets(path)
    assert str(refused.value) == f"{tmp_path}/{sentence}"


def test_an_unreadable_targets_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read"):
        shares.read_targets(tmp_path / "absent")
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(PlanError, match="cannot be read"):
        shares.read_targets(tmp_path / "latin")


def test_the_shipped_targets_share_sixty_rps_as_nine_and_three() -> None:
    found = shares.compute_shares(
        shares.read_targets(shares.DEFAULT_TARGETS_FILE), rate_rps=60, concurrency=1, source="x"
    )
    assert [target.rate_rps for target in found] == [9, 9, 9, 9, 9, 9, 3, 3]
    assert [target.name for target in found][-2:] == ["uds-echo", "uds-cr-echo"]


@pytest.mark.parametrize(
    ("rate", "concurrency", "sentence"),
    [
        (61, 1, "x: target 'a' would get 40.667 rps of rate=61, which is not whole; a multiple of 3 divides evenly"),
        (60, 3, "x: target 'a' gets 40 rps, no multiple of concurrency=3"),
    ],
)
def test_a_share_that_is_not_exact_is_refused(rate: int, concurrency: int, sentence: str) -> None:
    targets = [shares.WeightedTarget("a", "http://a/", 2), shares.WeightedTarget("b", "http://b/", 1)]
    with pytest.raises(PlanError) as refused:
        shares.compute_shares(targets, rate_rps=rate, concurrency=concurrency, source="x")
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("rates", "concurrency", "stall_budget_s", "queue"),
    [([9] * 6 + [3] * 2, 1, 2, 18), ([18] * 6 + [6] * 2, 1, 3, 54), ([40, 20], 2, 2, 40)],
)
def test_the_queue_rides_out_the_stall_budget(
    rates: list[int], concurrency: int, stall_budget_s: int, queue: int
) -> None:
    targets = tuple(PlannedTarget(f"t{i}", "http://t/", rate) for i, rate in enumerate(rates))
    assert shares.queue_size(targets, concurrency=concurrency, stall_budget_s=stall_budget_s) == queue


@pytest.mark.parametrize(("backends", "floor"), [(5, "14.85"), (2, "5.94")])
def test_the_floor_is_of_the_smallest_share(backends: int, floor: str) -> None:
    targets = (PlannedTarget("a", "http://a/", 9), PlannedTarget("b", "http://b/", 3))
    assert shares.floor_rps(targets, backends=backends, floor_pct=99) == floor


@given(st.lists(st.integers(1, 50), min_size=1, max_size=16), st.integers(1, 5000))
def test_shares_are_exact_or_refused(weights: list[int], rate: int) -> None:
    targets = [shares.WeightedTarget(f"t{i}", "http://t/", weight) for i, weight in enumerate(weights)]
    try:
        found = shares.compute_shares(targets, rate_rps=rate, concurrency=1, source="x")
    except PlanError:
        assert any(rate * weight % sum(weights) for weight in weights)
    else:
        assert sum(target.rate_rps for target in found) == rate
        assert all(t.rate_rps * sum(weights) == rate * w for t, w in zip(found, weights, strict=True))


@given(st.text(max_size=200))
def test_any_text_is_targets_or_a_plan_error(text: str) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
        file.flush()
        try:
            assert shares.read_targets(Path(file.name))
        except PlanError as error:
            assert str(error).startswith(file.name)
