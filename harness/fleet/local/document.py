"""fleet.json: what the fleet is and how it stands, kept true by the supervisor and believed by everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.files import write_atomic, write_json

COALESCE_S = 0.1
RESERVE_BYTES = 256 * 1024
STATES = ("starting", "ready", "loading", "draining", "stopped", "failed")
OVER = ("stopped", "failed")


class FleetDocument:
    """Writes fleet.json: at once for a change of state, within 0.1 s for everything else.

    A reserve on the disk is given back when the disk is full, so that the reason still finds room.
    """

    def __init__(self, path: Path, contents: Callable[[], dict[str, Any]]) -> None:
        self.state = "starting"
        self.reason = ""
        self._path = path
        self._reserve = path.with_name(".reserve")
        self._contents = contents
        self._changed = asyncio.Event()
        write_atomic(self._reserve, bytes(RESERVE_BYTES))

    def changed(self) -> None:
        """Something in the contents is different now."""
        self._changed.set()

    def set_state(self, state: str, reason: str = "") -> None:
        """Enter a state and write it. Raises OSError on a full disk, except for the two last states."""
        self.state, self.reason = state, reason
        if state in OVER:
            self._reserve.unlink(missing_ok=True)
        self.save()

    def save(self) -> None:
        """Write the file now. Raises OSError on a full disk."""
        self._changed.clear()
        write_json(self._path, {"schema": 1, "state": self.state, "reason": self.reason} | self._contents())

    async def keep(self) -> None:
        """Write after every change until cancelled. Raises OSError on a full disk."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(COALESCE_S)
            self.save()
