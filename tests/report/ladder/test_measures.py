"""The table of rungs: no recorded figure is forgotten, units follow names, what is unknown keeps its reason."""

from __future__ import annotations

import pytest

from harness.e8.record import Rung, RungWorker
from harness.report.ladder.measures import FOLLOWS_FROM, GROUPS, OTHERS, PER_1000, PLACE, Cell, measures, told
from harness.store.schemas import TABLES

COLUMNS = {column.name for column in TABLES["rungs"].columns} - PLACE


def test_groups_name_columns_and_each_once() -> None:
    placed = [name for names in GROUPS.values() for name in names]
    assert set(placed) <= COLUMNS and len(placed) == len(set(placed))


def test_a_column_without_a_group_is_shown_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(GROUPS, "Turns")  # type: ignore[arg-type]
    last = measures([Rung(c=1, attempts=30, ok=29)], {}).groups[-1]
    assert (last.title, {measure.name for measure in last.measures}) == (OTHERS, {"attempts", "ok"})


def test_every_figure_is_in_the_table_or_said_to_be_absent() -> None:
    table = measures([Rung(c=1, attempts=30, ok=30, p95_ms=106.0)], {})
    shown = {measure.name for group in table.groups for measure in group.measures}
    absent = {name for name, _, _ in table.absent}
    assert shown == {"attempts", "ok", "p95_ms"}
    assert shown | absent >= COLUMNS and not shown & absent


def test_the_arm_is_no_figure() -> None:
    """Every heading names it; a record without one is no record in which it was not measured."""
    table = measures([Rung(c=1, arm="capacity", attempts=30, ok=30)], {})
    shown = {measure.name for group in table.groups for measure in group.measures}
    assert "arm" not in shown | {name for name, _, _ in table.absent}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("p95_ms", 106.4, "106 ms"),
        ("worker_cpu_ms_per_turn", 9.66, "9.66 ms"),
        ("worker_cpu_s", 0.784, "0.78 s"),
        ("sandbox_util_pct", 75.61, "75.6 %"),
        ("throughput_tps", 395.265, "395.3/s"),
        ("attempts", 3840, "3,840"),
        ("attempts", 0, "0"),
        ("rss_bytes", 196968448, "188 MiB"),
        ("lease_saturation", 0.0625, "0.0625"),
        ("ended", "all turns", "all turns"),
        ("p95_ms", None, "not measured"),
    ],
)
def test_the_end_of_a_name_is_its_unit(name: str, value: object, says: str) -> None:
    assert told(name, value) == says


@pytest.mark.parametrize(("name", "source"), FOLLOWS_FROM.items())
def test_what_follows_from_a_figure_is_unknown_for_the_same_reason(name: str, source: str) -> None:
    assert source in COLUMNS and name in COLUMNS | PER_1000.keys()
    known = Rung(c=1, attempts=30, ok=30, **({} if name in PER_1000 or name == "success_rate" else {name: 1.0}))
    unknown = Rung(c=2, attempts=30, ok=30, why_unknown={source: "the worker restarted"})
    table = measures([known, unknown], {"c1": {name: 1.0}})
    rows = {measure.name: measure for group in table.groups for measure in group.measures}
    if name in rows:
        assert rows[name].cells[1] == Cell("not measured", 1, "the worker restarted")
    else:
        assert (name, ("the worker restarted",)) in {(absent, reasons) for absent, _, reasons in table.absent}


def test_one_reason_is_one_footnote() -> None:
    why = {"worker_cpu_s": "a worker restarted", "relay_cpu_s": "no such process"}
    first = Rung(c=1, attempts=1, ok=1, worker_cpu_s=1.0, relay_cpu_s=1.0, host_cpu_s=1.0)
    table = measures([first, *(Rung(c=c, attempts=1, ok=1, why_unknown=why) for c in (2, 4))], {})
    assert table.reasons == ("a worker restarted", "no such process")
    rows = {measure.name: measure.cells for group in table.groups for measure in group.measures}
    assert [cell.reason for cell in rows["relay_cpu_s"]] == [None, 2, 2]
    assert [cell.reason for cell in rows["host_cpu_s"]] == [None, None, None]


def test_a_reason_for_what_is_no_figure_is_not_lost() -> None:
    table = measures([Rung(c=8, attempts=1, ok=1, why_unknown={"runqueue": "no schedstat"})], {})
    assert table.beside == ("c8, runqueue: no schedstat",)


def test_of_the_workers_the_worst_stands_in_the_table() -> None:
    workers = (RungWorker(lag_p99_ms=1.2, rss_bytes=2**20), RungWorker(lag_p99_ms=3.4), RungWorker())
    table = measures([Rung(c=1, attempts=2, ok=2, workers=workers, execs_per_turn={"10": 1, "2": 1})], {})
    rows = {measure.name: measure.cells[0].says for group in table.groups for measure in group.measures}
    assert rows["lag_p99_ms"] == "3.4 ms" and rows["rss_bytes"] == "1.0 MiB"
    assert rows["execs_per_turn"] == "2: 1, 10: 1"
