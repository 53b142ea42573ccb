"""Checks beside the runs: whether lag tells anything, whether the tier grows, what a realism ladder's duty foretold.

The first two measure. What they saw is kept in ``runs/checks/<name>-<UTC stamp>/``: ``check.json`` before anything is
started, ``result.json``, ``SHA256SUMS``, and ``SAVED`` last; a folder without it proves nothing. Whatever they started
is ended with them, and what a killed one left is ended by the next. The third reads a saved ladder and keeps nothing.
"""

from __future__ import annotations

import dataclasses
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from doit.exceptions import TaskFailed

from harness import __version__
from harness.e8 import bench, faults
from harness.e8 import free_check as free
from harness.e8 import lag_check as lag
from harness.e8 import steady as soak
from harness.e8.arms import ARMS, CAPACITY, REALISM
from harness.e8.plan import MOST_LIFETIME_S, LadderPlan, plan_ladder
from harness.e8.target import Target, embedded
from harness.e8.tier import handle
from harness.errors import EXIT_PASS, BusyError, HarnessError, SettingsError, StageError, UsageError
from harness.files import read_json, sha256_file, utc_stamp, write_atomic, write_json
from harness.gate import store
from harness.gate.verdict import REFUSED
from harness.graph import lock
from harness.graph.invocation import Invocation
from harness.graph.stage import describe
from harness.processes import end, find_marked
from harness.progress import time_left
from harness.runs import CHECKS, SAVED, SUMS, RunFolder, new_run_id
from harness.settings import Settings
from harness.store.columns import LADDER
from harness.store.formats import e8
from harness.store.kinds import kind_of_run
from harness.store.sums import list_files, sums_text, verify_sums
from harness.terminal import LiveLine

LAG_CHECK, STEADY, FREE_CHECK = "e8-lag-check", "e8-soak", "free-check"
ABOUT = "check.json"
STATES = "tier*.json"
GRACE_S = 5.0
PLAIN_EVERY_S = 10.0
PREPARING_S = 1800.0  # ten rounds of calibration take a third of that
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class CheckError(HarnessError):
    """A check did its work and did not pass; its exit code is the verdict's."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Found(Protocol):
    """What a check that measures came to."""

    @property
    def verdict(self) -> str:
        """PASS, FAIL, REFUSED or UNPROVEN."""

    @property
    def reason(self) -> str | None:
        """Why, where it is not PASS."""

    @property
    def exit_code(self) -> int:
        """The command's."""

    def lines(self) -> list[str]:
        """For people; the verdict last."""

    def to_json(self) -> dict[str, Any]:
        """All of it."""


@dataclasses.dataclass(frozen=True)
class Bench:
    """Where a check works: its folder, the mark of its processes, and the line on the terminal."""

    folder: Path
    mark: str
    line: LiveLine


# --- the tasks


def lag_check(invocation: Invocation) -> dict[str, Any]:
    """``e8-lag-check``."""

    def work() -> None:
        if invocation.settings.e8.base:
            raise UsageError(
                "the lag check stops a worker on purpose, and only one of the embedded tier: leave e8.base= empty"
            )
        _measure(invocation, LAG_CHECK, _look_at_lag)

    return _task(invocation, LAG_CHECK, work) | {"basename": LAG_CHECK}


def steady(invocation: Invocation) -> dict[str, Any]:
    """``e8-soak``."""

    def work() -> None:
        plan = soak_plan(invocation.settings)
        _measure(invocation, STEADY, partial(_hold, plan))

    return _task(invocation, STEADY, work) | {"basename": STEADY}


def free_check(invocation: Invocation) -> Iterator[dict[str, Any]]:
    """``free-check:RUN`` for every saved ladder that is shown, and for whatever run was named."""
    yield {"basename": FREE_CHECK, "name": None, "doc": "Sandbox CPU of a saved realism ladder beside c × duty."}
    for folder in invocation.shown():
        if folder in invocation.named or (folder.saved.exists() and kind_of_run(folder) == LADDER):
            task = _task(invocation, FREE_CHECK, partial(_check_free, folder), run=folder.run)
            yield task | {
                "basename": FREE_CHECK,
                "name": folder.run,
                "doc": f"sandbox CPU of run {folder.run} beside c × duty",
            }


def _task(invocation: Invocation, name: str, work: Callable[[], None], *, run: str | None = None) -> dict[str, Any]:
    """A task whose failures are errors of the invocation."""

    def action() -> TaskFailed | None:
        try:
            work()
        except HarnessError as error:
            failed = error
        except OSError as error:
            failed = StageError(describe(error, name))
        else:
            return None
        failed.run, failed.stage = run, name
        invocation.errors.append(failed)
        return TaskFailed(str(failed))

    return {"actions": [action], "verbosity": 2, "uptodate": [False]}


# --- what they do


def _look_at_lag(at: Bench) -> lag.LagCheck:
    began_s, takes_s = time.monotonic(), lag.expected_s()
    return lag.run(
        at.folder,
        mark=at.mark,
        say=lambda doing: at.line.show(f"{doing}  {time_left(takes_s - (time.monotonic() - began_s))}"),
    )


