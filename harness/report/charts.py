"""The two pictures of a report as inline SVG: no script, colours by CSS class, every mark with a tooltip in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.report.svg import WIDTH, line, picture, text
from harness.report.words import milliseconds

LEFT, RIGHT = 150, 240  # room for names, and for the values in words
TIMELINE_RIGHT = 24


@dataclass(frozen=True)
class Range:
    """Latency of one target on one node, nanoseconds; None is not measured."""

    target: str
    node: str
    p50_ns: float | None
    p99_ns: float | None
    max_ns: float | None
    failed: bool


@dataclass(frozen=True)
class Moment:
    """One interval of the load, ``at_s`` after its start; ``target`` was its slowest. None leaves a gap in the line."""

    at_s: float
    p99_ns: float | None
    max_ns: float | None
    rate_2xx_rps: float | None
    target: str | None = None


@dataclass(frozen=True)
class Mark:
    """Something that happened to the fleet: ``kind`` is ``proxy``, ``target`` or ``fault``."""

    at_s: float
    kind: str
    number: int
    text: str


class LogAxis:
    """A logarithmic axis over whole decades that hold every value; positions in user units."""

    def __init__(self, values_ns: Iterable[float | None], start: float, end: float) -> None:
        positive = [value for value in values_ns if value]
        self._low = math.floor(math.log10(min(positive, default=1e6)))
        self._high = max(math.ceil(math.log10(max(positive, default=1e7))), self._low + 1)
        self._start, self._end = start, end

    def __call__(self, value_ns: float) -> float:
        share = (math.log10(max(value_ns, 1.0)) - self._low) / (self._high - self._low)
        return self._start + min(max(share, 0.0), 1.0) * (self._end - self._start)

    def decades(self) -> list[float]:
        """The values of the grid lines."""
        return [10.0**power for power in range(self._low, self._high + 1)]


def range_plot(rows: Sequence[Range], covers: str = "") -> Markup:
    """One line per target × node from p50 (dot) over p99 (diamond) to the maximum (bar), on a log axis.

    ``covers`` says what the latency covers.
    """
    axis = LogAxis((v for row in rows for v in (row.p50_ns, row.p99_ns, row.max_ns)), LEFT, WIDTH - RIGHT)
    step, gap, top = 17, 12, 30
    parts: list[Markup] = []
    y, previous = float(top), None
    for row in rows:
        if row.target != previous:
            y += gap if previous is not None else 0
            parts.append(text(8, y + 4, row.target, "name"))
            previous = row.target
        parts.append(_range_row(row, axis, y))
        y += step
    bottom = y
    grid = [
        line(axis(v), top - 10, axis(v), bottom - 6, "grid") + text(axis(v), top - 16, milliseconds(v), "tick middle")
        for v in axis.decades()
    ]
    grid.append(text(WIDTH - RIGHT + 40, top - 16, "p50 · p99 · max", "tick"))
    title = f"p50, p99 and maximum per target and node, logarithmic. {covers}".strip()
    return picture(WIDTH, bottom + 4, title, [*grid, *parts])


def _range_row(row: Range, axis: LogAxis, y: float) -> Markup:
    words = ", ".join(f"{name} {milliseconds(v)}" for name, v in _named(row))
    parts = [text(LEFT - 10, y + 4, row.node, "tick end")]
    known = [v for _, v in _named(row) if v is not None]
    if len(known) > 1:
        parts.append(line(axis(known[0]), y, axis(known[-1]), y, "whisker"))
    if row.p50_ns is not None:
        parts.append(Markup('<circle cx="{:.1f}" cy="{:.1f}" r="3.2" class="p50"/>').format(axis(row.p50_ns), y))
    if row.p99_ns is not None:
        parts.append(Markup('<path d="{}" class="p99"/>').format(_diamond(axis(row.p99_ns), y)))
    if row.max_ns is not None:
        parts.append(line(axis(row.max_ns), y - 5, axis(row.max_ns), y + 5, "max"))
    shown = "not measured" if not known else " · ".join(milliseconds(v).removesuffix(" ms") for _, v in _named(row))
    if known:
        shown += " ms"
    parts.append(text(WIDTH - RIGHT + 40, y + 4, shown, "tick value"))
    if row.failed:
        parts.append(text(WIDTH - 8, y + 4, "✕ FAIL", "tick bad end"))
    return Markup("<g><title>{}, {}: {}</title>{}</g>").format(row.target, row.node, words, Markup("").join(parts))


def _named(row: Range) -> list[tuple[str, float | None]]:
    return [("p50", row.p50_ns), ("p99", row.p99_ns), ("max", row.max_ns)]


def timeline(
    moments: Sequence[Moment], marks: Sequence[Mark], *, duration_s: float, planned_rps: float | None, node: str | None
) -> Markup:
    """Latency of one node and the whole fleet's 2xx rate over the load, with rolls and faults marked."""
    end_s = max([duration_s, *(moment.at_s for moment in moments)], default=1.0) or 1.0
    left, right = 76, WIDTH - TIMELINE_RIGHT
    latency_top, latency_bottom, rate_top, rate_bottom = 44.0, 214.0, 250.0, 330.0

    def x(at_s: float) -> float:
        return left + min(max(at_s / end_s, 0.0), 1.0) * (right - left)

    y = LogAxis((v for m in moments for v in (m.p99_ns, m.max_ns)), latency_bottom, latency_top)
    top_rps = 1.15 * max([planned_rps or 0.0, *(m.rate_2xx_rps or 0.0 for m in moments)], default=1.0) or 1.0

    def y_rate(rate_rps: float) -> float:
        return rate_bottom - rate_rps / top_rps * (rate_bottom - rate_top)

    parts = [
        line(left, y(v), right, y(v), "grid") + text(left - 8, y(v) + 4, milliseconds(v), "tick end")
        for v in y.decades()
    ]
    parts += [text(left, 12, _latency_caption(moments, node), "name")]
    parts += [
        text(left, rate_top - 12, "2xx per second, all nodes", "name"),
        line(left, rate_bottom, right, rate_bottom, "axis"),
        text(left - 8, rate_bottom + 4, "0", "tick end"),
    ]
    if planned_rps:
        parts.append(line(left, y_rate(planned_rps), right, y_rate(planned_rps), "plan"))
        parts.append(text(left - 8, y_rate(planned_rps) + 4, f"plan {planned_rps:,.0f}", "tick end"))
    parts += [text(x(at), rate_bottom + 18, f"{at:,.0f} s", "tick middle") for at in _time_ticks(end_s)]
    parts += [_marks(group, x, latency_top - 14, rate_bottom) for group in _close_together(marks, x)]
    parts.append(_steps(moments, lambda m: m.p99_ns, x, y, "series-p99", "p99"))
    parts.append(_steps(moments, lambda m: m.max_ns, x, y, "series-max", "max"))
    parts.append(_steps(moments, lambda m: m.rate_2xx_rps, x, y_rate, "series-rate", "2xx/s"))
    where = f" on {node}" if node else ""
    title = f"Over the load: p99 and maximum latency{where}, and the rate of 2xx answers of all nodes"
    return picture(WIDTH, rate_bottom + 28, title, parts)


