"""The internals of doit that receipts lean on, held so that a new doit that moves them is noticed here first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from doit.dependency import Dependency, JSONCodec
from doit.task import dict_to_task

from harness.files import read_json
from harness.graph import receipts
from harness.graph.backend import ReceiptBackend, Sha256Checker
from harness.runs import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    found = RunFolder(tmp_path / "runs" / "r1")
    found.evidence.mkdir(parents=True)
    (found.evidence / "a").write_text("a")
    return found


def manager(folder: RunFolder) -> Any:
    return Dependency(ReceiptBackend, str(folder.root.parent), checker_cls=Sha256Checker, codec_cls=JSONCodec)


def task(folder: RunFolder, *names: str) -> Any:
    return dict_to_task(
        {
            "name": "tables:r1",
            "actions": None,
            "file_dep": [str((folder.evidence / name).absolute()) for name in names],
            "targets": [str(receipts.path_of(folder, "tables"))],
            "uptodate": [True],
        }
    )


def give_receipt(folder: RunFolder, *names: str) -> None:
    inputs = receipts.digests([folder.evidence / name for name in names], folder)
    receipts.write(folder, "tables", inputs=inputs, outputs={}, outcome={}, started_at="t")


def status(folder: RunFolder, *names: str) -> tuple[str, dict[str, Any]]:
    found = manager(folder).get_status(task(folder, *names), {}, get_log=True)
    return found.status, dict(found.reasons)


def test_a_receipt_alone_makes_a_task_up_to_date(folder: RunFolder) -> None:
    """No file of doit's own is needed, so a SIGKILL after the receipt loses nothing."""
    assert status(folder, "a")[0] == "run"
    give_receipt(folder, "a")
    assert status(folder, "a") == ("up-to-date", {})
    assert sorted(path.name for path in folder.root.parent.iterdir()) == ["r1"]


def test_a_changed_byte_is_the_reason_even_with_the_old_mtime(folder: RunFolder) -> None:
    import os

    give_receipt(folder, "a")
    path = folder.evidence / "a"
    before = path.stat()
    path.write_text("b")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert status(folder, "a") == ("run", {"changed_file_dep": [str(path)]})


def test_a_new_dependency_is_a_reason(folder: RunFolder) -> None:
    (folder.evidence / "b").write_text("b")
    give_receipt(folder, "a")
    found, reasons = status(folder, "a", "b")
    assert (found, reasons["added_file_dep"]) == ("run", [str(folder.evidence / "b")])


def test_saving_success_writes_nothing_and_keeps_the_receipt(folder: RunFolder) -> None:
    give_receipt(folder, "a")
    before = receipts.path_of(folder, "tables").read_bytes()
    found = manager(folder)
    found.save_success(task(folder, "a"))
    found.close()
    assert receipts.path_of(folder, "tables").read_bytes() == before


def test_a_failed_task_has_not_happened(folder: RunFolder) -> None:
    give_receipt(folder, "a")
    manager(folder).remove_success(task(folder, "a"))
    assert receipts.read(folder, "tables") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"{}", b'{"run": "r1", "stage": "gate"}'])
def test_a_damaged_receipt_is_no_receipt(folder: RunFolder, damage: bytes) -> None:
    give_receipt(folder, "a")
    receipts.path_of(folder, "tables").write_bytes(damage)
    assert receipts.read(folder, "tables") is None
    assert status(folder, "a")[0] == "run"


def test_a_receipt_of_another_run_is_no_receipt(folder: RunFolder) -> None:
    give_receipt(folder, "a")
    other = RunFolder(folder.root.parent / "r2")
    other.stages.mkdir(parents=True)
    receipts.path_of(other, "tables").write_bytes(receipts.path_of(folder, "tables").read_bytes())
    assert receipts.read(other, "tables") is None


def test_names_survive_a_move(folder: RunFolder) -> None:
    """A receipt names files by the run or the project they belong to, so a moved run stays up to date."""
    give_receipt(folder, "a")
    assert list(read_json(receipts.path_of(folder, "tables"))["inputs"]) == ["run:evidence/a"]
    for path in (folder.evidence / "a", receipts.PROJECT / "dodo.py", Path("/etc/hostname")):
        assert receipts.locate(receipts.name_of(path, folder), folder) == path.absolute()
