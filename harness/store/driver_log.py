"""The driver's log: a narration, of which some lines witness what the report says as well."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.errors import EvidenceError
from harness.sortie.durations import parse_duration
from harness.store.readers import lines_of

SUMMARY = re.compile(r"(?:PASS|FAIL)  ([0-9]{1,9})/([0-9]{1,9}) executions passed(?:, ([0-9]{1,9}) not run)?")
FAILED = re.compile(r"\s*FAIL\s+(.+?)\s+\((?:scenario |[0-9]+ rps)")  # as it ends, and in the closing block
RUNNING = re.compile(r"\s*running (.+?) \(([0-9]{1,18}) rps(?: per backend)? for (\S+)\) on (.+)")
COUNTED = re.compile(r"([a-z0-9_]+) ([0-9]{1,18})", re.ASCII)
FAILURES = ("http_4xx", "http_5xx", "grpc_error", "stream_resets", "pool_", "http_inflight_lost")
PROGRESS_FIELDS = 5  # label, backend, time, 2xx, and what else moved


@dataclass(frozen=True)
class Started:
    """What the driver said as it started an execution. ``duration_ns`` is None where it cannot be read."""

    rate_rps: int
    duration_ns: int | None
    backends: frozenset[str]


@dataclass(frozen=True)
class DriverLog:
    """What the driver's log witnesses.

    ``summary`` is its last summary line, with ``passed`` of ``ran`` executions and ``not_run`` more. ``failed`` are the
    labels that it says FAIL of. ``running``: by label, how it was started (the last time). ``failing``: by label and
    backend, the failure counters that had moved while it ran.
    """

    skip_lines: int = 0
    summary: str | None = None
    not_run: int | None = None
    passed: int | None = None
    ran: int | None = None
    failed: frozenset[str] = frozenset()
    running: Mapping[str, Started] = field(default_factory=dict)
    failing: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)


def read_driver_log(path: Path) -> DriverLog:
    """Counts lines whose first word is SKIP; the last summary line counts, earlier ones do not.

    A byte that is no UTF-8 spoils its own line only. Raises EvidenceError for what is no text at all.
    """
    skips = 0
    summary: re.Match[str] | None = None
    failed: set[str] = set()
    running: dict[str, Started] = {}
    failing: dict[tuple[str, str], frozenset[str]] = {}
    for _, line in lines_of(_content(path)):
        skips += line.split(maxsplit=1)[0] == "SKIP"
        summary = SUMMARY.fullmatch(line.rstrip()) or summary
        if told := FAILED.match(line):
            failed.add(told[1])
        elif told := RUNNING.match(line):
            running[told[1]] = Started(int(told[2]), parse_duration(told[3]), frozenset(told[4].strip().split(", ")))
        elif moved := frozenset(_moved(fields := line.strip().split("  "))):
            key = (fields[0], fields[1])
            failing[key] = failing.get(key, frozenset()) | moved
    log = DriverLog(skips, failed=frozenset(failed), running=running, failing=failing)
    if summary is None:
        return log
    passed, ran, not_run = (int(number or 0) for number in summary.groups())
    return replace(log, summary=summary[0], passed=passed, ran=ran, not_run=not_run)


def _content(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise EvidenceError(f"{path.name} cannot be read ({error.strerror or error})") from error
    if b"\0" in raw or raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise EvidenceError(f"{path.name} is no UTF-8 text; save the driver's log again")
    return raw.decode("utf-8", errors="replace")


def _moved(fields: list[str]) -> Iterator[str]:
    """Failure counters above 0 in a line of progress; none in any other line."""
    if len(fields) < PROGRESS_FIELDS or not fields[3].startswith("http_2xx "):
        return
    for entry in fields[4:]:
        counted = COUNTED.fullmatch(entry)
        if counted and counted[1].startswith(FAILURES) and int(counted[2]):
            yield f"benchmark.{counted[1]}"
