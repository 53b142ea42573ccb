"""The embedded fleet as the stages see it. Everything is read from the run's files and asked of its supervisor."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from harness.children import python_module
from harness.errors import FleetError
from harness.files import copy_whole
from harness.fleet.base import Check, LoadState, Readiness
from harness.fleet.local import control, sweep
from harness.fleet.local.children import child_environment
from harness.fleet.local.config import LocalConfig, read_config
from harness.fleet.local.pins import pins
from harness.fleet.local.preflight import preflight
from harness.processes import Identity, alive, identify
from harness.runs import RunFolder

START_LIMIT_S = 75.0
ASK_LIMIT_S = 10.0
STOP_LIMIT_S = 120.0
POLL_S = 0.05
SUPERVISOR_LOG = "supervisor.log"

# every name or pattern under live/ that is evidence; those that a run does not have are simply absent
EVIDENCE = (
    "run.env", "plan.yaml", "shares.tsv", "engines.tsv", "report.json", "results.jsonl", "sortie.log", "times.tsv",
    "schedule.tsv", "churn.log", "pins.json", "fleet.json", "load.json", "progress.jsonl", "histograms.jsonl",
    "resources.jsonl", "faults.log", "access-*.log", "proxy-*.log", "engine-*.log", "target-*.log",
    SUPERVISOR_LOG, "driver.err", "churn.err",
)  # fmt: skip


class LocalFleet:
    """``harness.fleet.base.Fleet`` on this machine, for one run."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = RunFolder(folder.root.resolve())

    def _config(self) -> LocalConfig:
        return read_config(self.folder)

    def _document(self) -> dict[str, Any]:
        return sweep.read_fleet(self.folder.fleet_json)

    def _supervisor(self) -> Identity | None:
        found = sweep.supervisor_of(self._document())
        return found if found and alive(found) else None

    def pins(self) -> dict[str, str]:
        """Versions, and the digest of the Envoy binary. Raises PinError or FleetError when something is absent."""
        return pins()

    def preflight(self) -> list[Check]:
        """All checks; every one runs, none starts anything that stays. Raises FleetError without a plan."""
        return preflight(self._config())

    def start(self) -> list[Readiness]:
        """Start the fleet, or find it started, and wait until it is ready.

        Raises FleetError with the supervisor's reason, and when the run's load was already claimed.
        """
        config = self._config()
        supervisor = self._supervisor()
        if supervisor is None:
            if self.folder.load_json.exists() or self._document().get("load_asked_at"):
                raise FleetError("the load of this run was started before and its fleet is gone; start a new run")
            sweep.sweep(config)
            self.folder.fleet_json.unlink(missing_ok=True)
            supervisor = self._spawn(config)
        document = self._wait_started(supervisor)
        return [Readiness(kind, ready, wanted) for kind, (ready, wanted) in document["ready"].items()]

    def _spawn(self, config: LocalConfig) -> Identity:
        command = python_module("harness.fleet.local", "--run-dir", str(self.folder.root))
        log = str(self.folder.live / SUPERVISOR_LOG)
        append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            # not subprocess: nobody here waits for this process, and no object must stand for it
            pid = os.posix_spawn(
                command[0],
                command,
                child_environment(config.token),
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, log, append, 0o644),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,  # a signal to the command that started it does not reach it
            )
        except OSError as error:
            raise FleetError(f"the supervisor could not be started: {error}") from error
        return identify(pid) or Identity(pid, 0)

    def _wait_started(self, supervisor: Identity) -> dict[str, Any]:
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            gone = not alive(supervisor)  # asked first: what it wrote last is then there to read
            document = self._document()
            state = document.get("state")
            # a fleet that fails to start drains too, and is waited for until its reason is there
            if state in ("ready", "loading") or (state == "draining" and document.get("load_asked_at")):
                return document
            if gone:
                raise FleetError(self._why_gone(document))
            if time.monotonic() > deadline:
                raise FleetError(f"the fleet was not ready within {START_LIMIT_S:g} s; see {SUPERVISOR_LOG}")
            time.sleep(POLL_S)

    def _why_gone(self, document: dict[str, Any]) -> str:
        if document.get("reason"):
            return str(document["reason"])
        log = self.folder.live / SUPERVISOR_LOG
        lines = log.read_text(errors="replace").split("\n") if log.exists() else []
        said = [line for line in lines if line.strip()]
        return f"the supervisor is gone; it said last: {said[-1] if said else 'nothing'}"

    def is_up(self) -> bool:
        """True while the fleet stands and takes, or carries, its load."""
        return self._supervisor() is not None and self._document().get("state") in ("ready", "loading")

    def start_load(self) -> None:
        """Ask for the load, once. Raises FleetError when the fleet is gone or not ready."""
        if self._supervisor() is None:
            raise FleetError(self._why_gone(self._document()))
        answer = self._ask({"cmd": "load"})
        if not answer.get("ok"):
            raise FleetError(str(answer.get("error", "the supervisor refused the load")))

    def roll(self, kind: str, name: str, *, limit_s: float = 180.0) -> dict[str, Any]:
        """Roll one proxy or target; the supervisor's answer. Raises FleetError when it does not answer."""
        return self._ask({"cmd": "roll", "kind": kind, "name": name}, limit_s=limit_s)

    def _ask(self, request: dict[str, Any], *, limit_s: float = ASK_LIMIT_S) -> dict[str, Any]:
        return control.ask(Path(str(self._document().get("control", ""))), request, limit_s=limit_s)

    def load_state(self) -> LoadState:
        """How the load stands, from files and live processes alone."""
        supervisor = self._supervisor()
        document = self._document()
        processes = sweep.recorded_processes(document)
        driver_runs = any(name == "driver" and alive(process) for process, name in processes.items())
        driver_runs = driver_runs or self._claimant_runs()
        asked = bool(document.get("load_asked_at")) or self.folder.load_json.exists()
        reason = str(document.get("reason") or "")
        if not asked:
            return LoadState("not_started", reason)
        if driver_runs or supervisor is not None:
            return LoadState("running", str(document.get("state", "")) if supervisor else "its supervisor is gone")
        if self.folder.report_json.exists():
            return LoadState("ended", reason)
        return LoadState("gone", reason or "its driver and its supervisor are gone and left no report")

    def _claimant_runs(self) -> bool:
        """True while the process that claimed the load runs, also when its supervisor died before noting it."""
        claim = sweep.read_fleet(self.folder.load_json)
        try:
            return alive(Identity.from_json(claim))
        except (KeyError, TypeError, ValueError):
            return False

    def collect(self, target: Path) -> list[str]:
        """Copy every evidence file into ``target``, each whole or not at all. Returns the names, sorted.

        Raises OSError (a full disk).
        """
        target.mkdir(parents=True, exist_ok=True)
        sources = {path.name: path for pattern in EVIDENCE for path in self.folder.live.glob(pattern)}
        sources["run.json"] = self.folder.run_json
        for name, source in sources.items():
            copy_whole(source, target / name)
        return sorted(sources)

    def stop(self, *, cancel_load: bool) -> None:
        """End the fleet in order. Raises FleetError while a load runs that is not to be cancelled."""
        supervisor = self._supervisor()
        if supervisor is not None:
            answer = self._ask({"cmd": "stop", "cancel_load": cancel_load})
            if not answer.get("ok"):
                raise FleetError(str(answer.get("error")))
            deadline = time.monotonic() + STOP_LIMIT_S
            while alive(supervisor):
                if time.monotonic() > deadline:
                    raise FleetError(f"the fleet did not end within {STOP_LIMIT_S:g} s; run the teardown again")
                time.sleep(POLL_S)
        elif self.load_state().state == "running" and not cancel_load:
            raise FleetError("the load still runs; wait for its end or cancel it")
        self.sweep()

    def sweep(self) -> list[str]:
        """End what a dead run left behind, by pid and start time or by its mark. A line for each thing."""
        return sweep.sweep(self._config())
