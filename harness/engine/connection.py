"""One HTTP/1.1 connection with at most one request on it, on a socket of our own.

A transport would queue a write until the end of the loop's turn; here ``send`` is the system call, so the moment noted
as "written" is when the request left this process.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from typing import Protocol

import httptools

from harness.engine.recorder import CONNECT_TIMEOUT, LOCAL_FAILURE, REMOTE_FAILURE
from harness.engine.spec import Address, ExecutionSpec

READ_BYTES = 65_536
_read_buffer = bytearray(READ_BYTES)  # shared: what is read is parsed before the next read
_read_view = memoryview(_read_buffer)

# What this machine itself ran out of or forbade. All other errors of connect() are the other side's.
LOCAL_ERRORS = frozenset(
    {
        errno.EACCES,
        errno.EADDRINUSE,
        errno.EADDRNOTAVAIL,
        errno.EAFNOSUPPORT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.EPERM,
    }
)
_STALE_CHECK_NS = 1_000_000


class Owner(Protocol):
    """Who hears of a connection's events. No method is called from inside ``dial``."""

    def opened(self, connection: Connection) -> None:
        """It is connected and idle."""

    def dial_failed(self, connection: Connection, counter: str) -> None:
        """It never connected; ``counter`` says why. It is closed."""

    def responded(self, connection: Connection, status: int, done_ns: int) -> None:
        """A complete response. The connection is idle, or closed when the response said so."""

    def reset(self, connection: Connection, phase: str, reason: str) -> None:
        """It ended under its request. It is closed."""

    def lost_idle(self, connection: Connection) -> None:
        """It ended without a request on it (the peer closed it, or sent what nobody asked for). It is closed."""


