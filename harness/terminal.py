"""The terminal: colour where it is welcome, no control out of data, a line rewritten in place, a reader that leaves."""

from __future__ import annotations

import io
import os
import sys
import time
from contextlib import suppress
from typing import TextIO

COLUMN = 11


def colour(stream: TextIO) -> bool:
    """True where colour and a live line are welcome."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and "NO_COLOR" not in os.environ


def printable(text: str) -> str:
    """``text`` with control and other unprintable characters as escapes: a name must not move the cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


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


class Patient(io.TextIOBase):
    """stdout that outlives its reader: ``./doit soak | head -3`` still finishes its run, unheard."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.heard = True

    def write(self, text: str) -> int:
        """Write, until nobody reads any more."""
        if self.heard:
            try:
                return self.stream.write(text)
            except (OSError, ValueError):
                self._silence()
        return len(text)

    def flush(self) -> None:
        """Flush, until nobody reads any more."""
        if self.heard:
            try:
                self.stream.flush()
            except (OSError, ValueError):
                self._silence()

    def _silence(self) -> None:
        """A pipe without a reader, a full disk, a closed stream: what the interpreter still holds goes nowhere."""
        self.heard = False
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())

    def isatty(self) -> bool:
        """As the stream below."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """As the stream below."""
        return self.stream.fileno()


def open_streams() -> None:
    """Streams that a caller closed lead nowhere; text that a terminal cannot show is replaced, not fatal."""
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for the life of the process
    sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.stdout = Patient(sys.stdout)
