"""The generator's process as its caller sees it: started, warmed up, let go, followed to its end, ended."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
import typing
from pathlib import Path
from typing import Any, BinaryIO

from harness.children import module_environment, python_module
from harness.e8.client import Load
from harness.errors import LoadError
from harness.processes import TOKEN_VARIABLE, Identity, identify, send

START_LIMIT_S = 30.0
GRACE_S = 10.0  # beyond the generator's own deadline
END_LIMIT_S = 5.0


class GeneratorProcess:
    """One load in one process. It ends with its caller, and at its own deadline.

    ``attempts`` and ``ok`` are as it last said.
    """

    def __init__(self, load: Load, turns: Path, log: Path, *, mark: str) -> None:
        """Start it; the warm-up begins at once. ``mark`` is the run's token."""
        self.load = load
        self.log = log
        self.attempts = 0
        self.ok = 0
        self._said = b""
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                python_module("harness.e8.client", "--turns", str(turns)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,  # what could not be sent is not tried again at the close
                env=module_environment() | {TOKEN_VARIABLE: mark},
            )
        self.identity = identify(self._process.pid) or Identity(self._process.pid, 0)
        try:
            self._tell(load.to_line())
        except LoadError:
            self.end()
            raise

    def wait_warm(self) -> None:
        """Wait until every client's warm-up is over. Raises LoadError."""
        limit_s = START_LIMIT_S + self.load.warmup_turns * self.load.turn_timeout_s
        if self._hear("warm", limit_s) is None:
            raise LoadError(f"the generator was not warm after {limit_s:g} s; its log is {self.log}")

    def go(self) -> None:
        """Let the measured turns begin."""
        self._tell("go")
        self._end_by_s = time.monotonic() + self.load.deadline_s + GRACE_S

    def wait_done(self, limit_s: float) -> dict[str, Any] | None:
        """What it said at its end; None when it still runs after ``limit_s``. Raises LoadError when it is lost."""
        said = self._hear("done", limit_s)
        if said is None and time.monotonic() > self._end_by_s:
            raise LoadError(
                f"the generator outlived its deadline of {self.load.deadline_s:g} s and is ended; see {self.log}"
            )
        return said

    def end(self) -> None:
        """See that it is gone."""
        for pipe in (self._process.stdin, self._process.stdout):
            typing.cast(BinaryIO, pipe).close()
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            send(self.identity, 9)
            self._process.wait()

    def __enter__(self) -> GeneratorProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _tell(self, line: str) -> None:
        orders = typing.cast(BinaryIO, self._process.stdin)
        try:
            orders.write(line.encode() + b"\n")
        except OSError as error:
            raise LoadError(f"the generator ended before its load; {self._last_words()}") from error

    def _hear(self, event: str, limit_s: float) -> dict[str, Any] | None:
        """What it says of ``event``, when that comes in time. Raises LoadError for its end or another event."""
        deadline_s = time.monotonic() + limit_s
        while (line := self._line(deadline_s)) is not None:
            message = json.loads(line)
            said = message.pop("event", None)
            if said == event:
                return typing.cast(dict[str, Any], message)
            if said != "progress":
                raise LoadError(f"the generator said {line[:200]!r} where {event!r} was due; its log is {self.log}")
            self.attempts, self.ok = message["attempts"], message["ok"]
        return None

    def _line(self, deadline_s: float) -> bytes | None:
        descriptor = typing.cast(BinaryIO, self._process.stdout).fileno()
        while b"\n" not in self._said:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline_s - time.monotonic()))
            if not ready:
                return None
            part = os.read(descriptor, 65_536)
            if not part:
                raise LoadError(f"the generator ended before its load was done; {self._last_words()}")
            self._said += part
        line, _, self._said = self._said.partition(b"\n")
        return line

    def _last_words(self) -> str:
        words = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"it said: {words[-1][:300]}" if words else f"it said nothing; exit code {self._process.poll()}"
