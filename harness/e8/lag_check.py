"""Does the loop-lag metric tell a starved worker from an idle one? Asked of a real worker, by taking its CPU away.

A worker is stopped for some ms of every 100, as a CPU quota does it, and its p99 is set beside its p99 at rest: once
with a lag timer of 1 ms, once with one of 10 ms. Lag may convict only at a resolution at which this passed.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.e8.arms import threshold
from harness.e8.client import Load
from harness.e8.generator import GeneratorProcess
from harness.e8.http import parse_base
from harness.e8.metrics import read_metrics
from harness.e8.tier.handle import Tier, start
from harness.e8.tier.settings import Profile, TierSettings
from harness.errors import EXIT_FAIL, EXIT_PASS, FleetError
from harness.processes import Identity, identify, send

RESOLUTIONS_MS = (1, 10)
PERIOD_MS = 100
STOPPED_MS = (10, 20, 50)
DECIDING_MS = 20  # a worker that lacks a fifth of its time serves a fifth less: a metric that misses that is of no use
WATCH_S = 5.0
POLL_S = 0.5
TICK_S = 1.1  # the telemetry's period: what is told in it is partly of the time before
FIRST_WORD_S = 10.0
AROUND_S = 4.0  # a tier's start and end, a generator's warm-up
COMPETITORS = 3
COMPETING_CLIENTS = 16
LADDERS_MS = TierSettings().lag_resolution_ms

Say = Callable[[str], object]
"""Is told what is being done, twice a second."""


@dataclass(frozen=True)
class Starved:
    """p99 of a worker that was stopped for ``stopped_ms`` of every 100 ms, and what multiple of its p99 at rest."""

    stopped_ms: int
    lag_p99_ms: float
    ratio: float


@dataclass(frozen=True)
class Resolution:
    """What the metric told at one resolution; p99 medians over the ticks, in ms.

    ``loaded_ms`` is a worker that serves 16 clients; ``competing_ms`` one that meanwhile shares its core with three
    processes that never rest.
    """

    resolution_ms: int
    idle_ms: float
    starved: tuple[Starved, ...]
    loaded_ms: float | None = None
    competing_ms: float | None = None

    @property
    def discriminates(self) -> bool:
        """Whether a worker that lacks a fifth of its time reaches the ratio that convicts."""
        return any(each.stopped_ms == DECIDING_MS and each.ratio >= threshold("lag_bound_x") for each in self.starved)

    @property
    def convicts_from_ms(self) -> int | None:
        """The least time out of every 100 ms at which the ratio that convicts is reached."""
        reached = [each.stopped_ms for each in self.starved if each.ratio >= threshold("lag_bound_x")]
        return min(reached, default=None)

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "resolution_ms": self.resolution_ms,
            "idle_ms": self.idle_ms,
            "starved": [vars(each) for each in self.starved],
            "loaded_ms": self.loaded_ms,
            "competing_ms": self.competing_ms,
            "discriminates": self.discriminates,
            "convicts_from_ms": self.convicts_from_ms,
        }

    def line(self) -> str:
        """For people."""
        told = ", ".join(
            f"{each.stopped_ms} of {PERIOD_MS} ms away: {each.lag_p99_ms:.1f} ms ({each.ratio:.1f}×)"
            for each in self.starved
        )
        beside = (
            f"; serving {COMPETING_CLIENTS} clients {self.loaded_ms:.1f} ms, the same beside {COMPETITORS} busy "
            f"processes on its core {self.competing_ms:.1f} ms"
            if self.loaded_ms is not None and self.competing_ms is not None
            else ""
        )
        verdict = "lag may convict" if self.discriminates else "lag may not convict"
        return f"resolution {self.resolution_ms} ms: idle {self.idle_ms:.1f} ms; {told}{beside} → {verdict}"


@dataclass(frozen=True)
class LagCheck:
    """What was found at every resolution. It passes when lag may convict at the one that ladders are measured with."""

    resolutions: tuple[Resolution, ...]

    @property
    def verdict(self) -> str:
        """PASS or FAIL."""
        return "PASS" if any(each.discriminates for each in self._of_ladders()) else "FAIL"

    @property
    def reason(self) -> str | None:
        """Why it does not pass."""
        if self.verdict == "PASS":
            return None
        return (
            f"at {LADDERS_MS} ms a worker that lacks {DECIDING_MS} of every {PERIOD_MS} ms is not told from one at "
            "rest; see that nothing else runs on this machine and give the same command again"
        )

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL."""
        return EXIT_PASS if self.verdict == "PASS" else EXIT_FAIL

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {"schema": 1, "resolutions": [each.to_json() for each in self.resolutions]}

    def lines(self) -> list[str]:
        """For people; the verdict last."""
        words = [
            f"{'may' if each.discriminates else 'may not'} at {each.resolution_ms} ms" for each in self.resolutions
        ]
        return [*(each.line() for each in self.resolutions), f"LAG-CHECK {self.verdict} (convict: {', '.join(words)})"]

    def _of_ladders(self) -> list[Resolution]:
        return [each for each in self.resolutions if each.resolution_ms == LADDERS_MS]