def _latency_caption(moments: Sequence[Moment], node: str | None) -> str:
    """Which target the lines are of: each interval has its own slowest one, and the highest p99 is somebody's."""
    known = [moment for moment in moments if moment.p99_ns is not None]
    if node is None or not known:
        return "latency: not measured"
    worst = max(known, key=lambda moment: moment.p99_ns or 0.0)
    names = {moment.target for moment in known}
    if len(names) == 1:
        return f"latency of {worst.target} on {node}, per interval"
    return f"latency on {node} per interval, of its slowest target then (highest p99: {worst.target})"


def _steps(
    moments: Sequence[Moment],
    pick: Callable[[Moment], float | None],
    x: Callable[[float], float],
    y: Callable[[float], float],
    name: str,
    label: str,
) -> Markup:
    """A line through the measured moments, broken where one is missing; a lone point stays visible as a dot."""
    pieces: list[list[Moment]] = [[]]
    for moment in moments:
        if pick(moment) is None:
            pieces.append([])
        else:
            pieces[-1].append(moment)
    drawn = []
    for piece in filter(None, pieces):
        points = [(x(m.at_s), y(pick(m) or 0.0)) for m in piece]
        if len(points) > 1:
            path = "M" + " L".join(f"{px:.1f} {py:.1f}" for px, py in points)
            drawn.append(Markup('<path d="{}" class="line {}"/>').format(path, name))
        if len(moments) <= 120:
            for moment, (px, py) in zip(piece, points, strict=True):
                value = pick(moment) or 0.0
                words = f"{value:,.1f} per second" if label == "2xx/s" else milliseconds(value)
                if label != "2xx/s" and moment.target:
                    words += f", {moment.target}"
                drawn.append(
                    Markup('<path d="{}" class="dot {}"><title>{} s: {} {}</title></path>').format(
                        _point(px, py, label), name, f"{moment.at_s:.0f}", label, words
                    )
                )
    return Markup("").join(drawn)


