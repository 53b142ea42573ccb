"""Ladders from elsewhere: a JSON file of rungs, or the evidence of a ladder that a harness measured and saved."""

from __future__ import annotations

from pathlib import Path

from harness.adopt.copying import Told, copy_files, stamps_of
from harness.adopt.given import Given
from harness.e8.reading import parse_ladder
from harness.errors import EvidenceError, UsageError
from harness.files import open_regular, sha256_file, sha256_text, write_atomic
from harness.runs import RUN_JSON, SAVED, SUMS, is_run_id
from harness.store import readers
from harness.store.columns import LADDER
from harness.store.formats import MARKER, e8
from harness.store.kinds import LADDER_FILE, LADDER_FILES, RECORD_FILE
from harness.store.sums import shown

LARGEST_BYTES = 64 << 20  # ten thousand rungs are a tenth of that


def is_meant(source: Path, format_name: str) -> bool:
    """Whether a ladder is to be adopted: it is said so, or the folder holds one."""
    return format_name == LADDER or any(
        (folder / name).is_file() for folder in (source, source / "evidence") for name in LADDER_FILES
    )


def given(source: Path, runs: Path) -> Given:
    """What is there to be taken in. Raises EvidenceError for what is no ladder, UsageError as for any other run."""
    try:
        place = source.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise EvidenceError(f"there is no such file ({getattr(error, 'strerror', None) or error})") from error
    if not place.is_dir():
        return _file(place)
    folder = place / "evidence" if (place / "evidence").is_dir() else place
    return _folder(folder, runs)


def _file(path: Path) -> Given:
    """One file: kept byte for byte under the name that says what it is, beside our mark."""
    try:
        with open_regular(path) as file:
            raw = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise EvidenceError(f"it cannot be read ({error.strerror or error})") from error
    if len(raw) > LARGEST_BYTES:
        raise EvidenceError(f"it is larger than {LARGEST_BYTES:,} bytes, and no ladder is")
    try:
        document = readers.parse_json(raw)
    except ValueError as error:
        raise EvidenceError(f"it is not JSON ({readers.one_line(str(error))[:120]})") from error
    parse_ladder(document)
    name = RECORD_FILE if isinstance(document, list) else LADDER_FILE

    def copy(target: Path, _: Told) -> dict[str, str]:
        target.mkdir()
        write_atomic(target / name, raw)
        return {name: sha256_file(target / name)}

    named = document.get("run") if isinstance(document, dict) else None
    return Given(LADDER, e8.MARK, 1, len(raw), False, copy, lambda evidence: _name(named, evidence))


def _folder(folder: Path, runs: Path) -> Given:
    """The evidence of a ladder: what a harness saved, or adopted before."""
    if runs.resolve().is_relative_to(folder):
        raise UsageError(f"{runs} lies inside the folder that is adopted; --runs names one outside")
    stamps = stamps_of(folder)
    held = [name for name in LADDER_FILES if name in stamps]
    if len(held) != 1:
        raise EvidenceError(f"it holds {' and '.join(held) or 'neither'} of {' and '.join(LADDER_FILES)}, so no ladder")
    for name in stamps:
        if "\n" in name or readers.text(name) != name:
            raise EvidenceError(f"{shown(name)} has a name that no list of digests can hold; rename it")
    for name in (SAVED, SUMS):
        if RUN_JSON in stamps and name not in stamps:
            raise EvidenceError(f"it has no {name}, so this run was never saved whole")
    if RUN_JSON not in stamps and MARKER not in stamps:
        raise EvidenceError(
            f"nothing in it says whose ladder this is; adopt the file itself: --format {LADDER} {held[0]}"
        )
    e8.read(folder / held[0])
    source = folder / (RUN_JSON if RUN_JSON in stamps else held[0])
    about = readers.read_document(source)
    named = about.get("run") if isinstance(about, dict) else None
    if RUN_JSON in stamps and not (isinstance(named, str) and is_run_id(named)):
        raise EvidenceError(f"{RUN_JSON} names no run")
    return Given(
        LADDER,
        None,
        len(stamps),
        sum(stamp[2] for stamp in stamps.values()),
        False,
        lambda target, told: copy_files(folder, target, stamps, told),
        lambda evidence: _name(named, evidence),
    )


def _name(named: object, evidence: Path) -> str:
    """The run's name: as the ladder says, where a run may have it, else by content."""
    if isinstance(named, str) and is_run_id(named):
        return named
    return f"adopted-{sha256_text(readers.read_text(evidence / SUMS))[:16]}"
