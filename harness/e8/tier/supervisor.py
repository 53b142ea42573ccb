"""The supervisor: admits W × S turns, hands each accepted socket to the worker with the fewest, refuses the rest.

It reads nothing of a request. Its workers are its children; one that ends is started again after a back-off. A frozen
one is not noticed: it keeps its slots and counts as healthy, as it does in a deployment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from typing import Any

from harness.e8.tier.admission import Admission
from harness.e8.tier.channel import CHANNEL_VARIABLE, Channel
from harness.e8.tier.child import Child, spawn
from harness.e8.tier.httpserver import Answer, Routes, listen
from harness.e8.tier.knobs import Knobs
from harness.e8.tier.process import BACKLOG, LOOPBACK, SHUTDOWN_GRACE_S, announce, main, say
from harness.e8.tier.settings import ECHOED, available_cores

LONGEST_BACKOFF_S = 30.0
LONG_RUN_S = 10.0
ACCEPTS_AT_ONCE = 64
LINGER_S = 2.0
NO_DESCRIPTORS_PAUSE_S = 0.1
OVERLOADED = Answer(429, {"error": "overloaded"}, {"Retry-After": "1"}).encode(keep_alive=False)
NOT_OBSERVED = "NaN"


class Worker:
    """One worker's place: the process in it now, what it told, how often it was started."""

    def __init__(self, supervisor: Supervisor, number: int) -> None:
        self.number = number
        self.pid: int | None = None
        self.healthy = False
        self.stats: dict[str, Any] = {}
        self._supervisor = supervisor
        self._child: Child | None = None
        self._channel: Channel | None = None
        self._started_s = 0.0
        self._failures = 0

    def start(self) -> None:
        """Start a process in this place. Raises OSError when the system has no room for one."""
        channel, theirs = Channel.pair()
        try:
            with theirs:
                self._child = spawn(
                    "harness.e8.tier.worker",
                    name=f"worker-{self.number}",
                    kind="worker",
                    environment={CHANNEL_VARIABLE: str(theirs.fileno()), "TIER_NAME": f"worker-{self.number}"},
                    descriptors=[theirs.fileno()],
                    on_exit=self._exited,
                )
        except OSError:
            channel.close()
            raise
        self._channel = channel
        self.pid = self._child.identity.pid
        self._started_s = time.monotonic()
        asyncio.get_running_loop().add_reader(self._channel.fileno(), self.read)

    def hand_over(self, sock: socket.socket) -> bool:
        """Pass the descriptor on; False when this worker cannot take it."""
        try:
            return self._channel is not None and self._channel.send({"type": "conn"}, sock.fileno())
        except OSError:
            return False

    def read(self) -> None:
        """Take in every report that has come."""
        try:
            for message, _ in self._channel.receive() if self._channel else ():
                self._take(message)
        except EOFError:
            self._hang_up()

    async def drain(self) -> None:
        """Let it finish its turns, then end it."""
        if self._channel is not None and self._child is not None:
            with contextlib.suppress(OSError):
                self._channel.send({"type": "drain"})
            if not await self._child.wait(SHUTDOWN_GRACE_S):
                self._child.signal(signal.SIGKILL)
                await self._child.wait(5.0)

    def _take(self, message: dict[str, Any]) -> None:
        admission = self._supervisor.admission
        match message["type"]:
            case "ready":
                admission.begin(self.number)
                self.healthy = True
                self._supervisor.worker_ready()
            case "load":
                admission.report(self.number, message["in_flight"], message["received"], message["at_ns"])
            case "stats":
                self.stats = message
            case "draining":
                admission.end(self.number)
                self.healthy = False

    def _hang_up(self) -> None:
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            self._channel.close()
            self._channel = None
        self._supervisor.admission.end(self.number)
        self.healthy = False
        self.stats = {}

    def _exited(self, child: Child) -> None:
        self._hang_up()
        if self._supervisor.stopping:
            return
        ran_s = time.monotonic() - self._started_s
        self._failures = 0 if ran_s >= LONG_RUN_S else self._failures
        self._start_later(f"{child.name} pid {child.identity.pid} ended with {child.exit_status}")

    def _start_later(self, why: str) -> None:
        pause_s = min(self._supervisor.backoff_s * 2**self._failures, LONGEST_BACKOFF_S)
        self._failures += 1
        say(f"{why}; again in {pause_s:g} s")
        asyncio.get_running_loop().call_later(pause_s, self._start_again)

    def _start_again(self) -> None:
        if self._supervisor.stopping:
            return
        try:
            self.start()
        except OSError as error:  # no processes or descriptors left now: the place is not given up for that
            self._start_later(f"worker-{self.number} could not be started: {error}")
        else:
            self._supervisor.restarts += 1


