"""One turn: a sandbox for all of it, then model and commands in turns until the model has said its last word."""

from __future__ import annotations

import uuid
from typing import Any

from harness.e8.tier.httpserver import Answer
from harness.e8.tier.leasing import Leasing, NoSandboxError
from harness.e8.tier.model import ModelClient, ModelError, ModelReply
from harness.e8.tier.relayclient import ExecError, RelayClient
from harness.e8.tier.storeclient import StoreClient

COMMAND_LIMIT_S = 120.0
MAX_MODEL_CALLS = 100
STOP_REASONS = {"end_turn": "stop", "max_tokens": "length"}


class Turns:
    """Runs turns for one worker. ``file_ops_ms`` gets one figure per exec: its round trip without the command."""

    def __init__(
        self,
        model: ModelClient,
        store: StoreClient,
        relay: RelayClient,
        leasing: Leasing,
        *,
        retry_after_s: int,
        file_ops_ms: list[float],
    ) -> None:
        self._model = model
        self._store = store
        self._relay = relay
        self._leasing = leasing
        self._retry_after_s = retry_after_s
        self.file_ops_ms = file_ops_ms

    async def run(self, document: Any) -> Answer:
        """The answer to one ``POST /turn`` with this body."""
        prompt = document.get("prompt") if isinstance(document, dict) else None
        if not isinstance(prompt, str) or not prompt.strip():
            return Answer(400, {"error": "prompt_required"})
        try:
            history: list[Any] = []
            session = document.get("sessionId")
            if session is not None:
                known = (await self._store.call("session", session=str(session)))["messages"]
                if known is None:
                    return Answer(404, {"error": "session_not_found", "sessionId": str(session)})
                history = known
            else:
                session = str(uuid.uuid4())
            async with self._leasing.sandbox() as sandbox:
                return await self._converse(session, sandbox, history, {"role": "user", "content": prompt})
        except NoSandboxError as refusal:
            return Answer(503, {"error": f"sandbox_pool_{refusal.why}"}, {"Retry-After": str(self._retry_after_s)})
        except ExecError as error:
            return Answer(500, {"error": "exec_failed", "detail": str(error)})
        except OSError as error:
            return Answer(500, {"error": "store_unreachable", "detail": str(error)})

    async def _converse(self, session: str, sandbox: str, history: list[Any], prompt: dict[str, Any]) -> Answer:
        new = [prompt]
        usage = {"input_tokens": 0, "output_tokens": 0}
        answer: dict[str, Any] = {"sessionId": session, "response": ""}
        try:
            for _ in range(MAX_MODEL_CALLS):
                reply = await self._model.complete(history + new)
                usage["input_tokens"] += reply.input_tokens
                usage["output_tokens"] += reply.output_tokens
                new.append({"role": "assistant", "content": reply.content})
                if reply.stop_reason != "tool_use":
                    answer |= {"response": reply.text, "stopReason": STOP_REASONS.get(reply.stop_reason, "stop")}
                    break
                new.append({"role": "user", "content": await self._run_all(sandbox, reply)})
            else:
                raise ModelError(f"The model asked for more than {MAX_MODEL_CALLS} answers.")
        except ModelError as error:
            answer |= {"stopReason": "error", "errorMessage": str(error)}
        await self._store.call("append", session=session, messages=new)
        return Answer(200, answer | {"usage": usage})

    async def _run_all(self, sandbox: str, reply: ModelReply) -> list[dict[str, Any]]:
        results = []
        for call in reply.tool_calls:
            given = call["input"]
            command = given.get("command") if isinstance(given, dict) else None
            if call["name"] == "bash" and isinstance(command, str) and command:
                text, failed = await self._run(sandbox, command)
            else:
                text, failed = "there is one tool, bash, and it takes a command", True
            results.append({"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": failed})
        return results

    async def _run(self, sandbox: str, command: str) -> tuple[str, bool]:
        done = await self._relay.run(sandbox, command, limit_s=COMMAND_LIMIT_S)
        self.file_ops_ms.append(done.round_trip_ms - done.command_ms)
        text = done.output + ("\n[output was cut]" if done.truncated else "")
        return text + (f"\n[exit code {done.exit_code}]" if done.exit_code else ""), done.exit_code != 0
