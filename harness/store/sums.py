"""The list of digests of a run's evidence, and everything in the folder held against it, sub-folders included."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from harness.errors import EvidenceError
from harness.files import sha256_file
from harness.runs import RUN_JSON, SAVED, SUMS
from harness.store import readers

SUM_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^\n]+)")
NOT_SUMMED = frozenset({SUMS, SAVED})
MAX_DEPTH = 8  # folders in folders; a run directory has one level of them


def verify_sums(evidence: Path) -> dict[str, str]:
    """Path of a file in the evidence → SHA-256 of all that ``SHA256SUMS`` lists, each file read and compared.

    Empty when there is no such list, which only evidence that was saved elsewhere may lack: where a ``run.json`` is,
    it must be there. Raises EvidenceError naming what is absent, was changed, is no regular file (it is then never
    opened), or stands in the evidence without being listed, hidden files, folders and links included.
    """
    entries = list_entries(evidence)
    if not entries.get(SUMS, True):
        raise EvidenceError(f"{SUMS} is no regular file")
    if SUMS not in entries and RUN_JSON not in entries:
        return {}
    sums = read_sums(evidence / SUMS) if SUMS in entries else {}
    if not sums and RUN_JSON in entries:
        state = "lists nothing" if SUMS in entries else "is not there"
        raise EvidenceError(f"{SUMS} {state}, so nothing says that the evidence is what was saved; put the list back")
    for name, expected in sums.items():
        if name not in entries:
            raise EvidenceError(f"{shown(name)} is listed in {SUMS} and is not there")
        if not entries[name]:
            raise EvidenceError(f"{shown(name)} is listed in {SUMS} and is no regular file")
        try:
            actual = sha256_file(evidence / name)
        except OSError as error:
            reason = error.strerror or error
            raise EvidenceError(f"{shown(name)} is listed in {SUMS} and cannot be read ({reason})") from error
        if actual != expected:
            raise EvidenceError(f"{shown(name)} was changed since it was saved: its SHA-256 is not the one in {SUMS}")
    if added := unlisted(entries, sums):
        raise EvidenceError(f"{shown(added[0])} is in the evidence and not in {SUMS}, so it was added after saving")
    if not entries.get(SAVED, True):
        raise EvidenceError(f"{SAVED} is no regular file")
    return sums


def digests(evidence: Path) -> dict[str, str]:
    """Path → SHA-256 of every file, as the list has it; evidence from elsewhere may lack the list. As verify_sums."""
    if sums := verify_sums(evidence):
        return sums
    try:
        return {name: sha256_file(evidence / name) for name in list_files(evidence)}
    except OSError as error:
        raise EvidenceError(f"the evidence cannot be read ({error.strerror or error}: {error.filename})") from error


def list_files(folder: Path) -> list[str]:
    """Path of every file at any depth, sorted. Raises EvidenceError for what is neither file nor folder."""
    entries = sorted(list_entries(folder).items())
    for name, is_file in entries:
        if not is_file and ((folder / name).is_symlink() or not (folder / name).is_dir()):
            raise EvidenceError(f"{shown(name)} is no regular file")
    return [name for name, is_file in entries if is_file]


def list_entries(folder: Path) -> dict[str, bool]:
    """Path of everything at any depth, hidden or not, as POSIX text → whether it is a regular file.

    A link is none, wherever it leads, and is not followed. A folder is there only when it holds nothing: else what is
    in it stands for it. Raises EvidenceError for a folder that is a link, cannot be read, or is too deep.
    """
    if folder.is_symlink():
        raise EvidenceError(f"{folder.name} is a symbolic link; the evidence of a run stands in the run's own folder")
    return _entries_below(folder, PurePosixPath())


def _entries_below(root: Path, below: PurePosixPath) -> dict[str, bool]:
    if len(below.parts) > MAX_DEPTH:
        raise EvidenceError(f"{shown(str(below))} is a folder {len(below.parts)} folders deep; no run has such")
    try:
        with os.scandir(root / below) as found:
            entries = list(found)
    except OSError as error:
        name = root.name if below == PurePosixPath() else shown(str(below))
        raise EvidenceError(f"the folder {name} cannot be read ({error.strerror}); save the run") from error
    result: dict[str, bool] = {}
    for entry in entries:
        inside = _entries_below(root, below / entry.name) if entry.is_dir(follow_symlinks=False) else {}
        result |= inside or {str(below / entry.name): entry.is_file(follow_symlinks=False)}
    return result


def read_sums(listing: Path) -> dict[str, str]:
    """Path → digest as the list says. Raises EvidenceError for a line that is none, or names a file again.

    A path has no part that is empty, ``.`` or ``..``, so it leads nowhere but into the folder of the list.
    """
    sums: dict[str, str] = {}
    for number, line in readers.lines_of(readers.read_text(listing)):
        match = SUM_LINE.fullmatch(line)
        if match is None or not {"", ".", ".."}.isdisjoint(match[2].split("/")):
            raise EvidenceError(f"{listing.name}:{number} is not 'sha256  name'")
        if match[2] in sums:
            raise EvidenceError(f"{listing.name}:{number} lists {shown(match[2])} a second time")
        sums[match[2]] = match[1]
    return sums


def sums_text(digests: dict[str, str]) -> str:
    """The list itself: a line per path, sorted, the same text for the same files."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def unlisted(entries: dict[str, bool], sums: dict[str, str]) -> list[str]:
    """What stands in the evidence and not in its list, sorted."""
    return sorted(entries.keys() - sums.keys() - NOT_SUMMED)


def shown(name: str) -> str:
    """A file's name for a sentence: names may hold line ends, and bytes that are no text."""
    return readers.one_line(readers.text(name) or "")
