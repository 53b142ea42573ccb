"""The closed-loop generator of one rung, a process of its own: ``python -m harness.e8.client --turns FILE``.

c clients send their turns back to back, each turn on a new connection, without think time, retry or back-off. The load
comes as one JSON line on stdin. After the warm-up the generator says ``{"event": "warm"}`` and waits for the line
``go``, so that its caller can read every counter while nothing moves. Every second it says how far it is, and at the
end ``{"event": "done"}`` with what only the generator itself can know. Each measured turn is one JSON line in FILE:

    {"client": 1, "start_ms": 0.1, "ms": 113.9, "code": "200", "stop": "stop"}

``start_ms`` counts from ``go``. A turn without a whole answer (deadline, refused or broken connection) has the code
000 and an ``error``; it is an attempt like any other. When stdin ends, its caller is gone, and the generator ends too.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import errno
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.e8.http import Answer, Client, parse_base
from harness.e8.turns import ALL_TURNS, CUT_BY_RUNG, CUT_BY_TURN, NO_ANSWER, RUNG_DEADLINE, TIME_IS_UP, Turn
from harness.errors import HarnessError

BODY = '{"prompt":"summarise the diff"}'
LAG_PROBE_S = 0.02
PROGRESS_S = 1.0
MAX_ERROR_CHARACTERS = 200
SPARE_DESCRIPTORS = 64
MAX_WAIT_FOR_GO_S = 120.0
EXIT_ORPHANED = 3
LOCAL_ERRORS = frozenset({errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@dataclass(frozen=True)
class Load:
    """What one rung sends.

    A client ends after ``turns_per_client`` turns, or starts none after ``duration_s``, whichever is given. After
    ``deadline_s`` every turn in flight is cut and none is started. ``burn_ms`` is CPU that the generator wastes before
    each turn: a fault, to show that a rung bound by its generator is recognised.
    """

    base: str
    c: int
    turn_timeout_s: float
    deadline_s: float
    turns_per_client: int | None = None
    duration_s: float | None = None
    warmup_turns: int = 1
    body: str = BODY
    burn_ms: float = 0.0

    def to_line(self) -> str:
        """The form in which the generator reads it."""
        return json.dumps(dataclasses.asdict(self))


def answered(answer: Answer) -> tuple[str | None, str | None, str | None]:
    """Stop reason, error message and session id of an answer, as far as it has them."""
    document = answer.json()
    if not isinstance(document, dict):
        return None, "the answer is no JSON object", None
    stop, error, session = (document.get(name) for name in ("stopReason", "errorMessage", "sessionId"))
    if error is None and answer.status != 200:
        error = document.get("error")
    return (
        stop if isinstance(stop, str) else None,
        str(error)[:MAX_ERROR_CHARACTERS] if error not in (None, "", False) else None,
        session if isinstance(session, str) else None,
    )


class Generator:
    """Runs one load; ``note`` is given each measured turn as it ends."""

    def __init__(self, load: Load, note: Callable[[Turn], object]) -> None:
        self.load = load
        self.attempts = 0
        self.ok = 0
        self.local_errors = 0
        self.warm_up_turns = 0
        self.warm_up_ok = 0
        self._note = note
        self._client = Client(parse_base(load.base, "base"))
        self._cut = False
        self._start_s = 0.0
        self._last_s = 0.0

    async def warm_up(self) -> None:
        """Every client's first turns, which count for nothing. Raises OSError when the server's name is unknown."""
        await self._client.open()
        await asyncio.gather(*(self._warm(client) for client in self._clients()))

    async def run(self) -> dict[str, Any]:
        """The measured turns, to their end or to the deadline. Returns what only the generator can know of them."""
        lags: list[float] = []
        probe = asyncio.create_task(_probe_lag(lags))
        started_unix_s, cpu_s, wait_s = time.time(), time.process_time(), _waited_s()
        self._start_s = self._last_s = time.monotonic()
        clients = [asyncio.create_task(self._loop(client)) for client in self._clients()]
        _, late = await asyncio.wait(clients, timeout=self.load.deadline_s)
        self._cut = bool(late)
        for task in late:
            task.cancel()
        await asyncio.gather(*clients)
        cpu_s, waited_s = time.process_time() - cpu_s, _waited_s()
        probe.cancel()
        await asyncio.wait([probe])
        turns = self.load.turns_per_client
        return {
            "ended": RUNG_DEADLINE if self._cut else ALL_TURNS if turns else TIME_IS_UP,
            "started_unix_s": round(started_unix_s, 3),
            "wall_ms": round((self._last_s - self._start_s) * 1000, 3),
            "attempts": self.attempts,
            "ok": self.ok,
            "planned": self.load.c * turns if turns else None,
            "local_errors": self.local_errors,
            "cpu_s": round(cpu_s, 4),
            "wait_s": None if waited_s is None or wait_s is None else round(waited_s - wait_s, 4),
            "lag_p99_ms": _p99(lags),
            "lag_max_ms": max(lags, default=None),
            "warm_up_turns": self.warm_up_turns,
            "warm_up_ok": self.warm_up_ok,
        }

    def _clients(self) -> range:
        return range(1, self.load.c + 1)

    async def _warm(self, client: int) -> None:
        request = self._request(client)
        for _ in range(self.load.warmup_turns):
            turn = await self._turn(client, request)
            self.warm_up_turns += 1
            self.warm_up_ok += turn.ok

    async def _loop(self, client: int) -> None:
        request = self._request(client)
        sent = 0
        while self._goes_on(sent):
            turn = await self._turn(client, request)
            self._last_s = time.monotonic()
            self.attempts += 1
            self.ok += turn.ok
            self._note(turn)
            sent += 1

    def _goes_on(self, sent: int) -> bool:
        if self._cut:
            return False
        if self.load.turns_per_client is not None:
            return sent < self.load.turns_per_client
        return time.monotonic() - self._start_s < (self.load.duration_s or 0)

    def _request(self, client: int) -> bytes:
        headers = {"content-type": "application/json", "x-sh-session-id": f"e8-c{self.load.c}-s{client}"}
        return self._client.request("POST", "/turn", headers, self.load.body.encode())

    async def _turn(self, client: int, request: bytes) -> Turn:
        """One turn, whatever becomes of it; a turn that the rung's deadline cuts is one too."""
        _burn(self.load.burn_ms)
        start_s = time.monotonic()
        code, stop, error, session, cut = NO_ANSWER, None, None, None, None
        try:
            answer = await self._client.send(request, self.load.turn_timeout_s)
        except TimeoutError:
            cut, error = CUT_BY_TURN, f"no answer in {self.load.turn_timeout_s:g} s"
        except asyncio.CancelledError:
            cut, error = CUT_BY_RUNG, "cut by the rung's deadline"
        except OSError as failure:
            self.local_errors += failure.errno in LOCAL_ERRORS
            error = str(failure)[:MAX_ERROR_CHARACTERS] or type(failure).__name__
        else:
            code = f"{answer.status:03d}"
            stop, error, session = answered(answer)
        ms = (time.monotonic() - start_s) * 1000
        start_ms = round((start_s - self._start_s) * 1000, 3)
        return Turn(client, start_ms, round(ms, 3), code, stop, error, session, cut)


