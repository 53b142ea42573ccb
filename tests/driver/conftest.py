"""A stand-in engine that follows a script, so that a driver meets every way an engine can misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.driver.evidence import Evidence, Files
from harness.driver.load import Limits, Load
from harness.plan.model import Plan, PlannedTarget
from harness.runs import RunFolder
from harness.sortie.report import Execution
from harness.sortie.thresholds import parse_thresholds

Script = Callable[["Conversation"], Awaitable[None]]
QUICK = Limits(timeout_s=0.1, drain_s=0.0, grace_s=0.2, reach_s=0.5, answer_s=0.2, cancel_s=0.5)


class Conversation:
    """One driver's connection, seen from the stand-in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.received: list[dict[str, Any]] = []

    def send(self, **message: Any) -> None:
        self.writer.write(json.dumps(message).encode() + b"\n")

    def hello(self) -> None:
        self.send(type="hello", name="stand-in", version="0", max_executions=16, pid=1)

    async def receive(self) -> dict[str, Any]:
        """The next command; IncompleteReadError when the driver is gone."""
        message = json.loads(await self.reader.readuntil(b"\n"))
        self.received.append(message)
        return message

    async def starts(self, count: int = 2) -> list[dict[str, Any]]:
        """Say hello and accept ``count`` starts."""
        self.hello()
        starts = [await self.receive() for _ in range(count)]
        for start in starts:
            self.send(type="accepted", id=start["id"])
        return starts

    async def until_cancel(self) -> None:
        while (await self.receive())["type"] != "cancel":
            pass

    def result(
        self, start: dict[str, Any], *, elapsed_ms: int | None = None, cancelled: bool = False, **counters: int
    ) -> None:
        """Answer a start as an engine that sent everything and saw only 2xx, but for what is given."""
        execution = start["execution"]
        planned = execution["rate_rps"] * execution["duration_s"]
        seen = {"http_2xx": planned} | counters
        self.send(
            type="result",
            id=start["id"],
            elapsed_ms=execution["duration_s"] * 1000 if elapsed_ms is None else elapsed_ms,
            started_at="2026-01-01T00:00:00.000Z",
            counters={f"benchmark.{name}": value for name, value in seen.items() if value},
            statistics={
                "benchmark_http_client.latency_2xx": {
                    "count": planned,
                    "unit": "ns",
                    "mean": 2_000_000.5,
                    "p99": 3_000_000,
                },
                "harness.send_delay": {"count": planned, "unit": "ns", "p99": 400_000},
            },
            harness={
                "planned": planned,
                "released": planned,
                "cancelled": cancelled,
                "histograms": {"latency_2xx": "aGRy"},
            },
        )


async def healthy(talk: Conversation) -> None:
    """Progress once, then answer everything at once."""
    for start in await talk.starts():
        talk.send(
            type="progress",
            id=start["id"],
            elapsed_ms=1000,
            counters={"benchmark.http_2xx": 3},
            interval={"count": 3, "p50_ns": 1000, "p99_ns": 2000, "max_ns": 2500},
        )
        talk.result(start)


class Bench:
    """Runs one load against stand-ins, one per script, and keeps what came of it."""

    limits = QUICK

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.talks: list[list[Conversation]] = []
        self.backends: list[str] = []

    def plan(self, **changes: Any) -> Plan:
        fields: dict[str, Any] = {
            "scenario": "mesh", "pool": "nodes", "dns": "nodes.test:8443", "rate_rps": 12, "duration_s": 1,
            "concurrency": 1, "max_pending": 18, "connections": None, "timeout_s": None, "headers": ("User-Agent: t",),
            "targets": (PlannedTarget("cart", "http://cart.test/", 9), PlannedTarget("pay", "http://pay.test/", 3)),
            "thresholds": ("counter:benchmark.http_5xx == 0",),
        }  # fmt: skip
        return Plan(**fields | changes)

    async def run(
        self,
        *scripts: Script | None,
        plan: Plan | None = None,
        limits: Limits = QUICK,
        progress_s: float = 10.0,
        during: Callable[[Load], Awaitable[None]] | None = None,
    ) -> list[Execution]:
        """A script None is an address where nobody listens."""
        plan = plan or self.plan()
        evidence = Evidence(Files.of(self.folder))
        async with AsyncExitStack() as stack:
            stack.callback(evidence.close)
            for index, script in enumerate(scripts):
                self.backends.append(await self._serve(stack, f"127.0.1.{index + 1}", script))
            load = Load(
                plan,
                parse_thresholds(plan.thresholds),
                self.backends,
                evidence,
                limits=limits,
                connections=100,
                progress_s=progress_s,
            )
            beside = asyncio.create_task(during(load)) if during else None
            try:
                return await load.run()
            finally:
                if beside:
                    await beside

    async def _serve(self, stack: AsyncExitStack, host: str, script: Script | None) -> str:
        talks: list[Conversation] = []
        self.talks.append(talks)
        tasks: set[asyncio.Task[None]] = set()

        async def converse(talk: Conversation) -> None:
            try:
                assert script is not None
                await script(talk)
                await talk.reader.read()  # until the driver hangs up
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                talk.writer.close()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            talks.append(Conversation(reader, writer))
            task = asyncio.create_task(converse(talks[-1]))
            tasks.add(task)

        async def stop() -> None:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        server = await asyncio.start_server(accept, host, 0)
        backend = f"{host}:{server.sockets[0].getsockname()[1]}"
        if script is None:
            server.close()
        else:
            stack.push_async_callback(stop)
        return backend

    def text(self, name: str) -> str:
        return (self.folder.live / name).read_text()

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text(name).splitlines()]

    def report(self) -> dict[str, Any]:
        return json.loads(self.text("report.json"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A run's folder and the means to run a load in it."""
    folder = RunFolder(tmp_path / "run")
    folder.live.mkdir(parents=True)
    return Bench(folder)


@pytest.fixture
def healthy_engine() -> Script:
    """The script of an engine that does everything right."""
    return healthy