def _close_together(marks: Sequence[Mark], x: Callable[[float], float]) -> list[list[Mark]]:
    """Marks, in the order of time, in groups whose symbols would hide one another."""
    groups: list[list[Mark]] = []
    for mark in marks:
        if groups and x(mark.at_s) - x(groups[-1][0].at_s) < 26:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return groups


def _marks(group: Sequence[Mark], x: Callable[[float], float], top: float, bottom: float) -> Markup:
    """A line for each, and one symbol with their numbers for all; a fault is the one that must be seen."""
    shown = next((mark for mark in group if mark.kind == "fault"), group[0])
    at = x(group[0].at_s)
    shape = {
        "proxy": f"M{at:.1f} {top - 6:.1f} l6 10 h-12 z",
        "target": f"M{at - 5:.1f} {top - 5:.1f} h10 v10 h-10 z",
    }.get(shown.kind, f"M{at - 5:.1f} {top - 5:.1f} l10 10 m0 -10 l-10 10")
    first, last = group[0].number, group[-1].number
    lines = Markup("").join(line(x(mark.at_s), top + 5, x(mark.at_s), bottom, f"event {mark.kind}") for mark in group)
    return Markup('<g><title>{}</title>{}<path d="{}" class="mark {}"/>{}</g>').format(
        "; ".join(mark.text for mark in group),
        lines,
        shape,
        shown.kind,
        text(at + 8, top + 4, str(first) if first == last else f"{first}–{last}", "tick"),
    )


def _time_ticks(end_s: float) -> list[float]:
    """At most seven round moments from 0 to the end."""
    for step in (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600):
        if end_s / step <= 7:
            return [float(step * i) for i in range(int(end_s // step) + 1)]
    return [0.0, end_s]


def _point(x: float, y: float, label: str) -> str:
    """The mark of a measured value: as in the range plot a diamond for p99 and a bar for the maximum, else a dot."""
    if label == "p99":
        return f"M{x - 3.6:.1f} {y:.1f} l3.6 -3.6 l3.6 3.6 l-3.6 3.6 z"
    if label == "max":
        return f"M{x - 6:.1f} {y - 0.9:.1f} h12 v1.8 h-12 z"
    return f"M{x - 2.4:.1f} {y:.1f} a2.4 2.4 0 1 0 4.8 0 a2.4 2.4 0 1 0 -4.8 0 z"


def _diamond(x: float, y: float) -> str:
    return f"M{x - 4.5:.1f} {y:.1f} l4.5 -4.5 l4.5 4.5 l-4.5 4.5 z"
