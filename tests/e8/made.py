"""The evidence of a small ladder, as a harness leaves it: turns of a closed loop, and records composed of them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.e8.arms import CAPACITY, NO_BASIS
from harness.e8.compose import RungPlan, compose
from harness.e8.metrics import Measured
from harness.e8.readings import Polled, Reading, parse_reading
from harness.e8.record import EMBEDDED, STOP_REASON, TARGET_FACTS, WORKLOAD_FACTS, Ladder, Profile, Rung
from harness.e8.target import PARTS, Snapshot
from harness.e8.turns import ALL_TURNS, CUT_BY_RUNG, CUT_BY_TURN, NO_ANSWER, RUNG_DEADLINE, Turn
from harness.e8.workload import Workload
from harness.settings import Settings
from tests.e8.standin import metrics_document

RUN = "e8-made-capacity"
TURNS = 10
ALONE_MS = 100.0
SLOWER = {1: 1.0, 2: 1.02, 4: 1.05, 8: 1.2, 16: 2.6}
"""c → how much longer than alone a turn takes: the knee lies between 8 and 16."""
STUB = "http://127.0.0.1:18081"
SYSTEM = {"boot id": "5d0c", "supervisor": "100/1", "worker": "101/2,102/3", "pins": '{"git": "2.39"}'}
FAILED = {
    (8, 3, 4): ("500", None, "internal error", None),
    (8, 5, 7): ("200", "error", "Connection error.", None),
    (8, 6, 9): (NO_ANSWER, None, "no answer in 5 s", CUT_BY_TURN),
}
"""(c, client, number of the turn) → how it failed: code, stop, error, cut."""


def turns_of(c: int, repeat: int = 1) -> list[Turn]:
    """Every turn of a rung, in the order in which they ended."""
    rng = random.Random(1000 * c + repeat)
    turns = []
    for client in range(1, c + 1):
        free_ms = 0.0
        for number in range(TURNS):
            start_ms = round(free_ms + 0.02, 3)
            ms = round(ALONE_MS * SLOWER[c] * rng.uniform(0.97, 1.05), 3)
            code, stop, error, cut = FAILED.get((c, client, number), ("200", "stop", None, None))
            turns.append(Turn(client, start_ms, ms, code, stop, error, f"session-{client}", cut))
            free_ms = start_ms + ms
    return sorted(turns, key=lambda turn: turn.start_ms + turn.ms)


def reading(c: int, *, after: bool) -> Reading:
    """What the target tells before or after the rung of ``c``: each worker spends 4 ms on a turn."""
    used_s = 10.0 * c + (0.002 * c * TURNS if after else 0.0)
    worker = {"inFlight": 0, "healthy": True, "loop_lag_p99_ms": 1.1 + c / 10, "rss_bytes": 60_000_000}
    environment = {"SH_WORKERS": "2", "SH_TURNS_PER_WORKER": "16", "KAGENTI_SANDBOX_CAP": "8"}
    return parse_reading(
        metrics_document(
            workers=[{"id": n, "pid": 101 + n, "cpu_seconds": round(used_s + n, 3), **worker} for n in range(2)],
            lease_saturation=c / 4,
            sandbox_pool_size=4,
            env=environment | {"ANTHROPIC_BASE_URL": STUB},
        )
    )


def snapshot(c: int, *, after: bool, wall_s: float = 0.0) -> Snapshot:
    """The target at rest before or after the rung of ``c``, which took ``wall_s``."""
    turns = c * TURNS if after else 0
    cores = dict.fromkeys(PARTS, 0.02) | {"worker": min(1.7, 0.12 * c), "host": min(1.7, 0.16 * c)}
    return Snapshot(
        reading=reading(c, after=after),
        cpu_s={part: Measured(round(used * wall_s if after else 0.0, 2)) for part, used in cores.items()},
        execs=Measured(turns),
        execs_per_turn={"1": turns} if turns else {},
        store_connections=Measured(14),
        descriptors=Measured(40),
        system=SYSTEM,
    )


def rung_of(c: int, turns: list[Turn], *, repeat: int = 1, ended: str = ALL_TURNS) -> Rung:
    """The record that the recorder composes of these turns."""
    plan = RungPlan(c, CAPACITY, NO_BASIS, TURNS, 5.0, 60.0, repeat=repeat)
    wall_ms = round(max(turn.start_ms + turn.ms for turn in turns) + 0.004, 3)
    done = {
        "ended": ended,
        "wall_ms": wall_ms,
        "cpu_s": 0.01 * c,
        "wait_s": 0.001,
        "lag_p99_ms": 0.4,
        "lag_max_ms": 1.9,
    }
    before, after = (snapshot(c, after=is_after, wall_s=wall_ms / 1000) for is_after in (False, True))
    polled = Polled(readings=[before.reading, after.reading], tail=[after.reading])
    return dataclasses.replace(compose(plan, turns, done, before, after, polled), load1=0.2)


def made_ladder(rungs: tuple[Rung, ...]) -> Ladder:
    """A ladder of the capacity arm of which everything is known."""
    return Ladder(
        arm=CAPACITY, measured=EMBEDDED, workers=2, turns_per_worker=16, cap=8, pool=4, cores=2, stub_url=STUB,
        stub_url_echoed=STUB, profile=Profile(10, 1, 64, 0.5), basis=NO_BASIS, duty=0.0098, duty_second=0.0101,
        execs_per_turn=1.0, turns_per_client=TURNS, success_by=STOP_REASON, lag_resolution_ms=1, lag_discriminates=True,
        host_rest_pct=2.0, degrade_x=2.0, min_c=4, planned=tuple(rung.name for rung in rungs), complete=True,
        rungs=rungs,
    )  # fmt: skip


def made_files(rungs: tuple[int, ...] = (1, 2, 4, 8, 16), *, run: str = RUN) -> dict[str, bytes]:
    """Name → content of every file of such a ladder's evidence that is read."""
    turns = {c: turns_of(c) for c in rungs}
    return files_of(
        made_ladder(tuple(rung_of(c, turns[c]) for c in rungs)), {f"c{c}": turns[c] for c in rungs}, run=run
    )


