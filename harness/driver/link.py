"""The connection to one engine, and what was heard over it of each execution."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.driver import protocol
from harness.sortie.durations import format_duration_ms
from harness.sortie.report import EXECUTION_CAP, BackendError, BackendResult

RETRY_S = 0.2
KEPT_INTERVALS = 3600  # an hour of one-second intervals, should nobody take them


@dataclass(frozen=True)
class Interval:
    """Latencies an engine told of one second: how many answers, and nanoseconds where there were any."""

    count: int
    p50_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None
    mean_ns: int | None = None

    @classmethod
    def read(cls, value: object) -> Interval:
        """From a progress message; what is not a number is unknown."""
        told = value if isinstance(value, dict) else {}
        numbers = {
            key: round(told[key])
            for key in ("p50_ns", "p99_ns", "max_ns", "mean_ns")
            if protocol.is_number(told.get(key))
        }
        return cls(round(told["count"]) if protocol.is_number(told.get("count")) else 0, **numbers)


@dataclass
class Slot:
    """One execution on one backend: what is known of it so far. ``ended_s`` is monotonic."""

    label: str
    backend: str
    counters: dict[str, int] = field(default_factory=dict)
    intervals: deque[Interval] = field(default_factory=lambda: deque(maxlen=KEPT_INTERVALS))
    result: BackendResult | None = None
    error: BackendError | None = None
    ended_s: float | None = None

    @property
    def open(self) -> bool:
        """True until the backend answered or was given up."""
        return self.ended_s is None

    def blame(self, text: str, refused: str | None = None) -> None:
        """Note why this backend did not finish cleanly; the first reason stays."""
        if self.error is None:
            self.error = BackendError(self.backend, text, refused)

    def end(self) -> None:
        """Nothing more is expected."""
        if self.ended_s is None:
            self.ended_s = time.monotonic()


class EngineLink:
    """One engine: dials it, sends commands, keeps what it says. A network error ends its open slots and never raises.

    ``stalled_after_ms`` is the longest execution that an engine may report and still count as having kept up.
    ``on_refused`` is called once for each start that was refused at the engine's execution cap.
    """

    def __init__(
        self,
        backend: str,
        labels: Iterable[str],
        *,
        planned_ms: int,
        stalled_after_ms: int,
        on_refused: Callable[[], None],
    ) -> None:
        self.backend = backend
        self.slots = {label: Slot(label, backend) for label in labels}
        self.ended = asyncio.Event()
        self.heard_s = time.monotonic()
        self.state = "connecting"
        self._planned_ms = planned_ms
        self._stalled_after_ms = stalled_after_ms
        self._on_refused = on_refused
        self._cancelled = False
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def connected(self) -> bool:
        """True once the engine has said hello, and until its connection is closed."""
        return self._writer is not None

    @property
    def open_slots(self) -> list[Slot]:
        """Executions that still owe an answer."""
        return [slot for slot in self.slots.values() if slot.open]

    async def connect(self, limit_s: float) -> None:
        """Dial until the engine says hello, at most ``limit_s``; then every slot ends as not reachable."""
        why = "no answer"
        try:
            async with asyncio.timeout(limit_s):
                while not self.connected:
                    try:
                        await self._dial()
                    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
                        why = _reason(error)
                        await asyncio.sleep(RETRY_S)
        except TimeoutError:
            self.state = "unreachable"
            self._end_open(f"not reachable within {limit_s:g}s: {why}")

    async def _dial(self) -> None:
        host, _, port = self.backend.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=protocol.MAX_LINE_BYTES)
        try:
            hello = protocol.decode(await reader.readuntil(b"\n"))
            if hello is None or hello.get("type") != "hello":
                raise ValueError("what listens there is not an engine")
        except BaseException:
            writer.close()
            raise
        self._reader, self._writer = reader, writer
        self.state, self.heard_s = "connected", time.monotonic()

    def start(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Send the starts of all executions."""
        self.state = "running"
        self._send(*messages)

    def cancel(self) -> None:
        """Ask the engine to cut everything short; each open execution then answers with what it has."""
        self._cancelled = True
        self._send(protocol.CANCEL)

    def _send(self, *messages: Mapping[str, Any]) -> None:
        # Not drained: a frozen engine must not hold up the driver, and a few kilobytes of commands fit any buffer.
        if self._writer is not None and not self._writer.is_closing():
            self._writer.writelines([protocol.encode(message) for message in messages])

    async def listen(self) -> None:
        """Take in messages until every slot has ended or the connection is lost."""
        while self._reader is not None and self.open_slots:
            try:
                line = await self._reader.readuntil(b"\n")
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                self._lose(_reason(error))
                return
            message = protocol.decode(line)
            if message is None:
                self._lose("the engine sent a line that is not a JSON object")
                return
            self.heard_s = time.monotonic()
            self._handle(message)

    def _handle(self, message: dict[str, Any]) -> None:
        slot = self.slots.get(str(message.get("id")))
        if slot is None or not slot.open:
            return
        match message.get("type"):
            case "progress":
                slot.counters = protocol.read_counters(message.get("counters"))
                slot.intervals.append(Interval.read(message.get("interval")))
            case "refused":
                self._refused(slot, message)
            case "failed":
                # The words of the report format: its readers know an engine's own failure by them.
                self._end(slot, f"nighthawk reported failure: {_text(message.get('error'))}")
            case "result":
                self._result(slot, message)

    def _refused(self, slot: Slot, message: dict[str, Any]) -> None:
        at_cap = message.get("reason") == EXECUTION_CAP
        slot.blame(f"the service refused the start: {_text(message.get('error'))}", EXECUTION_CAP if at_cap else None)
        self._end(slot)
        if at_cap:
            self._on_refused()

    def _result(self, slot: Slot, message: dict[str, Any]) -> None:
        result = protocol.read_result(message, self.backend)
        if result is None:
            self._end(slot, "the engine returned no results")
            return
        slot.result, slot.counters = result, dict(result.counters)
        if result.elapsed_ms > self._stalled_after_ms:
            took, planned = format_duration_ms(result.elapsed_ms), format_duration_ms(self._planned_ms)
            slot.blame(f"reported an execution of {took} for one planned to last {planned}: it stalled")
        elif protocol.was_cancelled(message) and not self._cancelled:
            slot.blame("nighthawk reported failure: the engine cut the execution short by itself")
        self._end(slot)

    def _lose(self, why: str) -> None:
        self.state = "lost"
        self._end_open(f"awaiting execution response: Unavailable: {why}")
        self._close()

    def give_up(self) -> None:
        """End every slot that is still open; whoever gives up has said why."""
        if self.open_slots and self.state == "running":
            self.state = "lost"
        self._end_open(None)

    def _end_open(self, why: str | None) -> None:
        for slot in self.open_slots:
            self._end(slot, why)

    def _end(self, slot: Slot, why: str | None = None) -> None:
        if why:
            slot.blame(why)
        slot.end()
        if not self.open_slots:
            if self.state == "running":
                self.state = "finished"
            self.ended.set()

    async def all_ended(self, limit_s: float) -> bool:
        """True when every slot ended within ``limit_s``."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), limit_s)
        return self.ended.is_set()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None

    async def close(self) -> None:
        """Close the connection, upon which the engine ends whatever it still runs for it."""
        writer = self._writer
        self._close()
        if writer is not None:
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def _reason(error: Exception) -> str:
    if isinstance(error, asyncio.IncompleteReadError):
        return "the engine closed the connection"
    if isinstance(error, asyncio.LimitOverrunError):
        return f"the engine sent a line of over {protocol.MAX_LINE_BYTES >> 20} MiB"
    return _text(getattr(error, "strerror", None) or str(error))


def _text(value: object) -> str:
    """Foreign text as one line of bearable length."""
    return " ".join(str(value).split())[:500] if value else "it gave no reason"
