"""One rung: warm-up, counters, c clients to their end with metrics polled meanwhile, counters, record.

Leaves in its folder, for a rung called c8: ``c8.turns.jsonl`` (every turn), ``c8.metrics.jsonl`` (every answer of the
admin listener while it ran), ``c8.generator.log``, and last ``c8.json``, the record: while that is not there, the rung
was not measured.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from harness.e8.compose import RungPlan, compose
from harness.e8.figures import utilisation_pct
from harness.e8.generator import GeneratorProcess
from harness.e8.metrics import Measured, between, read_metrics
from harness.e8.reading import BOUNDS
from harness.e8.readings import Polled
from harness.e8.record import Rung
from harness.e8.target import Target, look, look_at_cpu
from harness.e8.turns import read_turns
from harness.errors import LoadError
from harness.files import write_json

POLL_EVERY_S = 0.5  # workers tell of themselves once a second
POLL_LIMIT_S = 2.0
REST_S = 5.0
LEAST_DEADLINE_S = 60.0
DEADLINE_X = 8  # a rung that takes so many times what its turns took alone has nothing more to tell

Progress = Callable[[int, int], object]


def rung_deadline_s(turns_per_client: int, mean_turn_ms: float | None, turn_timeout_s: float) -> float:
    """How long a rung may take: eight times what its turns take alone, and never less than one turn's own deadline."""
    alone_s = turn_timeout_s if mean_turn_ms is None else mean_turn_ms / 1000
    return max(LEAST_DEADLINE_S, turn_timeout_s, DEADLINE_X * turns_per_client * alone_s)


def run_rung(
    target: Target,
    plan: RungPlan,
    folder: Path,
    *,
    mark: str,
    progress: Progress | None = None,
    ready: Callable[[], object] | None = None,
) -> Rung:
    """Measure one rung and write its record. ``ready`` is called after the warm-up, before the counters are read.

    Raises LoadError when the generator is lost or its machine cannot carry it, FleetError when the embedded tier is
    gone; nothing is recorded then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    turns_file, metrics_file, log, record = (
        folder / f"{plan.name}.{ending}" for ending in ("turns.jsonl", "metrics.jsonl", "generator.log", "json")
    )
    record.unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    load1 = os.getloadavg()[0]
    with metrics_file.open("w", encoding="utf-8") as polls:
        with GeneratorProcess(plan.load(target.base.url), turns_file, log, mark=mark) as generator:
            generator.wait_warm()
            time.sleep(plan.settle_s)
            if ready:
                ready()
            before = look(target)
            watch = _Watch(target, polls)
            generator.go()
            done = _follow(generator, watch, progress)
            cpu_s = look_at_cpu(target, before.reading)
        watch.settle(plan.settle_s)
    after = look(target, cpu_s)
    turns = read_turns(turns_file)
    if len(turns) != done["attempts"]:
        raise LoadError(f"rung {plan.name}: {turns_file} holds {len(turns)} turns of {done['attempts']}; measure again")
    if done["local_errors"]:
        raise LoadError(
            f"rung {plan.name}: this machine ran out of ports or descriptors for {done['local_errors']} turns, so the "
            "rung measured the generator; generate from a larger machine, or end the ladder lower"
        )
    rung = compose(plan, turns, done, before, after, watch.polled)
    rung = dataclasses.replace(rung, load1=round(load1, 2))
    write_json(record, rung.to_json())
    return rung


def measure_rest_pct(target: Target, *, wait_s: float = REST_S) -> Measured:
    """How busy the target's cores are while nothing is sent, in %: what else runs there is no work of the target's."""
    reading = read_metrics(target.admin)
    before, began_s = look_at_cpu(target, reading)["host"], time.monotonic()
    time.sleep(wait_s)
    spent = between(before, look_at_cpu(target, reading)["host"], "host CPU time")
    if spent.value is None:
        return spent
    found = utilisation_pct(spent.value, time.monotonic() - began_s, reading.cores)
    if found is None:
        return Measured(None, "the target does not tell its cores")
    if found > BOUNDS["host_rest_pct"][1]:
        could = f"{found:.0f} % of the target's {reading.cores:g} cores at rest is more than they can be used"
        return Measured(None, f"{could}: host CPU time is told of more cores than those")
    return Measured(round(found, 1))


def _follow(generator: GeneratorProcess, watch: _Watch, progress: Progress | None) -> dict[str, Any]:
    """Poll until the generator is done. Returns what it said."""
    while (done := generator.wait_done(POLL_EVERY_S)) is None:
        watch.look()
        if progress:
            progress(generator.attempts, generator.ok)
    return done


class _Watch:
    """Polls of the admin listener, each kept as a line too."""

    def __init__(self, target: Target, file: TextIO) -> None:
        self.polled = Polled()
        self._target = target
        self._file = file
        self._began_s = time.monotonic()

    def look(self, *, tail: bool = False) -> None:
        """Ask once."""
        reading = read_metrics(self._target.admin, limit_s=POLL_LIMIT_S)
        self.polled.add(reading, tail=tail)
        at_ms = round((time.monotonic() - self._began_s) * 1000)
        line = {"at_ms": at_ms, "tail": tail, "problem": reading.problem, "metrics": reading.document}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def settle(self, for_s: float) -> None:
        """Ask on while nothing is sent any more: the workers' last tick is told only now."""
        end_s = time.monotonic() + for_s
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(POLL_EVERY_S, left_s))
            self.look(tail=True)
        self._file.flush()
        os.fsync(self._file.fileno())
