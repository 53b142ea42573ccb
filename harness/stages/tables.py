"""Tables: Parquet from the evidence. Damaged evidence makes no table, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.files import sha256_file
from harness.graph import receipts
from harness.graph.receipts import PROJECT
from harness.runs import RunFolder
from harness.store import made
from harness.store.columns import LADDER
from harness.store.kinds import kind_of_run
from harness.store.ladder_files import WORKLOAD_FILE
from harness.store.sums import list_entries, read_sums, shown, unlisted, verify_sums


def reads(folder: RunFolder) -> list[Path]:
    """Every saved file, so that one changed byte is noticed, and the code that makes tables of them."""
    code = sorted((PROJECT / "harness" / "store").rglob("*.py"))
    if kind_of_run(folder) == LADDER:
        code += [PROJECT / "harness" / "e8" / name for name in ("record.py", "reading.py")]
    saved = [folder.evidence / name for name, is_file in _entries(folder).items() if is_file]
    return [*(sorted(saved) or [folder.sums]), *code]


def _entries(folder: RunFolder) -> dict[str, bool]:
    try:
        return list_entries(folder.evidence)
    except EvidenceError:  # gone, or a link: the seal says so
        return {}


def intact(folder: RunFolder) -> str | None:
    """Why the tables have to be made again although every listed file is as it was: something was added."""
    try:
        added = unlisted(_entries(folder), read_sums(folder.sums))
    except EvidenceError as error:
        return str(error)
    return f"evidence holds what was not saved: {', '.join(map(shown, added))}" if added else None


def makes(folder: RunFolder) -> list[Path]:
    """The tables and their index, as far as they are there."""
    return sorted({folder.tables_index, *folder.tables.glob("*.parquet")})


def work(folder: RunFolder) -> dict[str, Any]:
    """Build the tables and their index. Evidence that cannot be read is recorded as refused: the gate says why.

    Raises EvidenceError for a run that was never saved whole: there is nothing to grade, and nothing is recorded.
    """
    index = made.make_tables(folder, seal=check_seal)
    tables, refused = index["tables"], index["refused"]
    rows = sum(table["rows"] for table in tables.values())
    return {"summary": refused or f"{len(tables)} tables, {rows:,} rows", "refused": refused}


def check_seal(folder: RunFolder) -> None:
    """Raise EvidenceError unless the evidence is what the stages before saw, digest for digest.

    The list of digests must be there and be the one that ``save`` (or an adoption) wrote; what earlier stages made
    (run.json, plan, pins, engines, report, rungs) must stand in it with the digest that their receipts hold, and of a
    run that was not adopted none of these receipts may be missing.
    """
    if not folder.sums.is_file():
        raise EvidenceError(f"{folder.sums} is gone: without it the evidence proves nothing")
    _check_receipts(folder)
    saved = receipts.read(folder, "save")
    if saved is None or saved.outputs.get(receipts.name_of(folder.sums, folder)) != sha256_file(folder.sums):
        raise EvidenceError(f"{folder.sums} is not the list that was saved: the evidence proves nothing")
    sums = verify_sums(folder.evidence)
    for stage in filter(receipts.is_live, receipts.done(folder)):
        receipt = receipts.read(folder, stage)
        for name, digest in receipt.outputs.items() if receipt else ():
            file = name.rpartition("/")[2].removeprefix("run:")
            if sums.get(file) != digest:
                raise EvidenceError(f"{file} in {folder.evidence} is not the one that stage {stage} made")


def _check_receipts(folder: RunFolder) -> None:
    """Every run was either adopted, which leaves one receipt, or made here, stage by stage.

    A receipt that is gone is no reason to ask less: deleting is easier than forging.
    """
    if folder.adopted.exists():
        saved = receipts.read(folder, "save")
        if saved is None or "format" not in saved.outcome:  # that of ./doit, which saves again what it finds
            raise EvidenceError(
                f"the receipt of how {folder.run} was adopted is gone or damaged, so nothing says that its evidence is "
                "what was saved; put it back, or adopt the run again from where it came"
            )
        return
    missing = [stage for stage in _stages_made(folder) if receipts.read(folder, stage) is None]
    if not missing:
        return
    files = ", ".join(receipts.path_of(folder, stage).name for stage in missing[:4])
    more = f" and {len(missing) - 4} more" if missing[4:] else ""
    again = f"./doit gate:{folder.run} proves it by the receipts of its stages, or " if missing == ["save"] else ""
    raise EvidenceError(
        f"{folder.stages} lacks the receipt{'s'[: len(missing) - 1]} {files}{more} (gone or damaged), so nothing says "
        f"that the evidence is what was saved; put back what is missing, or {again}take the evidence into another runs "
        f"folder as somebody's: harness adopt {folder.evidence} --runs FOLDER"
    )


def _stages_made(folder: RunFolder) -> list[str]:
    """The stages that a run that was made here, and is saved, has receipts of: those that left evidence.

    A soak that was torn down may be saved without that of its load: who followed the load was gone when it ended.
    """
    if kind_of_run(folder) == LADDER:
        rungs = sorted(path.stem for path in folder.evidence.glob("c*.json") if receipts.is_rung(path.stem))
        prepared = rungs or (folder.evidence / WORKLOAD_FILE).exists() or not folder.closed.exists()
        return ["plan", "pins", *(["workload"] if prepared else []), *rungs, "save"]
    return ["plan", "pins", "engines", *([] if folder.closed.exists() else ["load"]), "save"]
