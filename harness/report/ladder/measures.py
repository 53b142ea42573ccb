"""All that was recorded of each rung, as one table: a row for each measure, a column for each rung."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.e8.record import Rung
from harness.report import words
from harness.store.schemas import TABLES

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Turns": (
        "ended",
        "turns_per_client",
        "attempts",
        "ok",
        "success_rate",
        "refused_429",
        "refused_503",
        "errors_in_200",
        "timed_out",
        "failed_otherwise",
        "cut_tries",
    ),
    "Throughput and latency": ("wall_ms", "throughput_tps", "p50_ms", "p95_ms", "achieved_c"),
    "Commands in sandboxes": ("execs", "file_op_p95_ms"),
    "CPU time": (
        "worker_cpu_s",
        "worker_cpu_ms_per_turn",
        "supervisor_cpu_s",
        "sandbox_cpu_s",
        "stub_cpu_s",
        "relay_cpu_s",
        "store_cpu_s",
        "host_cpu_s",
    ),
    "Share of CPU": (
        "worker_cpu_util_pct",
        "worker_cpu_util_box_pct",
        "worker_tier_cores",
        "sandbox_util_pct",
        "host_cpu_util_pct",
    ),
    "Event loops, turns in flight, leases": (
        "lag_p99_worst_ms",
        "in_flight_max",
        "in_flight_median",
        "lease_saturation",
        "lease_saturation_median",
        "pool",
        "over_admission_total",
        "over_admission_delta",
        "spurious_refusals_total",
        "spurious_refusals_delta",
    ),
    "What may grow": ("store_connections", "store_connections_delta", "descriptors", "descriptors_delta"),
    "Load generator": (
        "generator_cpu_s",
        "generator_wait_s",
        "generator_lag_p99_ms",
        "connections_per_turn",
        "load1",
    ),
}
"""The columns of the table ``rungs``, by what they are about."""

PLACE = frozenset({"run", "c", "repeat", "arm"})
OTHERS = "Other"
FOLLOWS_FROM = {
    "sandbox_util_pct": "sandbox_cpu_s",
    "worker_cpu_util_pct": "worker_cpu_s",
    "worker_cpu_util_box_pct": "worker_cpu_s",
    "worker_cpu_ms_per_turn": "worker_cpu_s",
    "host_cpu_util_pct": "host_cpu_s",
    "success_rate": "attempts",
    "connections_per_1000_turns": "store_connections_delta",
    "descriptors_per_1000_turns": "descriptors_delta",
}
"""Measure → what it is worked out from, whose reason not to be known is its own too."""


@dataclass(frozen=True)
class Cell:
    """A value in words; where it was not measured, the number of the reason, None where none was given."""

    says: str
    reason: int | None = None
    why: str | None = None


@dataclass(frozen=True)
class Measure:
    """One row: the column's name, what it is, and its value at each rung."""

    name: str
    about: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Group:
    """Measures about one thing, of which at least one rung has a value."""

    title: str
    measures: tuple[Measure, ...]


@dataclass(frozen=True)
class Measures:
    """The whole table. ``absent`` are measures that no rung has, each with its reasons; ``reasons`` the footnotes.

    ``beside`` are reasons for what is no measure of this table.
    """

    groups: tuple[Group, ...]
    absent: tuple[tuple[str, str, tuple[str, ...]], ...]
    reasons: tuple[str, ...]
    beside: tuple[str, ...]


