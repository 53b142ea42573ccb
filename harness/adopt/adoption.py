"""``adopt``: the files of a run that was saved elsewhere become a run of this runs folder, whole or not at all."""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from pathlib import Path

from harness.adopt import ladder
from harness.adopt.copying import Told, copy_files, stamps_of
from harness.adopt.given import Given
from harness.adopt.source import REPORT, SORTIE, Mark, check_source, find_evidence, mark_of, run_id
from harness.adopt.staging import land, staging
from harness.errors import EvidenceError, StageError
from harness.files import copy_whole, sha256_file, utc_stamp, write_atomic, write_json
from harness.graph import receipts
from harness.runs import RUN_JSON, SAVED, SUMS, RunFolder
from harness.store.formats import MARKER
from harness.store.made import make_tables
from harness.store.sums import sums_text, verify_sums


@dataclass(frozen=True)
class Adopted:
    """What an adoption came to.

    ``fresh``: False when the same run was there already and nothing was changed. ``files`` and ``bytes`` are those
    that were given. ``refused``: why no tables could be made of them, None when they were. ``stream_only``: there is no
    report, only the results stream.
    """

    run: str
    fresh: bool
    format: str
    files: int
    bytes: int
    refused: str | None
    stream_only: bool


def adopt(
    source: Path,
    runs: Path,
    *,
    format: str = SORTIE,
    engine: str | None = None,
    told: Told = lambda copied, total: None,
) -> Adopted:
    """Take the run directory ``source`` into the folder ``runs`` and make its tables.

    ``format`` and, for nighthawk, the build of its ``engine`` (None: as published) are those of harness.store.formats;
    a ladder (``e8``) may be a file.
    Every file is copied byte for byte; a list of digests that ``source`` has is held and kept, else one is written.
    Tables that cannot be made do not undo the adoption: the gate says why. Raises EvidenceError for what cannot be a
    run, and for another run of the same name; UsageError for a format that there is not, or an engine without one;
    StageError when the disk is full. Nothing is left behind then.
    """
    try:
        given = ladder.given(source, runs) if ladder.is_meant(source, format) else _given(source, runs, format, engine)
        with staging(runs) as stage:
            copy = stage / ".evidence"  # no run has a name like this
            _seal(copy, given.copy(copy, told), given.mark)
            folder = RunFolder(stage / given.name(copy))
            folder.root.mkdir()
            copy.rename(folder.evidence)
            made = Adopted(
                run=folder.run,
                fresh=True,
                format=given.format,
                files=given.files,
                bytes=given.bytes,
                refused=None,
                stream_only=given.stream_only,
            )
            _describe(folder, made, source.resolve().name)
            index = make_tables(folder, seal=lambda just_copied: None)
            return replace(made, refused=index["refused"], fresh=land(folder.root, runs))
    except EvidenceError as error:
        raise EvidenceError(f"{source} was not adopted: {error.message}") from error
    except OSError as error:
        full = "; free space and adopt it again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise StageError(f"{source} was not adopted into {runs}: {error.strerror or error}{full}") from error


def _given(source: Path, runs: Path, format: str, engine: str | None) -> Given:
    """A run directory, looked at."""
    evidence = find_evidence(source)
    stamps = stamps_of(evidence)
    mark = mark_of(evidence, stamps, format, engine)
    env = check_source(evidence, stamps, runs, mark)
    return Given(
        format=SORTIE if mark is None else str(mark["format"]),
        mark=mark,
        files=len(stamps),
        bytes=sum(stamp[2] for stamp in stamps.values()),
        stream_only=mark is None and REPORT not in stamps,
        copy=lambda target, told: copy_files(evidence, target, stamps, told),
        name=lambda copied: run_id(copied, env),
    )


def _seal(evidence: Path, digests: dict[str, str], mark: Mark | None) -> None:
    """The list of digests, where there was none, and the mark that all is there; a list that was there must hold."""
    added = {}
    if mark is not None and MARKER not in digests:
        write_json(evidence / MARKER, mark)
        added[MARKER] = sha256_file(evidence / MARKER)
    if SUMS not in digests:
        write_atomic(evidence / SUMS, sums_text(digests | added))
    elif added:
        kept = (evidence / SUMS).read_bytes()
        write_atomic(evidence / SUMS, kept.rstrip(b"\n") + b"\n" + sums_text(added).encode())
    verify_sums(evidence)
    if SAVED not in digests:
        write_atomic(evidence / SAVED, utc_stamp() + "\n")


def _describe(folder: RunFolder, made: Adopted, source: str) -> None:
    """What stands beside the evidence: where it came from, and the receipt that later stages hold it against."""
    if (folder.evidence / RUN_JSON).exists():
        copy_whole(folder.evidence / RUN_JSON, folder.run_json)
    now = utc_stamp()
    about = {"format": made.format, "source": source, "files": made.files, "bytes": made.bytes}
    write_json(folder.adopted, {"schema": 1, "run": made.run, "adopted_at": now, **about})
    receipts.write(
        folder,
        "save",
        inputs={},
        outputs=receipts.digests([folder.sums, folder.saved], folder),
        outcome={"summary": f"adopted: {made.files} files, {made.bytes / 1e6:.1f} MB", **about},
        started_at=now,
    )
