"""One rung held for a set time: what grows with the turns, though it should not.

While c clients send, connections, descriptors and resident memory are read every few seconds beside the number of turns
so far. Each of these series then fails when it grows (Mann–Kendall, one-sided) **and** the lower end of its slope's
interval (Theil–Sen, 95 %) is more per 1,000 turns than may pass. The first fifth of the turns is left out: pools and
caches fill. So one step of an allocator is no leak, and a small steady leak is one. Memory fills for thousands of turns
and says nothing before ``LEAST_TURNS``; a connection or a descriptor that each turn leaves open is seen long before.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.e8.arms import threshold
from harness.e8.client import BODY, Load
from harness.e8.cpu import descriptors, rss_bytes
from harness.e8.generator import GeneratorProcess
from harness.e8.metrics import read_metrics
from harness.e8.target import PARTS, Target, store_connections, system_of, workers_of
from harness.errors import EXIT_FAIL, EXIT_PASS, EXIT_REFUSED
from harness.files import LineLog, write_json

LEAST_TURNS = 10_000
LEAST_SAMPLES = 20
SAMPLE_EVERY_S = 5.0
SAMPLES = 50  # at least so many are taken, however short it is
LEFT_OUT = 0.2
SIGNIFICANT_P = 0.01
CONFIDENCE = 0.95
LET_PASS: Mapping[str, tuple[float, str]] = {
    "store connections": (1.0, "one connection left open in 1,000 turns"),
    "descriptors": (1.0, "one descriptor left open in 1,000 turns"),
    "RSS": (102_400.0, "100 bytes a turn: a worker of 30 MB doubles in 300,000 turns"),
}
"""What of each kind may grow per 1,000 turns, and the reason."""

Progress = Callable[[int, float], object]


@dataclass(frozen=True)
class Sample:
    """The target at one moment of the load. ``descriptors`` and ``rss_bytes`` are by part; None is unknown."""

    at_s: float
    turns: int
    ok: int
    store_connections: float | None
    descriptors: Mapping[str, int | None]
    rss_bytes: Mapping[str, int | None]

    def series(self) -> dict[str, float | None]:
        """Name → value, of everything that is tested."""
        found: dict[str, float | None] = {"store connections": self.store_connections}
        found |= {f"descriptors of {part}": value for part, value in self.descriptors.items()}
        return found | {f"RSS of {part}": value for part, value in self.rss_bytes.items()}


@dataclass(frozen=True)
class Slope:
    """One series: growth per 1,000 turns with its interval, and whether it fails; or why nobody knows."""

    name: str
    per_1000_turns: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    let_pass: float | None = None
    fails: bool = False
    why_unknown: str | None = None

    def line(self) -> str:
        """For people."""
        if self.per_1000_turns is None:
            return f"  ?     {self.name}: {self.why_unknown}"
        return (
            f"  {'GROWS' if self.fails else 'level'} {self.name}: {self.per_1000_turns:+,.2f} per 1,000 turns "
            f"({self.low:+,.2f} to {self.high:+,.2f}, p {self.p:.2g}; {self.let_pass:,.0f} may pass)"
        )


@dataclass(frozen=True)
class Soak:
    """A soak and what came of it. ``reason`` says why, where the verdict is not PASS."""

    arm: str
    measured: str
    c: int
    wall_s: float
    turns: int
    ok: int
    samples: int
    verdict: str
    reason: str | None
    slopes: tuple[Slope, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0 PASS, 1 FAIL, 2 REFUSED or UNPROVEN."""
        return {"PASS": EXIT_PASS, "FAIL": EXIT_FAIL}.get(self.verdict, EXIT_REFUSED)

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {"schema": 1, **dataclasses.asdict(self)}

    def lines(self) -> list[str]:
        """For people; the verdict last."""
        why = f" ({self.reason})" if self.reason else ""
        return [
            f"{self.arm} arm on {self.measured}: c={self.c} for {self.wall_s:.0f} s, "
            f"{self.ok:,} of {self.turns:,} turns succeeded, {self.samples} samples",
            *(slope.line() for slope in self.slopes),
            f"SOAK {self.verdict}{why}",
        ]


