"""Which connection a released request takes, and what becomes of it when there is none.

Idle connections are used last in, first out, so that as few as possible stay warm. A request that finds none waits in
a bounded queue while one is dialled, up to ``connections``; a full queue is ``pool_overflow``. One failed dial ends one
request, the one that has waited longest; the rest of the queue gets dials of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from harness.engine.connection import Connection
from harness.engine.recorder import INFLIGHT_LOST, OVERFLOW, Recorder
from harness.engine.spec import Address, ExecutionSpec


class Pool:
    """The connections of one execution. ``submit`` never blocks; every outcome goes to the recorder exactly once."""

    def __init__(self, spec: ExecutionSpec, address: Address, recorder: Recorder) -> None:
        self._loop = asyncio.get_running_loop()
        self._spec = spec
        self._address = address
        self._recorder = recorder
        self._idle: list[Connection] = []
        self._connections: set[Connection] = set()  # dialling, idle and busy
        self._dialling = 0
        self._waiting: deque[tuple[int, int]] = deque()  # due_ns, released_ns
        self._max_waiting = max(1, spec.max_pending)  # Nighthawk's engine likewise makes 0 a queue of one

    def submit(self, due_ns: int) -> None:
        """Send a request now, queue it, or count it as overflow."""
        now_ns = time.monotonic_ns()
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_stale(now_ns):
                self._send(connection, due_ns, now_ns, now_ns)
                return
            connection.close()
            self._connections.discard(connection)
        if len(self._waiting) >= self._max_waiting:
            self._recorder.failed(OVERFLOW, now_ns - due_ns)
            return
        self._waiting.append((due_ns, now_ns))
        self._dial_for_waiting()

    def close(self) -> None:
        """Close everything. What is still open, queued or on a connection, is ``http_inflight_lost``."""
        now_ns = time.monotonic_ns()
        for connection in self._connections:
            connection.close()
            if connection.busy:
                self._recorder.failed(INFLIGHT_LOST, now_ns - connection.due_ns)
        for due_ns, _ in self._waiting:
            self._recorder.failed(INFLIGHT_LOST, now_ns - due_ns)
        self._connections.clear()
        self._idle.clear()
        self._waiting.clear()

    def _send(self, connection: Connection, due_ns: int, released_ns: int, now_ns: int) -> None:
        self._recorder.connected(now_ns - released_ns)
        written_ns = connection.send(due_ns)
        if written_ns is not None:
            self._recorder.written(written_ns - due_ns)

    def _put_to_use(self, connection: Connection) -> None:
        if self._waiting:
            due_ns, released_ns = self._waiting.popleft()
            self._send(connection, due_ns, released_ns, time.monotonic_ns())
        else:
            self._idle.append(connection)

    def _dial_for_waiting(self) -> None:
        while self._dialling < len(self._waiting) and len(self._connections) < self._spec.connections:
            connection = Connection(self._loop, self._spec, self)
            self._connections.add(connection)
            self._dialling += 1
            connection.dial(self._address)

    # --- events of a connection

    def opened(self, connection: Connection) -> None:
        """A dial succeeded: serve the queue, else keep it for later."""
        self._dialling -= 1
        self._put_to_use(connection)

    def dial_failed(self, connection: Connection, counter: str) -> None:
        """A dial failed. With an empty queue nobody was waiting for it any more, and nobody is blamed."""
        self._dialling -= 1
        self._connections.discard(connection)
        if self._waiting:
            due_ns, _ = self._waiting.popleft()
            self._recorder.failed(counter, time.monotonic_ns() - due_ns)
        self._dial_for_waiting()

    def responded(self, connection: Connection, status: int, done_ns: int) -> None:
        """Note the response and use the connection for the next request."""
        self._recorder.responded(
            status,
            due_ns=connection.due_ns,
            written_ns=connection.written_ns,
            done_ns=done_ns,
            header_bytes=connection.header_bytes,
            body_bytes=connection.body_bytes,
        )
        if connection.closed:
            self._connections.discard(connection)
            self._dial_for_waiting()
        else:
            self._put_to_use(connection)

    def reset(self, connection: Connection, phase: str, reason: str) -> None:
        """A connection ended under its request."""
        self._recorder.reset(phase, reason, time.monotonic_ns() - connection.due_ns)
        self._connections.discard(connection)
        self._dial_for_waiting()

    def lost_idle(self, connection: Connection) -> None:
        """An idle connection ended: no request was on it, so nothing is counted."""
        self._idle.remove(connection)
        self._connections.discard(connection)
