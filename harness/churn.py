"""The churn: rolls of proxies and targets while the load runs, on a schedule, each proven by a line in churn.log.

``python -m harness.churn --run-dir DIR`` reads schedule.tsv, counts from the load's start, and asks the fleet's
supervisor for one roll after the other. The first that fails ends the churn, never the load: the gate then finds
what is missing.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import harness
from harness.errors import FleetError, HarnessError
from harness.files import LineLog, read_json, utc_stamp
from harness.fleet.local import control
from harness.plan.model import Roll
from harness.plan.schedule import read_schedule_tsv
from harness.runs import RunFolder

CLAIM_LIMIT_S = 60.0
ROLL_LIMIT_S = 180.0
POLL_S = 0.05


class Stopped(Exception):  # noqa: N818 - a request to end, not an error
    """Raised by the signal handler."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Churn:
    """One run of the schedule."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._schedule = sorted(read_schedule_tsv(folder.schedule), key=lambda roll: roll.at_s)  # stable
        self._log = LineLog(_fresh(folder.churn_log))

    def run(self) -> int:
        """Do the schedule. Returns 0 when every roll was done, 1 when one failed, 128 + n after signal n."""
        try:
            start_unix_s = self._load_start()
            self._say(f"churn driver start T0={utc_stamp(start_unix_s)} build={harness.__version__}")
            for roll in self._schedule:
                _sleep_until(start_unix_s + roll.at_s)
                self._do(roll)
        except Stopped as stop:
            self._say(f"CHURN ABORTED: stopped by {signal.Signals(stop.number).name}")
            return 128 + stop.number
        except HarnessError as error:
            self._say(f"CHURN ABORTED: {error}")
            return 1
        proxies = sum(roll.kind == "proxy" for roll in self._schedule)
        targets = len(self._schedule) - proxies
        self._say(f"churn driver complete ({len(self._schedule)} rolls: {proxies} proxy, {targets} target)")
        return 0

    def _load_start(self) -> float:
        deadline = time.monotonic() + CLAIM_LIMIT_S
        while not self._folder.load_json.exists():
            if time.monotonic() > deadline:
                raise FleetError(f"the load did not start within {CLAIM_LIMIT_S:g} s")
            time.sleep(POLL_S)
        return float(read_json(self._folder.load_json)["start_unix_ns"]) / 1e9

    def _do(self, roll: Roll) -> None:
        what = f"local/{roll.kind}/{roll.name}"
        try:
            answer = self._ask(roll)
            if not answer.get("ok"):
                raise FleetError(str(answer.get("error", "the supervisor gave no reason")))
        except FleetError as error:
            self._say(f"FAILED {what} at_s={roll.at_s} : {error}")
            raise FleetError(f"{what} failed; the rest of the schedule is not done") from error
        self._say(f"ROLLED {what} at_s={roll.at_s} took_ms={answer['took_ms']}")

    def _ask(self, roll: Roll) -> dict[str, Any]:
        try:
            path = Path(read_json(self._folder.fleet_json)["control"])
        except (OSError, ValueError, KeyError) as error:
            raise FleetError(f"{self._folder.fleet_json} does not say where the supervisor is") from error
        return control.ask(path, {"cmd": "roll", "kind": roll.kind, "name": roll.name}, limit_s=ROLL_LIMIT_S)

    def _say(self, text: str) -> None:
        self._log.write(f"{utc_stamp()} {text}")


def _fresh(path: Path) -> Path:
    """An earlier log is kept under another name, never continued: its rolls would count twice."""
    number = 1
    while path.exists():
        earlier = path.with_name(f"{path.name}.{number}")
        if not earlier.exists():
            path.rename(earlier)
        number += 1
    return path


def _sleep_until(unix_s: float) -> None:
    while (left_s := unix_s - time.time()) > 0:
        time.sleep(left_s)


def _stop(number: int, frame: object) -> NoReturn:
    raise Stopped(number)


def main(arguments: list[str] | None = None) -> int:
    """The process's entry point. Exit 0 complete, 1 aborted, 3 unusable schedule, 4 no log, 128 + n after a signal."""
    parser = argparse.ArgumentParser(prog="python -m harness.churn")
    parser.add_argument("--run-dir", type=Path, required=True)
    folder = RunFolder(parser.parse_args(arguments).run_dir)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        return Churn(folder).run()
    except Stopped as stop:
        return 128 + stop.number
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"the churn cannot read or write the files of {folder.root}: {error}", file=sys.stderr)
        return FleetError.exit_code


if __name__ == "__main__":
    sys.exit(main())
