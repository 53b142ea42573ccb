"""The tier's own door, beside the surface of a deployment: counters, commands in sandboxes, another stub.

GET  /stats   {"store": {…} | null, "relay": {"sandbox-0": {"execs", "running"}, …} | null}
POST /exec    {"sandbox", "command", "limit_s"}                     → an ExecResult
POST /stub    {"profile"?, "schedule"?, "tool_command"?}            → the new state

It runs commands, and loopback is open to every user and every web page of this machine: who does not name the secret
gets 403.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.e8.tier.httpserver import Answer, Connection, Request
from harness.e8.tier.relayclient import ExecError, ExecResult
from harness.e8.tier.settings import Profile, TierSettings
from harness.errors import HarnessError, SettingsError

LONGEST_EXEC_S = 600.0
CONTROL_HEADER = "x-tier-secret"


def secret_file(state: Path) -> Path:
    """Where the secret of the tier with this state file stands; not in it, which is evidence and may be published."""
    return state.with_suffix(".secret")


def make_secret(state: Path) -> str:
    """A new secret, in a file that only this user may read. Raises OSError."""
    secret, path = secrets.token_hex(16), secret_file(state)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, secret.encode())
    finally:
        os.close(descriptor)
    return secret


@dataclass(frozen=True)
class StubChange:
    """What another stub should do otherwise; None keeps it. ``profile`` is ``ttft/delay/tokens/rate``."""

    profile: str | None = None
    schedule: str | None = None
    tool_command: str | None = None

    def apply(self, settings: TierSettings) -> TierSettings:
        """The settings with the change. Raises SettingsError."""
        given: dict[str, Any] = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        if self.profile is not None:
            given["profile"] = Profile.from_text(self.profile)
        return dataclasses.replace(settings, **given)

    @classmethod
    def from_json(cls, document: Any) -> StubChange:
        """Raises SettingsError for anything but an object of these names with text."""
        names = {each.name for each in dataclasses.fields(cls)}
        if not isinstance(document, dict) or set(document) - names:
            raise SettingsError(f"a stub is changed by an object of {', '.join(sorted(names))}")
        if not all(isinstance(value, str) for value in document.values()):
            raise SettingsError("every value that changes a stub is text")
        return cls(**document)


class Tier(Protocol):
    """What the door opens on."""

    async def stats(self) -> dict[str, Any]: ...

    async def run_in(self, sandbox: str, command: str, limit_s: float) -> ExecResult: ...

    async def change_stub(self, change: StubChange) -> None: ...

    def state(self) -> dict[str, Any]: ...


class ControlConnection(Connection):
    """One client of the control port."""

    def __init__(self, tier: Tier, secret: str) -> None:
        super().__init__()
        self._tier = tier
        self._secret = secret.encode()
        self._task: asyncio.Task[None] | None = None

    def received(self, request: Request) -> None:
        self._task = asyncio.get_running_loop().create_task(self._answer(request))

    def lost(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()

    async def _answer(self, request: Request) -> None:
        try:
            answer = await self._find(request)
        except (HarnessError, ExecError, ValueError) as error:
            answer = Answer(400, {"error": str(error)})
        except OSError as error:
            answer = Answer(500, {"error": str(error)})
        self.respond(request, answer)

    async def _find(self, request: Request) -> Answer:
        if not hmac.compare_digest(request.headers.get(CONTROL_HEADER, "").encode(), self._secret):
            return Answer(403, {"error": "forbidden"})
        match request.method, request.target:
            case "GET", "/stats":
                return Answer(200, await self._tier.stats())
            case "POST", "/stub":
                # to its end, whatever its client does: a tier between two stubs is of no use
                await asyncio.shield(self._tier.change_stub(StubChange.from_json(request.json())))
                return Answer(200, self._tier.state())
            case "POST", "/exec":
                return await self._exec(request.json())
        return Answer(404, {"error": "not_found"})

    async def _exec(self, document: Any) -> Answer:
        match document:
            case {"sandbox": str(sandbox), "command": str(command), "limit_s": int() | float() as limit_s}:
                result = await self._tier.run_in(sandbox, command, min(float(limit_s), LONGEST_EXEC_S))
                return Answer(200, dataclasses.asdict(result))
        raise SettingsError("an exec is an object of sandbox, command and limit_s")
