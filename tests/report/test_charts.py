"""The pictures: well-formed, every number in reach of a reader, nothing drawn for what was not measured."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from hypothesis import given
from hypothesis import strategies as st

from harness.report.charts import LogAxis, Mark, Moment, Range, range_plot, timeline

LATENCY = st.none() | st.floats(min_value=1, max_value=1e12)


def ranges(**changes: object) -> list[Range]:
    fields: dict[str, object] = {
        "target": "svc-1",
        "node": "node-a",
        "p50_ns": 1e6,
        "p99_ns": 5e6,
        "max_ns": 2e7,
        "failed": False,
    }
    return [Range(**{**fields, **changes})]  # type: ignore[arg-type]


def test_a_range_shows_all_three_numbers_in_words() -> None:
    picture = range_plot(ranges())
    assert "p50 1 ms, p99 5 ms, max 20 ms" in picture
    assert ElementTree.fromstring(picture).tag == "svg"  # noqa: S314 - our own text


def test_what_was_not_measured_has_no_mark_and_says_so() -> None:
    picture = range_plot(ranges(p50_ns=None, p99_ns=None, max_ns=None))
    assert "not measured" in picture
    assert "<circle" not in picture and 'class="p99"' not in picture


def test_names_in_a_picture_are_text_and_never_markup() -> None:
    picture = range_plot(ranges(target="<script>alert(1)</script>", node='"><b>'))
    assert "<script>" not in picture and "<b>" not in picture
    ElementTree.fromstring(picture)  # noqa: S314 - our own text


def test_equal_steps_of_the_axis_are_equal_factors() -> None:
    axis = LogAxis([1e6, 1e9], 100, 400)
    assert [round(axis(value)) for value in (1e6, 1e7, 1e8, 1e9)] == [100, 200, 300, 400]


@given(st.lists(st.tuples(LATENCY, LATENCY, LATENCY), min_size=1, max_size=6))
def test_every_mark_lies_inside_the_picture(rows: list[tuple[float | None, float | None, float | None]]) -> None:
    picture = range_plot([Range("t", f"n{i}", *row, failed=False) for i, row in enumerate(rows)])
    ElementTree.fromstring(picture)  # noqa: S314 - our own text
    assert all(150 <= float(x) <= 720 for x in re.findall(r'cx="([0-9.]+)"', picture))


def test_a_missing_interval_is_a_gap_in_the_line() -> None:
    moments = [Moment(at, 1e6, 2e6, None if at == 30 else 300.0) for at in (10.0, 20.0, 30.0, 40.0, 50.0)]
    picture = timeline(moments, [], duration_s=60, planned_rps=300, node="node-a")
    assert picture.count('class="line series-rate"') == 2
    assert picture.count('class="line series-p99"') == 1


def test_marks_that_would_hide_one_another_share_a_symbol() -> None:
    marks = [
        Mark(20, "proxy", 1, "a"),
        Mark(20.2, "fault", 2, "b"),
        Mark(21, "target", 3, "c"),
        Mark(40, "proxy", 4, "d"),
    ]
    picture = timeline([Moment(10, 1e6, 2e6, 5.0)], marks, duration_s=60, planned_rps=None, node="node-a")
    assert picture.count('class="mark ') == 2 and picture.count('class="event ') == 4
    assert ">1–3</text>" in picture and ">4</text>" in picture and "a; b; c" in picture


def test_rolls_and_faults_are_marked_with_their_words() -> None:
    marks = [Mark(8, "proxy", 1, "8 s: proxy node-a: ROLLED"), Mark(20, "fault", 2, "20 s: <kill>")]
    picture = timeline([Moment(10, 1e6, 2e6, 5.0)], marks, duration_s=60, planned_rps=None, node="node-a")
    assert "8 s: proxy node-a: ROLLED" in picture and "&lt;kill&gt;" in picture
    assert 'class="mark proxy"' in picture and 'class="mark fault"' in picture
    ElementTree.fromstring(picture)  # noqa: S314 - our own text
