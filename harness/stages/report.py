"""Report: the page for people, made for every verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.files import read_json
from harness.graph import receipts
from harness.runs import RunFolder


def reads(folder: RunFolder) -> list[Path]:
    """The gate's receipt and the tables."""
    return [receipts.path_of(folder, "gate"), folder.tables_index]


def makes(folder: RunFolder) -> list[Path]:
    """The page."""
    return [folder.report]


def work(folder: RunFolder) -> dict[str, Any]:
    """Write the page of the verdict that stands."""
    from harness import report

    receipt = receipts.read(folder, "gate")
    verdict = read_json(folder.verdicts / receipt.outcome["verdict"]) if receipt else {}
    report.write(folder, verdict)
    return {"summary": str(folder.report)}
