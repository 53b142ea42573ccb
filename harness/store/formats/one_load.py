"""Whether result files are of one load: each holds numbers of its own, and all of them ran at the same time.

A file says of itself neither its node nor its run. Under another node's name, or in the directory of another run, it
looks right in all that it says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from harness.files import sha256_file
from harness.store import readers
from harness.store.formats.cells import Cell, CellFile, said


def hold_together(cells: Iterable[Cell], duration_ms: int) -> None:
    """Raise EvidenceError where two files hold the same, or where two cells did not run during one load.

    ``duration_ms`` is how long the load was to be.
    """
    cells = list(cells)
    _refuse_copies(cells)
    _refuse_other_times(cells, timedelta(milliseconds=duration_ms))


def _refuse_copies(cells: Iterable[Cell]) -> None:
    of_file: dict[CellFile, list[Cell]] = {}
    for cell in filter(_measured, cells):  # nodes that measured nothing may well say the same, and fail by it
        of_file.setdefault(cell.file, []).append(cell)
    seen: dict[str, CellFile] = {}
    for file, own in of_file.items():
        for content in _contents(file, own):
            if (other := seen.setdefault(content, file)) is not file:
                raise file.refuse(
                    f"and {other.name} hold the same numbers, so one is a copy of the other; "
                    "put each node's own result there"
                )


def _measured(cell: Cell) -> bool:
    counted = cell.result and any(readers.whole(number) != 0 for number in cell.result["counters"].values())
    return bool(counted or (cell.result and cell.result["statistics"]))


def _contents(file: CellFile, cells: Iterable[Cell]) -> Iterator[str]:
    """What no other file can hold: its bytes, and its numbers where a time is among them.

    Counts alone are no such thing: an open loop counts the same on every node.
    """
    yield sha256_file(file.path)
    results = [cell.result for cell in cells if cell.result]
    if any(result["statistics"] or "started_at" in result for result in results):
        yield json.dumps(results, sort_keys=True)


def _refuse_other_times(cells: Iterable[Cell], duration: timedelta) -> None:
    """Files that say when they started must all overlap. Where some say it, one that counted has to say it too."""
    starts: list[tuple[datetime, Cell]] = []
    untold = None
    for cell in cells:
        moment = readers.moment(cell.result.get("started_at")) if cell.result else None
        if moment is not None:
            starts.append((moment, cell))
        elif _measured(cell):
            untold = cell
    if not starts:
        return
    (first_at, first), (last_at, last) = (bound(starts, key=lambda start: start[0]) for bound in (min, max))
    if untold:
        raise untold.file.refuse(f"does not say when it started, and {first.file.name} does; save it again")
    if last_at - first_at >= duration:
        raise last.file.refuse(
            f"started at {_start(last)} and {first.file.name} at {_start(first)}: one load of "
            f"{duration.total_seconds():g} s does not hold both; adopt the files of each load as a directory of its own"
        )


def _start(cell: Cell) -> str:
    return said(cell.result and cell.result["started_at"])