def hold(
    target: Target,
    folder: Path,
    *,
    arm: str,
    c: int,
    duration_s: float,
    turn_timeout_s: float,
    mark: str,
    body: str = BODY,
    every_s: float | None = None,
    least_turns: int = LEAST_TURNS,
    progress: Progress | None = None,
) -> Soak:
    """Hold c clients for ``duration_s`` and judge what grew; all of it stands in ``folder`` as soak.*.

    At each sample ``progress`` is told how many turns there were, and in how many seconds.

    Raises LoadError when the generator is lost, FleetError when the embedded tier is gone.
    """
    every_s = every_s or min(SAMPLE_EVERY_S, duration_s / SAMPLES)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "soak.samples.jsonl").unlink(missing_ok=True)
    load = Load(
        target.base.url, c, turn_timeout_s, duration_s + turn_timeout_s + every_s, duration_s=duration_s, body=body
    )
    samples: list[Sample] = []
    with (
        closing(LineLog(folder / "soak.samples.jsonl")) as log,
        GeneratorProcess(load, folder / "soak.turns.jsonl", folder / "soak.generator.log", mark=mark) as generator,
    ):
        generator.wait_warm()
        system = system_of(target, read_metrics(target.admin))
        generator.go()
        began_s = time.monotonic()
        while (done := generator.wait_done(every_s)) is None:
            samples.append(_sample(target, time.monotonic() - began_s, generator))
            log.write(json.dumps(dataclasses.asdict(samples[-1])))
            if progress:
                progress(generator.attempts, time.monotonic() - began_s)
    found = judge(
        samples,
        arm=arm,
        measured=target.measured,
        c=c,
        wall_s=done["wall_ms"] / 1000,
        turns=done["attempts"],
        ok=done["ok"],
        least_turns=least_turns,
        changed=_changed(system, system_of(target, read_metrics(target.admin))),
    )
    write_json(folder / "soak.json", found.to_json())
    return found


def judge(
    samples: Sequence[Sample],
    *,
    arm: str,
    measured: str,
    c: int,
    wall_s: float,
    turns: int,
    ok: int,
    least_turns: int = LEAST_TURNS,
    changed: str | None = None,
) -> Soak:
    """Test every series and say what that comes to."""
    names = list(dict.fromkeys(name for sample in samples for name in sample.series()))
    slopes = tuple(_slope(name, [(sample.turns, sample.series().get(name)) for sample in samples]) for name in names)
    growing = [slope for slope in slopes if slope.fails and (turns >= least_turns or not slope.name.startswith("RSS"))]
    unknown = [slope.name for slope in slopes if slope.per_1000_turns is None]
    verdict, reason = "PASS", None
    if changed:
        verdict, reason = "REFUSED", f"the system under test changed: {changed}; soak again"
    elif turns and ok / turns < threshold("success_floor"):
        verdict, reason = "REFUSED", f"only {ok} of {turns} turns succeeded: refusals hold no connection for long"
    elif growing:
        verdict, reason = "FAIL", "; ".join(f"{slope.name} grow with the turns" for slope in growing)
    elif turns < least_turns:
        longer = f"about {wall_s * least_turns / turns:,.0f} s" if turns else "longer"
        verdict, reason = "UNPROVEN", f"{turns:,} turns are less than {least_turns:,}: soak for {longer}"
    elif unknown or not slopes:
        verdict, reason = "UNPROVEN", f"not measured: {', '.join(unknown) or 'everything'}"
    return Soak(arm, measured, c, round(wall_s, 3), turns, ok, len(samples), verdict, reason, slopes)


def _slope(name: str, points: Sequence[tuple[int, float | None]]) -> Slope:
    from scipy.stats import kendalltau, theilslopes

    let_pass = next(limit for kind, (limit, _) in LET_PASS.items() if name.startswith(kind))
    last = max((turns for turns, _ in points), default=0)
    kept = [(turns, value) for turns, value in points if turns >= LEFT_OUT * last]
    known = [(turns / 1000, value) for turns, value in kept if value is not None]
    if len(known) < len(kept):
        return Slope(name, why_unknown="not told at every sample", let_pass=let_pass)
    if len(known) < LEAST_SAMPLES:
        return Slope(name, why_unknown=f"{len(known)} samples are less than {LEAST_SAMPLES}", let_pass=let_pass)
    x, y = zip(*known, strict=True)
    if len(set(y)) == 1 or len(set(x)) == 1:
        return Slope(name, 0.0, 0.0, 0.0, 1.0, let_pass)
    slope, _, low, high = map(float, theilslopes(y, x, CONFIDENCE))
    p = float(kendalltau(x, y, alternative="greater").pvalue)
    fails = p < SIGNIFICANT_P and low > let_pass
    return Slope(name, round(slope, 4), round(low, 4), round(high, 4), p, let_pass, fails)


def _sample(target: Target, at_s: float, generator: GeneratorProcess) -> Sample:
    reading = read_metrics(target.admin)
    told = [worker.rss_bytes for worker in reading.workers]
    if target.tier is None:
        size = None if None in told or not told else int(sum(value or 0 for value in told))
        return Sample(round(at_s, 3), generator.attempts, generator.ok, None, {"worker": None}, {"worker": size})
    parts = {part: target.tier.identities(part) for part in PARTS} | {"worker": workers_of(reading)}
    return Sample(
        round(at_s, 3),
        generator.attempts,
        generator.ok,
        store_connections(target.tier).value,
        {part: descriptors(processes) for part, processes in parts.items()},
        {part: rss_bytes(processes) for part, processes in parts.items()},
    )


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    names: Iterable[str] = (name for name in before.keys() & after.keys() if before[name] != after[name])
    return ", ".join(f"{name} was {before[name]} and is {after[name]}" for name in sorted(names)) or None
