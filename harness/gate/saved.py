"""Grading what is saved: the tables of a run, held against their index, to a verdict beside the earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import EvidenceError
from harness.files import read_json, sha256_file
from harness.gate.run import READS, TOGETHER, Files, grade_many, grade_segment
from harness.gate.store import append
from harness.gate.verdict import Verdict
from harness.runs import RunFolder
from harness.store.made import check_run, check_tables, made_again
from harness.store.segments import read_segments, write_segment
from harness.store.sums import verify_sums

if TYPE_CHECKING:
    from concurrent.futures import Future

    from duckdb import DuckDBPyConnection

WORTH_A_SEGMENT = 32  # fewer runs are read as fast one by one


@dataclass(frozen=True)
class Graded:
    """One grading: the run, its verdict, and the file it was stored in; None where there was nothing to grade."""

    folder: RunFolder
    verdict: Verdict
    path: Path | None


def grade_run(folder: RunFolder) -> tuple[Verdict, Path]:
    """Grade a run and store the verdict; returns it with its file. What cannot be graded is REFUSED, and stored too.

    Raises EvidenceError when the run has no tables at all: then nothing was there to be graded, and nothing is stored.
    """
    index = read_tables_index(folder)
    files = _checked(folder, index)
    verdict = files if isinstance(files, Verdict) else _of(folder, next(grade_many([files])))
    return verdict, append(folder.verdicts, verdict, sha256_file(folder.tables_index))


def grade_runs(runs: Path, folders: Sequence[RunFolder]) -> Iterator[Graded]:
    """Grade many runs of a runs folder, each as ``grade_run`` would, in their order.

    One without tables is REFUSED, which is not stored. Tables that lie together in a segment are read from there; those
    of many other runs are put into one.
    """
    from concurrent.futures import ThreadPoolExecutor  # here: with logging behind it, a tenth of grading one run

    places = {folder.run: number for number, folder in enumerate(folders)}
    done: dict[int, Future[Graded]] = {}
    given = 0
    with ThreadPoolExecutor(1) as before, ThreadPoolExecutor(1) as after:
        looks = {folder.run: before.submit(_look, folder) for folder in folders}
        for some, verdicts in _batches(runs, looks):
            for run, verdict in zip(some, verdicts, strict=True):
                folder = folders[places[run]]
                done[places[run]] = after.submit(_store, folder, _of(folder, verdict))
            while given in done and done[given].done():
                yield done.pop(given).result()
                given += 1
        while given < len(folders):
            yield done.pop(given).result()
            given += 1


@dataclass(frozen=True)
class Look:
    """What may be graded: a run's tables, each the one that was made, and the digest of their index."""

    files: Files
    index_sha256: str


def _look(folder: RunFolder) -> Look | Verdict:
    try:
        files = _checked(folder, read_tables_index(folder))
        return files if isinstance(files, Verdict) else Look(files, sha256_file(folder.tables_index))
    except EvidenceError as error:
        return Verdict.refused(folder.run, error.message)


def _index_of(look: Look | Verdict) -> str | None:
    return look.index_sha256 if isinstance(look, Look) else None


def _batches(
    runs: Path, looks: Mapping[str, Future[Look | Verdict]]
) -> Iterator[tuple[list[str], Iterable[Verdict | EvidenceError]]]:
    """Runs and their verdicts, some at a time: those that lie in segments, what is refused already, then the rest."""
    taken: set[str] = set()
    for segment in read_segments(runs):
        mine = [
            run
            for run, index in segment.runs.items()
            if run in looks and run not in taken and _index_of(looks[run].result()) == index
        ]
        if 2 * len(mine) < len(segment.runs) or not segment.is_whole():
            segment.drop()
            continue
        with suppress(EvidenceError):  # then each is graded by its own tables
            yield mine, grade_segment({table: segment.file(table) for table in segment.tables}, mine)
            taken.update(mine)
    rest = {run: look.result() for run, look in looks.items() if run not in taken}
    refused = {run: look for run, look in rest.items() if isinstance(look, Verdict)}
    yield list(refused), list(refused.values())
    left = {run: look for run, look in rest.items() if isinstance(look, Look)}

    def keep(connection: DuckDBPyConnection, ids: Sequence[str]) -> None:
        if len(ids) >= WORTH_A_SEGMENT:
            write_segment(connection, runs, {run: left[run].index_sha256 for run in ids}, READS)

    loose = list(left)
    verdicts = grade_many([left[run].files for run in loose], keep)
    for start in range(0, len(loose), TOGETHER):
        some = loose[start : start + TOGETHER]
        yield some, [next(verdicts) for _ in some]


def _store(folder: RunFolder, verdict: Verdict) -> Graded:
    if not folder.tables_index.is_file():
        return Graded(folder, verdict, None)
    return Graded(folder, verdict, append(folder.verdicts, verdict, sha256_file(folder.tables_index)))


def read_tables_index(folder: RunFolder) -> dict[str, Any]:
    """What says which tables were made. Raises EvidenceError when there is none, or none that can be read."""
    try:
        index = read_json(folder.tables_index)
        return {key: index[key] for key in ("run", "refused", "tables", "sums_sha256")}
    except (OSError, ValueError, KeyError, TypeError):
        raise EvidenceError(
            f"run {folder.run} has no tables to grade; `harness gate {folder.run}` makes them from its evidence",
            run=folder.run,
        ) from None


def _checked(folder: RunFolder, index: dict[str, Any]) -> Files | Verdict:
    """The run's tables, each the one that was made of the evidence that is there; or the refusal that says why not."""
    if index["refused"] is not None:
        return Verdict.refused(folder.run, str(index["refused"]))
    try:
        check_run(folder, index["run"], folder.tables_index.name)
        check_evidence(folder, index["sums_sha256"])
        return check_tables(folder, index["tables"], READS)
    except EvidenceError as error:
        return Verdict.refused(folder.run, error.message)


def _of(folder: RunFolder, graded: Verdict | EvidenceError) -> Verdict:
    try:
        if isinstance(graded, EvidenceError):
            raise graded
        check_run(folder, graded.run, "tables")
    except EvidenceError as error:
        return Verdict.refused(folder.run, error.message)
    return graded


def check_evidence(folder: RunFolder, sums_sha256: Any) -> dict[str, str]:
    """Path → SHA-256 of every file of the evidence.

    Raises EvidenceError when the evidence is gone, was changed, or is not what the tables were made from.
    """
    if not folder.saved.is_file():
        raise EvidenceError(f"{folder.saved} is not there, so nothing says that the evidence is whole; put it back")
    sums = verify_sums(folder.evidence)
    if not sums or sha256_file(folder.sums) != sums_sha256:
        raise EvidenceError(
            f"the tables were not made from what stands in evidence now; {made_again(folder)}",
            run=folder.run,
        )
    return sums