class Connection:
    """``dial``, then ``send`` whenever it is idle. The request's attributes hold until the next ``send``."""

    __slots__ = (
        "_close_after",
        "_complete",
        "_dial_timer",
        "_fd",
        "_framed",
        "_headers_done",
        "_idle_since_ns",
        "_loop",
        "_owner",
        "_parser",
        "_parser_spent",
        "_reading",
        "_sock",
        "_spec",
        "_status",
        "body_bytes",
        "busy",
        "closed",
        "due_ns",
        "header_bytes",
        "written_ns",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, spec: ExecutionSpec, owner: Owner) -> None:
        self._loop = loop
        self._spec = spec
        self._owner = owner
        self._sock: socket.socket  # from dial to close
        self._fd = -1  # -1: no socket
        self._dial_timer: asyncio.TimerHandle | None = None
        self._parser: httptools.HttpResponseParser  # from connected to close
        self._reading = False
        self._idle_since_ns = 0
        self.closed = False
        self.busy = False
        self.due_ns = 0
        self.written_ns = 0
        self.header_bytes = 0  # names and values
        self.body_bytes = 0
        self._status = 0
        self._headers_done = False
        self._framed = False  # the headers say where the body ends; without that the peer's close does
        self._complete = False
        self._close_after = False
        self._parser_spent = False  # it waits for a body that never comes

    # --- connecting

    def dial(self, address: Address) -> None:
        """Start to connect. ``opened`` or ``dial_failed`` follows in a later turn of the loop."""
        try:
            self._sock = socket.socket(address.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            if address.family == socket.AF_INET:
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._fd = self._sock.fileno()
            code = self._sock.connect_ex(address.target)
        except OSError as error:
            code = error.errno or errno.EIO
        if code == errno.EINPROGRESS:
            self._loop.add_writer(self._fd, self._on_connectable)
            self._dial_timer = self._loop.call_later(self._spec.timeout_s, self._on_dial_timeout)
        else:
            self._loop.call_soon(self._dialled, code)

    def _on_connectable(self) -> None:
        if not self.closed:
            self._dialled(self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def _on_dial_timeout(self) -> None:
        if self.closed:
            return
        try:
            self._sock.getpeername()
        except OSError:
            self.close()
            self._owner.dial_failed(self, CONNECT_TIMEOUT)
        else:  # connected long ago; this process was frozen and its timers came first
            self._dialled(0)

    def _dialled(self, code: int) -> None:
        if self.closed:
            return
        if self._dial_timer is not None:
            self._dial_timer.cancel()
            self._dial_timer = None
            self._loop.remove_writer(self._fd)
        if code:
            self.close()
            self._owner.dial_failed(self, LOCAL_FAILURE if code in LOCAL_ERRORS else REMOTE_FAILURE)
            return
        self._parser = httptools.HttpResponseParser(self)
        self._loop.add_reader(self._fd, self._on_readable)
        self._reading = True
        self._idle_since_ns = time.monotonic_ns()
        self._owner.opened(self)

    def close(self) -> None:
        """Close without an event. A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        if self._dial_timer is not None:
            self._dial_timer.cancel()
            self._loop.remove_writer(self._fd)
        if self._reading:
            self._loop.remove_reader(self._fd)
            del self._parser  # it refers back to this object
        if self._fd >= 0:
            self._sock.close()

    # --- sending

    def is_stale(self, now_ns: int) -> bool:
        """True when an idle connection has ended or holds unasked bytes, without a wait for the loop to say so.

        A process that was late (or frozen) would otherwise write into a connection the peer closed properly, and count
        its own lateness as a reset. Checked only after 1 ms of idleness: no system call more at high rates.
        """
        if now_ns - self._idle_since_ns < _STALE_CHECK_NS:
            return False
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def send(self, due_ns: int) -> int | None:
        """Write the request. Returns the moment it was written (ns), None when that failed (``reset`` was called)."""
        self.busy = True
        self.due_ns = due_ns
        self.header_bytes = self.body_bytes = 0
        self._headers_done = self._framed = self._complete = self._close_after = self._parser_spent = False
        try:
            sent = self._sock.send(self._spec.request)
        except OSError as error:
            self._reset(_reset_reason(error))
            return None
        if sent < len(self._spec.request):
            self._reset("local_reset")
            return None
        self.written_ns = time.monotonic_ns()
        return self.written_ns

    # --- receiving

    def _on_readable(self) -> None:
        if self.closed:
            return
        try:
            size = self._sock.recv_into(_read_buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self._ended(_reset_reason(error))
            return
        if size == 0:
            self._on_eof()
        elif not self.busy:
            self._ended("protocol_error")
        else:
            self._parse(_read_view[:size])

    def _parse(self, data: memoryview) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._complete:
                self._reset("protocol_error")
                return
            self._close_after = True  # what follows the response is no response
        if self._complete:
            self._finish()

    def _on_eof(self) -> None:
        if self.busy and self._headers_done and not self._framed:
            self._close_after = True
            self._finish()
        else:
            self._ended("connection_termination")

    def _finish(self) -> None:
        done_ns = self._idle_since_ns = time.monotonic_ns()
        self.busy = False
        if self._close_after:
            self.close()
        elif self._parser_spent:
            self._parser = httptools.HttpResponseParser(self)
        self._owner.responded(self, self._status, done_ns)

    def _ended(self, reason: str) -> None:
        if self.busy:
            self._reset(reason)
        else:
            self.close()
            self._owner.lost_idle(self)

    def _reset(self, reason: str) -> None:
        self.close()
        self._owner.reset(self, "incomplete_body" if self._headers_done else "before_headers", reason)

    # --- called by the parser

    def on_message_begin(self) -> None:
        """A second message after the response: the connection is out of step."""
        if self._complete:
            self._close_after = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Sum the size of names and values; notice what delimits the body."""
        if self._headers_done:
            return  # a trailer, or a second message nobody asked for
        self.header_bytes += len(name) + len(value)
        if len(name) == 14 and name.lower() == b"content-length":
            self._framed = True
        elif len(name) == 17 and name.lower() == b"transfer-encoding":
            self._framed = value.lower().endswith(b"chunked")

    def on_headers_complete(self) -> None:
        """The final headers of a response; those of an interim one (100, 103) are skipped."""
        if self._complete:
            return
        status = self._status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            return
        self._headers_done = True
        if self._spec.head or status in (204, 304):
            # Complete here, whatever length the headers give; the parser would go on to wait for that body.
            self._complete = self._parser_spent = True
            self._close_after = not self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        """Count the body."""
        if self._complete:
            self._close_after = True
        else:
            self.body_bytes += len(data)

    def on_message_complete(self) -> None:
        """The response is whole, unless it was an interim one."""
        if self._complete:
            return
        if not self._headers_done:
            self.header_bytes = 0
            self._framed = False
            return
        self._complete = True
        self._close_after = self._status == 101 or not self._parser.should_keep_alive()


def _reset_reason(error: OSError) -> str:
    """Envoy's word for how a connection ended under a request."""
    if isinstance(error, ConnectionResetError):
        return "remote_reset"
    if isinstance(error, (BrokenPipeError, TimeoutError)):
        return "connection_termination"
    return "local_reset"