def probe(
    tier: Tier, *, stopped_ms: tuple[int, ...] = (DECIDING_MS,), watch_s: float = WATCH_S, say: Say | None = None
) -> Resolution:
    """Ask a tier that has no load; its first worker is starved and let go again. Raises FleetError."""
    worker, resolution_ms = _first_worker(tier)
    at = f"resolution {resolution_ms} ms: "
    idle_ms = _watch(tier, watch_s, _pause, _saying(say, at + "idle"))
    starved = []
    for ms in stopped_ms:
        try:
            doing = _saying(say, f"{at}{ms} of every {PERIOD_MS} ms away")
            lag_ms = _watch(tier, watch_s, partial(_stop_for, worker, ms), doing)
        finally:
            send(worker, signal.SIGCONT)
        starved.append(Starved(ms, lag_ms, round(lag_ms / idle_ms, 2)))
    return Resolution(resolution_ms, idle_ms, tuple(starved))


def expected_s(watch_s: float = WATCH_S) -> float:
    """About how long ``run`` takes."""
    watches = 1 + len(STOPPED_MS) + 2
    return len(RESOLUTIONS_MS) * (watches * (TICK_S + watch_s) + AROUND_S)


def run(folder: Path, *, mark: str, watch_s: float = WATCH_S, say: Say | None = None) -> LagCheck:
    """The whole check, on tiers of one worker that are started for it. Raises FleetError."""
    found = []
    for resolution_ms in RESOLUTIONS_MS:
        settings = TierSettings(
            workers=1,
            turns_per_worker=4 * COMPETING_CLIENTS,
            sandboxes=1,
            cap=4 * COMPETING_CLIENTS,
            profile=Profile(10, 1, 64, 0.5),
            tool_command="true",
            lag_resolution_ms=resolution_ms,
            lifetime_s=60 + 8 * watch_s,
        )
        tier = start(settings, state=folder / f"tier-{resolution_ms}ms.json", mark=mark)
        try:
            asked = probe(tier, stopped_ms=STOPPED_MS, watch_s=watch_s, say=say)
            loaded_ms, competing_ms = _compete(tier, folder, mark, watch_s, say)
        finally:
            tier.stop()
        found.append(Resolution(asked.resolution_ms, asked.idle_ms, asked.starved, loaded_ms, competing_ms))
    return LagCheck(tuple(found))


def _first_worker(tier: Tier) -> tuple[Identity, int]:
    """The first worker and the resolution of its lag, once it told of it. Raises FleetError."""
    admin = parse_base(tier.urls["metrics"], "e8.metrics")
    deadline_s = time.monotonic() + FIRST_WORD_S
    while time.monotonic() < deadline_s:
        reading = read_metrics(admin)
        worker = identify(reading.pids[0] or 0) if reading.pids else None
        if worker is not None and reading.lag_resolution_ms is not None:
            return worker, int(reading.lag_resolution_ms)
        _pause()
    raise FleetError("the tier has no worker that tells of its lag; see the logs beside its state file")


def _pause() -> None:
    time.sleep(POLL_S / 5)


def _saying(say: Say | None, doing: str) -> Callable[[], object]:
    return partial(say, doing) if say else lambda: None


def _watch(tier: Tier, watch_s: float, meanwhile: Callable[[], object], say: Callable[[], object]) -> float:
    """Median of the first worker's p99 over ``watch_s``, after a tick that is not looked at."""
    admin = parse_base(tier.urls["metrics"], "e8.metrics")
    told: list[float] = []
    began_s = time.monotonic()
    next_s = began_s + TICK_S
    while time.monotonic() < began_s + TICK_S + watch_s:
        meanwhile()
        if time.monotonic() >= next_s:
            next_s += POLL_S
            say()
            reading = read_metrics(admin)
            lag_ms = reading.workers[0].loop_lag_p99_ms if reading.workers else None
            told += [] if lag_ms is None else [lag_ms]
    if not told:
        raise FleetError("the tier's worker did not tell of its lag")
    return round(statistics.median(told), 3)


def _stop_for(worker: Identity, ms: int) -> None:
    send(worker, signal.SIGSTOP)
    time.sleep(ms / 1000)
    send(worker, signal.SIGCONT)
    time.sleep((PERIOD_MS - ms) / 1000)


def _compete(tier: Tier, folder: Path, mark: str, watch_s: float, say: Say | None) -> tuple[float, float]:
    """p99 under load, and p99 under the same load with busy processes on the worker's core."""
    load = Load(tier.urls["base"], COMPETING_CLIENTS, 20, 60 + 4 * watch_s, duration_s=2 * (TICK_S + watch_s) + 2)
    name = tier.path.stem
    with GeneratorProcess(
        load, folder / f"{name}.turns.jsonl", folder / f"{name}.generator.log", mark=mark
    ) as generator:
        generator.wait_warm()
        generator.go()
        worker, resolution_ms = _first_worker(tier)
        at = f"resolution {resolution_ms} ms: serving {COMPETING_CLIENTS} clients"
        loaded_ms = _watch(tier, watch_s, _pause, _saying(say, at))
        with _busy_core(worker.pid):
            return loaded_ms, _watch(tier, watch_s, _pause, _saying(say, f"{at}, its core shared"))


@contextmanager
def _busy_core(pid: int) -> Iterator[None]:
    """The process on one core, together with competitors that never rest; at most as long as the block."""
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(pid, {core})
    spin = f"import os, sys\nos.sched_setaffinity(0, {{{core}}})\nwhile os.getppid() == {os.getpid()}: pass"
    spinning = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(COMPETITORS)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()
