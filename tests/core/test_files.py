"""Files are whole or absent; lines are whole even after a torn one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import files


def test_a_failed_write_leaves_the_old_file_and_no_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, {"old": 1})

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_json(path, {"new": 2})
    with pytest.raises(OSError, match="No space"):
        files.copy_whole(path, tmp_path / "copy")
    assert files.read_json(path) == {"old": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_nan_never_reaches_a_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(tmp_path / "a.json", {"p99_ns": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_torn_line_is_closed_before_the_next_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"whole": 1}\n{"torn": ')
    log = files.LineLog(path)
    log.write('{"next": 2}')
    log.close()
    log.close()
    assert path.read_bytes() == b'{"whole": 1}\n{"torn": \n{"next": 2}\n'


def test_a_line_may_not_hold_a_newline(tmp_path: Path) -> None:
    log = files.LineLog(tmp_path / "log")
    with pytest.raises(ValueError, match="newline"):
        log.write("a\nb")
    log.close()


def test_a_disk_that_takes_part_of_a_line_raises(tmp_path: Path) -> None:
    """A limit on the file's size makes the kernel take part of a write: the writer hears of it at once."""
    code = (
        "import resource, signal, sys; from pathlib import Path; from harness.files import LineLog\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "log = LineLog(Path(sys.argv[1]), durable=False)\n"
        "log.write('x' * 60)\n"
        "try:\n    log.write('y' * 60)\nexcept OSError as error:\n    print('raised', error.errno)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "log")], capture_output=True, text=True, check=True
    )
    assert found.stdout == f"raised {errno.EFBIG}\n"


def test_a_copy_is_byte_for_byte_and_says_its_digest(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(files.BLOCK_BYTES + 17))
    assert files.copy_whole(source, tmp_path / "copy") == files.sha256_file(source)
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()


def test_a_stamp_is_utc_with_three_decimals() -> None:
    assert files.utc_stamp(1793513258.0006) == "2026-11-01T06:07:38.000Z"
