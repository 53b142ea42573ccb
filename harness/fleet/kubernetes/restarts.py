"""The watchdog of restarts: which containers were restarted since the load began, and whether that could be seen.

``python -m harness.fleet.kubernetes.restarts --run-dir DIR`` counts against a baseline until the load's planned end and
writes ``restart-watch.log``. Its last line is the verdict; the exit code is not: 0 when it came to its end, 2 without a
baseline, 4 when it could not begin, 128 + n after signal n.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import harness
from harness.errors import ClusterError, FleetError, HarnessError
from harness.files import LineLog, utc_stamp
from harness.fleet.kubernetes.calls import blind_log
from harness.fleet.kubernetes.churn.calls import (
    Clock,
    ClusterCalls,
    Document,
    InFlight,
    Kept,
    count,
    name_of,
    objects,
    part,
    uid_of,
)
from harness.fleet.kubernetes.churn.cluster import Cluster
from harness.fleet.kubernetes.churn.logs import archive
from harness.fleet.kubernetes.churn.planned import SCHEDULE_FILE, load_schedule
from harness.fleet.kubernetes.config import ClusterConfig, read_config
from harness.fleet.kubernetes.runenv import read_run_env
from harness.runs import RunFolder

LOG = "restart-watch.log"
BLIND_FILE = "blind.jsonl"
LONG_LOAD_S = 3600
INTERVAL_S, SHORT_INTERVAL_S = 120.0, 30.0
BASELINE_TRIES, BASELINE_WAIT_S = 5, 10.0
PATIENCE_S = 10.0
FINISH_S = 1.5
LONGEST_WHY = 300
NO_BASELINE = 2
STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")

Key = tuple[str, str]
"""Uid of the pod, name of the container: a pod that is made anew under its name is another one."""


@dataclass(frozen=True)
class Container:
    """What the API says of one container; ``-`` stands for what has not happened."""

    namespace: str
    pod: str
    name: str
    restarts: int
    last_reason: str
    exit_code: str
    finished_at: str
    state: str

    @property
    def place(self) -> str:
        """``namespace/pod/container``."""
        return f"{self.namespace}/{self.pod}/{self.name}"

    @property
    def words(self) -> str:
        """How it ended last, and how it is."""
        return (
            f"lastReason={self.last_reason} exitCode={self.exit_code} finishedAt={self.finished_at} state={self.state}"
        )


def containers_of(namespace: str, pods: list[Document]) -> dict[Key, Container]:
    """Every container that a status tells of, init containers too."""
    return {
        (uid_of(pod), str(status.get("name"))): _container(namespace, pod, status)
        for pod in pods
        for key in STATUSES
        for status in objects(pod, "status", key)
    }


def _container(namespace: str, pod: Document, status: Document) -> Container:
    last = part(status, "lastState", "terminated")
    code = part(last, "exitCode")
    return Container(
        namespace=namespace,
        pod=name_of(pod),
        name=str(status.get("name")),
        restarts=count(status, "restartCount"),
        last_reason=_word(part(last, "reason")),
        exit_code="-" if code is None else str(code),
        finished_at=_word(part(last, "finishedAt")),
        state=_state(status),
    )


def _state(status: Document) -> str:
    state = part(status, "state")
    if part(state, "running") is not None:
        return "running"
    for kind in ("waiting", "terminated"):
        if part(state, kind) is not None:
            return f"{kind}:{_word(part(state, kind, 'reason'))}"
    return "unknown"


def _word(value: object) -> str:
    return "_".join(str(value).split()) if value else "-"


class Watchdog:
    """One watch. ``end_unix_s`` is when it is complete; its last sample is taken then."""

    def __init__(
        self,
        calls: ClusterCalls,
        *,
        context: str,
        namespaces: tuple[str, ...],
        log: Path,
        interval_s: float,
        end_unix_s: float,
        clock: Clock | None = None,
    ) -> None:
        self._flying = InFlight()
        self._raw = calls
        self._calls = Kept(calls, self._flying)
        self._where = f"context={context} namespaces={','.join(namespaces)}"
        self._namespaces = namespaces
        self._log = LineLog(log)
        self._interval_s = interval_s
        self._end_s = end_unix_s
        self._clock = clock or Clock()
        self._baseline: dict[Key, int] | None = None
        self._baseline_sum = 0
        self._seen: dict[Key, Container] = {}
        self._live: set[Key] = set()
        self._samples = self._error_samples = 0
        self._begun_s = 0.0
        self._main: asyncio.Task[str] | None = None
        self._signal = 0

    def _say(self, text: str) -> None:
        self._log.write(f"{utc_stamp(self._clock.now())} {text}")

    def stop(self, number: int) -> None:
        """End it now, as signal ``number`` asks, with a summary."""
        if not self._signal:
            self._signal = number
            if self._main is not None:
                self._main.cancel()

    async def run(self) -> int:
        """Watch to the end; the exit code. Raises OSError when the log cannot be written."""
        self._begun_s = self._clock.now()
        lasts_s = max(0.0, self._end_s - self._begun_s)
        self._say(
            f"restart-watch start {self._where} interval={self._interval_s:g}s duration={lasts_s:.0f}s "
            f"build={harness.__version__}"
        )
        self._main = asyncio.get_running_loop().create_task(self._watch())
        if self._signal:
            self._main.cancel()
        try:
            ended = await self._main
        except asyncio.CancelledError:
            if not self._signal:
                raise
            self._raw.break_off()
            await self._flying.finish(FINISH_S)
            ended = signal.Signals(self._signal).name.removeprefix("SIG")
        self._summary(ended)
        self._log.close()
        if self._signal:
            return 128 + self._signal
        return 0 if self._baseline is not None else NO_BASELINE

    async def _watch(self) -> str:
        if not await self._take_baseline():
            return "complete"
        due_s = self._clock.now()
        while due_s < self._end_s:
            due_s = min(due_s + self._interval_s, self._end_s)
            await self._clock.until(due_s)
            self._samples += 1
            seen, failed = await self._look(str(self._samples))
            self._take(seen, failed)
            if self._clock.now() - due_s > self._interval_s:
                due_s = self._clock.now()  # a machine that slept takes one sample, not all that it missed
        return "complete"

    async def _take_baseline(self) -> bool:
        for attempt in range(1, BASELINE_TRIES + 1):
            seen, failed = await self._look(f"baseline-{attempt}")
            if not failed:
                self._seen, self._live = seen, set(seen)
                self._baseline = {key: container.restarts for key, container in seen.items()}
                self._baseline_sum = sum(self._baseline.values())
                restarted = sorted((found for found in seen.values() if found.restarts), key=lambda one: one.place)
                self._say(
                    f"BASELINE count={self._baseline_sum} {self._where} ({len(restarted)} of {len(seen)} containers "
                    "were restarted before)"
                )
                for found in restarted:
                    self._say(f"BASELINE {found.place} restarts={found.restarts} {found.words}")
                return True
            if attempt < BASELINE_TRIES:
                await self._clock.sleep(BASELINE_WAIT_S)
        return False

    async def _look(self, sample: str) -> tuple[dict[Key, Container], set[str]]:
        """All containers of all namespaces, and the namespaces that could not be listed, each with its line."""
        found: dict[Key, Container] = {}
        failed = set()
        for namespace in self._namespaces:
            try:
                found |= containers_of(namespace, await self._calls.select("Pod", namespace))
            except ClusterError as error:
                failed.add(namespace)
                why = " ".join(str(error).split())[:LONGEST_WHY]
                self._say(f"ERROR kubectl failed: ns={namespace} sample={sample} {why}")
        return found, failed

    def _take(self, seen: dict[Key, Container], failed: set[str]) -> None:
        """One sample: what is new since the baseline, of all that was seen so far."""
        kept = {key for key in self._live if key in self._seen and self._seen[key].namespace in failed}
        self._live = set(seen) | kept
        for key, container in seen.items():
            before = self._seen.get(key)
            if before is None or container.restarts >= before.restarts:
                self._seen[key] = container
        self._error_samples += bool(failed)
        new = self._new()
        numbers = f"sample={self._samples} baseline={self._baseline_sum}"
        if new:
            self._say(f"RESTARTS count={sum(new.values())} {numbers}")
            for line in self._restart_lines(new):
                self._say(line)
        elif not failed:
            self._say(f"ok count=0 {numbers}")

    def _new(self) -> dict[Key, int]:
        baseline = self._baseline or {}
        new = {key: container.restarts - baseline.get(key, 0) for key, container in self._seen.items()}
        return {key: number for key, number in new.items() if number > 0}

    def _restart_lines(self, new: dict[Key, int]) -> list[str]:
        return sorted(
            f"RESTART {self._seen[key].place} restarts={self._seen[key].restarts} new={number} {self._seen[key].words} "
            f"seen={'live' if key in self._live else 'gone'}"
            for key, number in new.items()
        )

    def _summary(self, ended: str) -> None:
        times = f"from={utc_stamp(self._begun_s)} to={utc_stamp(self._clock.now())} {self._where}"
        if self._baseline is None and not self._signal:
            self._say(f"SUMMARY restart-watch verdict=UNPROVEN reason=no-baseline tries={BASELINE_TRIES} {times}")
            return
        new = self._new()
        proven = ended == "complete" and self._samples > 0 and not self._error_samples
        verdict = "FAIL" if new else "PASS" if proven else "UNPROVEN"
        self._say(
            f"SUMMARY restart-watch verdict={verdict} new_restarts={sum(new.values())} containers={len(new)} "
            f"samples={self._samples} error_samples={self._error_samples} baseline={self._baseline_sum} ended={ended} "
            f"{times}"
        )
        for line in self._restart_lines(new):
            self._say(f"SUMMARY {line}")


def namespaces_of(config: ClusterConfig) -> tuple[str, ...]:
    """The run's namespaces and those of everything that its churn touches. Raises PlanError for a bad schedule."""
    found = {config.system_namespace, config.namespace}
    if (config.live / SCHEDULE_FILE).exists():
        found |= {thing.namespace for step in load_schedule(config).done for thing in step.things}
    return tuple(sorted(found - {""}))


