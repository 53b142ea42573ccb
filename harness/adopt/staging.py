"""A place in the runs folder where a run is put together, unseen, and the one rename that makes it a run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import EvidenceError
from harness.files import alone, fsync_folder
from harness.processes import Identity, alive, own_identity
from harness.runs import RunFolder
from harness.store.sums import verify_sums

NAME = re.compile(r"\.adopting-([0-9]+)-([0-9]+)-[0-9a-f]{8}")


@contextmanager
def staging(runs: Path) -> Iterator[Path]:
    """A new folder in ``runs``, which is gone afterwards; so is ``runs``, where it was made for this and stayed empty.

    What an adoption left that was killed is removed first. Raises OSError.
    """
    absent = [folder for folder in (runs, *runs.parents) if not folder.exists()]
    me = own_identity()
    stage = runs / f".adopting-{me.pid}-{me.start_ticks}-{os.urandom(4).hex()}"
    try:
        stage.mkdir(parents=True)
        _sweep(runs)
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        with suppress(OSError):  # it holds a run
            for folder in absent:
                folder.rmdir()


def _sweep(runs: Path) -> None:
    for entry in os.scandir(runs):
        match = NAME.fullmatch(entry.name)
        if match and not alive(Identity(int(match[1]), int(match[2]))):
            shutil.rmtree(entry.path, ignore_errors=True)


def land(made: Path, runs: Path) -> bool:
    """Give the run in the folder ``made`` its place in ``runs``. False when that same evidence is there already.

    Raises EvidenceError when the name is taken by anything else; what is there is never changed.
    """
    with alone(runs):
        taken = [entry.name for entry in os.scandir(runs) if entry.name.lower() == made.name.lower()]
        if not taken:
            made.rename(runs / made.name)
            fsync_folder(runs)
            return True
    there, new = RunFolder(runs / taken[0]), RunFolder(made)
    if there.run != new.run:
        raise _taken(there, f"differs from {new.run} only in upper and lower case")
    if not there.saved.is_file() or not there.sums.is_file():
        raise _taken(there, "was never saved whole")
    if there.sums.read_bytes() != new.sums.read_bytes():
        raise _taken(there, "holds other evidence")
    try:
        verify_sums(there.evidence)
    except EvidenceError as error:  # what was given may be the only good copy left
        raise EvidenceError(
            f"run {there.run} was adopted before, and its evidence is damaged now ({error.message}); "
            f"move {there.root} away and adopt it again"
        ) from error
    return False


def _taken(there: RunFolder, why: str) -> EvidenceError:
    return EvidenceError(
        f"run {there.run} is in {there.root.parent} and {why}; --runs names another folder for this one"
    )
