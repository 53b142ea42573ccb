"""What every part of a running fleet shares: its configuration, the list of its processes, a place for notes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import FleetError
from harness.fleet.local.children import Child, spawn
from harness.fleet.local.config import LocalConfig

LOG_TAIL_BYTES = 4096
POLL_S = 0.02


@dataclass
class Ground:
    """Shared by proxies, targets, engines, rolls and faults. ``changed`` says that fleet.json is out of date."""

    config: LocalConfig
    note: Callable[[str], None]
    changed: Callable[[], None]
    children: list[Child] = field(default_factory=list)
    closing: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def spawn(
        self,
        command: list[str],
        *,
        name: str,
        kind: str,
        node: str | None = None,
        log: str,
        on_exit: Callable[[Child], None],
        dies_with_us: bool = True,
    ) -> Child:
        """Start a process of this run; its output goes to ``log`` in the live folder. Raises FleetError."""
        if self.closing:
            raise FleetError(f"{name} is not started: the fleet is ending")

        def exited(child: Child) -> None:
            self.changed()
            on_exit(child)

        try:
            child = spawn(
                command,
                name=name,
                kind=kind,
                node=node,
                token=self.config.token,
                log=self.config.live / log,
                on_exit=exited,
                dies_with_us=dies_with_us,
            )
        except OSError as error:
            raise FleetError(f"{name} could not be started: {error}", node=node) from error
        self.children.append(child)
        self.changed()
        return child

    def running(self, kind: str) -> list[Child]:
        """The children of a kind that still run."""
        return [child for child in self.children if child.kind == kind and child.running]

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` beside everything else; a FleetError or OSError in it becomes a note."""

        async def guarded() -> None:
            try:
                await work
            except (FleetError, OSError) as error:
                self.note(str(error))

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """From here on nothing is restarted; background work is cancelled."""
        self.closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def log_size(self, log: str) -> int:
        """Bytes in a log so far, 0 when there is none yet."""
        path = self.config.live / log
        return path.stat().st_size if path.exists() else 0

    def log_tail(self, log: str, *, since: int = 0) -> str:
        """The last lines of a log, at most 4 KiB and none from before the byte ``since``, for an error sentence."""
        size = self.log_size(log)
        if size <= since:
            return ""
        with (self.config.live / log).open("rb") as file:
            file.seek(max(since, size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")


async def wait_for_file(path: Path, child: Child, limit_s: float) -> str:
    """The content of ``path`` once ``child`` has written it. Raises FleetError when it ends or stays silent."""
    deadline = time.monotonic() + limit_s
    while not path.exists():
        if not child.running:
            raise FleetError(f"{child.name} ended with status {child.exit_status} before it listened")
        if time.monotonic() > deadline:
            raise FleetError(f"{child.name} did not listen within {limit_s:g} s")
        await asyncio.sleep(POLL_S)
    return path.read_text().strip()


def last_line(text: str) -> str:
    """The last line that is not blank, cut to a readable length."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it wrote nothing"
