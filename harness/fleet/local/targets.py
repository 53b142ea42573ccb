"""The targets: each a number of server processes, started, drained, restarted after a crash, slowed, stopped."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from harness.children import python_module
from harness.errors import FleetError
from harness.files import write_json
from harness.fleet.local.children import Child
from harness.fleet.local.config import TargetConfig
from harness.fleet.local.endpoints import write_endpoints
from harness.fleet.local.ground import Ground, last_line, wait_for_file

READY_LIMIT_S = 20.0
CRASH_RESTART_S = 0.5
END_MARGIN_S = 5.0


class Replica:
    """One server process of a target. Each start has an address of its own, so that old and new are told apart."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.starts = 0
        self.child: Child | None = None
        self.address = ""
        self.in_service = True

    @property
    def running(self) -> bool:
        """True while its process runs."""
        return self.child is not None and self.child.running


class Target:
    """One target with its replicas and the endpoints file that the proxies watch."""

    def __init__(self, ground: Ground, config: TargetConfig, endpoints: Path) -> None:
        self.ground = ground
        self.config = config
        self.endpoints = endpoints
        self.replicas = [Replica(index) for index in range(ground.config.replicas)]
        self.stopped = False
        self.serving_config = ground.config.live / f"target-{config.name}.json"

    @property
    def name(self) -> str:
        """The target's name."""
        return self.config.name

    @property
    def addresses(self) -> list[str]:
        """The addresses of the replicas that are in service."""
        return [replica.address for replica in self.replicas if replica.in_service and replica.address]

    def publish(self) -> None:
        """Tell the proxies which replicas are in service."""
        write_endpoints(self.endpoints, self.name, self.addresses)

    async def start_replica(self, replica: Replica) -> None:
        """Start one server and wait until it listens. Raises FleetError."""
        replica.starts += 1
        sockets = self.ground.config.socket_dir
        stem = f"{self.name}-{replica.index}.{replica.starts}"
        address_file = sockets / f"{stem}.address"
        listen = f"unix:{sockets / stem}.sock" if self.config.over_unix_socket else f"127.0.2.{replica.index + 1}:0"
        log = f"target-{self.name}-{replica.index}.log"
        child = self.ground.spawn(
            python_module(
                "harness.fleet.local.target",
                "--name", self.name,
                "--replica", str(replica.index),
                "--listen", listen,
                "--config", str(self.serving_config),
                "--address-file", str(address_file),
                "--drain-s", f"{self.ground.config.target_drain_s:g}",
            ),
            name=f"target-{self.name}-{replica.index}",
            kind="target",
            log=log,
            on_exit=lambda child: self._exited(replica, child),
        )  # fmt: skip
        replica.child = child
        try:
            replica.address = await wait_for_file(address_file, child, READY_LIMIT_S)
        except FleetError as error:
            await child.end_at_once()
            raise FleetError(f"{error}: {last_line(self.ground.log_tail(log))}", target=self.name) from error

    async def end_replica(self, replica: Replica) -> None:
        """Drain and end one server; it has the drain time, then the time of what is in flight."""
        if replica.child is not None:
            config = self.ground.config
            await replica.child.end(config.target_drain_s + config.request_timeout_s + END_MARGIN_S)

    def _exited(self, replica: Replica, child: Child) -> None:
        if child.expected or self.ground.closing or self.stopped or child is not replica.child or not replica.address:
            return
        self.ground.note(f"{child.name} ended unasked with status {child.exit_status}; it is started again")
        self.ground.in_background(self._restart_after_crash(replica))

    async def _restart_after_crash(self, replica: Replica) -> None:
        await asyncio.sleep(CRASH_RESTART_S)
        await self.start_replica(replica)
        self.publish()
        self.ground.note(f"target-{self.name}-{replica.index} serves again on {replica.address}")

    def set_delay(self, delay_ms: float) -> None:
        """From now on every answer waits ``delay_ms``, also those of replicas started later."""
        write_json(self.serving_config, {"delay_ms": delay_ms})
        for replica in self.replicas:
            if replica.child is not None:
                replica.child.signal(signal.SIGHUP)

    async def stop_all(self) -> None:
        """Every replica ends at once, without a drain; the proxies keep its address, as if nobody had noticed."""
        self.stopped = True
        for replica in self.replicas:
            if replica.child is not None:
                await replica.child.end_at_once()

    async def start_all_again(self) -> None:
        """The end of ``stop_all``. Raises FleetError."""
        await asyncio.gather(*(self.start_replica(replica) for replica in self.replicas if not replica.running))
        self.publish()
        self.stopped = False
