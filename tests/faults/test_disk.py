"""A full disk ends in a sentence; what was saved is whole, nothing is left running, and the same command goes on."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.files import read_json
from harness.stages import save
from tests.conftest import Doit

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.timeout(200),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount the small disk that is filled here"),
]


@pytest.fixture
def small_disk(doit: Doit) -> Iterator[Doit]:
    """The runs folder on a disk of its own of 640 MB."""
    doit.runs.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=640m", "tmpfs", str(doit.runs)], check=True)
    yield doit
    subprocess.run(["umount", "--lazy", str(doit.runs)], check=True)


def fill(folder: Path) -> Path:
    """Take every byte that is left."""
    filler = folder / "filler.bin"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 10, 1):
            try:
                while True:
                    if not file.write(b"\0" * size):
                        break
            except OSError:
                continue
    return filler


def test_a_disk_too_small_for_the_evidence_refuses_the_run_first(doit: Doit) -> None:
    doit.runs.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(doit.runs)], check=True)
    try:
        code, output = doit("soak", "run=r")
    finally:
        subprocess.run(["umount", str(doit.runs)], check=True)
    assert code == 4, output
    assert "error: r preflight: 1 of " in output
    assert "nothing was started" in output


def test_a_disk_that_fills_up_under_load_ends_in_a_sentence(small_disk: Doit) -> None:
    doit = small_disk
    child = doit.start("soak", "run=r")
    while not doit.folder("r").load_json.exists():
        assert child.poll() is None, child.communicate()[0]
        time.sleep(0.1)
    filler = fill(doit.runs)
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 4, output
    assert output.rstrip().splitlines()[-1].startswith("error: "), output
    assert "No space left on device" in output or "the disk is full" in output
    assert "Traceback" not in output
    assert "VERDICT PASS" not in output
    assert doit.leftovers() == []

    filler.unlink()
    code, output = doit("soak", "run=r")
    assert code in (1, 4), output
    assert "VERDICT PASS" not in output
    assert doit.leftovers() == []


def test_a_disk_that_is_full_when_evidence_is_saved_loses_nothing(small_disk: Doit) -> None:
    """The load ended, the copy could not be made: with space again the same command saves, grades and passes."""
    doit = small_disk
    child = doit.start("soak", "run=r")
    folder = doit.folder("r")
    while not folder.report_json.exists():
        assert child.poll() is None, child.communicate()[0]
        time.sleep(0.01)
    filler = fill(doit.runs)
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 4, output
    assert "Traceback" not in output
    filler.unlink()
    code, output = doit("soak", "run=r")
    assert code == 0, output
    assert "VERDICT PASS targets=3" in output
    assert save.verify(folder.evidence)
    assert read_json(folder.evidence / "report.json")["pass"] is True