def measures(rungs: Sequence[Rung], judged: Mapping[str, Mapping[str, Any]]) -> Measures:
    """The table of these rungs. ``judged``: rung → what its verdict says of it, where there is one."""
    about = {column.name: column.about for column in TABLES["rungs"].columns if column.name not in PLACE}
    placed = {name for names in GROUPS.values() for name in names}
    groups = {**GROUPS, OTHERS: tuple(name for name in about if name not in placed)}
    values: dict[str, Callable[[Rung], object]] = {name: _column(name) for name in about}
    values |= BESIDE | {name: _judged(judged, name) for name in PER_1000}
    about |= {"lag_p99_ms": "event loop of the worst worker", "rss_bytes": "memory of the largest worker"}
    about |= {"execs_per_turn": "commands in one turn: turns that ran so many", **PER_1000}
    groups["Commands in sandboxes"] += ("execs_per_turn",)
    groups["Event loops, turns in flight, leases"] += ("lag_p99_ms", "rss_bytes")
    groups["What may grow"] += tuple(PER_1000)
    reasons: dict[str, int] = {}
    made, absent = [], []
    for title, names in groups.items():
        rows = []
        for name in names:
            known = [values[name](rung) for rung in rungs]
            if all(value is None for value in known):
                absent.append((name, about[name], tuple(_distinct(_why(rung, name) for rung in rungs))))
                continue
            cells = tuple(_cell(name, value, rung, reasons) for value, rung in zip(known, rungs, strict=True))
            rows.append(Measure(name, about[name], cells))
        if rows:
            made.append(Group(title, tuple(rows)))
    beside = (
        f"{rung.name}, {name}: {why}" for rung in rungs for name, why in rung.why_unknown.items() if name not in about
    )
    return Measures(tuple(made), tuple(absent), tuple(reasons), tuple(beside))


def _column(name: str) -> Callable[[Rung], object]:
    return lambda rung: getattr(rung, name)


def _judged(judged: Mapping[str, Mapping[str, Any]], name: str) -> Callable[[Rung], object]:
    return lambda rung: judged.get(rung.name, {}).get(name)


def _execs(rung: Rung) -> str | None:
    counted = sorted((rung.execs_per_turn or {}).items(), key=lambda pair: (len(pair[0]), pair[0]))
    return ", ".join(f"{execs}: {turns:,}" for execs, turns in counted) or None


def _largest(name: str) -> Callable[[Rung], object]:
    return lambda rung: max((v for one in rung.workers if (v := getattr(one, name)) is not None), default=None)


BESIDE: dict[str, Callable[[Rung], object]] = {
    "execs_per_turn": _execs,
    "lag_p99_ms": _largest("lag_p99_ms"),
    "rss_bytes": _largest("rss_bytes"),
}
"""What is no column of ``rungs``, but follows from the tables beside it."""

PER_1000 = {
    "connections_per_1000_turns": "store connections that each 1,000 turns left open",
    "descriptors_per_1000_turns": "descriptors that each 1,000 turns left open",
}
"""What the verdict works out of a rung."""


def _why(rung: Rung, name: str) -> str | None:
    return rung.why_unknown.get(name) or rung.why_unknown.get(FOLLOWS_FROM.get(name, name))


def _distinct(reasons: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(reason for reason in reasons if reason))


def _cell(name: str, value: object, rung: Rung, reasons: dict[str, int]) -> Cell:
    if value is not None:
        return Cell(told(name, value))
    why = _why(rung, name)
    return Cell(words.NOT_MEASURED, reasons.setdefault(why, len(reasons) + 1) if why else None, why)


def told(name: str, value: object) -> str:
    """A value in words; the end of the name is its unit."""
    if not isinstance(value, int | float):
        return words.NOT_MEASURED if value is None else str(value)
    if name.endswith("bytes"):
        return words.mebibytes(value)
    if "_ms" in name:
        return milliseconds(value)
    if name.endswith("_pct"):
        return f"{value:,.1f} %"
    if name.endswith("_tps"):
        return per_second(value)
    if name.endswith("_s"):
        return f"{value:,.2f} s"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def milliseconds(value_ms: float | None) -> str:
    """Milliseconds as the other pages write them."""
    return words.milliseconds(None if value_ms is None else value_ms * 1e6)


def per_second(value_tps: float | None) -> str:
    """A throughput in turns per second, with as many decimals as say something."""
    if value_tps is None:
        return words.NOT_MEASURED
    decimals = 0 if value_tps >= 1000 else 1 if value_tps >= 100 else 2
    text = f"{value_tps:,.{decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "/s"
