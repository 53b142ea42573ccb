"""What CI reads of a verdict, written where it was asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.files import write_atomic
from harness.gate.verdict import Verdict
from harness.terminal import printable

if TYPE_CHECKING:
    from harness.e8.verdict import LadderVerdict


def publish(
    verdict: Verdict | LadderVerdict,
    *,
    junit_file: Path | None = None,
    markdown_file: Path | None = None,
    tables_sha256: str | None = None,
    beside: Sequence[str] = (),
) -> list[str]:
    """Write the files that were asked for; returns, for each one that could not be, that and why.

    A file is written whole, in the place of one that was there. The step summary of GitHub (``$GITHUB_STEP_SUMMARY``)
    is appended to: other steps' lines are in it.
    """
    troubles = []
    if junit_file is not None:
        troubles.append(_written(junit_file, _junit(verdict, tables_sha256, beside)))
    if markdown_file is not None:
        from harness.ci.markdown import LIMIT_BYTES

        if _is_step_summary(markdown_file):
            held = markdown_file.stat().st_size if markdown_file.is_file() else 0
            text = _markdown(verdict, beside, LIMIT_BYTES - held)
            troubles.append(_written(markdown_file, text, append=True))
        else:
            troubles.append(_written(markdown_file, _markdown(verdict, beside, LIMIT_BYTES)))
    return [trouble for trouble in troubles if trouble]


def _junit(verdict: Verdict | LadderVerdict, tables_sha256: str | None, beside: Sequence[str]) -> str:
    if isinstance(verdict, Verdict):
        from harness.ci.junit import junit

        return junit(verdict, tables_sha256=tables_sha256, beside=beside)
    from harness.ci.ladder_junit import ladder_junit

    return ladder_junit(verdict, tables_sha256=tables_sha256, beside=beside)


def _markdown(verdict: Verdict | LadderVerdict, beside: Sequence[str], limit_bytes: int) -> str:
    if isinstance(verdict, Verdict):
        from harness.ci.markdown import markdown

        return markdown(verdict, beside=beside, limit_bytes=limit_bytes)
    from harness.ci.ladder_markdown import ladder_markdown

    return ladder_markdown(verdict, beside=beside, limit_bytes=limit_bytes)


def _is_step_summary(path: Path) -> bool:
    named = os.environ.get("GITHUB_STEP_SUMMARY")
    try:
        return bool(named) and (path == Path(str(named)) or path.samefile(str(named)))
    except (OSError, ValueError):  # one of them is not there: then they are two
        return False


def _written(path: Path, text: str, *, append: bool = False) -> str | None:
    """Write, or say why not. A device or a pipe is never replaced by a file; a link is followed."""
    try:
        place = path.resolve()
        if place.exists() and not place.is_file():
            return f"{printable(str(path))} cannot be written (it is no regular file)"
        if append:
            _append(place, text)
        else:
            write_atomic(place, text)
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name; links that lead in a circle
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return f"{printable(str(path))} cannot be written ({reason})"
    return None


def _append(path: Path, text: str) -> None:
    """Append a block of its own, and wait until it is on disk."""
    with path.open("a+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.write((("\n" if size else "") + text).encode())
        file.flush()
        os.fsync(file.fileno())
