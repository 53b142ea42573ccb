"""The parts of a fleet and their order: targets, proxies, engines up; engines, proxies, targets down."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from harness.errors import FleetError
from harness.files import write_atomic, write_json
from harness.fleet.local.engines import Engine
from harness.fleet.local.ground import Ground
from harness.fleet.local.http import get
from harness.fleet.local.proxies import Proxy
from harness.fleet.local.targets import Target

AT_ONCE = 4  # more processes starting at once only wait for each other on a small machine
PROBE_LIMIT_S = 10.0
PROBE_PATH = "/readiness"  # tells these few requests from the load's in the access logs


async def all_of(work: Iterable[Coroutine[Any, Any, None]], *, at_once: int = AT_ONCE) -> None:
    """Run all, ``at_once`` at a time. The first error cancels the others and is raised as itself."""
    gate = asyncio.Semaphore(at_once)

    async def through_gate(one: Coroutine[Any, Any, None]) -> None:
        async with gate:
            await one

    jobs = list(work)
    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(through_gate(job))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    finally:
        for job in jobs:
            job.close()  # one that never came through the gate


class Fleet:
    """All parts of one run's fleet."""

    def __init__(self, ground: Ground) -> None:
        config = ground.config
        self.ground = ground
        self.endpoints: Path = config.live / "endpoints"
        self.targets = {target.name: Target(ground, target, self.endpoints) for target in config.targets}
        self.proxies = {node.name: Proxy(ground, node, self.endpoints) for node in config.nodes}
        self.engines = {name: Engine(ground, proxy) for name, proxy in self.proxies.items()}
        self._engines_ready = 0
        self._proxies_ready = 0

    async def start(self) -> None:
        """Start everything and see a real request through every proxy to every target. Raises FleetError."""
        self.endpoints.mkdir(exist_ok=True)
        for target in self.targets.values():
            write_json(target.serving_config, {"delay_ms": 0})
        pairs = [(target, replica) for target in self.targets.values() for replica in target.replicas]
        await all_of(target.start_replica(replica) for target, replica in pairs)
        for target in self.targets.values():
            target.publish()
        await all_of((proxy.start() for proxy in self.proxies.values()), at_once=2)
        await all_of(self._probe(proxy) for proxy in self.proxies.values())
        await all_of(self._start_engine(engine) for engine in self.engines.values())
        rows = sorted(f"{node.address}\t{node.name}\t{node.engine_name}\n" for node in self.ground.config.nodes)
        write_atomic(self.ground.config.folder.engines, "".join(rows))

    async def _start_engine(self, engine: Engine) -> None:
        await engine.start()
        self._engines_ready += 1

    async def _probe(self, proxy: Proxy) -> None:
        for target in self.targets.values():
            try:
                status, _ = await get(proxy.address, PROBE_PATH, host=target.config.authority, limit_s=PROBE_LIMIT_S)
            except OSError as error:
                status, why = 0, f"no answer ({error or 'timed out'})"
            else:
                why = f"status {status}"
            if status != 200:
                raise FleetError(
                    f"a request through the proxy of {proxy.node.name} to {target.name} got {why}, not 200",
                    target=target.name,
                    node=proxy.node.name,
                )
        self._proxies_ready += 1
        self.ground.changed()

    def readiness(self) -> dict[str, list[int]]:
        """Kind → [ready, wanted], as seen at the start."""
        replicas = [replica for target in self.targets.values() for replica in target.replicas]
        return {
            "targets": [sum(bool(replica.address) for replica in replicas), len(replicas)],
            "proxies": [self._proxies_ready, len(self.proxies)],
            "engines": [self._engines_ready, len(self.engines)],
        }

    async def stop(self) -> None:
        """End everything in order. Whatever cannot be ended in order is killed; nothing is left."""
        for proxy in self.proxies.values():
            if proxy.ready and not proxy.frozen:
                await proxy.note_stats()
        await asyncio.gather(*(engine.stop() for engine in self.engines.values()))
        await asyncio.gather(*(proxy.stop() for proxy in self.proxies.values()))
        replicas = [(target, replica) for target in self.targets.values() for replica in target.replicas]
        await asyncio.gather(*(target.end_replica(replica) for target, replica in replicas))
        await asyncio.gather(*(child.end(2.0) for child in self.ground.children if child.running))
