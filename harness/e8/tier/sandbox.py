"""A sandbox agent: dials the relay, holds one stream, runs real commands in its workspace folder.

Its CPU is that of its process and of every command that ended: ``/proc/PID/stat`` tells both, cumulative.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import typing

from harness.e8.tier.command import Command
from harness.e8.tier.knobs import Knobs
from harness.e8.tier.process import MARK_VARIABLE, announce, main, say
from harness.e8.tier.protocol import Decoder, Frame, FrameError, Kind, message
from harness.processes import TOKEN_VARIABLE

REDIAL_S = 0.5
MAX_COMMAND_S = 600.0


class Agent(asyncio.Protocol):
    """One connection to the relay and the commands it asked for."""

    def __init__(self, name: str, token: str, environment: dict[str, str]) -> None:
        self.name = name
        self.lost = asyncio.Event()
        self._token = token
        self._environment = environment
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None
        self._running: dict[int, Command] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = typing.cast(asyncio.Transport, transport)
        self._send(message(Kind.HELLO, 0, role="agent", id=self.name, token=self._token))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.kill_all()
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._decoder.feed(data):
                self._handle(frame)
        except FrameError as error:
            say(f"{self.name} hangs up on the relay: {error}")
            self.close()

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def kill_all(self) -> None:
        """End every command that runs."""
        for command in self._running.values():
            command.kill()

    def _handle(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.WELCOME:
                announce(f"{self.name} connected")
            case Kind.EXEC:
                self._start(frame)
            case Kind.CANCEL:
                if command := self._running.get(frame.stream):
                    command.kill()
            case Kind.FAILED if frame.stream == 0:
                say(f"the relay refused {self.name}: {frame.document().get('error')}")
            case _:
                raise FrameError(f"{frame.kind.name} from the relay")

    def _start(self, frame: Frame) -> None:
        asked, stream = frame.document(), frame.stream
        command, limit_ms = asked.get("command"), asked.get("timeout_ms")
        if not isinstance(command, str) or not command or "\0" in command or not isinstance(limit_ms, int):
            self._send(message(Kind.FAILED, stream, error="the exec names no command or no time limit"))
            return

        def output(data: bytes) -> None:
            self._send(Frame(Kind.OUTPUT, stream, data).encode())

        def exited(code: int) -> None:
            ended = self._running.pop(stream)
            self._send(
                message(
                    Kind.EXIT,
                    stream,
                    exit_code=code,
                    command_ms=round(ended.command_ms, 3),
                    truncated=ended.truncated,
                )
            )

        limit_s = min(max(limit_ms / 1000, 0.001), MAX_COMMAND_S)
        try:
            self._running[stream] = Command(command, self._environment, limit_s, output, exited)
        except OSError as error:
            self._send(message(Kind.FAILED, stream, error=f"the command could not be started: {error}"))

    def _send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


async def serve(knobs: Knobs, stop: asyncio.Event) -> None:
    """Stay connected until told to stop; dial again after a loss."""
    name, token, relay = knobs.text("SANDBOX_ID"), knobs.text("SANDBOX_TOKEN"), knobs.address("SH_RELAY_ADDR")
    workspace = knobs.text("SANDBOX_WORKSPACE")
    os.chdir(workspace)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": workspace,
        "WORKSPACE": workspace,
        "SANDBOX_ID": name,
        "LC_ALL": "C.UTF-8",
    }
    marks = (TOKEN_VARIABLE, MARK_VARIABLE)  # by them the commands of a killed agent are found
    environment |= {name: os.environ[name] for name in marks if name in os.environ}
    while not stop.is_set():
        agent = Agent(name, token, environment)
        try:
            await asyncio.get_running_loop().create_connection(functools.partial(_same, agent), *relay)
            await _first(agent.lost, stop)
            agent.kill_all()
            agent.close()
        except OSError as error:
            say(f"{name} does not reach the relay: {error}")
        if not stop.is_set():
            await _first(stop, limit_s=REDIAL_S)


def _same(agent: Agent) -> Agent:
    return agent


async def _first(*events: asyncio.Event, limit_s: float | None = None) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(tasks, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    sys.exit(main("sandbox", serve))
