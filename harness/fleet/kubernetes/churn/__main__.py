"""``python -m harness.fleet.kubernetes.churn --run-dir DIR``: the churn of a run's load, a process of its own.

With ``--undo`` it only puts back what a churn that was killed left changed. Exit 0 complete, 1 aborted, 2 the
pre-flight found something, 3 an unusable schedule, 4 no log, no load or no cluster, 128 + n after signal n.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from harness.errors import FleetError, HarnessError
from harness.fleet.kubernetes.calls import blind_log
from harness.fleet.kubernetes.churn.calls import ClusterCalls
from harness.fleet.kubernetes.churn.cluster import Cluster
from harness.fleet.kubernetes.churn.logs import archive
from harness.fleet.kubernetes.churn.planned import load_schedule, put_back_left
from harness.fleet.kubernetes.churn.runner import Churn
from harness.fleet.kubernetes.churn.schedule import Schedule
from harness.fleet.kubernetes.churn.undo import FILE, Undo
from harness.fleet.kubernetes.churn.workloads import check_churn
from harness.fleet.kubernetes.config import ClusterConfig, read_config
from harness.fleet.kubernetes.runenv import read_run_env
from harness.runs import RunFolder

BLIND_FILE = "blind.jsonl"
PREFLIGHT_FAILED = 2


async def run(config: ClusterConfig) -> int:
    """The pre-flight, then the churn. Signals TERM and INT end either."""
    schedule = load_schedule(config)
    offset_s = schedule.offset_s(config.settle_s)
    load_start_unix_s = _load_start(config)
    undo = Undo(config.live / FILE)
    calls = Cluster(config, on_blind=blind_log(config.live / BLIND_FILE))
    if code := await _preflight(schedule, calls, undo):
        return code
    archive(config.folder.churn_log)
    churn = Churn(
        schedule,
        calls,
        config=config,
        log=config.folder.churn_log,
        t0_unix_s=load_start_unix_s + offset_s,
        offset_s=offset_s,
        undo=undo,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, churn.stop, number)
    return await churn.run()


def _load_start(config: ClusterConfig) -> float:
    text = read_run_env(config.folder.run_env).get("T_LOAD", "")
    if not (text.isascii() and text.isdigit()):
        raise FleetError(f"{config.folder.run_env} has no T_LOAD: there is no load that a churn could count from")
    return float(text)


async def _preflight(schedule: Schedule, calls: ClusterCalls, undo: Undo) -> int:
    """0 when every check holds, else the exit code; each that does not is printed on a line of its own.

    churn.log is not touched. What an earlier churn left is put back before: a target that it scaled to 0 would fail
    here for ever.
    """
    loop = asyncio.get_running_loop()
    checking = loop.create_task(_may_start(schedule, calls, undo))
    stopped: list[int] = []

    def stop(number: int) -> None:
        stopped.append(number)
        checking.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        holds = await checking
    except asyncio.CancelledError:
        holds = False
    if stopped:  # also when the last check was over by then
        return 128 + stopped[0]
    return 0 if holds else PREFLIGHT_FAILED


async def _may_start(schedule: Schedule, calls: ClusterCalls, undo: Undo) -> bool:
    if undo and not await undo.put_back(calls, print):
        return False
    failed = [check for check in await check_churn(schedule, calls) if not check.ok]
    for check in failed:
        print(f"preflight FAIL  {check.name}: {check.seen}")
    return not failed


def main(arguments: list[str] | None = None) -> int:
    """The process's entry point; its exit codes stand above."""
    parser = argparse.ArgumentParser(prog="python -m harness.fleet.kubernetes.churn")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--undo", action="store_true", help="only put back what a killed churn left changed")
    given = parser.parse_args(arguments)
    folder = RunFolder(given.run_dir.resolve())
    try:
        config = read_config(folder)
        if given.undo:
            return 0 if put_back_left(config, print) else 1
        return asyncio.run(run(config))
    except KeyboardInterrupt:  # before the loop listens to signals: nothing was begun
        return 128 + signal.SIGINT
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"the churn cannot read or write the files of {folder.root}: {error}", file=sys.stderr)
        return FleetError.exit_code


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a call that was abandoned has a thread that nobody waits for
