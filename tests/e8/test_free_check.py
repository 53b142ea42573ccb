"""Sandbox CPU of a realism ladder beside what its duty predicted."""

from __future__ import annotations

import dataclasses

import pytest

from harness.e8.free_check import FreeCheck, free_check
from harness.e8.reading import parse_ladder
from harness.e8.record import Ladder, Rung, RungWorker
from harness.errors import EvidenceError
from harness.files import read_json
from harness.graph.receipts import PROJECT

PUBLISHED = PROJECT / "runs" / "published" / "e8-realism.json"


def test_the_published_realism_ladder_used_what_its_duty_predicted() -> None:
    found = free_check(parse_ladder(read_json(PUBLISHED)), duty=0.0735)
    top = found.rows[-1]
    assert (top.name, top.cpu_s, top.wall_s, top.cores_used) == ("c32", 130.77, 57.654, 2.268)
    assert (top.measured_pct, top.predicted_pct) == (75.6, 78.4)
    assert top.worst_rss_bytes == 231559168
    line = found.lines()[-3]
    assert "130.77 s in 57.65 s = 2.27 of 8 cores, 75.6 % of 3 sandboxes; predicted 78.4 %" in line
    assert [row.measured_pct for row in found.rows] == [2.6, 5.2, 10.3, 20.4, 40.6, 75.6]


def of_cpu(cpu_s: float) -> FreeCheck:
    """One rung whose 2 sandboxes are predicted to be busy for 14 %, 2.8 s of 10 s."""
    rung = Rung(c=4, attempts=40, ok=40, wall_ms=10_000, sandbox_cpu_s=cpu_s)
    return free_check(Ladder(arm="realism", measured="embedded", pool=2, duty=0.07, rungs=(rung,)))


def test_the_published_ladder_agrees_with_its_prediction_and_the_last_line_says_within_what() -> None:
    found = free_check(parse_ladder(read_json(PUBLISHED)), duty=0.0735)
    assert found.lines()[-1] == (
        "at c32, 75.6 % was measured and 78.4 % predicted, 3.6 % apart: they agree, as within 10 % they do"
    )
    assert (found.to_json()["off_pct"], found.to_json()["agree_pct"]) == (-3.6, 10)


@pytest.mark.parametrize(
    ("cpu_s", "says"),
    [
        (3.08, "10.0 % apart: they agree"),
        (3.10, "10.7 % apart: they do not agree, as only within 10 % they do; a turn costs more than its duty says"),
        (2.52, "10.0 % apart: they agree"),
        (2.48, "11.4 % apart: they do not agree, as only within 10 % they do; a turn costs less than its duty says"),
    ],
)
def test_measured_and_predicted_agree_within_a_share(cpu_s: float, says: str) -> None:
    assert says in of_cpu(cpu_s).lines()[-1]


def test_without_a_duty_nothing_agrees_or_disagrees() -> None:
    found = free_check(parse_ladder(read_json(PUBLISHED)))
    assert found.duty is None and found.to_json()["off_pct"] is None
    assert found.lines()[-1] == "nothing was predicted, as no duty is recorded: nothing agrees or disagrees"


def test_the_ladders_own_duty_goes_before_a_given_one() -> None:
    ladder = Ladder(
        arm="realism",
        measured="embedded",
        pool=2,
        cores=2,
        duty=0.07,
        rungs=(Rung(c=4, attempts=40, ok=40, wall_ms=10_000, achieved_c=3.4, sandbox_cpu_s=2.6),),
    )
    found = free_check(ladder, duty=0.5)
    assert (found.duty, found.rows[0].predicted_pct, found.rows[0].held_pct) == (0.07, 14.0, 11.9)
    assert found.rows[0].measured_pct == 13.0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"arm": "capacity"}, "the free check is of a realism ladder, and this is one of the capacity arm"),
        ({"arm": None}, "and this is one of the unknown arm"),
        ({"pool": None}, "does not say how many sandboxes there were"),
        ({"rungs": (Rung(c=1, attempts=1, ok=1),)}, "no rung recorded the sandboxes' CPU time"),
    ],
)
def test_a_ladder_that_cannot_be_checked_is_refused(change: dict[str, object], sentence: str) -> None:
    ladder = Ladder(arm="realism", pool=2, rungs=(Rung(c=1, attempts=1, ok=1, wall_ms=10, sandbox_cpu_s=1.0),))
    with pytest.raises(EvidenceError, match=sentence):
        free_check(dataclasses.replace(ladder, **change))


def test_what_is_unknown_is_said_to_be() -> None:
    rungs = (
        Rung(c=1, attempts=1, ok=1, wall_ms=10, sandbox_cpu_s=1.0, workers=(RungWorker(pid=1),)),
        Rung(c=2, attempts=1, ok=1),
    )
    found = free_check(Ladder(arm="realism", pool=2, rungs=rungs))
    assert found.rows[0].predicted_pct is None
    assert found.rows[0].duty_that_fits == 100.0
    assert found.lines()[1].endswith("a duty of 100.0000 would predict that")
    assert found.lines()[0].endswith("duty not recorded, 2 sandboxes, ? cores")
    assert "? s in ? s = ? of ? cores" in found.lines()[2]
    assert found.to_json()["rungs"][1]["cpu_s"] is None
