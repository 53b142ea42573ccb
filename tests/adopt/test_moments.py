"""Killed, crowded, out of space, or looking at a moving target: a run is adopted whole, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.adopt import adopt
from harness.errors import EvidenceError, StageError
from harness.runs import RunFolder
from harness.store.sums import verify_sums
from tests.adopt.conftest import TAG, content, start, traces


@pytest.fixture
def large(directory: Path) -> Path:
    """The directory with some files that take their time."""
    for number in range(8):
        (directory / f"engine-{number}.log").write_bytes(os.urandom(1 << 20) * 4)
    return directory


def staged(runs: Path) -> list[Path]:
    return list(runs.glob(".adopting-*")) if runs.exists() else []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("moments", [12, pytest.param(200, marks=pytest.mark.sweep)])
def test_killed_at_any_moment_it_leaves_no_half_run(moments: int, large: Path, tmp_path: Path) -> None:
    """What is left is unseen and goes with the next adoption; the source is untouched."""
    given = content(large)
    began = time.monotonic()
    child = start("adopt", large, "--runs", tmp_path / "whole")
    child.communicate(timeout=60)
    assert child.returncode == 0
    whole_s = time.monotonic() - began
    seen: set[str] = set()
    for moment in range(moments):
        runs = tmp_path / f"runs-{moment}"
        child = start("adopt", large, "--runs", runs)
        time.sleep(whole_s * 1.1 * moment / moments)
        child.kill()
        child.communicate()
        folder = RunFolder(runs / TAG)
        seen.add("staged" if staged(runs) else "landed" if folder.root.exists() else "nothing")
        if folder.root.exists():
            assert content(folder.evidence).keys() == given.keys() | {"SHA256SUMS", "SAVED"}
            assert verify_sums(folder.evidence) == given
            assert json.loads(folder.tables_index.read_text())["refused"] is None
        adopt(large, runs)
        assert verify_sums(folder.evidence) == given
        assert [path.name for path in runs.iterdir()] == [TAG]
        shutil.rmtree(runs)
    assert {"nothing", "staged"} <= seen, "the moments missed what they were for"
    assert content(large) == given


def test_two_at_once_make_one_run(large: Path, tmp_path: Path) -> None:
    for attempt in range(2):
        runs = tmp_path / f"runs-{attempt}"
        children = [start("adopt", large, "--runs", runs, "--json") for _ in range(3)]
        told = [(*child.communicate(timeout=60), child.returncode) for child in children]
        assert [code for *_, code in told] == [0, 0, 0], told
        assert sorted(json.loads(out)["fresh"] for out, *_ in told) == [False, False, True]
        assert [path.name for path in runs.iterdir()] == [TAG]


def test_an_adoption_that_goes_on_is_not_swept_away(large: Path, directory: Path, tmp_path: Path) -> None:
    """Another one runs in between, of a run of another name."""
    runs = tmp_path / "runs"
    other = shutil.copytree(directory, tmp_path / "other", ignore=shutil.ignore_patterns("engine-[0-9].log"))
    (other / "run.env").write_text((other / "run.env").read_text().replace(TAG, "other"))
    times = iter(range(10**9))

    def told(copied: int, total: int) -> None:
        if next(times) == 0:
            adopt(other, runs)

    adopt(large, runs, told=told)
    assert sorted(path.name for path in runs.iterdir()) == ["other", TAG]


def grows(folder: Path) -> None:
    with (folder / "sortie.log").open("a") as file:
        file.write("more\n")


def is_rewritten(folder: Path) -> None:
    """To the same size."""
    text = (folder / "report.json").read_text()
    (folder / "report.json").write_text(text.replace("svc-1", "svc-9"))


def appears(folder: Path) -> None:
    (folder / "chart" / "late.log").write_text("x")


def goes(folder: Path) -> None:
    (folder / "shares.tsv").unlink()


def becomes_a_link(folder: Path) -> None:
    (folder / "shares.tsv").unlink()
    (folder / "shares.tsv").symlink_to("report.json")


def becomes_a_fifo(folder: Path) -> None:
    (folder / "sortie.log").unlink()
    os.mkfifo(folder / "sortie.log")


CHANGES = [grows, is_rewritten, appears, goes, becomes_a_link, becomes_a_fifo]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("at", ["the first", "the last"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda function: function.__name__)
def test_a_directory_that_changes_meanwhile_is_refused(
    change: object, at: str, directory: Path, tmp_path: Path
) -> None:
    """Before or after the file in question was copied: part old and part new would be evidence of nothing."""
    assert callable(change)
    done = []

    def told(copied: int, total: int) -> None:
        if not done and (at == "the first" or copied == total):
            done.append(change(directory))

    with pytest.raises(EvidenceError, match=r"changed while it was copied|cannot be read|no regular file"):
        adopt(directory, tmp_path / "runs", told=told)
    assert done
    assert not (tmp_path / "runs").exists()


def test_a_stop_by_hand_leaves_nothing(directory: Path, tmp_path: Path) -> None:
    def told(copied: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        adopt(directory, tmp_path / "runs", told=told)
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A runs folder on a disk of its own of 4 MB."""
    runs = tmp_path / "disk"
    runs.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(runs)], check=True)
    yield runs
    subprocess.run(["umount", "--lazy", str(runs)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount the small disk that is filled here")
def test_a_full_disk_leaves_no_half_run(directory: Path, small_disk: Path) -> None:
    """Whatever it is too full for: a file, the list, the tables. With space again the same command goes on."""
    before = traces(small_disk)
    refused = 0
    for free in range(0, 2048, 64):
        filler = small_disk / ".filler"
        filler.write_bytes(b"\0" * (4096 - free) * 1024)
        try:
            adopt(directory, small_disk)
        except StageError as error:
            refused += 1
            assert "free space and adopt it again" in str(error)
            assert traces(small_disk).keys() == before.keys() | {".filler"}
        filler.unlink()
        shutil.rmtree(small_disk / TAG, ignore_errors=True)
    assert 0 < refused < 32, "some must have been too full, and some not"
    adopt(directory, small_disk)
    assert verify_sums(small_disk / TAG / "evidence") == content(directory)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_what_may_not_be_read_or_written_is_said(directory: Path, tmp_path: Path) -> None:
    (directory / "report.json").chmod(0)
    with pytest.raises(EvidenceError, match=r"report\.json cannot be read \(Permission denied\)"):
        adopt(directory, tmp_path / "runs")
    (directory / "report.json").chmod(0o600)
    (tmp_path / "runs").mkdir(mode=0o500)
    with pytest.raises(StageError, match="Permission denied"):
        adopt(directory, tmp_path / "runs")
