"""What every process of the fleet uses: a line per process every few seconds in resources.jsonl."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

from harness.files import LineLog, utc_stamp
from harness.fleet.local.children import Child

INTERVAL_S = 5.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def usage(pid: int) -> tuple[float, int] | None:
    """CPU seconds (user + system, cumulative) and resident bytes of a process; None when it is gone.

    Fields 14, 15 and 24 of /proc/PID/stat, proc(5).
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S, int(fields[21]) * _PAGE_BYTES


class Sampler:
    """Appends samples of the supervisor and its running children."""

    def __init__(self, path: Path, children: Callable[[], list[Child]]) -> None:
        self._log = LineLog(path, durable=False)
        self._children = children

    async def run(self) -> None:
        """Sample until cancelled. Raises OSError on a full disk."""
        while True:
            self.sample()
            await asyncio.sleep(INTERVAL_S)

    def sample(self) -> None:
        """One line per process. Raises OSError on a full disk."""
        at = utc_stamp()
        self._line(at, "supervisor", "supervisor", None, os.getpid())
        for child in self._children():
            if child.running:
                self._line(at, child.name, child.kind, child.node, child.identity.pid)

    def _line(self, at: str, name: str, kind: str, node: str | None, pid: int) -> None:
        used = usage(pid)
        if used is not None:
            cpu_s, rss_bytes = used
            line = {"at": at, "name": name, "kind": kind, "node": node, "pid": pid}
            self._log.write(json.dumps(line | {"cpu_s": cpu_s, "rss_bytes": rss_bytes}))
