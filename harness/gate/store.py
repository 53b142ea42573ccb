"""Verdicts on disk: one file per grading, numbered in order, sealed, none ever written over."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any
from uuid import uuid4

from harness.errors import EvidenceError, StageError
from harness.files import fsync_folder, read_json, sha256_text, utc_stamp, write_atomic
from harness.gate.text import render
from harness.gate.verdict import Verdict

NAME = re.compile(r"([0-9]{6}|[1-9][0-9]{6,})-[0-9]{8}T[0-9]{9}Z\.json")
SEAL = "seal"


def append(verdicts: Path, verdict: Verdict, tables_digest: str) -> Path:
    """Store the grading of a soak and return its file, see ``store``."""
    return store(verdicts, verdict.to_json(), render(verdict), tables_digest)


def store(verdicts: Path, verdict: dict[str, Any], lines: list[str], tables_digest: str) -> Path:
    """Store a grading, as JSON and as text with the verdict line last, and return its file.

    Beside the verdict's own JSON it holds ``graded_at``, ``tables_sha256``, ``verdict_line`` and ``lines``, so that a
    verdict can be repeated without grading, and what ``sealed`` adds. Raises OSError when the disk is full; nothing
    half is left then.
    """
    verdicts.mkdir(parents=True, exist_ok=True)
    if verdicts.is_symlink():
        raise StageError(f"{verdicts} is a link, and a verdict is kept in its run's own folder; put a folder there")
    now = utc_stamp()
    document = verdict | {
        "graded_at": now,
        "tables_sha256": tables_digest,
        "verdict_line": lines[-1],
        "lines": lines,
    }
    stamp = re.sub(r"[-:.]", "", now)
    while not (path := _stored_under(_last_number(verdicts) + 1, stamp, document, verdicts)):
        pass
    fsync_folder(verdicts)
    return path


def _stored_under(number: int, stamp: str, document: dict[str, Any], verdicts: Path) -> Path | None:
    """Write the document under a number, None where it is taken: a link then fails, a rename would write it over."""
    path = verdicts / f"{number:06d}-{stamp}.json"
    whole = verdicts / f".{uuid4().hex}.whole"
    write_atomic(whole, sealed(document, path.name))
    try:
        path.hardlink_to(whole)
    except FileExistsError:
        return None
    finally:
        whole.unlink(missing_ok=True)
    return path


def sealed(document: dict[str, Any], file: str) -> str:
    """The document as one line of canonical JSON, with the name of its ``file`` and, last, the SHA-256 of all before.

    The seal shows a document that was changed, and the name one that was copied to where a newer one would stand.
    """
    text = _canonical({**document, "file": file})
    return f'{text[:-1]},"{SEAL}":"{sha256_text(text)}"}}\n'


def _canonical(content: dict[str, Any]) -> str:
    """JSON in ASCII, without spaces, keys as they come: read and written again, it is the same text."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _last_number(verdicts: Path) -> int:
    return max((_number(path) for path in stored(verdicts)), default=0)


def _number(path: Path) -> int:
    return int(path.name.partition("-")[0])


def stored(verdicts: Path) -> list[Path]:
    """Every grading's file, oldest first, whatever is in it."""
    if not verdicts.is_dir():
        return []
    found = (path for path in verdicts.iterdir() if NAME.fullmatch(path.name))
    return sorted(found, key=lambda path: (_number(path), path.name))


def read(path: Path) -> dict[str, Any]:
    """The grading in a file. Raises EvidenceError when it is none, or is not what was stored under this name."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise EvidenceError(f"{path.name} is no regular file, so it is no verdict; remove it and grade again")
        document = read_json(path)
        content = {key: value for key, value in document.items() if key != SEAL}
        whole = document.get(SEAL) == sha256_text(_canonical(content))
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise EvidenceError(f"{path.name} cannot be read as a verdict; grade again") from error
    if not whole or "verdict" not in content:
        raise EvidenceError(f"{path.name} was changed after it was stored; grade again")
    if content.get("file") != path.name:
        raise EvidenceError(f"{path.name} is a copy of an earlier verdict under a new name; grade again")
    return content


def latest(verdicts: Path) -> dict[str, Any] | None:
    """The newest grading by its number, None when there is none.

    Raises EvidenceError when its file was damaged or planted: an earlier one never silently takes its place.
    """
    found = stored(verdicts)
    return read(found[-1]) if found else None
