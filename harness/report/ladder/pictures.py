"""The pictures of a ladder as inline SVG: what rungs measured against concurrency, with the interval of the knee."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from harness.report.ladder.axes import Doublings, Factors, apart, medians, spread
from harness.report.ladder.states import mark
from harness.report.svg import WIDTH, line, picture, text
from harness.report.words import NOT_MEASURED

LEFT, RIGHT = 84.0, 214.0  # room for the values of the grid, and for what the limits are
PANEL, GAP, TOP = 190.0, 46.0, 66.0
BAND_TOP = 24.0  # the interval of the knee is written above it, where no title can stand
TICKS_APART, LABELS_APART = 26.0, 15.0


@dataclass(frozen=True)
class Knee:
    """The interval of a knee, as far as there is one, and its highest healthy level."""

    lo: int | None = None
    hi: int | None = None
    floor: int | None = None

    @property
    def says(self) -> str:
        """The interval in words."""
        return f"knee in [{self.lo}, {self.hi}]"


@dataclass(frozen=True)
class Dot:
    """What one rung measured; None is not measured."""

    c: int
    rung: str
    state: str
    value: float | None


@dataclass(frozen=True)
class Limit:
    """A value that something is held against, and what it is; ``name`` is its CSS class."""

    value: float
    says: str
    name: str = "limit"


@dataclass(frozen=True)
class Panel:
    """One measure against concurrency. ``told`` puts a value into words; ``beside`` are drawn small, without a line."""

    title: str
    dots: Sequence[Dot]
    told: Callable[[float], str]
    limits: Sequence[Limit] = ()
    beside: Sequence[tuple[int, float]] = field(default=())

    @property
    def measured(self) -> bool:
        """Whether there is anything to draw."""
        return any(dot.value is not None for dot in self.dots)

    @property
    def levels(self) -> list[tuple[int, float | None]]:
        """Each concurrency with the median over its repeats."""
        return medians((dot.c, dot.value) for dot in self.dots)


def stacked(title: str, panels: Sequence[Panel], knee: Knee) -> Markup:
    """Panels one below the other over one axis of concurrency, each value by factors."""
    levels = sorted({dot.c for panel in panels for dot in panel.dots})
    x = Doublings(levels, LEFT + 32, WIDTH - RIGHT - 32)
    bottom = TOP + len(panels) * PANEL + (len(panels) - 1) * GAP
    parts = [band(knee, x, BAND_TOP, bottom, said=True)]
    parts += [line(x(c), TOP - 12, x(c), bottom, "grid faint") for c in x.doublings()]
    for number, panel in enumerate(panels):
        top = TOP + number * (PANEL + GAP)
        parts += [text(8, top - 18, panel.title, "name"), *_panel(panel, x, top, top + PANEL)]
    parts += [text(x(c), bottom + 18, str(c), "tick middle") for c in written(levels, knee, x, TICKS_APART)]
    parts.append(text(WIDTH - RIGHT + 8, bottom + 18, "c: turns at once", "tick"))
    return picture(WIDTH, bottom + 30, title, parts)


def _panel(panel: Panel, x: Doublings, top: float, bottom: float) -> list[Markup]:
    if not panel.measured:
        return [
            line(LEFT, bottom, WIDTH - RIGHT, bottom, "axis"),
            text(LEFT + 14, (top + bottom) / 2, NOT_MEASURED, "tick"),
        ]
    values = [dot.value for dot in panel.dots] + [limit.value for limit in panel.limits]
    y = Factors([*values, *(value for _, value in panel.beside)], bottom - 26, top + 12)
    parts = [
        line(LEFT, y(value), WIDTH - RIGHT, y(value), "grid")
        + text(LEFT - 8, y(value) + 4, panel.told(value), "tick end")
        for value in y.ticks()
    ]
    parts += [line(LEFT, bottom, WIDTH - RIGHT, bottom, "axis"), *_limits(panel, y)]
    parts.append(joined([(x(c), None if value is None else y(value)) for c, value in panel.levels]))
    parts += [
        Markup('<circle cx="{:.1f}" cy="{:.1f}" r="2" class="beside"/>').format(x(c), y(value))
        for c, value in panel.beside
    ]
    parts += [_dot(dot, panel, x(dot.c), bottom - 8 if dot.value is None else y(dot.value)) for dot in panel.dots]
    known = [(x(c), y(value), panel.told(value)) for c, value in panel.levels if value is not None]
    told_at = 0.0
    for at, height, said in known:
        if at - told_at >= 58:
            parts.append(text(at, height + 19, said, "tick value middle halo"))
            told_at = at
    return parts


def _limits(panel: Panel, y: Factors) -> list[Markup]:
    heights = [y(limit.value) for limit in panel.limits]
    parts = []
    for limit, height, label in zip(panel.limits, heights, spread(heights, LABELS_APART), strict=True):
        parts.append(line(LEFT, height, WIDTH - RIGHT, height, limit.name))
        parts.append(text(WIDTH - RIGHT + 8, label + 4, limit.says, f"tick {limit.name}-says"))
    return parts


def _dot(dot: Dot, panel: Panel, x: float, y: float) -> Markup:
    said = NOT_MEASURED if dot.value is None else panel.told(dot.value)
    shape = text(x, y + 4, "?", "tick middle") if dot.value is None else mark(x, y, dot.state)
    return Markup("<g><title>{}, {}: {}, {}</title>{}</g>").format(dot.rung, dot.state, panel.title, said, shape)


def joined(points: Sequence[tuple[float, float | None]]) -> Markup:
    """A line through the points that are there, broken where one is missing."""
    pieces: list[list[str]] = [[]]
    for x, y in points:
        if y is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{x:.1f} {y:.1f}")
    drawn = (Markup('<path d="M{}" class="line ladder"/>').format(" L".join(piece)) for piece in pieces if piece[1:])
    return Markup("").join(drawn)


def band(knee: Knee, x: Doublings, top: float, bottom: float, *, said: bool = False) -> Markup:
    """The interval of the knee, from top to bottom, with its words above where they are ``said``."""
    if knee.lo is None or knee.hi is None:
        return Markup("")
    left, right = x(knee.lo), x(knee.hi)
    if right - left < 6:
        left, right = left - 3, right + 3
    shade = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="knee"><title>{}</title></rect>')
    parts = [shade.format(left, top, right - left, bottom - top, knee.says)]
    if said:
        middle = min(max((left + right) / 2, LEFT + 60), WIDTH - RIGHT - 50)
        parts.append(text(middle, top - 8, knee.says, "knee-says middle"))
    return Markup("").join(parts)


def written(levels: Sequence[int], knee: Knee, x: Doublings, least: float) -> list[int]:
    """The levels that have room to be written below the axis: ends and knee first, then doublings, then the others."""
    first = [levels[0], levels[-1], knee.floor, knee.lo, knee.hi] if levels else []
    ranked = [c for c in first if c is not None] + sorted(levels, key=lambda c: c & (c - 1) != 0)
    return apart([(x(c), c) for c in dict.fromkeys(ranked)], least)
