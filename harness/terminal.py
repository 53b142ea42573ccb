"""The terminal: colour where it is welcome, and a line that is rewritten in place or repeated plainly."""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

COLUMN = 11


def colour(stream: TextIO) -> bool:
    """True where colour and a live line are welcome."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and "NO_COLOR" not in os.environ


class LiveLine:
    """One line that is rewritten in place on a terminal; elsewhere a plain line every ``plain_every_s`` seconds."""

    def __init__(self, name: str, *, plain_every_s: float, stream: TextIO | None = None) -> None:
        self.name = name
        self.stream = stream or sys.stdout
        self.rewrites = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self.plain_every_s = plain_every_s
        self._shown_at = -plain_every_s
        self._dirty = False

    def show(self, text: str) -> None:
        """Show the newest state."""
        if self.rewrites:
            columns = os.get_terminal_size(self.stream.fileno()).columns or 80
            self.stream.write("\r\x1b[K" + f"{self.name:<{COLUMN}}{text}"[: columns - 1])
            self._dirty = True
        elif time.monotonic() - self._shown_at >= self.plain_every_s:
            self._shown_at = time.monotonic()
            self.stream.write(f"{self.name:<{COLUMN}}{text}\n")
        self.stream.flush()

    def close(self) -> None:
        """Leave the terminal at the start of an empty line."""
        if self._dirty:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self._dirty = False
