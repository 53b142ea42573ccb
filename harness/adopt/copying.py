"""Files of a run directory, copied byte for byte and summed up in one pass; a directory that changes is not copied."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from io import FileIO
from pathlib import Path

from harness.errors import EvidenceError
from harness.files import BLOCK_BYTES, fsync_folder
from harness.store.sums import list_files, shown

Stamp = tuple[int, int, int, int, int]
"""Device, inode, size in bytes, and the times of the last change of content and of anything, in ns."""

Told = Callable[[int, int], None]
"""Is told how many bytes are copied, and of how many."""


def stamps_of(folder: Path) -> dict[str, Stamp]:
    """Path of every file, as POSIX text below ``folder`` → its stamp. Raises EvidenceError for links and the like."""
    found = {}
    for name in list_files(folder):
        try:
            found[name] = _stamp(os.lstat(folder / name))
        except OSError as error:
            raise _cannot_be_read(name, error) from error
    return found


def copy_files(source: Path, target: Path, stamps: Mapping[str, Stamp], told: Told) -> dict[str, str]:
    """Copy the stamped files into the new folder ``target``, durably; returns path → SHA-256.

    Raises EvidenceError when one cannot be read, or when anything in ``source`` is not as it was stamped, before or
    after: a copy that is part old and part new is evidence of nothing. Raises OSError when ``target`` is full.
    """
    target.mkdir()
    total, copied = sum(stamp[2] for stamp in stamps.values()), 0
    digests = {}
    for name, stamp in stamps.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        digests[name] = _copy(source, target, name, stamp, partial(_told_of_all, told, copied, total))
        copied += stamp[2]
    now = stamps_of(source)
    if changed := sorted(name for name in {*stamps, *now} if stamps.get(name) != now.get(name)):
        raise _changed(changed[0])
    for folder in {(target / name).parent for name in stamps}:
        fsync_folder(folder)
    return digests


def _told_of_all(told: Told, before: int, total: int, size: int) -> None:
    told(before + size, total)


def _copy(source: Path, target: Path, name: str, stamp: Stamp, told: Callable[[int], None]) -> str:
    digest, size = hashlib.sha256(), 0
    with _open(source, name) as reader, (target / name).open("xb") as writer:
        if _stamp(os.fstat(reader.fileno())) != stamp:
            raise _changed(name)
        while block := _read(reader, name):
            digest.update(block)
            writer.write(block)
            size += len(block)
            told(size)
            if size > stamp[2]:
                break
        if size != stamp[2]:
            raise _changed(name)
        writer.flush()
        os.fsync(writer.fileno())
    return digest.hexdigest()


def _open(source: Path, name: str) -> FileIO:
    """The file itself: a link or a FIFO that took its place meanwhile is neither followed nor waited for."""
    try:
        return FileIO(os.open(source / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        raise _cannot_be_read(name, error) from error


def _read(reader: FileIO, name: str) -> bytes:
    try:
        return reader.read(BLOCK_BYTES)
    except OSError as error:
        raise _cannot_be_read(name, error) from error


def _stamp(found: os.stat_result) -> Stamp:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _cannot_be_read(name: str, error: OSError) -> EvidenceError:
    return EvidenceError(f"{shown(name)} cannot be read ({error.strerror or error})")


def _changed(name: str) -> EvidenceError:
    return EvidenceError(f"{shown(name)} changed while it was copied; adopt a run that is over")
