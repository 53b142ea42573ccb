"""How a run looks on the terminal: a line per stage, a live line while something lasts, plain lines in a log."""

from __future__ import annotations

import time
from typing import Any, TextIO

from doit.exceptions import BaseFail, UnmetDependency
from doit.reporter import ConsoleReporter

from harness.graph import receipts
from harness.graph.invocation import current
from harness.runs import RunFolder
from harness.terminal import COLUMN, colour


class StageReporter(ConsoleReporter):  # type: ignore[misc]
    """doit's reporter: ``stage  word  seconds  summary``, where the summary is what the stage put in its receipt."""

    desc = "a line per stage"

    def __init__(self, outstream: TextIO, options: dict[str, Any]) -> None:
        super().__init__(outstream, options)
        self._started_at = time.monotonic()
        self._colour = colour(outstream)
        self._unmeasured: list[receipts.Receipt] = []

    def execute_task(self, task: Any) -> None:
        """A stage begins."""
        self._started_at = time.monotonic()

    def add_success(self, task: Any) -> None:
        """A stage is done."""
        found = self._receipt(task)
        if found:
            current().told.add(task.name)
            if self._is_held(found):
                return
            self._line(found.stage, "done", f"{time.monotonic() - self._started_at:7.1f} s", found)

    def skip_uptodate(self, task: Any) -> None:
        """A stage has nothing to do."""
        found = self._receipt(task)
        if found and task.name not in current().told:  # a graph that is drawn again meets what it did before
            current().told.add(task.name)
            if not self._is_held(found):
                self._line(found.stage, "kept", " " * 9, found)

    def add_failure(self, task: Any, fail: BaseFail) -> None:
        """A stage could not be done. The sentence itself comes last, from the entry point."""
        if isinstance(fail, UnmetDependency):
            return
        found = receipts.parse_task(task.name)
        stage = found[1] if found else task.name.partition(":")[0]
        self._tell_held()
        self.write(
            f"{stage:<{COLUMN - 1}} {self._paint('stopped', 31)}  {time.monotonic() - self._started_at:7.1f} s\n"
        )
        invocation = current()
        if not invocation.errors:
            invocation.errors.append(RuntimeError(fail.get_msg()))

    def complete_run(self) -> None:
        """The entry point has the last word."""
        self._tell_held()

    def runtime_error(self, msg: str) -> None:
        """doit could not go on."""
        current().errors.append(RuntimeError(msg))

    def _receipt(self, task: Any) -> receipts.Receipt | None:
        found = receipts.parse_task(task.name)
        return receipts.read(RunFolder(current().runs / found[0]), found[1]) if found else None

    def _is_held(self, receipt: receipts.Receipt) -> bool:
        """Keep a rung back that was not measured: those that follow one another are told in one line."""
        if receipt.outcome.get("measured") is not False:
            return False
        self._unmeasured.append(receipt)
        return True

    def _tell_held(self) -> None:
        if held := self._unmeasured:
            names = held[0].stage if len(held) == 1 else f"{held[0].stage} to {held[-1].stage}"
            self.write(f"{names:<{COLUMN - 1}} {held[0].outcome.get('summary', 'not measured')}\n")
            self._unmeasured = []

    def _line(self, stage: str, word: str, took: str, receipt: receipts.Receipt) -> None:
        self._tell_held()
        summary = receipt.outcome.get("summary", "")
        self.write(f"{stage:<{COLUMN - 1}} {self._paint(word, 32 if word == 'done' else 2)}  {took}  {summary}\n")

    def _paint(self, word: str, code: int) -> str:
        return f"\x1b[{code}m{word}\x1b[0m" if self._colour else word
