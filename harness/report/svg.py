"""The few marks that all pictures are drawn with: inline SVG, colours by CSS class, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

WIDTH = 960
"""Of every picture, in user units."""


def line(x1: float, y1: float, x2: float, y2: float, name: str) -> Markup:
    """A straight line of the class ``name``."""
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>').format(x1, y1, x2, y2, name)


def text(x: float, y: float, words: str, name: str) -> Markup:
    """Text whose baseline begins at (x, y); the class ``name`` may anchor it elsewhere."""
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}">{}</text>').format(x, y, name, words)


def picture(width: float, height: float, title: str, parts: Iterable[Markup]) -> Markup:
    """The whole picture; ``title`` is read out in its place."""
    return Markup('<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}"><title>{}</title>{}</svg>').format(
        width, height, title, title, Markup("").join(parts)
    )
