"""The relay lets in who knows the token, and nobody's end leaves another one waiting."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.e8.tier.protocol import Decoder, Frame, Kind, message

TOKEN = "a token of this test"  # noqa: S105


class Peer:
    """A connection that speaks frames."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._decoder = Decoder()
        self._frames: list[Frame] = []

    def send(self, kind: Kind, stream: int = 0, **fields: Any) -> None:
        self._sock.sendall(message(kind, stream, **fields))

    def next(self) -> Frame | None:
        """The next frame; None when the relay hung up."""
        while not self._frames:
            data = self._sock.recv(65_536)
            if not data:
                return None
            self._frames += self._decoder.feed(data)
        return self._frames.pop(0)

    def close(self) -> None:
        self._sock.close()


@pytest.fixture
def peer() -> Iterator[Callable[..., Peer]]:
    """Connects to a relay of this test: ``peer("agent", "sandbox-0")`` is let in, ``peer()`` has said nothing yet."""
    made: list[Peer] = []
    parts: list[subprocess.Popen[str]] = []

    def part(name: str, **environment: str) -> int:
        command = [sys.executable, "-m", f"harness.e8.tier.{name}"]
        process = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True)
        parts.append(process)
        assert process.stdout is not None
        match = re.search(r"listening :(\d+)", process.stdout.readline())
        assert match
        return int(match[1])

    store = part("store", PORT="0")
    relay = part("relay", PORT="0", SH_STORE_ADDR=f"127.0.0.1:{store}", SANDBOX_TOKEN=TOKEN)

    def connect(role: str = "", name: str = "") -> Peer:
        made.append(Peer(relay))
        if role:
            made[-1].send(Kind.HELLO, role=role, id=name, token=TOKEN)
            welcome = made[-1].next()
            assert welcome is not None and welcome.kind is Kind.WELCOME
        return made[-1]

    yield connect
    for each in made:
        each.close()
    for process in parts:
        process.terminate()
        process.communicate(timeout=10)


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        ({"role": "agent", "id": "sandbox-0", "token": "guessed"}, "token"),
        ({"role": "agent", "id": "sandbox-0"}, "token"),
        ({"role": "agent", "id": "../etc", "token": TOKEN}, "sandbox id"),
        ({"role": "king", "id": "x", "token": TOKEN}, "role"),
    ],
)
def test_who_may_not_come_in_is_told_why_and_hung_up_on(
    peer: Callable[..., Peer], hello: dict[str, str], why: str
) -> None:
    stranger = peer()
    stranger.send(Kind.HELLO, **hello)
    refusal = stranger.next()
    assert refusal is not None and refusal.kind is Kind.FAILED
    assert why in refusal.document()["error"]
    assert stranger.next() is None


def test_nothing_is_done_for_who_did_not_say_hello(peer: Callable[..., Peer]) -> None:
    peer("agent", "sandbox-0")
    stranger = peer()
    stranger.send(Kind.EXEC, 1, sandbox="sandbox-0", command="true", timeout_ms=1000)
    refusal = stranger.next()
    assert refusal is not None and "token" in refusal.document()["error"]
    assert stranger.next() is None


def test_a_second_agent_of_the_same_name_is_refused_and_the_first_stays(peer: Callable[..., Peer]) -> None:
    agent, worker, second = peer("agent", "sandbox-0"), peer("worker", "w"), peer()
    second.send(Kind.HELLO, role="agent", id="sandbox-0", token=TOKEN)
    refusal = second.next()
    assert refusal is not None and "connected already" in refusal.document()["error"]
    worker.send(Kind.EXEC, 5, sandbox="sandbox-0", command="true", timeout_ms=1000)
    asked = agent.next()
    assert asked is not None and asked.kind is Kind.EXEC


def test_streams_of_two_workers_do_not_meet(peer: Callable[..., Peer]) -> None:
    agent, one, two = peer("agent", "sandbox-0"), peer("worker", "one"), peer("worker", "two")
    for worker, command in ((one, "first"), (two, "second")):
        worker.send(Kind.EXEC, 7, sandbox="sandbox-0", command=command, timeout_ms=1000)
    asked = [agent.next(), agent.next()]
    by_command = {frame.document()["command"]: frame.stream for frame in asked if frame}
    assert len(set(by_command.values())) == 2
    for command, code in (("second", 2), ("first", 1)):
        agent.send(Kind.EXIT, by_command[command], exit_code=code, command_ms=1.0, truncated=False)
    for worker, code in ((one, 1), (two, 2)):
        exited = worker.next()
        assert exited is not None and (exited.kind, exited.stream) == (Kind.EXIT, 7)
        assert exited.document()["exit_code"] == code


def test_when_an_agent_goes_its_execs_fail_at_once(peer: Callable[..., Peer]) -> None:
    agent, worker = peer("agent", "sandbox-0"), peer("worker", "w")
    worker.send(Kind.EXEC, 1, sandbox="sandbox-0", command="true", timeout_ms=1000)
    assert agent.next() is not None
    agent.close()
    failed = worker.next()
    assert failed is not None and failed.kind is Kind.FAILED
    worker.send(Kind.EXEC, 1, sandbox="sandbox-0", command="true", timeout_ms=1000)
    failed = worker.next()
    assert failed is not None and "no such sandbox" in failed.document()["error"]
    peer("agent", "sandbox-0")  # the name is free again


def test_when_a_worker_goes_its_execs_are_cancelled(peer: Callable[..., Peer]) -> None:
    agent, worker = peer("agent", "sandbox-0"), peer("worker", "w")
    worker.send(Kind.EXEC, 1, sandbox="sandbox-0", command="sleep 600", timeout_ms=1000)
    asked = agent.next()
    worker.close()
    cancel = agent.next()
    assert asked is not None and cancel is not None
    assert (cancel.kind, cancel.stream) == (Kind.CANCEL, asked.stream)


def test_frames_that_make_no_sense_end_the_connection(peer: Callable[..., Peer]) -> None:
    worker = peer("worker", "w")
    worker.send(Kind.EXIT, 1, exit_code=0)
    failed = worker.next()
    assert failed is not None and "EXIT from a worker" in failed.document()["error"]
    assert worker.next() is None
