"""The engines: one process per node that sends the node's load through the node's proxy."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from harness.children import python_module
from harness.errors import FleetError
from harness.fleet.local.children import Child
from harness.fleet.local.ground import Ground, last_line, wait_for_file
from harness.fleet.local.proxies import Proxy

READY_LIMIT_S = 20.0
HELLO_LIMIT_S = 5.0
LIFETIME_MARGIN_S = 300.0
STOP_GRACE_S = 5.0


class Engine:
    """One node's engine. It is never started again: its load would be gone."""

    def __init__(self, ground: Ground, proxy: Proxy) -> None:
        self.ground = ground
        self.proxy = proxy
        self.node = proxy.node
        self.child: Child | None = None
        self.backend: str | None = None

    async def start(self) -> None:
        """Start it and wait for its greeting. Raises FleetError."""
        config = self.ground.config
        address_file = config.socket_dir / f"{self.node.name}.engine"
        log = f"engine-{self.node.name}.log"
        lifetime_s = config.settle_s + config.load_limit_s + LIFETIME_MARGIN_S
        self.child = self.ground.spawn(
            python_module(
                "harness.engine",
                "--listen", f"{self.node.address}:0",
                "--name", self.node.name,
                "--proxy", self.proxy.address,
                "--max-executions", str(config.max_executions),
                "--address-file", str(address_file),
                "--lifetime-s", f"{lifetime_s:.0f}",
                "--log", str(config.live / log),
            ),
            name=self.node.engine_name,
            kind="engine",
            node=self.node.name,
            log=log,
            on_exit=self._exited,
        )  # fmt: skip
        try:
            self.backend = await wait_for_file(address_file, self.child, READY_LIMIT_S)
            await self._greet(self.backend)
        except (FleetError, OSError, ValueError) as error:
            raise FleetError(
                f"the engine of {self.node.name} is not ready: {error} ({last_line(self.ground.log_tail(log))})",
                node=self.node.name,
            ) from error

    async def _greet(self, backend: str) -> dict[str, Any]:
        ip, _, port = backend.rpartition(":")
        async with asyncio.timeout(HELLO_LIMIT_S):
            reader, writer = await asyncio.open_connection(ip, int(port))
            try:
                hello: dict[str, Any] = json.loads(await reader.readline())
            finally:
                writer.close()
        if hello.get("type") != "hello":
            raise ValueError(f"{backend} greeted with {hello.get('type')!r}")
        return hello

    def _exited(self, child: Child) -> None:
        if not child.expected and not self.ground.closing:
            self.ground.note(f"{child.name} ended unasked with status {child.exit_status}; its load is gone")

    async def stop(self) -> None:
        """End it in order."""
        if self.child is not None:
            await self.child.end(STOP_GRACE_S)
