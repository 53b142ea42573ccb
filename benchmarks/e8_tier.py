"""What the embedded tier costs and what a schedule does to latency: ``python -m benchmarks.e8_tier cost|schedules``.

``schedules`` drives the same turns twice, once with the stub's shared counter and once with its decision per
conversation, the tool being a wait without CPU: whatever the p95 gains over the p50 is the schedule's own doing.
``cost`` prints the CPU of each part per turn, at a fast profile and a trivial exec, and what a file operation takes
beyond its command: median and maximum of the p95 that the workers tell every second.
"""

from __future__ import annotations

import argparse
import json
import secrets
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.e8.client import Load
from harness.e8.figures import nearest_rank
from harness.e8.generator import GeneratorProcess
from harness.e8.metrics import read_metrics, read_stub_stats
from harness.e8.readings import Polled, Reading
from harness.e8.target import Target, embedded, look_at_cpu
from harness.e8.tier.handle import start
from harness.e8.tier.settings import CONVERSATION, COUNTER, Profile, TierSettings
from harness.e8.turns import Turn, read_turns

WAIT = "sleep 0.113"
POLL_EVERY_S = 0.5


@dataclass(frozen=True)
class Driven:
    """The turns of one closed loop, its wall time, CPU seconds of each part in between, and what was polled."""

    turns: list[Turn]
    wall_s: float
    cpu_s: dict[str, float]
    polled: Polled


def drive(target: Target, folder: Path, clients: int, turns: int, mark: str) -> Driven:
    """One closed loop, to its end."""
    load = Load(target.base.url, clients, 60.0, 600.0, turns_per_client=turns)
    path, polled = folder / "turns.jsonl", Polled()
    with GeneratorProcess(load, path, folder / "generator.log", mark=mark) as generator:
        generator.wait_warm()
        before = look_at_cpu(target, read_metrics(target.admin))
        generator.go()
        while (done := generator.wait_done(POLL_EVERY_S)) is None:
            polled.add(read_metrics(target.admin))
        after = look_at_cpu(target, read_metrics(target.admin))
    parts = after.keys() - {"host"}  # the machine may be doing something else as well
    cpu_s = {part: (after[part].value or 0.0) - (before[part].value or 0.0) for part in sorted(parts)}
    return Driven(read_turns(path), done["wall_ms"] / 1000, cpu_s | {"generator": done["cpu_s"]}, polled)


def summary(found: Driven) -> dict[str, Any]:
    """The client's view."""
    ms = [turn.ms for turn in found.turns if turn.ok]
    p50, p95 = nearest_rank(ms, 50), nearest_rank(ms, 95)
    assert p50 is not None and p95 is not None
    rounded = {"p50_ms": round(p50), "p95_ms": round(p95), "p95_by_p50": round(p95 / p50, 2)}
    return {"ok": len(ms), "attempts": len(found.turns), "turns_per_s": round(len(ms) / found.wall_s, 2), **rounded}


def schedules(clients: int, turns: int) -> None:
    """One line per schedule."""
    for schedule in (COUNTER, CONVERSATION):
        settings = TierSettings(
            turns_per_worker=clients, sandboxes=3, cap=13, schedule=schedule, tool_command=WAIT, lifetime_s=900
        )
        with tempfile.TemporaryDirectory() as folder:
            mark = secrets.token_hex(12)
            tier = start(settings, state=Path(folder) / "tier.json", mark=mark)
            try:
                found = summary(drive(embedded(tier), Path(folder), clients, turns, mark))
                stats = read_stub_stats(embedded(tier).stub) or {}
            finally:
                tier.stop()
        print(json.dumps({"schedule": schedule, "c": clients, **found, "execs_per_turn": stats.get("execsPerTurn")}))


def cost(ladder: list[int], turns: int) -> None:
    """One line per number of clients: CPU per turn in ms."""
    top = max(ladder)
    settings = TierSettings(
        turns_per_worker=top,
        sandboxes=4,
        cap=top,
        profile=Profile(ttft_ms=10, token_delay_ms=1, output_tokens=64, tool_call_rate=0.5),
        tool_command="true",
        lifetime_s=900,
    )
    with tempfile.TemporaryDirectory() as folder:
        mark = secrets.token_hex(12)
        tier = start(settings, state=Path(folder) / "tier.json", mark=mark)
        try:
            for clients in ladder:
                found = drive(embedded(tier), Path(folder), clients, turns, mark)
                per_turn = {part: round(1000 * spent / len(found.turns), 2) for part, spent in found.cpu_s.items()}
                told = {"codes": dict(Counter(turn.code for turn in found.turns)), "cpu_ms_per_turn": per_turn}
                file_op = {"median": found.polled.median(file_op_p95_ms), "max": found.polled.maximum(file_op_p95_ms)}
                print(json.dumps({"c": clients, **summary(found), **told, "file_op_p95_ms": file_op}))
        finally:
            tier.stop()


def file_op_p95_ms(reading: Reading) -> float | None:
    """As the slowest worker tells it."""
    return reading.file_op_p95_ms


def main() -> None:
    """Parse the command line and run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["cost", "schedules"])
    parser.add_argument("--clients", type=int, nargs="+", default=None, help="default 8, for cost 1 8 32 64")
    parser.add_argument("--turns", type=int, default=30, help="per client")
    options = parser.parse_args()
    if options.what == "schedules":
        schedules((options.clients or [8])[0], options.turns)
    else:
        cost(options.clients or [1, 8, 32, 64], options.turns)


if __name__ == "__main__":
    main()