async def run(config: ClusterConfig) -> int:
    """Watch a run's load; the exit code."""
    start = read_run_env(config.folder.run_env).get("T_LOAD", "")
    if not (start.isascii() and start.isdigit()):
        raise FleetError(f"{config.folder.run_env} has no T_LOAD: there is no load to watch over")
    calls = Cluster(config, patience_s=PATIENCE_S, on_blind=blind_log(config.live / BLIND_FILE))
    log = config.live / LOG
    archive(log)
    watchdog = Watchdog(
        calls,
        context=config.context,
        namespaces=namespaces_of(config),
        log=log,
        interval_s=INTERVAL_S if config.duration_s > LONG_LOAD_S else SHORT_INTERVAL_S,
        end_unix_s=float(start) + config.duration_s,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, watchdog.stop, number)
    return await watchdog.run()


def main(arguments: list[str] | None = None) -> int:
    """The process's entry point; its exit codes stand above."""
    parser = argparse.ArgumentParser(prog="python -m harness.fleet.kubernetes.restarts")
    parser.add_argument("--run-dir", type=Path, required=True)
    folder = RunFolder(parser.parse_args(arguments).run_dir.resolve())
    try:
        return asyncio.run(run(read_config(folder)))
    except KeyboardInterrupt:  # before the loop listens to signals: nothing was begun
        return 128 + signal.SIGINT
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"the watchdog cannot read or write the files of {folder.root}: {error}", file=sys.stderr)
        return FleetError.exit_code


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a call that was abandoned has a thread that nobody waits for