def soak_plan(settings: Settings) -> LadderPlan:
    """A ladder of one rung beside c=1, of the arm that was asked for, else of the one with more turns a second.

    Raises SettingsError or FaultError.
    """
    own, arm = settings.e8, settings.arm if settings.arm in ARMS else CAPACITY
    faults.parse(settings.fault, ladder=())  # a soak has no rung at which something could go wrong
    rungs = "1" if own.soak_c == 1 else f"1 {own.soak_c}"
    plan = plan_ladder(dataclasses.replace(settings, arm=arm, ladder=rungs))
    if plan.tier is None:
        return plan
    lifetime_s = PREPARING_S + own.soak_s + own.turn_timeout_s
    if lifetime_s > MOST_LIFETIME_S:
        most_s = MOST_LIFETIME_S - PREPARING_S - own.turn_timeout_s
        raise SettingsError(f"e8.soak_s={own.soak_s:g}: the embedded tier lives for a day; give at most {most_s:g}")
    return dataclasses.replace(plan, tier=dataclasses.replace(plan.tier, lifetime_s=lifetime_s))


def _hold(plan: LadderPlan, at: Bench) -> soak.Soak:
    """Start and prepare what is held, or check it, and hold one rung."""
    own = plan.settings.e8
    at.line.show(f"{plan.arm} arm, preparing")
    target = _target(plan, at)
    if target.tier is not None:
        workload = bench.prepare(target.tier, plan.arm, plan.basis)
    else:
        workload = bench.check(target, plan.arm, plan.basis, body=own.body)
    write_json(at.folder / "workload.json", workload.to_json())

    def show(turns: int, elapsed_s: float) -> None:
        share = min(1.0, elapsed_s / own.soak_s)
        at.line.show(f"{share:4.0%}  c={own.soak_c}  {turns:,} turns  {time_left(own.soak_s - elapsed_s)}")

    return soak.hold(
        target,
        at.folder,
        arm=plan.arm,
        c=own.soak_c,
        duration_s=own.soak_s,
        turn_timeout_s=own.turn_timeout_s,
        mark=at.mark,
        body=own.body,
        progress=show,
    )


def _target(plan: LadderPlan, at: Bench) -> Target:
    if plan.tier is None:
        return plan.deployment()
    return embedded(handle.start(plan.tier, state=at.folder / "tier.json", mark=at.mark))


def _check_free(folder: RunFolder) -> None:
    """Print the check of a saved ladder, and beside it whether that was refused; changed evidence is not checked."""
    if kind_of_run(folder) != LADDER:
        raise UsageError("the free check is of a ladder, and this run is a soak")
    if not folder.saved.exists():
        raise UsageError("the free check reads what is saved, and this run is not yet")
    ladder = e8.read_evidence(folder.evidence, run=folder.run, files=verify_sums(folder.evidence))
    if ladder.arm not in (None, REALISM):
        raise UsageError(f"the free check is of a realism ladder, and this is one of the {ladder.arm} arm")
    _print([*free.free_check(ladder).lines(), *_refused(folder)])


def _refused(folder: RunFolder) -> list[str]:
    verdict = store.latest(folder.verdicts) or {}
    if verdict.get("verdict") != REFUSED:
        return []
    return [f"its verdict is REFUSED, so none of these figures may be quoted: {verdict.get('reason')}"]


# --- what is kept, and what is ended


def _measure(invocation: Invocation, name: str, look: Callable[[Bench], Found]) -> None:
    """Measure, keep what was seen, say it. Raises CheckError for a verdict other than PASS."""
    began_at = utc_stamp()
    with _held(invocation, name) as at:
        found = look(at)
    result = {"schema": 1, "check": name, "harness": __version__, "began_at": began_at, "ended_at": utc_stamp()}
    keep(at.folder, result | {"verdict": found.verdict, "reason": found.reason, "found": found.to_json()})
    _print([*found.lines(), f"kept in {at.folder}"])
    if found.exit_code != EXIT_PASS:
        raise CheckError(f"{found.verdict}: {found.reason}; what was seen stands in {at.folder}", found.exit_code)


@contextmanager
def _held(invocation: Invocation, name: str) -> Iterator[Bench]:
    """The runs folder to itself, a folder for the check, and at its end nothing left of what it started."""
    runs = invocation.runs
    with lock.hold(runs):
        if other := lock.unfinished(runs):
            raise BusyError(
                f"run {other.run} is unfinished and would be measured too; {invocation.again('status')} says how to "
                "go on with it or end it"
            )
        for left in sorted((runs / CHECKS).glob(f"*/{ABOUT}")):
            if not (left.parent / SAVED).exists():
                sweep(left.parent)
        folder, mark = runs.resolve() / CHECKS / new_run_id(name), secrets.token_hex(16)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise BusyError(f"{folder} is there already; give the same command again") from None
        about = {"schema": 1, "check": name, "token": mark, "settings": invocation.settings.flat()}
        write_json(folder / ABOUT, about)
        line = LiveLine(name.removeprefix("e8-"), plain_every_s=PLAIN_EVERY_S)
        try:
            yield Bench(folder, mark, line)
        finally:
            line.close()
            with _undisturbed():
                sweep(folder)


def sweep(folder: Path) -> None:
    """End whatever a check started, by its mark; nothing happens where nothing is left or nobody can tell."""
    for state in sorted(folder.glob(STATES)):
        handle.sweep(state)
    try:
        mark = str(read_json(folder / ABOUT)["token"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    end(find_marked(mark), grace_s=GRACE_S)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A signal that asks to stop takes effect only after the block: a closing terminal sends more than one."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


def keep(folder: Path, result: dict[str, Any]) -> None:
    """Write the result, the list of digests, and the mark that all of it is there."""
    write_json(folder / "result.json", result)
    write_atomic(folder / SUMS, sums_text({name: sha256_file(folder / name) for name in list_files(folder)}))
    write_atomic(folder / SAVED, utc_stamp() + "\n")


def _print(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
