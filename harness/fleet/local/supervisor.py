"""The supervisor: one process that owns a run's whole fleet, from its first start to its last leftover.

    starting → ready → loading → draining → stopped
        └────────┴────────┴──────────┴────→ failed (with a reason; everything is down there too)

It is started detached, and nothing that happens to the command that started it changes anything here. When it is
killed itself, the kernel ends targets, proxies and engines with it; driver and churn then write what they have.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from harness.errors import FleetError, HarnessError
from harness.files import utc_stamp
from harness.fleet.local import control
from harness.fleet.local.assembly import Fleet
from harness.fleet.local.children import recorded
from harness.fleet.local.config import LocalConfig, make_socket_dir, read_config
from harness.fleet.local.document import FleetDocument
from harness.fleet.local.faults import parse
from harness.fleet.local.ground import Ground
from harness.fleet.local.injection import Injection
from harness.fleet.local.load import CANCEL_LIMIT_S, CHURN_END_LIMIT_S, Load
from harness.fleet.local.resources import Sampler
from harness.fleet.local.rolls import Rolls
from harness.processes import own_identity
from harness.runs import RunFolder

UNCLAIMED_LIMIT_S = 120.0
START_LIMIT_S = 60.0
TEAR_DOWN_LIMIT_S = 60.0
NOTES_KEPT = 200


class Supervisor:
    """The state machine over one fleet."""

    def __init__(self, config: LocalConfig) -> None:
        self.config = config
        self.notes: list[str] = []
        self.socket_dir = config.socket_dir
        self.control_path = config.socket_dir / "control"
        self.ground = Ground(config, note=self.note, changed=self._changed)
        self.fleet = Fleet(self.ground)
        self.document = FleetDocument(config.folder.fleet_json, self._contents)
        self.rolls = Rolls(self.ground, self.fleet.proxies, self.fleet.targets)
        faults = parse(
            config.fault,
            [node.name for node in config.nodes],
            [target.name for target in config.targets],
            config.duration_s,
        )
        injection = Injection(self.ground, self.fleet.proxies, self.fleet.targets, self.fleet.engines)
        self.load = Load(self.ground, list(self.fleet.engines.values()), injection, faults)
        self._sampler = Sampler(config.live / "resources.jsonl", lambda: self.ground.children)
        self._load_asked = asyncio.Event()
        self._load_asked_at: str | None = None
        self._stop_asked = asyncio.Event()
        self._why_stopped = ""
        self._ready_s = 0.0

    # what others see

    def note(self, text: str) -> None:
        """Something worth knowing: into the supervisor's log and fleet.json."""
        line = f"{utc_stamp()} {text}"
        with contextlib.suppress(OSError):  # a full disk is found out by the files that matter
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        self.notes = [*self.notes, line][-NOTES_KEPT:]
        self._changed()

    def _changed(self) -> None:
        self.document.changed()

    def _contents(self) -> dict[str, Any]:
        return {
            "run": self.config.folder.run,
            "supervisor": own_identity().to_json(),
            "control": str(self.control_path),
            "socket_dir": str(self.socket_dir),
            "load_asked_at": self._load_asked_at,
            "nodes": [self.fleet.proxies[name].recorded(engine.backend) for name, engine in self.fleet.engines.items()],
            "processes": [recorded(child) for child in self.ground.children],
            "ready": self.fleet.readiness(),
            "notes": self.notes,
        }

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request of the control socket. Raises FleetError for one that cannot be met."""
        match request:
            case {"cmd": "status"}:
                return {"state": self.document.state, "reason": self.document.reason, "ready": self.fleet.readiness()}
            case {"cmd": "load"}:
                return self._ask_for_load()
            case {"cmd": "roll", "kind": str(kind), "name": str(name)}:
                return await self._roll(kind, name)
            case {"cmd": "stop", "cancel_load": bool(cancel_load)}:
                if self.load.runs and not cancel_load:
                    raise FleetError("the load still runs; wait for its end or cancel it")
                self.stop("stopped when asked to")
                return {}
        raise FleetError("the request is none of status, load, roll, stop")

    def _ask_for_load(self) -> dict[str, Any]:
        if self._load_asked.is_set():
            return {"already": True}
        if self.document.state != "ready":
            raise FleetError(f"the fleet is {self.document.state} and takes no load")
        self._load_asked_at = utc_stamp()
        try:
            self.document.save()  # on the disk before it is answered, and before anything is sent
        except OSError as error:
            raise FleetError(f"{self.config.folder.fleet_json} could not be written: {error}") from error
        self._load_asked.set()
        return {"already": False}

    async def _roll(self, kind: str, name: str) -> dict[str, Any]:
        if self.document.state not in ("ready", "loading"):
            raise FleetError(f"the fleet is {self.document.state}; nothing is rolled any more")
        began_s = time.monotonic()
        try:
            detail = await self.rolls.roll(kind, name)
        except OSError as error:
            raise FleetError(f"rolling {kind} {name} failed: {error}") from error
        return {"took_ms": round((time.monotonic() - began_s) * 1000), "detail": detail}

    def stop(self, why: str) -> None:
        """End everything; a running load is cancelled and writes its report."""
        self._why_stopped = self._why_stopped or why
        self._stop_asked.set()

    # what it does

    async def run(self) -> int:
        """Live through all states. Exit status 0 when it ended as stopped, 1 when it failed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, f"stopped by {number.name}")
        state, reason = await self._work_until_over()
        with contextlib.suppress(OSError):
            self.document.set_state("draining", reason)
        try:
            async with asyncio.timeout(CANCEL_LIMIT_S + TEAR_DOWN_LIMIT_S):
                await self.load.cancel()
                with contextlib.suppress(OSError):
                    self._sampler.sample()
                await self._tear_down()
        except (HarnessError, OSError) as error:
            state, reason = "failed", reason or f"the end was not orderly: {str(error) or 'it took too long'}"
        shutil.rmtree(self.socket_dir, ignore_errors=True)
        self.document.set_state(state, reason)
        return 0 if state == "stopped" else 1

    async def _work_until_over(self) -> tuple[str, str]:
        """Returns the last state and why it is over; the reason is empty after a load that ran to its end."""
        config = self.config
        limit_s = START_LIMIT_S + UNCLAIMED_LIMIT_S + 2 * config.settle_s + config.load_limit_s + CHURN_END_LIMIT_S
        work = asyncio.create_task(self._work())
        stopping = asyncio.create_task(self._stop_asked.wait())
        # these two end only with an error: a live file that could not be written
        watch = [asyncio.create_task(self.document.keep()), asyncio.create_task(self._sampler.run())]
        everything: list[asyncio.Task[Any]] = [work, stopping, *watch]
        done, _ = await asyncio.wait(everything, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        for task in everything:
            task.cancel()
        await asyncio.gather(*everything, return_exceptions=True)
        if not done:
            return "failed", f"the fleet was not done {limit_s:g} s after its start, its deadline"
        if stopping in done:
            return "stopped", self._why_stopped
        reason = _why([task for task in everything if task in done])
        return "failed" if reason else "stopped", reason

    async def _work(self) -> None:
        self.document.set_state("starting")
        async with asyncio.timeout(START_LIMIT_S):
            await self.fleet.start()
        server = await control.serve(self.control_path, self.answer)
        try:
            self._ready_s = time.monotonic()
            self.document.set_state("ready")
            self.note("ready: " + ", ".join(f"{kind} {a}/{b}" for kind, (a, b) in self.fleet.readiness().items()))
            await self._wait_for_load()
            self.document.set_state("loading")
            await self.load.run()
            self.document.set_state("draining")
            await self.load.end_churn()
        finally:
            server.close()
        reason = self.load.outcome()
        if reason:
            raise FleetError(reason)

    async def _wait_for_load(self) -> None:
        try:
            async with asyncio.timeout(UNCLAIMED_LIMIT_S + self.config.settle_s):
                await self._load_asked.wait()
        except TimeoutError:
            raise FleetError(
                f"nobody asked for the load within {UNCLAIMED_LIMIT_S + self.config.settle_s:g} s"
            ) from None
        await asyncio.sleep(max(0.0, self._ready_s + self.config.settle_s - time.monotonic()))

    async def _tear_down(self) -> None:
        await self.ground.close()
        if self.load.churn is not None:
            await self.load.churn.end(2.0)
        await self.fleet.stop()


def _why(ended: list[asyncio.Task[Any]]) -> str:
    for task in ended:
        error = task.exception()
        if isinstance(error, TimeoutError):
            return f"the fleet was not ready within {START_LIMIT_S:g} s"
        if isinstance(error, HarnessError):
            return str(error)
        if isinstance(error, OSError):
            return f"a file of the run could not be written or read: {error.strerror or error}"
        if error is not None:
            traceback.print_exception(error)
            return f"the supervisor failed: {type(error).__name__}: {error}; see supervisor.log"
    return ""


def hold_lock(folder: Path) -> int:
    """Be the only supervisor of this run. Returns the descriptor to keep. Raises FleetError when there is one."""
    descriptor = os.open(folder / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise FleetError(f"another supervisor of {folder} is running") from None
    return descriptor


async def _supervise(config: LocalConfig) -> int:
    shutil.rmtree(config.socket_dir, ignore_errors=True)  # left by a killed predecessor; the lock says it is gone
    make_socket_dir(config.socket_dir)
    return await Supervisor(config).run()


def main(arguments: list[str] | None = None) -> int:
    """The process's entry point. Exit 0 stopped, 1 failed (fleet.json says why), 4 could not even begin."""
    parser = argparse.ArgumentParser(prog="python -m harness.fleet.local")
    parser.add_argument("--run-dir", type=Path, required=True)
    folder = RunFolder(parser.parse_args(arguments).run_dir.resolve())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))  # every part inherits it
    try:
        config = read_config(folder)
        lock = hold_lock(folder.live)
        try:
            return asyncio.run(_supervise(config))
        finally:
            os.close(lock)
    except HarnessError as error:
        print(f"{utc_stamp()} {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"{utc_stamp()} the supervisor cannot write the files of {folder.root}: {error}", file=sys.stderr)
        return FleetError.exit_code
