"""A stage as a doit task: reads, work, makes, receipt."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol

from doit.exceptions import TaskFailed

from harness.errors import HarnessError, StageError
from harness.files import utc_stamp, write_json
from harness.graph import lock, receipts
from harness.graph.invocation import Invocation
from harness.runs import RunFolder
from harness.store.columns import LADDER, SOAK

Work = Callable[[RunFolder], dict[str, Any]]
Paths = Callable[[RunFolder], Iterable[Path]]


class Intact:
    """doit's ``uptodate``: the stage's receipt is there and everything it made is still what it made.

    Its text is the reason that ``doit info`` prints.
    """

    def __init__(self, folder: RunFolder, stage: str, also: Callable[[RunFolder], str | None] | None = None) -> None:
        self.folder = folder
        self.stage = stage
        self.also = also
        self.reason = "not looked at"

    def __call__(self) -> bool:
        self.reason = self._reason() or "intact"
        return self.reason == "intact"

    def _reason(self) -> str | None:
        receipt = receipts.read(self.folder, self.stage)
        if receipt is None:
            return f"{self.stage} has no receipt"
        changed = receipts.changed_outputs(self.folder, receipt)
        if changed:
            return f"what {self.stage} made has changed: {', '.join(changed)}"
        return self.also(self.folder) if self.also else None

    def __repr__(self) -> str:
        return self.reason


class Task:
    """Does the work of one stage and writes its receipt. What it may end in is a receipt or a HarnessError.

    ``reads`` and ``makes`` are asked when the work is done, not when the graph is drawn: an earlier stage may have
    made the files meanwhile.
    """

    def __init__(
        self, invocation: Invocation, folder: RunFolder, stage: str, does: Work, *, reads: Paths, makes: Paths
    ) -> None:
        self.invocation = invocation
        self.folder = folder
        self.stage = stage
        self.does = does
        self.reads = reads
        self.makes = makes
        self.__name__ = stage

    def __call__(self) -> TaskFailed | None:
        started_at = utc_stamp()
        try:
            self._work(started_at)
        except HarnessError as error:
            error.run, error.stage = self.folder.run, self.stage
            return self._failed(error)
        except OSError as error:
            return self._failed(StageError(describe(error, self.stage), run=self.folder.run, stage=self.stage))
        return None

    def _work(self, started_at: str) -> None:
        with lock.one_at_a_time(self.folder) if self.stage in receipts.DERIVED else nullcontext():
            inputs = receipts.digests(self.reads(self.folder), self.folder)
            outcome = self.does(self.folder)
            outputs = receipts.digests(self.makes(self.folder), self.folder)
            receipts.write(
                self.folder, self.stage, inputs=inputs, outputs=outputs, outcome=outcome, started_at=started_at
            )
        self.folder.failed.unlink(missing_ok=True)

    def _failed(self, error: HarnessError) -> TaskFailed:
        self.invocation.errors.append(error)
        if self.folder.run_json.exists():
            with suppress(OSError):  # a full disk is told on the terminal
                write_json(
                    self.folder.failed, {"schema": 1, "stage": self.stage, "at": utc_stamp(), "reason": str(error)}
                )
        return TaskFailed(str(error))


def describe(error: OSError, doing: str) -> str:
    """An operating system's error as a sentence with what to do next."""
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{doing}: the disk is full{where}; what was saved is whole: free space and give the same command again"
    return f"{doing}: {error.strerror or error}{where}"


class Module(Protocol):
    """The module of a stage. One that has a function ``intact`` is asked by it too, see ``Intact``."""

    def work(self, folder: RunFolder, /) -> dict[str, Any]:
        """Do it. What comes back stands in the receipt; ``summary`` is shown."""

    def reads(self, folder: RunFolder, /) -> Iterable[Path]:
        """The files that it depends on."""

    def makes(self, folder: RunFolder, /) -> Iterable[Path]:
        """The files that it leaves."""


def stages(
    invocation: Invocation, stage: str, *, soak: Module | None = None, ladder: Module | None = None, after: str | None
) -> Iterator[dict[str, Any]]:
    """One doit task ``<stage>:<run>`` for each run that this invocation concerns and whose kind has this stage.

    ``after`` is the stage before, which must be up to date first, ``rungs`` all rungs of a ladder. Of a run that is
    saved the live stages are over and are not drawn, whatever became of the files they worked with. A derived stage
    (tables, gate, report) never drags in the stages before ``save``: re-grading what is saved must not start a load.
    """
    for folder in invocation.shown():
        module = {SOAK: soak, LADDER: ladder}[invocation.kind_of(folder)]
        live = folder == invocation.live_run
        if module is None or (receipts.is_live(stage) and (not live or folder.saved.exists())):
            continue
        if not invocation.is_drawn(folder, stage):
            continue
        before = invocation.before(folder, after) if live or after in receipts.DERIVED else []
        yield {"basename": stage, **stage_task(invocation, folder, stage, module, after=before)}


def stage_task(
    invocation: Invocation, folder: RunFolder, stage: str, module: Module, *, after: list[str]
) -> dict[str, Any]:
    """The doit task of one stage of one run; ``after`` are the tasks that must be up to date first."""
    read = [path.absolute() for path in module.reads(folder)]
    if folder != invocation.live_run:
        read = [path for path in read if path.is_file()]
    return {
        "name": receipts.task_of(folder.run, stage).partition(":")[2],
        "doc": f"{stage} of run {folder.run}",
        "actions": [Task(invocation, folder, stage, module.work, reads=module.reads, makes=module.makes)],
        "file_dep": [str(path) for path in read],
        "targets": [str(receipts.path_of(folder, stage).absolute())],
        "task_dep": after,
        "uptodate": [Intact(folder, stage, getattr(module, "intact", None))],
        "verbosity": 2,
    }
