"""The claim of a run's one load: a file that is made exclusively before the first dispatch, and never removed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from harness.errors import LoadError
from harness.files import fsync_folder, read_json, utc_stamp, write_json
from harness.processes import own_identity


def check_unclaimed(path: Path) -> None:
    """Raise LoadError when the load was claimed before."""
    if path.exists():
        raise _claimed(path)


def claim_load(path: Path, *, start_unix_ns: int, duration_s: int) -> None:
    """Claim the load: ``path`` appears whole or not at all, and only for the first who asks.

    Raises LoadError when somebody was first and OSError when it cannot be written.
    """
    claim = {
        "schema": 1,
        **own_identity().to_json(),
        "claimed_at": utc_stamp(),
        "start_unix_ns": start_unix_ns,
        "duration_s": duration_s,
        "ends_unix_s": start_unix_ns / 1e9 + duration_s,
    }
    whole = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        write_json(whole, claim)
        os.link(whole, path)  # exclusive like O_EXCL, and no reader ever sees an empty claim
        fsync_folder(path.parent)
    except FileExistsError:
        raise _claimed(path) from None
    finally:
        whole.unlink(missing_ok=True)


def _claimed(path: Path) -> LoadError:
    try:
        claim: dict[str, Any] = read_json(path)
        by = f" by process {claim['pid']} at {claim['claimed_at']}"
    except (OSError, ValueError, KeyError, TypeError):
        by = ""
    return LoadError(f"{path}: the one load of this run was claimed{by} and is never started twice; start a new run")