def _burn(ms: float) -> None:
    until_s = time.process_time() + ms / 1000
    while time.process_time() < until_s:
        pass


def _waited_s() -> float | None:
    """How long this process could have run and had no core; None where the kernel does not tell."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


async def _probe_lag(lags: list[float]) -> None:
    """How much later than asked the generator's own loop wakes, in ms; at its end by how much it already is late."""
    while True:
        due_s = time.monotonic() + LAG_PROBE_S
        try:
            await asyncio.sleep(LAG_PROBE_S)
        finally:
            lags.append(max(0.0, round((time.monotonic() - due_s) * 1000, 3)))


def _p99(values: list[float]) -> float | None:
    return sorted(values)[max(0, -(-99 * len(values) // 100) - 1)] if values else None


async def serve(turns: Path) -> None:
    """Read the load from stdin, warm up, wait for ``go``, run, say what there is to say on stdout."""
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    load = Load(**json.loads(await orders.readline()))
    _allow_descriptors(load.c)
    going = asyncio.Event()
    listening = asyncio.create_task(_listen(orders, going))
    with turns.open(
        "w", encoding="utf-8", buffering=1
    ) as file:  # by lines: a generator that is killed leaves its turns
        generator = Generator(load, lambda turn: file.write(turn.to_line() + "\n"))
        await generator.warm_up()
        _say(event="warm", turns=generator.warm_up_turns, ok=generator.warm_up_ok)
        await asyncio.wait_for(going.wait(), MAX_WAIT_FOR_GO_S)
        gc.freeze()
        telling = asyncio.create_task(_tell_progress(generator))
        outcome = await generator.run()
        telling.cancel()
        file.flush()
        os.fsync(file.fileno())
    listening.cancel()
    _say(event="done", **outcome)


async def _listen(orders: asyncio.StreamReader, going: asyncio.Event) -> None:
    """Wait for ``go``; the end of stdin is the end of whoever asked for this load."""
    if await orders.readline() == b"go\n":
        going.set()
        await orders.read()
    os._exit(EXIT_ORPHANED)


async def _tell_progress(generator: Generator) -> None:
    while True:
        await asyncio.sleep(PROGRESS_S)
        _say(event="progress", attempts=generator.attempts, ok=generator.ok)


def _say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def _allow_descriptors(clients: int) -> None:
    """One descriptor per client. Raises OSError when the system allows too few."""
    wanted = clients + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise OSError(errno.EMFILE, f"{clients} clients need {wanted} descriptors and the system allows {hard}")
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> int:
    """Exit code 0 when the load was run, whatever its turns met; 1 with one sentence on stderr when it was not."""
    import uvloop

    parser = argparse.ArgumentParser(prog="harness.e8.client")
    parser.add_argument("--turns", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        uvloop.run(serve(arguments.turns))
    except (OSError, TypeError, ValueError, HarnessError) as error:
        print(f"the generator cannot run its load: {error or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
