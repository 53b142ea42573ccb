"""The process that follows a load: ``python -m harness.fleet.kubernetes --run-dir DIR``, started detached.

The saver is armed first, before anybody looks at the driver's pod; then the watchdog of restarts and the churn run
beside it as processes of their own. It ends by itself when the load is over and saved, or overdue. A signal ends it
within seconds and leaves the load alone: whoever goes on with the run starts it again, and it follows the same Job.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from harness.errors import FleetError, HarnessError
from harness.files import copy_whole, utc_stamp
from harness.fleet.kubernetes import load, looking
from harness.fleet.kubernetes.answers import Document, metadata
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.beside import Beside
from harness.fleet.kubernetes.calls import blind_log
from harness.fleet.kubernetes.config import ClusterConfig, read_config
from harness.fleet.kubernetes.document import LOADING, STOPPED, change_fleet
from harness.fleet.kubernetes.load import Job
from harness.fleet.kubernetes.objects import PRIORITY_VALUE
from harness.fleet.kubernetes.reader import reader_of, why_waiting
from harness.fleet.kubernetes.runenv import append_run_env, read_run_env
from harness.fleet.kubernetes.saver import Saved, Saver, say, write_claim
from harness.processes import own_identity
from harness.runs import RunFolder

POLL_S = 5.0
SNAPSHOT_S = 300.0  # how old the driver's log may be when its pod is lost without a warning
OVERDUE_S, GIVE_UP_S = 300.0, 1200.0  # after the planned end
SAVE_TRIES, SAVE_AGAIN_S = 4, 20.0
BLIND, LOCK = "blind.jsonl", "supervisor.lock"
SETTLE_LOG = "sortie-settle.log"


class StoppedBySignal(BaseException):
    """A signal asked this process to end; not an Exception, so that no call takes it for a fault."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Supervisor:
    """Follows one load to its end. ``sleep`` waits between two looks and may raise to break off."""

    def __init__(
        self,
        config: ClusterConfig,
        api: Api,
        job: Job,
        saver: Saver,
        beside: Beside,
        *,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._api = api
        self._job = job
        self._saver = saver
        self._beside = beside
        self._sleep = sleep
        self._now = now
        self._snapshot_at_s = 0.0
        self._settled = self._overdue = False
        self._said = ""

    def run(self) -> Saved:
        """Until the load is over and saved. Raises OSError on a full disk."""
        self._arm()
        state = load.ACTIVE
        while state not in load.OVER:
            try:
                state = self._look()
            except FleetError as error:  # the API is away, or says no: the load goes on, and so do we
                self._say_once(f"could not look: {error}")
            if state in load.OVER or self._is_given_up():
                break
            self._sleep(POLL_S)
        saved = self._save()
        self._beside.end(early=self._now() < self._planned_end_s() - POLL_S)
        reason = "" if saved.has_report else saved.line
        change_fleet(self._config, state=STOPPED, reason=reason, saved=saved.line, job_state=saved.job_state)
        return saved

    def _arm(self) -> None:
        change_fleet(
            self._config,
            state=LOADING,
            reason="",
            supervisor=own_identity().to_json(),
            job={"name": self._job.name, "uid": self._job.uid},
            job_state=load.ACTIVE,
        )
        say(self._config, f"saver armed: job={self._job.name} uid={self._job.uid}")
        if self._config.folder.load_json.exists():  # attached again: it says who follows the load
            write_claim(self._config, self._job, {})

    # --- one look

    def _look(self) -> str:
        """One look at the Job, then at its pod; the Job's state."""
        state = load.state_of(load.look(self._config, self._api, self._job))
        pods = load.driver_pods(self._config, self._api, self._job)
        if pods:
            self._look_at_driver(pods[0])
        change_fleet(self._config, job_state=state)
        return state

    def _look_at_driver(self, pod: Document) -> None:
        phase = load.phase_of(pod)
        change_fleet(self._config, driver_phase=phase, driver_why="" if phase == "Running" else why_waiting(pod))
        if phase and "T_LOAD" not in read_run_env(self._config.folder.run_env):
            append_run_env(self._config.folder.run_env, T_LOAD=int(self._now()))
            say(self._config, f"driver pod {metadata(pod).get('name')} is {phase}")
            self._check_priority(pod)
        if phase != "Running":
            return
        if not self._config.folder.load_json.exists():
            write_claim(self._config, self._job, {})
        self._beside.start_watchdog()
        self._beside.start_churn()
        leaving = bool(metadata(pod).get("deletionTimestamp"))
        if leaving or self._now() - self._snapshot_at_s >= SNAPSHOT_S:
            self._snapshot_at_s = self._now()
            self._saver.snapshot()
        looking.show(self._config, self._api, str(metadata(pod).get("name")))
        if not self._settled and self._now() >= self._start_s() + self._config.settle_s and not leaving:
            self._settled = True
            self._keep_settle_log()

    def _check_priority(self, pod: Document) -> None:
        spec, wanted = pod.get("spec") or {}, (self._config.priority_class, PRIORITY_VALUE)
        found = (spec.get("priorityClassName"), spec.get("priority"))
        if found != wanted:
            say(
                self._config,
                f"WARNING the driver's pod has priority {found[0]} {found[1]}, not {wanted[0]} {wanted[1]}",
            )

    def _say_once(self, text: str) -> None:
        """What is found again at every look is said when it changes."""
        if text != self._said:
            self._said = text
            say(self._config, text)

    def _keep_settle_log(self) -> None:
        """The driver still runs after the settle: its log until here stays as it was before the first roll."""
        self._saver.snapshot()
        log = self._config.folder.driver_log
        if log.exists() and not (self._config.live / SETTLE_LOG).exists():
            copy_whole(log, self._config.live / SETTLE_LOG)

    # --- its end

    def _start_s(self) -> float:
        return float(read_run_env(self._config.folder.run_env).get("T_LOAD") or self._job.t_job_s)

    def _planned_end_s(self) -> float:
        return self._start_s() + self._config.duration_s

    def _is_given_up(self) -> bool:
        late_s = self._now() - self._planned_end_s()
        if late_s > OVERDUE_S and not self._overdue:
            self._overdue = True
            say(self._config, f"SORTIE_OVERDUE job={self._job.name}: {late_s:.0f} s after its planned end it is active")
        return late_s > GIVE_UP_S

    def _save(self) -> Saved:
        """Save, again if a file did not come whole; what there is counts in the end."""
        saved = Saved("", False, "SORTIE_SAVE_FAILED no report: the API could not be asked")
        for attempt in range(SAVE_TRIES):
            if attempt:
                self._sleep(SAVE_AGAIN_S)
            try:
                saved = self._saver.save()
            except FleetError as error:
                say(self._config, f"could not save: {error}")
                continue
            if not saved.unread or saved.job_state == load.ACTIVE:
                break
        return saved


def hold_lock(folder: Path) -> int:
    """Be the only supervisor of this run. Returns the descriptor to keep. Raises FleetError when there is one."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise FleetError(f"another supervisor of {folder} is running") from None
    return descriptor


class Stop:
    """Turns SIGTERM and SIGINT into the end of whatever wait is going on."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._number = 0

    def ask(self, number: int, frame: object) -> None:
        """The signal handler. A second signal changes nothing: what is being put in order is not broken off."""
        if self._asked.is_set():
            return
        self._number = number
        self._asked.set()
        raise StoppedBySignal(number)

    def sleep(self, seconds: float) -> None:
        """Wait; raises StoppedBySignal as soon as a signal came."""
        if self._asked.wait(seconds):
            raise StoppedBySignal(self._number)


def follow(config: ClusterConfig, stop: Stop) -> int:
    """Follow the load that is noted in the run's folder. 0: over, with a report; 1: over, without one."""
    job = load.noted(config)
    if job is None:
        raise FleetError(f"{config.folder.intent} names no Job: there is no load to follow")
    api = Api(config, on_blind=blind_log(config.live / BLIND), sleep=stop.sleep)
    reader = reader_of(config, api, sleep=stop.sleep)
    beside = Beside(config)
    supervisor = Supervisor(
        config, api, job, Saver(config, api, job, reader, sleep=stop.sleep), beside, sleep=stop.sleep
    )
    try:
        return 0 if supervisor.run().has_report else 1
    finally:
        beside.end(early=True)


def main(arguments: list[str] | None = None) -> int:
    """The process's entry point. Exit 0 saved, 1 over without a report, 4 could not begin, 128 + n after signal n."""
    parser = argparse.ArgumentParser(prog="python -m harness.fleet.kubernetes")
    parser.add_argument("--run-dir", type=Path, required=True)
    folder = RunFolder(parser.parse_args(arguments).run_dir.resolve())
    stop = Stop()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop.ask)
        config = read_config(folder)
        lock = hold_lock(folder.live)
        try:
            return follow(config, stop)
        finally:
            os.close(lock)
    except StoppedBySignal as stopped:
        print(f"{utc_stamp()} stopped by signal {stopped.number}; the load goes on", file=sys.stderr)
        return 128 + stopped.number
    except HarnessError as error:
        print(f"{utc_stamp()} {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"{utc_stamp()} the supervisor cannot write the files of {folder.root}: {error}", file=sys.stderr)
        return FleetError.exit_code
