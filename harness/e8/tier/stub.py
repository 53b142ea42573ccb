"""The model endpoint: answers every conversation in Anthropic's SSE form, at a programmed pace.

    POST …/v1/messages   a tool call costs ttft + 2 × delay, a text ttft + tokens × delay
    GET /profile         the four numbers it was started with
    GET /stats           {"requests", "toolCalls", "turns", "execsPerTurn": {"0": n, "1": n, …}, "open"}
    GET /health          ok

A turn counts when its text is sent; execsPerTurn is the number of tool results it came with. Everything is read once
from the environment; a variable that does not fit ends the process with exit code 2 and its name.
"""

from __future__ import annotations

import asyncio
import json
import sys
import typing
from collections import Counter
from typing import Any

from harness.e8.tier.httpserver import Answer, Connection, Request, head, listen
from harness.e8.tier.knobs import Knobs
from harness.e8.tier.process import announce, main
from harness.e8.tier.schedule import make_schedule, results_of_turn
from harness.e8.tier.settings import SCHEDULES, Profile
from harness.errors import SettingsError

WORD = "word "
HALF_MS = 0.0005  # the loop's clock counts whole milliseconds
STREAM_HEAD = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "Transfer-Encoding": "chunked"}


class Stub:
    """What all connections share."""

    def __init__(self, knobs: Knobs) -> None:
        self.profile = Profile.from_knobs(knobs)
        self.tool_name = knobs.text("SH_STUB_TOOL_NAME", "bash")
        self.tool_input = knobs.text("SH_STUB_TOOL_INPUT", '{"command":"ls -la"}')
        try:
            json.loads(self.tool_input)
        except ValueError as error:
            raise SettingsError(f"SH_STUB_TOOL_INPUT is no JSON: {error}") from error
        self.schedule = make_schedule(knobs.choice("SH_STUB_SCHEDULE", SCHEDULES), self.profile.tool_call_rate)
        self.requests = 0
        self.tool_calls = 0
        self.open = 0
        self.execs_per_turn: Counter[int] = Counter()
        self._text = [_delta({"type": "text_delta", "text": WORD})] * self.profile.output_tokens
        middle = len(self.tool_input) // 2
        halves = (self.tool_input[:middle], self.tool_input[middle:])
        self._tool = [_delta({"type": "input_json_delta", "partial_json": half}) for half in halves]

    def answer(self, document: dict[str, Any]) -> list[bytes]:
        """The response in parts: what is sent at once, each delta in turn, what ends it."""
        messages = document["messages"]
        self.requests += 1
        call = self.schedule.tool_use_id(messages)
        if call is None:
            self.execs_per_turn[len(results_of_turn(messages))] += 1
            return self._parts(document, {"type": "text", "text": ""}, self._text, "end_turn")
        self.tool_calls += 1
        block = {"type": "tool_use", "id": call, "name": self.tool_name, "input": {}}
        return self._parts(document, block, self._tool, "tool_use")

    def _parts(self, document: dict[str, Any], block: dict[str, Any], deltas: list[bytes], stop: str) -> list[bytes]:
        usage = {"input_tokens": sum(len(str(m.get("content"))) for m in document["messages"]) // 4}
        start = {
            "id": f"msg_{self.requests}",
            "type": "message",
            "role": "assistant",
            "model": document.get("model", "stub"),
            "content": [],
            "stop_reason": None,
            "usage": usage | {"output_tokens": 0},
        }
        end = {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": len(deltas)}}
        opening = _event("content_block_start", index=0, content_block=block)
        return [
            head(200, STREAM_HEAD, keep_alive=True) + _event("message_start", message=start),
            opening + deltas[0],
            *deltas[1:],
            _event("content_block_stop", index=0)
            + _event("message_delta", **end)
            + _event("message_stop")
            + b"0\r\n\r\n",
        ]

    def stats(self) -> dict[str, Any]:
        """What was asked for since the start."""
        return {
            "requests": self.requests,
            "toolCalls": self.tool_calls,
            "turns": self.execs_per_turn.total(),
            "execsPerTurn": {str(execs): turns for execs, turns in sorted(self.execs_per_turn.items())},
            "open": self.open,
        }


def _event(kind: str, **fields: Any) -> bytes:
    data = json.dumps({"type": kind, **fields}, separators=(",", ":"))
    text = f"event: {kind}\ndata: {data}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(text), text)


def _delta(delta: dict[str, Any]) -> bytes:
    return _event("content_block_delta", index=0, delta=delta)


class StubConnection(Connection):
    """One client of the stub."""

    def __init__(self, stub: Stub) -> None:
        super().__init__()
        self._stub = stub
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._parts: list[bytes] = []

    def received(self, request: Request) -> None:
        stub = self._stub
        match request.method, request.target:
            case "POST", path if path.endswith("/v1/messages"):
                self._stream(request)
            case "GET", "/profile":
                self.respond(request, Answer(200, stub.profile.to_json()))
            case "GET", "/stats":
                self.respond(request, Answer(200, stub.stats()))
            case "GET", "/health" | "/healthz":
                self.respond(request, Answer(200, {"ok": True}))
            case _:
                self.respond(request, Answer(404, _error("not_found_error", "no such path")))

    def lost(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._stub.open -= 1

    def _stream(self, request: Request) -> None:
        try:
            self._parts = self._stub.answer(_checked(request.json()))
        except ValueError as error:
            self.respond(request, Answer(400, _error("invalid_request_error", str(error))))
            return
        self.write(self._parts[0])
        self._stub.open += 1
        begin_s = self._loop.time() + self._stub.profile.ttft_ms / 1000
        self._timer = self._loop.call_at(begin_s, self._step, request, begin_s, 1)

    def _step(self, request: Request, begin_s: float, place: int) -> None:
        """Send every part that is due: part k at begin + (k - 1) × delay, whenever this loop comes to it."""
        delay_s = self._stub.profile.token_delay_ms / 1000
        now_s = self._loop.time() + HALF_MS
        first = place
        while place < len(self._parts) and begin_s + (place - 1) * delay_s <= now_s:
            place += 1
        if place > first:
            self.write(self._parts[first] if place == first + 1 else b"".join(self._parts[first:place]))
        if place < len(self._parts):
            self._timer = self._loop.call_at(begin_s + (place - 1) * delay_s, self._step, request, begin_s, place)
            return
        self._timer = None
        self._stub.open -= 1
        self.done(request)


def _checked(document: Any) -> dict[str, Any]:
    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise ValueError("messages is no list of messages")
    for each in messages:
        content = each.get("content")
        if isinstance(content, list) and not all(isinstance(block, dict) for block in content):
            raise ValueError("a message's content is no list of blocks")
    return typing.cast(dict[str, Any], document)


def _error(kind: str, text: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": text}}


async def serve(knobs: Knobs, stop: asyncio.Event) -> None:
    """Serve until told to stop; then at once, as a model endpoint that goes away does."""
    stub = Stub(knobs)
    server, port = await listen(lambda: StubConnection(stub), knobs.whole("PORT", 8080, 0, 65_535))
    profile = stub.profile
    announce(
        f"model-stub listening :{port} ttft={profile.ttft_ms:g}ms delay={profile.token_delay_ms:g}ms "
        f"tokens={profile.output_tokens} rate={profile.tool_call_rate:g}"
    )
    await stop.wait()
    server.close()


if __name__ == "__main__":
    sys.exit(main("model-stub", serve))
