"""A tier as its callers hold it: started, asked, changed, ended. Synchronous; the state file and the secret
beside it (``control.py``) are all it needs.

tier = start(TierSettings(workers=2, turns_per_worker=4), state=Path("live/tier.json"))
tier.urls["base"], tier.state["profile"], tier.identities("sandbox")
tier.stats(); tier.run("sandbox-0", "ls"); tier.change_stub(tool_command="true"); tier.stop()
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import time
from pathlib import Path
from typing import Any

from harness.children import module_environment, python_module
from harness.e8.tier.control import CONTROL_HEADER, secret_file
from harness.e8.tier.launcher import START_LIMIT_S
from harness.e8.tier.process import BOOT_ID, MARK_VARIABLE
from harness.e8.tier.relayclient import ExecResult
from harness.e8.tier.settings import TierSettings
from harness.errors import FleetError
from harness.files import read_json
from harness.processes import TOKEN_VARIABLE, Identity, alive, end, find_marked, identify

ASK_LIMIT_S = 30.0
STOP_GRACE_S = 15.0
POLL_S = 0.05
SWEEPS = 3  # a command may begin another one after it was looked for and before it is ended


class Tier:
    """A tier by its state file. Raises FleetError when the file is none, or when the tier is not running any more."""

    def __init__(self, state: Path) -> None:
        self.path = state
        self.state: dict[str, Any] = read_state(state)
        if not alive(_launcher(self.state)) or self.state["boot_id"] != BOOT_ID.read_text().strip():
            raise FleetError(f"the tier of {state} does not run any more; start it again")

    @property
    def urls(self) -> dict[str, str]:
        """``base``, ``metrics``, ``stub`` and ``control``."""
        return dict(self.state["urls"])

    def refresh(self) -> None:
        """Read the state file again: a part may have ended, or the stub may be another one. Raises FleetError."""
        self.state = read_state(self.path)

    def identities(self, *kinds: str) -> list[Identity]:
        """The processes of these kinds that run, as the state file tells now. Raises FleetError when it is gone.

        Kinds are store, stub, relay, sandbox and supervisor; workers are the supervisor's, their pids are in /metrics.
        """
        self.refresh()
        running = [each for each in self.state["processes"] if each["exit_status"] is None]
        return [Identity.from_json(each) for each in running if each["kind"] in kinds]

    def stats(self) -> dict[str, Any]:
        """Counters of store and relay (``control.py`` names them). Raises FleetError."""
        return dict(self._ask("GET", "/stats", None, ASK_LIMIT_S))

    def run(self, sandbox: str, command: str, *, limit_s: float = 60.0) -> ExecResult:
        """Run a command in a sandbox, outside any turn. Raises FleetError."""
        ask = {"sandbox": sandbox, "command": command, "limit_s": limit_s}
        return ExecResult(**self._ask("POST", "/exec", ask, limit_s + ASK_LIMIT_S))

    def change_stub(
        self, *, profile: str | None = None, schedule: str | None = None, tool_command: str | None = None
    ) -> None:
        """Put another stub on the same port; what is None stays. Raises FleetError."""
        asked = {"profile": profile, "schedule": schedule, "tool_command": tool_command}
        self.state = self._ask(
            "POST", "/stub", {name: value for name, value in asked.items() if value is not None}, ASK_LIMIT_S
        )

    def stop(self) -> None:
        """End the tier and everything of it."""
        sweep(self.path)
        with contextlib.suppress(FleetError):
            self.refresh()

    def _ask(self, method: str, path: str, document: Any, limit_s: float) -> Any:
        host, port = self.urls["control"].removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=limit_s)
        try:
            headers = {CONTROL_HEADER: secret_file(self.path).read_text()}
            connection.request(method, path, None if document is None else json.dumps(document), headers)
            response = connection.getresponse()
            found = json.loads(response.read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise FleetError(f"the tier of {self.path} gave no answer: {error or type(error).__name__}") from error
        finally:
            connection.close()
        if response.status != 200:
            raise FleetError(f"the tier of {self.path} refused {method} {path}: {found.get('error')}")
        return found


def start(settings: TierSettings, *, state: Path, root: Path | None = None, mark: str | None = None) -> Tier:
    """Start a tier in a session of its own and wait until it takes turns. Raises FleetError.

    It outlives the caller, until its ``lifetime_s``; what is left of an earlier one of this state file is ended first.
    Every process of it carries ``HARNESS_TOKEN=mark`` from its first moment, so that ``processes.find_marked`` finds it
    even before there is a state file.
    """
    state.parent.mkdir(parents=True, exist_ok=True)
    sweep(state)
    state.unlink(missing_ok=True)
    log = state.with_suffix(".log")
    command = python_module("harness.e8.tier", f"--state={state}", *settings.to_flags())
    environment = module_environment() | ({TOKEN_VARIABLE: mark} if mark else {})
    try:
        # not subprocess: nobody here waits for this process, and no object must stand for it
        pid = os.posix_spawn(
            command[0],
            command + ([f"--root={root}"] if root else []),
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,  # a signal to the command that started it does not reach it
        )
    except OSError as error:
        raise FleetError(f"the tier could not be started: {error}") from error
    launcher = identify(pid) or Identity(pid, 0)
    deadline_s = time.monotonic() + START_LIMIT_S + STOP_GRACE_S
    while True:
        gone = not alive(launcher)  # asked first: what it wrote last is then there to read
        if state.exists():
            return Tier(state)
        if gone or time.monotonic() > deadline_s:
            end([launcher], grace_s=STOP_GRACE_S)
            _reap(launcher)
            raise FleetError(f"the tier did not come up: {_last_line(log)} ({log})")
        time.sleep(POLL_S)


def sweep(state: Path) -> None:
    """End what is left of a tier, orderly if its launcher still can. Nothing happens when there is no such tier."""
    try:
        found = read_state(state)
    except FleetError:
        return
    if found["boot_id"] != BOOT_ID.read_text().strip():
        return
    end([_launcher(found)], grace_s=STOP_GRACE_S)
    _reap(_launcher(found))
    left = {Identity.from_json(each) for each in found["processes"]} | set(find_marked(found["mark"], MARK_VARIABLE))
    for _ in range(SWEEPS):
        end(sorted(left), grace_s=2.0)
        left = set(find_marked(found["mark"], MARK_VARIABLE))
        if not left:
            break
    secret_file(state).unlink(missing_ok=True)  # of a launcher that was killed


def read_state(path: Path) -> dict[str, Any]:
    """The state file. Raises FleetError when there is none."""
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise FleetError(f"{path} is no state of a tier: {error}") from error
    if not isinstance(found, dict) or found.get("measured") != "embedded":
        raise FleetError(f"{path} is no state of a tier")
    return found


def _launcher(state: dict[str, Any]) -> Identity:
    return Identity.from_json(state["launcher"])


def _reap(launcher: Identity) -> None:
    """Take its exit status, if it was a child of this process."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(launcher.pid, os.WNOHANG)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
