"""Evidence that a test put there, as an adoption leaves it: the list of digests, the mark, and the receipt."""

from __future__ import annotations

from harness.files import read_json, sha256_file, write_json
from harness.graph import receipts
from harness.runs import SAVED, SUMS, RunFolder
from harness.store.columns import SOAK
from harness.store.schemas import schema_of


def seal(folder: RunFolder) -> RunFolder:
    """Write all that says of the evidence as it is now that it was adopted; returns the folder."""
    names = sorted(path.name for path in folder.evidence.iterdir() if path.name not in (SAVED, SUMS))
    folder.sums.write_text("".join(f"{sha256_file(folder.evidence / name)}  {name}\n" for name in names))
    folder.saved.write_text("")
    return adopted(folder)


def adopted(folder: RunFolder) -> RunFolder:
    """Write the receipt of an adoption of what is sealed already; returns the folder."""
    write_json(folder.adopted, {"schema": 1, "run": folder.run})
    outputs = receipts.digests([folder.sums, folder.saved], folder)
    now = "2026-11-30T12:00:00.000Z"
    receipts.write(folder, "save", inputs={}, outputs=outputs, outcome={"format": "sortie"}, started_at=now)
    return folder


def made_now(folder: RunFolder) -> None:
    """Say in the index of a soak's tables, written by hand, that they have the columns of today."""
    write_json(folder.tables_index, read_json(folder.tables_index) | {"kind": SOAK, "schema_sha256": schema_of(SOAK)})
