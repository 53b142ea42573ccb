"""Between supervisor and worker: whole JSON messages over a Unix socket pair, one of which may carry a descriptor."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from typing import Any

MAX_MESSAGE_BYTES = 4096
CHANNEL_VARIABLE = "TIER_CHANNEL_FD"


class Channel:
    """One end. Message boundaries are the socket's (SOCK_SEQPACKET); nothing blocks."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """This side's end, and the other one to be inherited by a child."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(ours), theirs

    def fileno(self) -> int:
        """For the event loop."""
        return self._sock.fileno()

    def send(self, message: dict[str, Any], descriptor: int | None = None) -> bool:
        """Send it; False when the other side has not read for so long that its queue is full. Raises OSError."""
        data = json.dumps(message, separators=(",", ":")).encode()
        try:
            if descriptor is None:
                self._sock.send(data)
            else:
                socket.send_fds(self._sock, [data], [descriptor])
        except BlockingIOError:
            return False
        return True

    def receive(self) -> Iterator[tuple[dict[str, Any], int | None]]:
        """Every message that is there, with its descriptor. Raises EOFError when the other side is gone."""
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._sock, MAX_MESSAGE_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError as error:
                raise EOFError from error
            if not data:
                for descriptor in descriptors:
                    os.close(descriptor)
                raise EOFError
            yield json.loads(data), descriptors[0] if descriptors else None

    def close(self) -> None:
        """A second call does nothing."""
        with contextlib.suppress(OSError):
            self._sock.close()
