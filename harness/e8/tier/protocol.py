"""Framed exec transport between workers, relay and sandbox agents.

A frame is a header of nine bytes (payload length, kind, stream; big-endian) and the payload. One connection carries
many streams; the side that asks for an exec numbers it, and all frames of that exec carry the number.

    HELLO    {"role": "worker" | "agent", "id": …, "token": …}     first frame of every connection
    WELCOME  {}                                                      the relay's answer; anything else is a no
    EXEC     {"sandbox": …, "command": …, "timeout_ms": …}          run it
    OUTPUT   bytes                                                   stdout and stderr, as they come
    EXIT     {"exit_code": …, "command_ms": …, "truncated": …}      it ended; negative: the signal that ended it
    FAILED   {"error": …}                                            it never ran, or nobody knows how it ended
    CANCEL   (empty)                                                 nobody waits for it any more
    STATS    {} and, as the answer, {"sandboxes": {id: {"execs": …, "running": …}}}
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

HEADER = struct.Struct("!IBI")
MAX_PAYLOAD_BYTES = 1 << 20


class FrameError(ConnectionError):
    """What came is no frame of this protocol; the connection has to go."""


class Kind(IntEnum):
    """What a frame means."""

    HELLO = 1
    WELCOME = 2
    EXEC = 3
    OUTPUT = 4
    EXIT = 5
    FAILED = 6
    CANCEL = 7
    STATS = 8


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame; ``stream`` is 0 for what belongs to the connection itself."""

    kind: Kind
    stream: int
    payload: bytes = b""

    def document(self) -> dict[str, Any]:
        """The payload as a JSON object. Raises FrameError."""
        try:
            value = json.loads(self.payload)
        except (ValueError, RecursionError) as error:
            raise FrameError(f"a {self.kind.name} frame without JSON") from error
        if not isinstance(value, dict):
            raise FrameError(f"a {self.kind.name} frame without a JSON object")
        return value

    def encode(self) -> bytes:
        """The bytes on the wire. Raises FrameError for a payload over the limit."""
        if len(self.payload) > MAX_PAYLOAD_BYTES:
            raise FrameError(f"a payload of {len(self.payload)} bytes; at most {MAX_PAYLOAD_BYTES} fit a frame")
        return HEADER.pack(len(self.payload), self.kind, self.stream) + self.payload


def message(kind: Kind, stream: int, **fields: Any) -> bytes:
    """The bytes of a frame whose payload is a JSON object."""
    return Frame(kind, stream, json.dumps(fields, separators=(",", ":")).encode()).encode()


class Decoder:
    """Turns bytes as they come into frames, however they are cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Every frame that is whole now. Raises FrameError for an unknown kind or a payload over the limit."""
        buffer = self._buffer
        buffer += data
        place = 0
        try:
            while len(buffer) - place >= HEADER.size:
                length, kind, stream = HEADER.unpack_from(buffer, place)
                if length > MAX_PAYLOAD_BYTES or kind not in _KINDS:
                    raise FrameError(f"bytes that are no frame (length {length}, kind {kind})")
                end = place + HEADER.size + length
                if len(buffer) < end:
                    break
                yield Frame(Kind(kind), stream, bytes(buffer[place + HEADER.size : end]))
                place = end
        finally:
            del buffer[:place]


_KINDS = frozenset(Kind)
