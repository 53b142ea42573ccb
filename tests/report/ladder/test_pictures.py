"""The pictures of a ladder: well-formed, nothing outside, labels apart, and nothing drawn for the unmeasured."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.e8.record import Ladder, Rung
from harness.report.ladder.axes import Doublings, Factors, apart, medians, spread
from harness.report.ladder.pictures import Dot, Knee, Limit, Panel, stacked
from harness.report.ladder.states import STATES, mark
from harness.report.ladder.tiers import small_multiples, tiers_of
from harness.report.svg import WIDTH

VALUE = st.none() | st.floats(min_value=0, max_value=1e9)
LEVELS = st.lists(st.integers(min_value=1, max_value=999_999), min_size=1, max_size=8)
CHARACTER = 6.6  # user units, of a digit at the size in which labels are drawn


def panel(*values: tuple[int, float | None], state: str = "healthy", limits: tuple[Limit, ...] = ()) -> Panel:
    dots = [Dot(c, f"c{c}", state, value) for c, value in values]
    return Panel("throughput, capacity arm", dots, lambda value: f"{value:g}/s", limits)


def drawn(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)  # noqa: S314 - our own text


def test_doublings_are_equally_wide() -> None:
    x = Doublings([1, 3, 8], 100, 400)
    assert [x(c) for c in (1, 2, 4, 8)] == [100, 200, 300, 400]
    assert x.doublings() == [1, 2, 4, 8]


def test_an_axis_of_a_single_level_begins_with_it() -> None:
    x = Doublings([1], 100, 400)
    assert x(1) == 100 and x.doublings() == [1, 2]


def test_factors_are_equally_high_and_what_is_not_positive_stays_at_the_foot() -> None:
    y = Factors([10, 1000, 0, None], 300, 100)
    assert [round(y(value)) for value in (10, 100, 1000, 0)] == [300, 200, 100, 300]


@given(st.floats(min_value=1e-6, max_value=1e9), st.floats(min_value=1, max_value=1e6))
def test_an_axis_of_factors_has_its_ticks_within_itself(low: float, factor: float) -> None:
    y = Factors([low, low * factor], 300, 100)
    ticks = y.ticks()
    assert 2 <= len(ticks) <= 20 and ticks == sorted(ticks)
    assert all(100 <= y(tick) <= 300 for tick in ticks)


def test_medians_leave_out_what_was_not_measured() -> None:
    assert medians([(2, None), (1, 5.0), (1, 3.0), (1, 4.0), (1, None)]) == [(1, 4.0), (2, None)]


@given(st.lists(st.floats(min_value=0, max_value=500), max_size=6))
def test_labels_are_spread_apart_in_their_order(positions: list[float]) -> None:
    placed = spread(positions, 15)
    ranked = [placed[index] for index in sorted(range(len(positions)), key=lambda i: positions[i])]
    assert all(after - before >= 15 - 1e-6 for before, after in pairwise(ranked))


def test_numbers_that_would_touch_give_way_to_earlier_ones() -> None:
    assert apart([(100, 8), (10, 1), (110, 9), (150, 16)], 26) == [8, 1, 16]


@given(LEVELS, st.lists(VALUE, min_size=8, max_size=8), st.sampled_from(sorted(STATES)))
def test_every_picture_is_well_formed_and_within_its_frame(
    levels: list[int], values: list[float | None], state: str
) -> None:
    points = list(zip(levels, values, strict=False))
    picture = stacked("t", [panel(*points, state=state), panel(*points)], Knee(min(levels), max(levels), min(levels)))
    height = float(drawn(picture).attrib["viewBox"].split()[3])
    for name, most in (("x", WIDTH), ("cx", WIDTH), ("y", height), ("cy", height)):
        assert all(0 <= float(at) <= most for at in re.findall(rf'\b{name}="(-?[0-9.]+)"', picture)), name


def test_the_numbers_below_the_axis_do_not_touch() -> None:
    """An automatic ladder halves its bracket, so that its levels come close."""
    levels = (1, 2, 4, 8, 16, 24, 28, 30, 32, 64)
    picture = stacked("t", [panel(*((c, float(c)) for c in levels))], Knee(28, 30, 28))
    foot = [e for e in drawn(picture).iter("text") if e.get("class") == "tick middle"]
    spans = sorted((float(e.attrib["x"]), len(e.text or "")) for e in foot)
    assert {e.text for e in foot} >= {"1", "28", "64"}
    for (left, wide), (right, next_wide) in pairwise(spans):
        assert right - left >= CHARACTER * (wide + next_wide) / 2


def test_the_words_of_the_knee_stand_above_every_title() -> None:
    picture = drawn(stacked("t", [panel((1, 1.0), (2, 1.1))], Knee(1, 2, 1)))
    of_class = {
        name: [e for e in picture.iter("text") if name in str(e.get("class"))] for name in ("knee-says", "name")
    }
    (knee,), (title,) = of_class["knee-says"], of_class["name"]
    assert knee.text == "knee in [1, 2]"
    assert float(title.attrib["y"]) - float(knee.attrib["y"]) >= 15


def test_a_knee_at_one_level_is_wide_enough_to_be_seen() -> None:
    picture = drawn(stacked("t", [panel((1, 1.0), (2, 1.0))], Knee(1, 1, 1)))
    (shade,) = (e for e in picture.iter("rect") if e.get("class") == "knee")
    assert float(shade.attrib["width"]) >= 6


def test_without_a_knee_nothing_is_shaded() -> None:
    assert "<rect" not in stacked("t", [panel((1, 1.0), (2, 2.0))], Knee())


def test_a_level_that_was_not_measured_breaks_the_line_and_is_a_question_mark() -> None:
    picture = stacked("t", [panel((1, 1.0), (2, 2.0), (4, None), (8, 3.0), (16, 4.0))], Knee())
    assert picture.count('class="line ladder"') == 2
    assert "c4, healthy: throughput, capacity arm, not measured" in picture and ">?</text>" in picture


def test_what_nobody_measured_is_said_and_not_drawn() -> None:
    picture = stacked("t", [panel((1, None), (2, None))], Knee())
    assert ">not measured</text>" in picture and 'class="rung' not in picture and "NaN" not in picture


def test_each_repeat_has_a_mark_and_the_line_goes_through_their_median() -> None:
    dots = [Dot(1, "c1", "healthy", 1.0), Dot(1, "c1.r2", "healthy", 9.0), Dot(1, "c1.r3", "healthy", 3.0)]
    made = Panel("p95", [*dots, Dot(2, "c2", "miss", 3.0)], lambda value: f"{value:g} ms")
    picture = stacked("t", [made], Knee())
    assert picture.count('class="rung healthy"') == 3 and picture.count('class="rung miss"') == 1
    (path,) = re.findall(r'd="M([^"]+)" class="line ladder"', picture)
    heights = {point.split()[1] for point in path.split(" L")}
    assert len(heights) == 1  # 3 and 3


def test_a_limit_is_drawn_and_named_beside_the_picture() -> None:
    limits = (Limit(5.0, "bound, 2 × c=1: 5 ms"), Limit(5.1, "another"))
    picture = drawn(stacked("t", [panel((1, 1.0), (2, 8.0), limits=limits)], Knee()))
    labels = [e for e in picture.iter("text") if "limit-says" in str(e.get("class"))]
    assert [e.text for e in labels] == ["bound, 2 × c=1: 5 ms", "another"]
    assert abs(float(labels[0].attrib["y"]) - float(labels[1].attrib["y"])) >= 14


@pytest.mark.parametrize("state", STATES)
def test_each_state_has_a_mark_of_its_own(state: str) -> None:
    others = {str(mark(10, 10, other)) for other in STATES if other != state}
    assert str(mark(10, 10, state)) not in others


def test_a_hostile_name_is_text() -> None:
    dots = [Dot(1, "<script>", "healthy", 1.0)]
    picture = stacked("<script>", [Panel("<script>", dots, str, [Limit(1.0, "<script>")])], Knee())
    assert "<script>" not in picture
    drawn(picture)


# --- tiers

RUNG = Rung(
    c=4,
    attempts=100,
    ok=100,
    wall_ms=10_000,
    worker_cpu_s=9,
    host_cpu_s=16,
    sandbox_cpu_s=4,
    stub_cpu_s=2,
    relay_cpu_s=1,
    store_cpu_s=0.5,
    supervisor_cpu_s=3,
    generator_cpu_s=2,
    generator_wait_s=1,
)
LADDER = Ladder(arm="capacity", workers=1, cores=2, pool=4, host_rest_pct=5.0, rungs=(RUNG,))


def test_each_tier_is_a_share_of_what_it_can_use() -> None:
    rung = LADDER.settle(RUNG)
    shares = {tier.name: round(tier.share(rung) or 0, 6) for tier in tiers_of(LADDER)}
    assert shares == {
        "workers": 90.0,
        "host": 80.0,
        "sandboxes": 10.0,
        "generator": 30.0,
        "supervisor": 15.0,
        "stub": 10.0,
        "relay": 5.0,
        "store": 2.5,
    }


def test_a_tier_is_held_against_what_convicts_it() -> None:
    limits = {tier.name: [value for value, _ in tier.limits] for tier in tiers_of(LADDER)}
    assert limits["workers"] == [80] and limits["host"] == [90] and limits["sandboxes"] == [50, 25]
    assert limits["relay"] == []
    realism = {tier.name: tier.limits for tier in tiers_of(Ladder(arm="realism"))}
    assert [value for value, _ in realism["sandboxes"]] == [50]


def test_a_limit_above_the_axis_is_told_in_words_and_not_drawn() -> None:
    """What the host does without load and its threshold may come to more than all of its cores."""
    assert "cannot be reached" not in small_multiples("t", LADDER, [LADDER.settle(RUNG)], {"c4": "healthy"}, Knee())
    ladder = dataclasses.replace(LADDER, host_rest_pct=55.6)
    rung = dataclasses.replace(RUNG, host_cpu_util_pct=80.0)
    picture = small_multiples("t", ladder, [rung], {"c4": "healthy"}, Knee())
    assert "85 % above rest cannot be reached" in picture
    drawn_lines = [e for e in drawn(picture).iter("line") if e.get("class") == "limit"]
    limits = [value for tier in tiers_of(ladder) for value, _ in tier.limits]
    assert len(drawn_lines) == sum(value <= 100 for value in limits) < len(limits)


def test_a_tier_that_was_not_measured_says_so_and_has_no_mark() -> None:
    rung = Rung(c=1, attempts=1, ok=1)
    picture = small_multiples("t", Ladder(rungs=(rung,)), [rung], {"c1": "healthy"}, Knee())
    drawn(picture)
    assert picture.count(">not measured</text>") == 8 and 'class="rung' not in picture


def test_the_tiers_stay_within_their_frames_whatever_is_measured() -> None:
    rung = Rung(c=1, worker_cpu_util_pct=480.0, host_cpu_util_pct=0.0)
    picture = small_multiples("t", LADDER, [rung], {"c1": "cut"}, Knee(1, 1, 1))
    width, height = map(float, drawn(picture).attrib["viewBox"].split()[2:])
    assert all(0 <= float(at) <= width for at in re.findall(r'\bx[12]?="(-?[0-9.]+)"', picture))
    assert all(0 <= float(at) <= height for at in re.findall(r'\by[12]?="(-?[0-9.]+)"', picture))
    assert "highest 480.0 % at c1" in picture
