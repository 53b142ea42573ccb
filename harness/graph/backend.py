"""doit's memory, read from receipts.

doit's own backends write everything once, when the process ends, so a SIGKILL forgets every finished task; two
processes on one file lose each other's results. Here a task's state *is* its stage's receipt. Nothing is written by
doit; commands that only look take no lock and leave no trace.

Leans on internals of doit (0.36 to 0.37): ``Dependency`` calls get, set, in_, remove, remove_all and dump of the
backend, keeps a task's state under ``checker:``, ``deps:``, ``_values_:`` and the dependency's path, and asks the
checker with the stored state. ``tests/graph/test_doit_internals.py`` holds them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doit.dependency import FileChangedChecker

from harness.files import sha256_file
from harness.graph import receipts
from harness.runs import RunFolder


class Sha256Checker(FileChangedChecker):  # type: ignore[misc]
    """A file has changed when its bytes have. An equal mtime proves nothing."""

    def check_modified(self, file_path: str, file_stat: object, state: str) -> bool:
        """True when the file's digest is not the stored one."""
        return sha256_file(Path(file_path)) != state

    def get_state(self, dep: str, current_state: object) -> None:
        """None: the receipt already holds the digest."""


class ReceiptBackend:
    """The backend that doit opens. ``name`` is the folder of the runs."""

    desc = "one receipt per stage"

    def __init__(self, name: str, codec: object, *, module_name: object = None) -> None:
        self.name = name

    def _stage(self, task_id: str) -> tuple[RunFolder, str] | None:
        found = receipts.parse_task(task_id)
        return (RunFolder(Path(self.name) / found[0]), found[1]) if found else None

    def get(self, task_id: str, dependency: str) -> Any:
        """What the receipt says of one dependency; None when there is no receipt."""
        found = self._stage(task_id)
        receipt = receipts.read(*found) if found else None
        if found is None or receipt is None:
            return None
        folder = found[0]
        if dependency == "checker:":
            return Sha256Checker.__name__
        if dependency == "deps:":
            return [str(receipts.locate(name, folder)) for name in receipt.inputs]
        if dependency.endswith(":"):
            return None
        return receipt.inputs.get(receipts.name_of(Path(dependency), folder))

    def in_(self, task_id: str) -> bool:
        """True when the stage has a receipt."""
        found = self._stage(task_id)
        return found is not None and receipts.read(*found) is not None

    def set(self, task_id: str, dependency: str, value: object) -> None:
        """Nothing: the stage wrote its receipt before doit came to this."""

    def dump(self) -> None:
        """Nothing is held back, so nothing is left to write."""

    def remove(self, task_id: str) -> None:
        """Forget a derived stage that failed: it has not happened. What the earlier ones saw stays on record."""
        found = self._stage(task_id)
        if found and found[1] in receipts.DERIVED:
            receipts.remove(*found)

    def remove_all(self) -> None:
        """Nothing: receipts are forgotten one stage at a time."""
