"""Where a page comes from: the receipts of the run's stages, and the chain of digests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.files import read_json, sha256_file
from harness.report import words
from harness.runs import RunFolder


def receipts(folder: RunFolder) -> list[dict[str, Any]]:
    """One row per stage that has a receipt: what it came to, and the digest of the receipt itself."""
    rows = []
    for path in sorted(folder.stages.glob("*.json")):
        try:
            document = read_json(path)
        except (OSError, ValueError):
            document = None
        if not isinstance(document, dict):
            document = {}
        rows.append(
            {
                "stage": document.get("stage") or path.stem,
                "started_at": document.get("started_at"),
                "ended_at": document.get("ended_at"),
                "who": document.get("who"),
                "summary": (document.get("outcome") or {}).get("summary"),
                "inputs": len(document.get("inputs") or {}),
                "outputs": len(document.get("outputs") or {}),
                "sha256": sha256_file(path),
            }
        )
    return rows


def digests(places: Mapping[str, Sequence[Path]], verdict: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name → SHA-256 of the first of its ``places`` that is there, and the gate's; an absent link is not measured."""
    chain = []
    for name, paths in places.items():
        found = next((path for path in paths if path.is_file()), None)
        chain.append((name, sha256_file(found) if found else words.NOT_MEASURED))
    return [*chain, ("gate (all rules and their loader)", str(verdict.get("gate_sha256") or words.NOT_MEASURED))]
