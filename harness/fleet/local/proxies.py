"""The node proxies: each an Envoy that is started, hot restarted, started again after a crash, and stopped."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.errors import FleetError
from harness.files import utc_stamp, write_json
from harness.fleet.local import envoy
from harness.fleet.local.children import Child
from harness.fleet.local.config import NodeConfig
from harness.fleet.local.ground import Ground, last_line
from harness.fleet.local.http import get, get_json

READY_LIMIT_S = 20.0
HOT_RESTART_LIMIT_S = 30.0
PARENT_EXIT_MARGIN_S = 10.0
RESTART_MARGIN_S = 2.0
CRASH_RESTART_S = 1.0
CRASH_RESTARTS = 5
STOP_GRACE_S = 3.0
POLL_S = 0.02
PORT_TAKEN = "Address already in use"
STATS = r"^http\.ingress\.downstream_(rq_(total|[1-5]xx|rx_reset)|cx_total)$"


def free_port(address: str) -> int:
    """A TCP port of ``address`` that nobody uses now. Raises FleetError when the address itself is unusable."""
    try:
        with socket.socket() as probe:
            probe.bind((address, 0))
            port: int = probe.getsockname()[1]
            return port
    except OSError as error:
        raise FleetError(f"no port can be used on {address}: {error}") from error


class Proxy:
    """One node's Envoy. ``current`` is the process that takes new connections, ``old`` one that still drains."""

    def __init__(
        self, ground: Ground, node: NodeConfig, endpoints: Path, choose_port: Callable[[str], int] = free_port
    ) -> None:
        self.ground = ground
        self.node = node
        self.endpoints = endpoints
        self.choose_port = choose_port
        self.port = 0
        self.current: Child | None = None
        self.old: Child | None = None
        self.epoch = 0
        self.base_id: int | None = None
        self.frozen = False
        self.ready = False
        self.epochs: list[dict[str, Any]] = []
        self._generation = 0  # counts processes, also over cold restarts
        self._last_restart_s = float("-inf")

    @property
    def name(self) -> str:
        """The process's name in fleet.json."""
        return f"proxy-{self.node.name}"

    @property
    def log(self) -> str:
        """The name of Envoy's own log in the live folder."""
        return f"proxy-{self.node.name}.log"

    @property
    def address(self) -> str:
        """Where the engine connects: ``ip:port``."""
        return f"{self.node.address}:{self.port}"

    @property
    def admin(self) -> Path:
        """The admin socket of the current process; each process has its own."""
        return self._socket_file("admin", self._generation)

    def _socket_file(self, suffix: str, generation: int) -> Path:
        return self.ground.config.socket_dir / f"{self.node.name}.{generation}.{suffix}"

    async def start(self) -> None:
        """First start, on a free port; one more try when somebody takes the port first. Raises FleetError."""
        for attempt in (1, 2):
            self.port = self.choose_port(self.node.address)
            log_start = self.ground.log_size(self.log)
            try:
                await self._cold_start()
            except FleetError:
                if PORT_TAKEN not in self.ground.log_tail(self.log, since=log_start):
                    raise
                if attempt == 2:
                    raise FleetError(
                        f"port {self.port} of {self.node.address} was taken before the proxy of {self.node.name} "
                        "could listen on it, twice in a row; start the run again",
                        node=self.node.name,
                    ) from None
            else:
                return

    async def _cold_start(self) -> None:
        self.epoch, self.base_id = 0, None
        self.current = child = self._spawn(epoch=0)
        await self._wait_ready(child, READY_LIMIT_S)
        self.base_id = int(self._socket_file("base_id", self._generation).read_text())
        self.ready = True
        self.ground.changed()

    def _spawn(self, *, epoch: int) -> Child:
        self._generation += 1
        config = self.ground.config
        file = config.live / f"proxy-{self.node.name}.json"
        write_json(file, envoy.bootstrap(config, self.node, port=self.port, admin=self.admin, endpoints=self.endpoints))
        command = envoy.command(
            config,
            file,
            epoch=epoch,
            base_id_file=self._socket_file("base_id", self._generation),
            base_id=self.base_id,
        )
        child = self.ground.spawn(
            command, name=self.name, kind="proxy", node=self.node.name, log=self.log, on_exit=self._exited
        )
        child.epoch = epoch
        return child

    async def _wait_ready(self, child: Child, limit_s: float, parent: Child | None = None) -> None:
        """Raises FleetError when ``child`` ends, is not ready in time, or waits for a ``parent`` that is gone."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                status, _ = await get(self.admin, "/ready", limit_s=1.0)
                if status == 200:
                    return
            except OSError:
                pass  # not there yet
            if not child.running:
                why = last_line(self.ground.log_tail(self.log))
                raise FleetError(
                    f"the proxy of {self.node.name} ended with status {child.exit_status} at its start: {why}",
                    node=self.node.name,
                )
            if parent is not None and not parent.running:
                await child.end_at_once()
                raise FleetError(
                    f"the proxy of {self.node.name} ended in the middle of its hot restart", node=self.node.name
                )
            if time.monotonic() > deadline:
                await child.end_at_once()
                raise FleetError(
                    f"the proxy of {self.node.name} was not ready within {limit_s:g} s", node=self.node.name
                )
            await asyncio.sleep(POLL_S)

    async def hot_restart(self) -> dict[str, Any]:
        """Replace the process without closing the port; ends when the old process is gone.

        Returns pids, epoch and times in ms. Raises FleetError: too soon after the last one, proxy down, or a failure.
        """
        shutdown_s = self.ground.config.parent_shutdown_s
        await self._keep_distance(shutdown_s + RESTART_MARGIN_S)
        old = self.current
        if old is None or not self.ready:
            raise FleetError(f"the proxy of {self.node.name} is down and cannot be hot restarted", node=self.node.name)
        await self.note_stats()  # the next epoch starts its counters at zero
        began_s = self._last_restart_s = time.monotonic()
        old.expected = True
        new = self._spawn(epoch=self.epoch + 1)
        try:
            await self._wait_ready(new, HOT_RESTART_LIMIT_S, parent=old)
        except FleetError:
            await self._keep(old)
            raise
        self.current, self.old, self.epoch = new, old, self.epoch + 1
        ready_s = time.monotonic()
        if not await old.wait(shutdown_s + PARENT_EXIT_MARGIN_S):
            await old.end_at_once()
            raise FleetError(
                f"the replaced proxy of {self.node.name} did not end by itself and was killed", node=self.node.name
            )
        self.old = None
        self.ground.changed()
        return {
            "old_pid": old.identity.pid,
            "new_pid": new.identity.pid,
            "epoch": self.epoch,
            "ready_ms": round((ready_s - began_s) * 1000),
            "old_gone_ms": round((time.monotonic() - began_s) * 1000),
        }

    async def _keep_distance(self, least_s: float) -> None:
        """Refuse a restart too soon after the last one; wait out what is only a late start of the one before."""
        since_s = time.monotonic() - self._last_restart_s
        if since_s < least_s - RESTART_MARGIN_S:
            raise FleetError(
                f"the proxy of {self.node.name} was restarted {since_s:.1f} s ago; hot restarts of one node must be "
                f"{least_s:g} s apart",
                node=self.node.name,
            )
        await asyncio.sleep(max(0.0, least_s - since_s))

    async def _keep(self, old: Child) -> None:
        """A replacement failed: the old process goes on, or the node is started cold when that one died meanwhile."""
        self._generation -= 1
        if old.running:
            old.expected = False
        else:
            self.ready = False
            self.ground.in_background(self._restart_after_crash())

    async def note_stats(self) -> None:
        """Keep the current process's request counters in fleet.json. A silent admin page is noted, nothing more."""
        try:
            stats = await get_json(self.admin, f"/stats?format=json&filter={STATS}", limit_s=2.0)
        except OSError as error:
            self.ground.note(f"no counters of {self.name} epoch {self.epoch}: {error}")
            return
        named = [stat for stat in stats["stats"] if "name" in stat]
        counters = {stat["name"].removeprefix("http.ingress."): stat["value"] for stat in named}
        self.epochs.append({"epoch": self.epoch, "read_at": utc_stamp(), **counters})
        self.ground.changed()

    def _exited(self, child: Child) -> None:
        if child.expected or self.ground.closing or child is not self.current or not self.ready:
            return
        self.ready = False
        self.ground.note(f"{self.name} ended with status {child.exit_status}; it is started again")
        self.ground.in_background(self._restart_after_crash())

    async def _restart_after_crash(self) -> None:
        if self.old is not None and self.old.running:
            await self.old.end_at_once()  # it still holds the listening socket
        self.old = None
        self._forget_shared_memory()
        for _ in range(CRASH_RESTARTS):
            await asyncio.sleep(CRASH_RESTART_S)
            try:
                await self._cold_start()
            except FleetError as error:
                self.ground.note(str(error))
            else:
                self.ground.note(f"{self.name} serves again on {self.address}")
                return
        self.ground.note(f"{self.name} stays down after {CRASH_RESTARTS} attempts")

    def _forget_shared_memory(self) -> None:
        """Of every process that this node had, also of one that never became ready."""
        for noted in self.ground.config.socket_dir.glob(f"{self.node.name}.*.base_id"):
            if (text := noted.read_text().strip()).isdigit():
                envoy.remove_shared_memory(int(text))
            noted.unlink()

    async def stop(self) -> None:
        """End every process of this node and remove what it left in shared memory."""
        for child in (self.old, self.current):
            if child is not None and child.running:
                await child.end(STOP_GRACE_S)
        self.ready = False
        self._forget_shared_memory()

    def recorded(self, engine_backend: str | None) -> dict[str, Any]:
        """The node's entry in fleet.json."""
        return {
            "node": self.node.name,
            "proxy_address": self.address if self.port else None,
            "proxy_admin": str(self.admin),
            "proxy_base_id": self.base_id,
            "proxy_epochs": self.epochs,
            "engine_backend": engine_backend,
            "engine_name": self.node.engine_name,
        }