class Supervisor:
    """The accepting side and the workers' places."""

    def __init__(self, knobs: Knobs) -> None:
        self.admission = Admission(knobs.whole("SH_TURNS_PER_WORKER", None, 1, 10_000))
        self.backoff_s = knobs.whole("SH_WORKER_RESTART_BACKOFF_MS", 250, 1, 30_000) / 1000
        self.restarts = 0
        self.stopping = False
        self._handoff_retries = 0
        self._handoff_failures = 0
        self._workers = [Worker(self, n) for n in range(knobs.whole("SH_WORKERS", available_cores(), 1, 64))]
        knobs.choice("SH_ROUTING_POLICY", ("leastInFlight",))
        self._all_ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.setblocking(False)
        self._listener.bind((LOOPBACK, knobs.whole("PORT", 8080, 0, 65_535)))
        self.port = int(self._listener.getsockname()[1])
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, admin_port: int, stop: asyncio.Event) -> None:
        """Start the workers, accept until told to stop, drain."""
        admin, admin_port = await listen(
            lambda: Routes({"GET /metrics": lambda _: Answer(200, self.metrics())}), admin_port
        )
        for worker in self._workers:
            worker.start()
        ready = asyncio.create_task(self._all_ready.wait())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([ready, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            self._listener.listen(BACKLOG)
            self._loop.add_reader(self._listener, self._accept)
            announce(f"supervisor listening :{self.port} admin :{admin_port}")
        await stopped
        ready.cancel()
        self.stopping = True
        await asyncio.gather(*(worker.drain() for worker in self._workers))
        self._loop.remove_reader(self._listener)
        self._listener.close()
        admin.close()

    def worker_ready(self) -> None:
        """One more worker takes turns."""
        if all(worker.healthy for worker in self._workers):
            self._all_ready.set()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                sock, _ = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError as error:  # no descriptors left: whoever waits goes on waiting
                say(f"cannot accept: {error}")
                self._loop.remove_reader(self._listener)
                self._loop.call_later(NO_DESCRIPTORS_PAUSE_S, self._accept_again)
                return
            if self._place(sock):
                sock.close()  # the worker has its own copy
            else:
                self._refuse(sock)

    def _accept_again(self) -> None:
        if not self.stopping:
            self._loop.add_reader(self._listener, self._accept)

    def _place(self, sock: socket.socket) -> bool:
        """Hand the socket to a worker; False when no worker has a slot for it."""
        tried: frozenset[int] = frozenset()
        while True:
            number = self.admission.choose(tried)
            if number is None and not tried:
                for worker in self._workers:  # a slot may have been given back that nobody here has read of yet
                    worker.read()
                number = self.admission.choose(tried)
            if number is None:
                self._handoff_failures += bool(tried)
                return False
            if self._workers[number].hand_over(sock):
                self.admission.sent(number)
                return True
            self._handoff_retries += 1
            tried |= {number}

    def _refuse(self, sock: socket.socket) -> None:
        self.admission.refused(time.monotonic_ns())
        task = self._loop.create_task(self._say_overloaded(sock))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _say_overloaded(self, sock: socket.socket) -> None:
        """Answer, then read until the client is done: closing on what it still sends would take the answer away."""
        with sock, contextlib.suppress(OSError):
            sock.setblocking(False)
            sock.send(OVERLOADED)  # a new connection has room for it
            sock.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(LINGER_S):
                while await self._loop.sock_recv(sock, 65_536):
                    pass

    # metrics

    def metrics(self) -> dict[str, Any]:
        """The body of ``GET /metrics``. What was never observed is the text "NaN", never 0."""
        told = [worker.stats for worker in self._workers]
        pool = _largest(told, "leasePoolSize")
        return {
            "workers": [self._worker_metrics(worker) for worker in self._workers],
            "restarts": self.restarts,
            "handoff_retries": self._handoff_retries,
            "handoff_failures": self._handoff_failures,
            "over_admission": self.admission.over_admission,
            "spurious_refusals": self.admission.spurious_refusals,
            "head_truncations": 0,  # heads are read for sticky routing only
            "lease_saturation": _saturation(told, pool),
            "sandbox_pool_size": pool,
            "cores": available_cores(),
            "lag_resolution_ms": _largest(told, "lagResolutionMs"),
            "file_op_p95_ms": _largest(told, "fileOpP95Ms"),
            "env": {name: os.environ[name] for name in ECHOED if name in os.environ} | {"PORT": str(self.port)},
        }

    def _worker_metrics(self, worker: Worker) -> dict[str, Any]:
        return {
            "id": worker.number,
            "pid": worker.pid,
            "inFlight": self.admission.in_flight(worker.number),
            "healthy": worker.healthy,
            "loop_lag_p99_ms": worker.stats.get("loopLagP99Ms", NOT_OBSERVED),
            "rss_bytes": worker.stats.get("rssBytes", NOT_OBSERVED),
            "cpu_seconds": worker.stats.get("cpuSeconds", NOT_OBSERVED),
        }


def _saturation(told: list[dict[str, Any]], pool: Any) -> Any:
    """Leases of all workers for each sandbox; a worker that has not told of its leases may hold any number."""
    held = [stats.get("leasesHeld") for stats in told]
    known = [leases for leases in held if leases is not None]
    return round(sum(known) / pool, 6) if isinstance(pool, int) and pool and known == held else NOT_OBSERVED


def _largest(told: list[dict[str, Any]], name: str) -> Any:
    return max((stats[name] for stats in told if name in stats), default=NOT_OBSERVED)


async def serve(knobs: Knobs, stop: asyncio.Event) -> None:
    """Serve until told to stop."""
    await Supervisor(knobs).run(knobs.whole("SH_ADMIN_PORT", 8081, 0, 65_535), stop)


if __name__ == "__main__":
    sys.exit(main("supervisor", serve))
