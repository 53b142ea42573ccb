"""What the files beside the report state about the same facts: the plan, the driver's log, the results stream, times.

Nothing is graded by these. They are held against what is graded, so that no two of them may say different things.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from harness.store.driver_log import DriverLog
from harness.store.readers import Share, json_lines, lines_of, read_text
from harness.store.source import Json
from harness.store.stated_plan import StatedPlan

STAMP = re.compile(r".*([0-9]{8}T[0-9]{6})Z", re.ASCII)
EPOCH_S = re.compile(r"[1-9][0-9]{0,10}", re.ASCII)
TIMES_COLUMNS = 7


@dataclass(frozen=True)
class StatedStream:
    """The results stream beside a report: its executions by label, and how many other values its lines hold."""

    executions: Mapping[str, list[Json]] = field(default_factory=dict)
    strangers: int = 0


@dataclass(frozen=True)
class Stated:
    """What is stated beside the report. ``shares`` by label.

    ``times``: label → the words that times.tsv says of it. ``dated``: key of run.env → the time that it names.
    """

    backends: int | None = None
    shares: Mapping[str, Share] = field(default_factory=dict)
    plan: StatedPlan = field(default_factory=StatedPlan)
    log: DriverLog = field(default_factory=DriverLog)
    stream: StatedStream = field(default_factory=StatedStream)
    times: Mapping[str, frozenset[str]] = field(default_factory=dict)
    dated: Mapping[str, datetime] = field(default_factory=dict)


def read_stream_statement(path: Path) -> StatedStream:
    """What the stream's lines say; one that is torn says nothing."""
    found: dict[str, list[Json]] = {}
    strangers = 0
    for value in json_lines(path) if path.is_file() else ():
        label = value.get("label") if isinstance(value, dict) else None
        if isinstance(label, str):
            found.setdefault(label, []).append(value)
        else:
            strangers += value is not None
    return StatedStream(found, strangers)


def read_times_statement(path: Path) -> dict[str, frozenset[str]]:
    """Label → ``pass``, ``fail`` and ``not_run``, as far as rows of times.tsv say them of it."""
    found: dict[str, frozenset[str]] = {}
    for _, line in lines_of(read_text(path)) if path.is_file() else ():
        row = line.rstrip("\r").split("\t")
        if len(row) == TIMES_COLUMNS:
            found[row[0]] = found.get(row[0], frozenset()) | {row[-1]}
    return found


def read_dates(env: Mapping[str, str]) -> dict[str, datetime]:
    """The times that run.env names: of the load's job, and of the start of the run, where its tag ends in one."""
    found = {}
    for key in ("T_JOB", "T_LOAD"):
        if EPOCH_S.fullmatch(env.get(key, "")):
            found[key] = datetime.fromtimestamp(int(env[key]), UTC)
    if stamp := STAMP.fullmatch(env.get("RUN_TAG", "")):
        with suppress(ValueError):  # digits that are no time are a name
            found["RUN_TAG"] = datetime.strptime(stamp[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    return found
