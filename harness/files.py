"""Files that are whole or absent: atomic writes, append-only lines, digests."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

BLOCK_BYTES = 1 << 20
NO_LOCKS = frozenset({errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP})  # a folder on NFS cannot be locked


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write ``data`` so that ``path`` is either the old file or the whole new one, also after a power cut.

    A temporary name in the same folder, fsync, rename, fsync of the folder. Raises OSError (a full disk); the
    temporary file is then removed and the old file is untouched.
    """
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """``write_atomic`` for JSON: sorted keys, two-space indent, a final newline, no NaN."""
    write_atomic(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """The parsed file. Raises OSError when unreadable and ValueError when it is not JSON, or nested beyond reason."""
    try:
        with open_regular(path) as file:
            return json.loads(file.read())
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def fsync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until no other process has ``folder`` in this way; nothing is written. Raises OSError.

    For work that is whole however it goes: a file system without locks lets everybody in.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield
    finally:
        os.close(descriptor)


def copy_whole(source: Path, target: Path) -> str:
    """Copy byte for byte under a temporary name, fsync, rename. Returns the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with source.open("rb") as reader, temporary.open("wb") as writer:
            while block := reader.read(BLOCK_BYTES):
                digest.update(block)
                writer.write(block)
            writer.flush()
            os.fsync(writer.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return digest.hexdigest()


def open_regular(path: Path) -> BinaryIO:
    """``path`` opened for reading. Raises OSError for what is no regular file: a FIFO would keep its reader waiting."""
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - the caller closes it
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def sha256_file(path: Path) -> str:
    """The file's SHA-256 in hex. Always reads every byte: an equal mtime proves nothing. Raises OSError."""
    digest = hashlib.sha256()
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO is not waited for
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        while block := os.read(descriptor, BLOCK_BYTES):
            digest.update(block)
    finally:
        os.close(descriptor)
    return digest.hexdigest()


def sha256_text(text: str) -> str:
    """SHA-256 in hex of the text's UTF-8 form."""
    return hashlib.sha256(text.encode()).hexdigest()


class LineLog:
    """An append-only file of whole lines, each one write and (by default) one fsync.

    A torn last line that an earlier writer left is closed with a newline first, so that the next line is whole.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self._durable = durable
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")

    def write(self, line: str) -> None:
        """Append one line; a newline inside it is refused. Raises OSError on a full disk."""
        if "\n" in line:
            raise ValueError("a line may not hold a newline")
        rest = memoryview(line.encode() + b"\n")
        while rest:  # a nearly full disk takes part of a line and refuses the rest only at the next call
            rest = rest[os.write(self._descriptor, rest) :]
        if self._durable:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def utc_stamp(unix_s: float | None = None) -> str:
    """RFC 3339 UTC with three decimals and ``Z``, the form every log and report here uses."""
    moment = datetime.now(UTC) if unix_s is None else datetime.fromtimestamp(unix_s, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
