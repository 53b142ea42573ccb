"""A log of one process: an earlier one is moved aside, never continued, so that nothing in it counts twice."""

from __future__ import annotations

from pathlib import Path

from harness.files import utc_stamp


def archive(path: Path) -> Path | None:
    """Move an earlier log to ``<name>.<stamp>.prev``; None when there was none, or an empty one. Raises OSError."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    stamp = utc_stamp().replace(":", "").replace("-", "")
    number = 0
    while (earlier := path.with_name(f"{path.name}.{stamp}{f'.{number}' if number else ''}.prev")).exists():
        number += 1
    path.rename(earlier)
    return earlier
