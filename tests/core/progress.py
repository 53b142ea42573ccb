"""What a ladder that is climbed has in its progress.json."""

from __future__ import annotations

from typing import Any

LADDER_SEEN: dict[str, Any] = {
    "kind": "e8",
    "arm": "capacity",
    "rung": "c8",
    "c": 8,
    "planned_turns": 2400,
    "attempts": 1200,
    "ok": 1199,
    "elapsed_s": 3.2,
    "rungs_done": ["c1", "c2", "c4"],
    "rungs_planned": ["c1", "c2", "c4", "c8"],
    "complete": True,
}
