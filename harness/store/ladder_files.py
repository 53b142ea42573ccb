"""What a harness leaves beside a ladder that it measured: settings, plan, target, workload, each rung's own files."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.e8.reading import parse_rung
from harness.e8.readings import Polled, Reading, parse_reading, total_in_flight
from harness.e8.record import Rung
from harness.e8.turns import CUT_BY_RUNG, Turn, turns_in
from harness.errors import EvidenceError, ReportFormatError
from harness.runs import RUN_JSON, RUNG_NAME
from harness.store import readers
from harness.store.columns import LADDER
from harness.store.parquet import Row

RUNGS_FILE, TARGET_FILE, WORKLOAD_FILE = "rungs.json", "target.json", "workload.json"
PINS_FILE, TIER_FILE, FAULTS_FILE = "pins.json", "tier.json", "faults.jsonl"
TURNS, POLLS = "turns.jsonl", "metrics.jsonl"
ROUNDED_MS = 0.002  # a turn's start and its length are both told to the microsecond

CUT_FILE = re.compile(r"(?P<rung>.+)\.cut(?P<number>[1-9][0-9]{0,5})\..+")
"""What a try of a rung left that was cut off."""

Json = Mapping[str, Any]


@dataclass
class TurnSums:
    """What the turns of one rung come to. ``ended_ms`` is when the last one ended, counted as their starts are.

    ``two_at_once`` names a client that had two turns at once, as no client of a closed loop has.
    """

    attempts: int = 0
    ok: int = 0
    cut_by_rung: int = 0
    sum_ms: float = 0.0
    ended_ms: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    sent_by: Counter[int] = field(default_factory=Counter)
    ok_ms: array[float] = field(default_factory=lambda: array("d"))
    two_at_once: int | None = None
    _free_ms: dict[int, float] = field(default_factory=dict)

    def add(self, turn: Turn) -> None:
        """Count one turn; those of a client come one after another."""
        end_ms = turn.start_ms + turn.ms
        self.attempts += 1
        self.sent_by[turn.client] += 1
        self.cut_by_rung += turn.cut == CUT_BY_RUNG
        self.sum_ms += turn.ms
        self.ended_ms = max(self.ended_ms, end_ms)
        if turn.start_ms < self._free_ms.get(turn.client, 0.0) - ROUNDED_MS and self.two_at_once is None:
            self.two_at_once = turn.client
        self._free_ms[turn.client] = end_ms
        if turn.failure is None:
            self.ok += 1
            self.ok_ms.append(turn.ms)
        else:
            self.failures[turn.failure] += 1


@dataclass(frozen=True)
class LadderFiles:
    """The files of a ladder that a harness measured; None is one that is not there.

    ``names`` is all that stands there. ``records`` are the rungs' own records by name, ``turns`` what their turns come
    to, ``polled`` what was polled while they ran; ``cut`` the numbers of their tries that were cut off. ``faults`` is
    what was injected, as it was asked for.
    """

    names: frozenset[str]

    about: Json
    plan: Json | None
    target: Json | None
    workload: Json | None
    pins: Json | None
    tier: Json | None
    records: Mapping[str, Rung]
    turns: Mapping[str, TurnSums]
    polled: Mapping[str, Polled]
    cut: Mapping[str, set[int]]
    faults: frozenset[str]

    @property
    def settings(self) -> Json:
        """The run's settings by key."""
        settings = self.about.get("settings")
        return settings if isinstance(settings, dict) else {}


def read_ladder_files(evidence: Path, files: Mapping[str, str]) -> LadderFiles | None:
    """The files beside the ladder in ``evidence``; None of a ladder that no harness left its files of.

    Raises EvidenceError, one sentence with the file's name, for one that is not what it should be.
    """
    names = {name: path for path in files if (name := _rung_of(path, "json"))}
    about = _object(evidence, RUN_JSON, files)
    if not names and (about is None or about.get("kind") != LADDER):
        return None
    return LadderFiles(
        names=frozenset(files),
        about=about or {},
        plan=_object(evidence, RUNGS_FILE, files),
        target=_object(evidence, TARGET_FILE, files),
        workload=_object(evidence, WORKLOAD_FILE, files),
        pins=_object(evidence, PINS_FILE, files),
        tier=_object(evidence, TIER_FILE, files),
        records={name: _record(evidence / path) for name, path in names.items()},
        turns={name: _sums(evidence / path) for path in files if (name := _rung_of(path, TURNS))},
        polled={name: _polled(evidence / path) for path in files if (name := _rung_of(path, POLLS))},
        cut=_cut_tries(files),
        faults=frozenset(_faults(evidence / FAULTS_FILE) if FAULTS_FILE in files else ()),
    )