def files_of(ladder: Ladder, turns: Mapping[str, list[Turn]], *, run: str = RUN) -> dict[str, bytes]:
    """The files that a harness leaves of a ladder and its turns."""
    document = ladder.to_json()
    workload = Workload(
        CAPACITY, NO_BASIS, "cd /workspace/repo && true", 1.0, 101.5, 0.0098, duty_second=0.0101, per_exec_ms=1.0
    )
    settings = Settings().flat() | {"run": run, "arm": CAPACITY, "e8.turns_per_rung": TURNS}
    about = {"schema": 1, "run": run, "kind": "e8", "arm": CAPACITY, "measured": EMBEDDED, "settings": settings}
    files: dict[str, Any] = {
        "run.json": about,
        "rungs.json": {"schema": 1, "ladder": _asked(ladder), "planned": document["planned"], "complete": True},
        "target.json": {key: document[key] for key in TARGET_FACTS} | {"placement": "on-box", "generator_cores": 2},
        "workload.json": workload.to_json() | {key: document[key] for key in WORKLOAD_FACTS},
        "ladder.json": {"run": run, **document},
        "pins.json": {"schema": 1, "pins": {"git": "2.39"}},
        "tier.json": {"measured": EMBEDDED, "boot_id": (ladder.rungs[-1].system or {}).get("boot id")},
        **{f"{rung.name}.json": rung.to_json() for rung in ladder.rungs},
    }
    made = {name: json.dumps(content, indent=1).encode() + b"\n" for name, content in files.items()}
    for name, of_rung in turns.items():
        made[f"{name}.turns.jsonl"] = "".join(f"{turn.to_line()}\n" for turn in of_rung).encode()
        made[f"{name}.metrics.jsonl"] = "".join(_polls(int(name[1:].partition(".")[0]))).encode()
    return made


def _asked(ladder: Ladder) -> str:
    """The ladder as it was given; where a rung has repeats, it was found."""
    names = [rung.name for rung in ladder.rungs]
    return "auto" if any("." in name for name in names) else " ".join(name[1:] for name in names)


def _polls(c: int) -> Iterator[str]:
    for number, after in enumerate((False, True, True)):
        told = reading(c, after=after).document
        yield json.dumps({"at_ms": 500 * number, "tail": number == 2, "problem": None, "metrics": told}) + "\n"


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Save them into ``folder``, which is made, with their list and the mark."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    (folder / "SHA256SUMS").write_text("".join(f"{digests[name]}  {name}\n" for name in sorted(digests)))
    (folder / "SAVED").write_text("2026-11-30T12:00:00.000Z\n")
    return folder


def late_rung(c: int) -> tuple[Rung, list[Turn]]:
    """A rung that its deadline cut when half of its turns had been sent."""
    sent = [turn for turn in turns_of(c) if turn.start_ms + turn.ms < 550.0 * SLOWER[c]]
    free_ms = {turn.client: turn.start_ms + turn.ms for turn in sent}
    end_ms, told = max(free_ms.values()) + 5.0, "cut by the rung's deadline"
    for client, start_ms in free_ms.items():
        ms = round(end_ms - start_ms, 3)
        sent.append(Turn(client, round(start_ms + 0.02, 3), ms, NO_ANSWER, None, told, None, CUT_BY_RUNG))
    return rung_of(c, sent, ended=RUNG_DEADLINE), sent


def live_files(ladder: Ladder, folder: Path) -> dict[str, bytes]:
    """The files of a ladder whose rungs left theirs in ``folder``."""
    left = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".json", ".jsonl")}
    return files_of(ladder, {}) | left
