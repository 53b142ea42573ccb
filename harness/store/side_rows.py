"""What was written beside the report: rolls, faults, progress, access logs, resources, histograms.

None of these is judged line by line except the rolls, so a line that is cut off (a proxy that was killed, a full disk)
is left out and its neighbours are kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.store.readers import finite, json_lines, lines_of, moment, one_line, text, whole

Row = dict[str, Any]

ROLL = re.compile(r"(?P<outcome>ROLLED|FAILED) (?:[^/\s]+/)?(?P<kind>[^/\s]+)/(?P<name>[^/\s]+)(?P<rest>.*)")
NUMBERS = re.compile(r"\b(at_s|took_ms)=([0-9]+(?:\.[0-9]+)?)")
CHURN_WORDS = (("CHURN ABORTED", "ABORTED"), ("churn driver start", "START"), ("churn driver complete", "COMPLETE"))
FAULT = re.compile(r"FAULT (?P<verb>\S+)(?: (?:(?:engine|proxy|target) )?(?P<name>\S+))?.*? : (?P<effect>.*)")

# One request that failed is in exactly one of these; the other failure counters repeat them by phase or reason.
OUTCOMES_THAT_FAILED = tuple(
    f"benchmark.{name}"
    for name in (
        "http_4xx", "http_5xx", "http_xxx", "stream_resets", "pool_overflow", "pool_connection_failure",
        "pool_failure_timeout", "http_inflight_lost",
    )
)  # fmt: skip


def event_rows(evidence: Path) -> Iterator[Row]:
    """Rows of ``events``: churn.log, then faults.log, each in its order."""
    number = 0
    for file, source, parse in (("churn.log", "churn", _churn), ("faults.log", "faults", _fault)):
        for stamp, line in _stamped(evidence / file):
            number += 1
            yield {"event_no": number, "source": source, "at": moment(stamp), **parse(line), "detail": one_line(line)}


def _stamped(path: Path) -> Iterator[tuple[str, str]]:
    if not path.exists():
        return
    try:
        content = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise EvidenceError(f"{path.name} cannot be read ({error.strerror or error})") from error
    for _, line in lines_of(content):
        stamp, _, rest = line.strip().partition(" ")
        yield (stamp, rest.strip()) if moment(stamp) else ("", line.strip())


def _churn(line: str) -> Row:
    if match := ROLL.fullmatch(line):
        numbers = {key: float(value) for key, value in NUMBERS.findall(match["rest"].split(" : ", 1)[0])}
        return {"outcome": match["outcome"], "kind": match["kind"], "name": match["name"], **numbers}
    for opening, word in CHURN_WORDS:
        if line.startswith(opening):
            return {"outcome": word}
    return {"outcome": _word(line)}


def _fault(line: str) -> Row:
    match = FAULT.fullmatch(line)
    if match is None:
        return {"outcome": _word(line)}
    return {
        "outcome": "BEGINS" if match["effect"] == "begins" else "ENDS",
        "kind": match["verb"],
        "name": match["name"],
    }


def _word(line: str) -> str:
    return one_line(line).split(" ", 1)[0] or "?"


def progress_rows(path: Path, nodes: Mapping[str, str]) -> Iterator[Row]:
    """Rows of ``progress``, one per line of progress.jsonl (a backend and a target at one moment)."""
    for value in _objects(path):
        counters, interval = value.get("counters"), value.get("interval")
        interval = interval if isinstance(interval, dict) else {}
        backend = text(value.get("backend"))
        yield {
            "at": moment(value.get("at")),
            "elapsed_s": finite(value.get("elapsed_s")),
            "label": text(value.get("label")),
            "backend": backend,
            "node": None if backend is None else _node(backend, nodes),
            "http_2xx": _sum(counters, ("benchmark.http_2xx",)),
            "failures": _sum(counters, OUTCOMES_THAT_FAILED),
            **{key: whole(interval.get(key)) for key in ("count", "p50_ns", "p99_ns", "max_ns")},
        }


def _sum(counters: object, names: Collection[str]) -> int | None:
    """The counters of these names together; one that is absent never moved. None where one of them is no count."""
    if not isinstance(counters, dict):
        return None
    found = [number for name in names if (number := whole(counters.get(name, 0))) is not None]
    return sum(found) if len(found) == len(names) else None


def access_rows(evidence: Path) -> Iterator[Row]:
    """Rows of ``access``: every access-<node>.log, nodes in order. Envoy writes ``-`` or null for what it lacks."""
    for path in sorted(evidence.glob("access-*.log")):
        node = path.name.removeprefix("access-").removesuffix(".log")
        for value in _objects(path):
            words = {
                key: text(value.get(key)) for key in ("authority", "path", "flags", "details", "cluster", "upstream")
            }
            yield {
                "node": node,
                "at": moment(value.get("at")),
                "code": whole(value.get("code")),
                "duration_ms": whole(value.get("duration_ms")),
                **{key: None if word == "-" else word for key, word in words.items()},
            }


def resource_rows(path: Path) -> Iterator[Row]:
    """Rows of ``resources``."""
    for value in _objects(path):
        yield {
            "at": moment(value.get("at")),
            "name": text(value.get("name")),
            "kind": text(value.get("kind")),
            "node": text(value.get("node")),
            "pid": whole(value.get("pid")),
            "cpu_s": finite(value.get("cpu_s")),
            "rss_bytes": whole(value.get("rss_bytes")),
        }


def histogram_rows(path: Path, nodes: Mapping[str, str]) -> Iterator[Row]:
    """Rows of ``histograms``; a line without one of its keys is left out."""
    for value in _objects(path):
        label, backend, statistic, hdr = (text(value.get(key)) for key in ("label", "backend", "id", "hdr"))
        if label and backend and statistic and hdr:
            yield {
                "label": label,
                "backend": backend,
                "node": _node(backend, nodes),
                "statistic": statistic,
                "hdr": hdr,
            }


def _objects(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.is_file():
        for value in json_lines(path):
            if isinstance(value, dict):
                yield value


def _node(backend: str, nodes: Mapping[str, str]) -> str:
    ip = backend.rpartition(":")[0] or backend
    return nodes.get(ip, ip)
