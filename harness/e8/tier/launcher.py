"""Brings a tier up as children of one process, writes the state file, ends and sweeps everything at its own end.

Order: store, stub and relay, sandboxes, supervisor with its workers. A part that ends later is noted in the state file
and not started again: a dead stub is what a dead model endpoint looks like. When the supervisor ends, the tier does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import Any

from harness.e8.tier.child import Child, spawn
from harness.e8.tier.control import ControlConnection, StubChange, make_secret, secret_file
from harness.e8.tier.httpserver import listen
from harness.e8.tier.process import BOOT_ID, LIFETIME_VARIABLE, LOOPBACK, MARK_VARIABLE, SHUTDOWN_GRACE_S, say
from harness.e8.tier.relayclient import ExecError, ExecResult, RelayClient
from harness.e8.tier.settings import ECHOED, TierSettings, available_cores
from harness.e8.tier.storeclient import StoreClient
from harness.errors import FleetError
from harness.files import utc_stamp, write_json
from harness.processes import end, find_marked, own_identity

KNOWN_EVERY_S = 5.0
START_LIMIT_S = 60.0
CHILD_SPARE_S = 15.0  # children end by themselves this long after the tier should have ended them
SUPERVISOR_GRACE_S = SHUTDOWN_GRACE_S + 1.0  # it ends the workers that are too slow itself
GRACE_S = 2.0
LISTENING = re.compile(r"listening :(\d+)(?: admin :(\d+))?")


class Launcher:
    """One tier. ``root`` gets logs, workspaces and nothing that has to be kept."""

    def __init__(self, settings: TierSettings, state: Path, root: Path) -> None:
        self.settings = settings
        self._state = state
        self._root = root
        self._mark = secrets.token_hex(12)
        self._relay_token = secrets.token_hex(16)
        self._children: dict[str, Child] = {}
        self._ports: dict[str, int] = {}
        self._stub_generation = 0
        self._stub_lock = asyncio.Lock()
        self._worker_pids: list[dict[str, Any]] = []
        self._started_at = utc_stamp()
        self._deadline_at = utc_stamp(time.time() + settings.lifetime_s)
        self._ready_s: float | None = None
        self._over = asyncio.Event()
        self._store: StoreClient | None = None
        self._relay: RelayClient | None = None

    # what it does

    async def run(self, stop: asyncio.Event) -> int:
        """Live until ``stop``. Returns 0, or 1 when the supervisor ended first. Raises FleetError when it is not up."""
        began_s = time.monotonic()
        try:
            starting = asyncio.create_task(self._start())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait([starting, stopping], timeout=START_LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
                if stop.is_set():
                    say("ended by a signal or its deadline before it was up")
                    return 0
                raise FleetError(f"the tier was not up within {START_LIMIT_S:g} s; see {self._root / 'log'}")
            await starting
            self._ready_s = round(time.monotonic() - began_s, 3)
            self.write_state()
            urls = self.urls()
            print(f"tier ready: base {urls['base']} metrics {urls['metrics']} stub {urls['stub']}", flush=True)
            over = asyncio.create_task(self._over.wait())
            known = asyncio.create_task(self._while_known())
            await asyncio.wait([stopping, over, known], return_when=asyncio.FIRST_COMPLETED)
            return 0 if stop.is_set() or known.done() else 1
        finally:
            await self._stop()

    async def _while_known(self) -> None:
        """Until nobody can find the tier any more: its state file was removed, with its run mostly."""
        while self._state.exists():
            await asyncio.sleep(KNOWN_EVERY_S)
        say(f"{self._state} is gone, and nobody knows of this tier any more")

    async def _start(self) -> None:
        settings = self.settings
        await self._begin("store", "store", PORT="0")
        self._store = StoreClient((LOOPBACK, self._ports["store"]))
        common = {"SH_STORE_ADDR": self._address("store"), "SANDBOX_TOKEN": self._relay_token}
        await asyncio.gather(
            self._begin("stub", "stub", PORT="0", **self._stub_environment()),
            self._begin("relay", "relay", PORT="0", **common),
        )
        self._relay = RelayClient((LOOPBACK, self._ports["relay"]), self._relay_token, "launcher")
        await asyncio.gather(*(self._begin_sandbox(n) for n in range(settings.sandboxes)))
        supervised = common | settings.supervisor_environment(
            self.stub_url, self._address("relay"), self._address("store")
        )
        # a key of our own: the caller's reaches no worker
        await self._begin("supervisor", "supervisor", **supervised, ANTHROPIC_API_KEY="embedded")
        secret = make_secret(self._state)
        _, self._ports["control"] = await listen(lambda: ControlConnection(self, secret), 0)

    async def _begin_sandbox(self, number: int) -> None:
        name = f"sandbox-{number}"
        workspace = self._workspace(name)
        workspace.mkdir(parents=True, exist_ok=True)
        await self._begin(
            name,
            "sandbox",
            SANDBOX_ID=name,
            SANDBOX_TOKEN=self._relay_token,
            SANDBOX_WORKSPACE=str(workspace),
            SH_RELAY_ADDR=self._address("relay"),
        )

    async def _begin(self, name: str, kind: str, **environment: str) -> None:
        """Start one part and wait for its line on stdout. Raises FleetError."""
        log = self._root / "log" / f"{name}.log"
        own = {MARK_VARIABLE: self._mark, LIFETIME_VARIABLE: f"{self.settings.lifetime_s + CHILD_SPARE_S:g}"}
        child = spawn(
            f"harness.e8.tier.{kind}",
            name=name,
            kind=kind,
            environment=own | environment,
            on_exit=self._exited,
            log=log,
        )
        self._children[name] = child
        line = await _first_line(child)
        if not line:
            raise FleetError(f"{name} of the tier did not start; {log} says why")
        if found := LISTENING.search(line):
            self._ports[kind] = int(found[1])
            if found[2]:
                self._ports["admin"] = int(found[2])

    async def _stop(self) -> None:
        self._over.set()
        for client in (self._store, self._relay):
            if client is not None:
                client.close()
        if "supervisor" in self._children:
            await self._children["supervisor"].end(SUPERVISOR_GRACE_S)
        await asyncio.gather(*(child.end(GRACE_S) for child in self._children.values()))
        left = find_marked(self._mark, MARK_VARIABLE)
        if left:  # commands of a sandbox, mostly
            say(f"ending what is left: {[process.pid for process in left]}")
            await asyncio.to_thread(end, left, grace_s=0.5)
        for number in range(self.settings.sandboxes):
            shutil.rmtree(self._workspace(f"sandbox-{number}").parent, ignore_errors=True)
        with contextlib.suppress(OSError):
            secret_file(self._state).unlink(missing_ok=True)
        if self._ready_s is not None:
            with contextlib.suppress(OSError):
                self.write_state()

    def _exited(self, child: Child) -> None:
        if self._over.is_set() or self._children.get(child.name) is not child:
            return
        say(f"{child.name} pid {child.identity.pid} ended with {child.exit_status}")
        if self._ready_s is not None:
            with contextlib.suppress(OSError):
                self.write_state()
        if child.kind == "supervisor":
            self._over.set()

    # what others ask of it, over the control port

    async def stats(self) -> dict[str, Any]:
        """Counters of the store and the relay; null for one that gave no answer."""
        found: dict[str, Any] = {"store": None, "relay": None}
        with contextlib.suppress(OSError):
            found["store"] = await self._store.call("info") if self._store else None
        with contextlib.suppress(ExecError):
            found["relay"] = await self._relay.stats() if self._relay else None
        return found

    async def run_in(self, sandbox: str, command: str, limit_s: float) -> ExecResult:
        """One command in a sandbox, without a turn or a lease. Raises ExecError."""
        if self._relay is None:
            raise FleetError("the tier is not up yet")
        return await self._relay.run(sandbox, command, limit_s=limit_s)

    async def change_stub(self, change: StubChange) -> None:
        """Put another stub on the same port. Raises FleetError."""
        async with self._stub_lock:
            self.settings = change.apply(self.settings)
            try:
                if old := self._children.pop("stub", None):
                    await old.end(GRACE_S)
                await self._begin("stub", "stub", PORT=str(self._ports["stub"]), **self._stub_environment())
            finally:
                self.write_state()

    def _stub_environment(self) -> dict[str, str]:
        self._stub_generation += 1
        return self.settings.profile.to_environment() | {
            "SH_STUB_TOOL_NAME": "bash",
            "SH_STUB_TOOL_INPUT": json.dumps({"command": self.settings.tool_command}, ensure_ascii=False),
            "SH_STUB_SCHEDULE": self.settings.schedule,
        }

    # the state file

    @property
    def stub_url(self) -> str:
        """What ANTHROPIC_BASE_URL is."""
        return f"http://{self._address('stub')}"

    def urls(self) -> dict[str, str]:
        """Where everything is asked."""
        ports = {"base": "supervisor", "metrics": "admin", "stub": "stub", "control": "control"}
        return {name: f"http://{self._address(port)}" for name, port in ports.items()}

    def _address(self, name: str) -> str:
        return f"{LOOPBACK}:{self._ports[name]}"

    def _workspace(self, sandbox: str) -> Path:
        return self._root / sandbox / "workspace"

    def write_state(self) -> None:
        """Write the state file, whole. Raises OSError."""
        write_json(self._state, self.state())

    def state(self) -> dict[str, Any]:
        """The state file's contents."""
        settings = self.settings
        supervised = settings.supervisor_environment(self.stub_url, self._address("relay"), self._address("store"))
        supervised["PORT"] = str(self._ports["supervisor"])
        return {
            "schema": 1,
            "measured": "embedded",
            "boot_id": BOOT_ID.read_text().strip(),
            "mark": self._mark,
            "launcher": own_identity().to_json(),
            "root": str(self._root),
            "started_at": self._started_at,
            "deadline_at": self._deadline_at,
            "ready_s": self._ready_s,
            "stopped_at": utc_stamp() if self._over.is_set() else None,
            "urls": self.urls(),
            "ports": self._ports,
            "settings": settings.to_json(),
            "profile": settings.profile.to_json(),
            "cores": available_cores(),
            "env": {name: supervised[name] for name in ECHOED if name in supervised},
            "processes": [child.to_json() for child in self._children.values()],
            "sandboxes": [
                {"id": f"sandbox-{n}", "workspace": str(self._workspace(f"sandbox-{n}"))}
                for n in range(settings.sandboxes)
            ],
            "stub_generation": self._stub_generation,
        }


async def _first_line(child: Child) -> str:
    """What the child says on stdout, once; empty when it ended without a word."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), child.popen.stdout
    )
    try:
        return (await reader.readline()).decode("utf-8", "replace")
    finally:
        transport.close()
