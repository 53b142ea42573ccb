"""The published ladders, adopted and graded by today's rules: the answers on record, and figures that recompute."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from harness.adopt import adopt
from harness.e8.grade import grade_run
from harness.e8.questions import ask_of
from harness.e8.reading import parse_ladder
from harness.e8.record import Ladder
from harness.e8.text import answer
from harness.e8.verdict import LadderVerdict
from harness.runs import RunFolder

PUBLISHED = Path(__file__).parents[2] / "runs" / "published"
NAMES = sorted(path.stem for path in PUBLISHED.glob("e8-*.json"))

ON_RECORD = {
    "e8-zero-cost": ("not observed up to c=64", "not-observed"),
    "e8-calibrated": ("not observed up to c=32", "not-observed"),
    "e8-lease-capped": ("in [8, 16], floor 8", "sandbox-pool"),
    "e8-realism": ("not observed up to c=32", "not-observed"),
    "e8-capacity-w4": ("in [32, 64], floor 32", "worker-cpu"),
    "e8-capacity-w8": ("in [32, 64], floor 32", "host-cpu"),
}


def ladder(name: str) -> Ladder:
    return parse_ladder(json.loads((PUBLISHED / f"{name}.json").read_text()))


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LadderVerdict]:
    runs = tmp_path_factory.mktemp("runs")
    for name in NAMES:
        assert adopt(PUBLISHED / f"{name}.json", runs, format="e8").run == name
    return {name: grade_run(RunFolder(runs / name))[0] for name in NAMES}


def test_each_is_answered_as_on_record(graded: dict[str, LadderVerdict]) -> None:
    assert {name: (answer(verdict), verdict.bound) for name, verdict in graded.items()} == ON_RECORD


def test_none_is_proven_and_what_is_missing_is_listed(graded: dict[str, LadderVerdict]) -> None:
    """Knee and bound are told all the same; a claim to quote is not."""
    for verdict in graded.values():
        assert (verdict.word, verdict.exit_code, verdict.claim) == ("UNPROVEN", 2, None)
        assert verdict.missing
    assert "the stub's profile" in graded["e8-capacity-w8"].missing
    assert "the stub's profile" not in graded["e8-capacity-w4"].missing
    assert "the lease cap" in graded["e8-calibrated"].missing


def test_a_share_above_all_of_it_is_noted_where_it_convicts(graded: dict[str, LadderVerdict]) -> None:
    said = {
        name: [note for note in verdict.notes if "no share is above 100 %" in note] for name, verdict in graded.items()
    }
    assert said.pop("e8-capacity-w4") == [
        "worker-cpu was convicted by 105.1 % at c=128, and no share is above 100 %: its clock or its count of cores is "
        "off by at least 5.1 %"
    ]
    assert not any(said.values())  # the 360 successes of all leases are no share


def test_the_lease_cap_is_known_by_its_signature(graded: dict[str, LadderVerdict]) -> None:
    """Three sandboxes of four leases, 30 turns each: 360 successes, with 16 clients and with 32."""
    convicted = next(suspect for suspect in graded["e8-lease-capped"].suspects if suspect.convicts)
    assert (convicted.measured, convicted.threshold, convicted.c) == (360, 360, 16)


def test_a_runner_up_is_named(graded: dict[str, LadderVerdict]) -> None:
    assert graded["e8-capacity-w8"].runner_up == "worker-cpu"
    assert graded["e8-capacity-w4"].runner_up is None, "no other tier came half as near"


@pytest.mark.parametrize("name", NAMES)
def test_utilisations_and_costs_recompute_to_the_printed_decimal(name: str) -> None:
    """From CPU seconds and the wall time that turns and throughput come to, whatever stands in the record."""
    of = ladder(name)
    compared = 0
    for recorded in of.rungs:
        bare = dataclasses.replace(
            recorded,
            sandbox_util_pct=None,
            worker_cpu_util_pct=None,
            worker_cpu_util_box_pct=None,
            host_cpu_util_pct=None,
            worker_cpu_ms_per_turn=None,
        )
        made = of.settle(bare)
        for field in dataclasses.fields(recorded):
            printed = getattr(recorded, field.name)
            if printed is not None and getattr(bare, field.name) is None:
                assert f"{getattr(made, field.name):.1f}" == f"{printed:.1f}", (recorded.name, field.name)
                compared += 1
    assert compared == {"e8-realism": 18, "e8-capacity-w4": 32, "e8-capacity-w8": 40}.get(name, 0)


def test_a_third_of_the_sandboxes_work_was_predicted_and_measured() -> None:
    """130.77 s of sandbox CPU in 57.65 s: 2.27 of 8 cores, 75.6 % of three sandboxes."""
    of = ladder("e8-realism")
    top = of.settle(of.rungs[-1])
    assert top.wall_ms == pytest.approx(57_654, abs=1)
    assert top.made_util_pct(top.sandbox_cpu_s, 1) == pytest.approx(226.8, abs=0.05)
    assert f"{top.sandbox_util_pct:.1f}" == "75.6"


@pytest.mark.parametrize(
    ("name", "per_turn", "per_second"),
    [("e8-capacity-w4", 9.7, 586), ("e8-capacity-w8", 12.7, 752), ("e8-realism", 26.8, 40)],
)
def test_the_cost_of_a_turn_is_told_apart_from_the_cost_of_being_there(
    name: str, per_turn: float, per_second: float
) -> None:
    cost = ask_of(ladder(name)).worker_cpu
    assert cost["marginal_ms_per_turn"] == pytest.approx(per_turn, abs=0.05)
    assert cost["background_ms_per_s"] == pytest.approx(per_second, abs=0.5)


def test_the_cost_of_a_turn_is_told_only_where_it_gives_what_the_levels_used(graded: dict[str, LadderVerdict]) -> None:
    """In the capacity arm turns become cheaper with load: at c=1 the workers used 353 ms a second, turns included."""
    for name, missed in (("e8-capacity-w4", 176), ("e8-capacity-w8", 146)):
        assert graded[name].marginal_ms_per_turn is graded[name].marginal_range_ms is graded[name].background_ms_per_s
        assert graded[name].marginal_ms_per_turn is None
        assert any(f"the CPU used at c=1 by {missed} %" in note for note in graded[name].notes)
    told = graded["e8-realism"]
    assert told.marginal_ms_per_turn == pytest.approx(26.8, abs=0.05)
    assert told.marginal_range_ms == pytest.approx((24.6, 27.2), abs=0.05)


def test_a_sibling_of_the_four_worker_run_is_worker_bound() -> None:
    """Workers 79.6 % at the knee and 105 % above it, while lag tripled and leases moved about."""
    of = ladder("e8-capacity-w4")
    seen = {1: (6.1, 0.0, 1.84), 32: (79.6, 1.8125, 3.62), 64: (102.3, 0.1875, 5.12), 128: (105.1, 1.9375, 12.37)}
    rungs = []
    for rung in of.rungs:
        if rung.c in seen:
            used, leases, lag = seen[rung.c]
            rungs.append(
                dataclasses.replace(
                    rung,
                    worker_cpu_s=None,
                    worker_cpu_util_pct=used,
                    lease_saturation=leases,
                    lag_p99_worst_ms=lag,
                    workers=(),
                )
            )
    found = ask_of(dataclasses.replace(of, rungs=tuple(rungs), lag_discriminates=True))
    assert found.knee is not None and found.knee["floor_c"] == 32
    assert next(suspect.bound for suspect in found.suspects if suspect.convicts) == "worker-cpu"


@pytest.mark.parametrize(
    ("points", "floor", "found"),
    [
        ([(1, 1.0, 900), (2, 1.9, 980), (4, 3.6, 1150), (8, 6.8, 1600), (16, 7.1, 3400)], 8, "knee"),
        ([(1, 1.0, 900), (2, 1.9, 950), (4, 3.9, 1000)], 4, "not-observed"),
    ],
)
def test_ladders_with_a_known_floor(points: list[tuple[int, float, float]], floor: int, found: str) -> None:
    records = [{"c": c, "attempts": 30 * c, "ok_n": 30 * c, "throughput": tps, "p95Ms": p95} for c, tps, p95 in points]
    knee = ask_of(parse_ladder(records)).knee
    assert knee is not None
    assert (knee["floor_c"], knee["answer"]) == (floor, found)


@pytest.mark.parametrize("name", NAMES)
def test_a_published_ladder_says_where_it_is_from_and_what_it_does_not_know(name: str) -> None:
    document = json.loads((PUBLISHED / f"{name}.json").read_text())
    of = parse_ladder(document)
    assert of.source_title and of.source_where and of.source_said
    assert of.measured is None and not of.probed
    assert not any(value is None for rung in document["rungs"] for value in rung.values()), "a column that is not given"
