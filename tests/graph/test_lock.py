"""Who only asks whether the runs folder is held is never taken for who holds it."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from harness.errors import BusyError
from harness.graph import lock


def test_asking_writes_nothing(tmp_path: Path) -> None:
    assert not lock.is_held(tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    (tmp_path / lock.LOCK).write_text("1\n")
    assert not lock.is_held(tmp_path)
    assert (tmp_path / lock.LOCK).read_text() == "1\n"
    assert lock.holder(tmp_path) is None


def test_who_holds_is_named(tmp_path: Path) -> None:
    with lock.hold(tmp_path):
        assert lock.is_held(tmp_path)
        found = lock.holder(tmp_path)
        assert found is not None and found.pid == os.getpid()
        with pytest.raises(BusyError, match=f"pid {os.getpid()}"), lock.hold(tmp_path):
            pass


def test_two_who_ask_at_once_do_not_see_each_other(tmp_path: Path) -> None:
    (tmp_path / lock.LOCK).touch()
    with (tmp_path / lock.LOCK).open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not lock.is_held(tmp_path)


def test_a_command_that_begins_while_another_one_asks_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / lock.LOCK).touch()
    with (tmp_path / lock.LOCK).open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        later = threading.Timer(0.1, fcntl.flock, (asking, fcntl.LOCK_UN))
        later.start()
        with lock.hold(tmp_path):
            later.join()
            assert (tmp_path / lock.LOCK).read_text() == f"{os.getpid()}\n"