def _cut_tries(files: Iterable[str]) -> dict[str, set[int]]:
    tries: dict[str, set[int]] = {}
    for found in filter(None, map(CUT_FILE.fullmatch, files)):
        if RUNG_NAME.fullmatch(found["rung"]):
            tries.setdefault(found["rung"], set()).add(int(found["number"]))
    return tries


def _faults(path: Path) -> Iterator[str]:
    for number, entry in enumerate(readers.json_lines(path), start=1):
        if not isinstance(entry, dict) or not isinstance(fault := entry.get("fault"), str):
            raise EvidenceError(f"{path.name}: line {number} is no fault")
        yield fault


def _rung_of(path: str, ending: str) -> str | None:
    """The rung whose file of this kind it is; None of any other file, also of a try that was cut off."""
    name = path.removesuffix(f".{ending}")
    return name if name != path and RUNG_NAME.fullmatch(name) else None


def _object(evidence: Path, name: str, files: Mapping[str, str]) -> Json | None:
    if name not in files:
        return None
    document = readers.read_document(evidence / name)
    if not isinstance(document, dict):
        raise EvidenceError(f"{name} holds no JSON object")
    return document


def _record(path: Path) -> Rung:
    try:
        return parse_rung(readers.read_document(path))
    except ReportFormatError as error:
        what = error.message.removeprefix("rung 1: ").removeprefix(f"{path.name} ")
        raise ReportFormatError(f"{path.name}: {what}") from error


def _sums(path: Path) -> TurnSums:
    sums = TurnSums()
    for turn in _turns(path):
        sums.add(turn)
    return sums


def _polled(path: Path) -> Polled:
    polled = Polled()
    for poll in _polls(path):
        reading = parse_reading(poll.get("metrics"))
        polled.add(reading if poll.get("problem") is None else Reading(problem="not answered"), tail=poll["tail"])
    return polled


def _polls(path: Path) -> Iterator[Json]:
    for number, poll in enumerate(readers.json_lines(path), start=1):
        if not isinstance(poll, dict) or not isinstance(poll.get("tail"), bool):
            raise EvidenceError(f"{path.name}: line {number} is no poll")
        yield poll


def _turns(path: Path) -> Iterator[Turn]:
    try:
        yield from turns_in(path)
    except OSError as error:
        raise EvidenceError(f"{path.name} cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise EvidenceError(readers.one_line(str(error))) from error


# --- rows


def turn_rows(evidence: Path, files: Mapping[str, str]) -> Iterator[Row]:
    """Rows of ``turns``, read as they are asked for. Raises EvidenceError."""
    for place, path in _of_rungs(files, TURNS):
        for number, turn in enumerate(_turns(evidence / path), start=1):
            yield place | {
                "turn_no": number,
                "client": turn.client,
                "start_ms": float(turn.start_ms),
                "ms": float(turn.ms),
                "code": turn.code,
                "stop": readers.text(turn.stop),
                "ok": turn.ok,
                "failure": turn.failure,
                "cut": turn.cut,
                "error": readers.text(turn.error),
                "session": readers.text(turn.session),
            }


def poll_rows(evidence: Path, files: Mapping[str, str]) -> Iterator[Row]:
    """Rows of ``polls``, read as they are asked for. Raises EvidenceError."""
    for place, path in _of_rungs(files, POLLS):
        for number, poll in enumerate(_polls(evidence / path), start=1):
            yield place | {"poll_no": number, "tail": poll["tail"]} | _poll(poll)


def _of_rungs(files: Mapping[str, str], ending: str) -> Iterator[tuple[dict[str, int], str]]:
    """The rungs that have such a file, by c and repeat."""
    found = []
    for path in files:
        if name := _rung_of(path, ending):
            c, _, repeat = name[1:].partition(".r")
            found.append((int(c), int(repeat or 1), path))
    for number, repeat_number, path in sorted(found):
        yield {"c": number, "repeat": repeat_number}, path


def _poll(poll: Json) -> dict[str, Any]:
    reading = parse_reading(poll.get("metrics"))
    lags = [worker.loop_lag_p99_ms for worker in reading.workers if worker.loop_lag_p99_ms is not None]
    sizes = [worker.rss_bytes for worker in reading.workers if worker.rss_bytes is not None]
    return {
        "at_ms": readers.finite(poll.get("at_ms")),
        "problem": readers.text(poll.get("problem")),
        "healthy_workers": sum(worker.healthy is True for worker in reading.workers) if reading.workers else None,
        "in_flight": total_in_flight(reading),
        "worker_cpu_s": reading.worker_cpu_s,
        "lag_p99_worst_ms": max(lags, default=None),
        "rss_worst_bytes": max(sizes, default=None),
        "lease_saturation": reading.lease_saturation,
        "pool": reading.pool_size,
        **{name: reading.counters.get(name) for name in ("restarts", "over_admission", "spurious_refusals")},
    }
