"""Verdicts on disk: one file per grading, its name sorts by time, none is ever written over."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

from harness.errors import EvidenceError
from harness.files import fsync_folder, read_json, utc_stamp, write_atomic
from harness.gate.text import render
from harness.gate.verdict import Verdict

NAME = re.compile(r"(\d{6})-\d{8}T\d{9}Z\.json")


def append(verdicts: Path, verdict: Verdict, tables_digest: str) -> Path:
    """Store a grading and return its file.

    Beside the verdict's own JSON it holds ``graded_at``, ``tables_sha256``, ``verdict_line`` and ``lines``, so that a
    verdict can be repeated without grading. Raises OSError when the disk is full; nothing half is left then.
    """
    verdicts.mkdir(parents=True, exist_ok=True)
    now = utc_stamp()
    lines = render(verdict)
    document = verdict.to_json() | {
        "graded_at": now,
        "tables_sha256": tables_digest,
        "verdict_line": lines[-1],
        "lines": lines,
    }
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    whole = verdicts / f".{uuid4().hex}.whole"
    write_atomic(whole, text)
    try:
        return _link_under_next_name(whole, verdicts, re.sub(r"[-:.]", "", now))
    finally:
        whole.unlink(missing_ok=True)


def _link_under_next_name(whole: Path, verdicts: Path, stamp: str) -> Path:
    """Give the finished file the next free number: a link fails where a name is taken, a rename would write it over."""
    while True:
        path = verdicts / f"{_last_number(verdicts) + 1:06d}-{stamp}.json"
        try:
            path.hardlink_to(whole)
        except FileExistsError:
            continue
        fsync_folder(verdicts)
        return path


def _last_number(verdicts: Path) -> int:
    return max((int(match[1]) for path in verdicts.iterdir() if (match := NAME.fullmatch(path.name))), default=0)


def stored(verdicts: Path) -> list[Path]:
    """Every grading's file, oldest first."""
    if not verdicts.is_dir():
        return []
    return sorted(path for path in verdicts.iterdir() if NAME.fullmatch(path.name))


def latest(verdicts: Path) -> dict[str, Any] | None:
    """The newest grading, None when there is none. Raises EvidenceError when its file was damaged."""
    found = stored(verdicts)
    if not found:
        return None
    try:
        document = read_json(found[-1])
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{found[-1].name} cannot be read; remove it and grade again") from error
    if not isinstance(document, dict) or "verdict" not in document:
        raise EvidenceError(f"{found[-1].name} is no verdict; remove it and grade again")
    return document
