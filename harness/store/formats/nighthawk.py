"""Native nighthawk output, as JSON or YAML: the tree of its Output message, of which only ``global`` is read.

uint64 are text, durations are text in seconds, an empty statistic holds ``NaN`` and a minimum of 2^64 - 1. Workers are
parts of ``global`` and never added to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from harness.sortie.names import COUNTERS
from harness.store import readers
from harness.store.contradictions.within import counts
from harness.store.formats.cells import Cell, CellFile, Plan, Reading, said
from harness.store.formats.content import not_output_of, parse, tool_of

SUFFIXES = (".json", ".yaml")
ANSWERS = tuple(f"benchmark.http_{status}" for status in ("1xx", "2xx", "3xx"))
# What nighthawk itself counts; the engine of sortie, a fork of it, counts all of COUNTERS.
UPSTREAM = frozenset(
    f"benchmark.{name}"
    for name in (
        "http_1xx", "http_2xx", "http_3xx", "http_4xx", "http_5xx", "http_xxx", "stream_resets", "pool_overflow",
        "pool_connection_failure",
    )
)  # fmt: skip
FAILURES = tuple(name for name in COUNTERS if name not in ANSWERS)
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
MOMENTS = ("mean", "pstdev", "min", "max")
UINT64 = re.compile(r"[0-9]{1,20}", re.ASCII)
SECONDS = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,9})?s", re.ASCII)
NUMBER = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)
NO_NUMBER = frozenset({"NaN", "Infinity", "-Infinity"})
ENDED_EARLY, CANCELLED = "sequencer.failed_terminations", "graceful_stop_requested"


def read(files: list[CellFile], plan: Plan, engine: str) -> Reading:
    """Every file as a cell. ``engine``: whose engine made them, ``upstream`` or ``sortie``. Raises EvidenceError."""
    outputs = [_Output(file, _tree(file)) for file in files]
    cells = [output.cell(plan) for output in outputs]
    counted = {name: engine == "sortie" or name in UPSTREAM for name in COUNTERS}
    if not all(output.open_loop for output in outputs):
        # a closed loop waits for a slow mesh instead of counting what it did not send
        counted |= {"benchmark.pool_overflow": False, "driver.open_loop": False}
    return Reading(cells, counted)


def _tree(file: CellFile) -> dict[str, Any]:
    content = readers.read_text(file.path)
    try:
        tree = parse(file.path, content)
    except ValueError as error:
        raise not_output_of("nighthawk", file, None, content, str(error)) from error
    if tool_of(tree) != "nighthawk":
        raise not_output_of("nighthawk", file, tree, content)
    made: dict[str, Any] = tree
    return made


class _Output:
    """One file: what it was asked to do, and what its ``global`` result says."""

    def __init__(self, file: CellFile, tree: Mapping[str, Any]) -> None:
        self.file = file
        self.options = self.object(tree, "options")
        self.results = self.objects(tree, "results", "name")

    @property
    def open_loop(self) -> bool:
        """Whether it sent by the clock. Said in so many words, else it did not: that is nighthawk's default."""
        return self.options.get("open_loop") in (True, "true")

    def cell(self, plan: Plan) -> Cell:
        """The file's cell. Raises EvidenceError when the file is of another plan, or damaged."""
        self.hold_to(plan)
        found = [result for result in self.results if result["name"] == "global"]
        if len(found) > 1:
            raise self.file.refuse("has two global results, and nothing says which of them counts; save it again")
        if not found:
            missing = f'output carries no "global" result ({len(self.results)} results)'
            return Cell(self.file, self.file.target, None, missing)
        counters = self.counters(found[0])
        self.hold_to_workers(counters)
        result: dict[str, Any] = {"counters": counters, "statistics": self.statistics(found[0])}
        ran_ns = self.duration_ns(found[0], "execution_duration", "execution_duration")
        if ran_ns is not None:
            if ran_ns < 0:
                raise self.file.refuse("has a negative execution_duration")
            result["elapsed_ms"] = ran_ns // 1_000_000
        started_at = found[0].get("execution_start")
        if started_at is not None:
            if readers.moment(started_at) is None:
                raise self.file.refuse("has an execution_start that is no time")
            result["started_at"] = started_at
        return Cell(self.file, self.file.target, result, self.stopped(counters))

    def hold_to(self, plan: Plan) -> None:
        """The duration, rate and host that it was asked for are the plan's: else it is a file of another run."""
        asked_ns = self.duration_ns(self.options, "duration", "options.duration")
        if asked_ns is None:
            raise self.file.refuse("was asked for no duration (options.duration), so it cannot be held against run.env")
        if asked_ns != plan.duration_ms * 1_000_000:
            raise self.file.refuse(
                f"was asked for {asked_ns / 1e9:g} s and run.env says DURATION_S={plan.duration_ms // 1000}: "
                "they are of two plans; put the right one there"
            )
        share = plan.shares.get(self.file.target)
        if share is None:
            return  # a target that is not planned is found by the gate
        rate_rps = self.rate_rps()
        if rate_rps != share.rate_rps:
            raise self.file.refuse(
                f"was asked for {said(rate_rps)} requests/s and shares.tsv says {share.rate_rps} for one node: "
                "they are of two plans; put the right one there"
            )
        planned, host = host_of(share.url), self.host()
        if planned is not None and host != planned:
            raise self.file.refuse(
                f"was sent to host {said(host)} and shares.tsv says {said(planned)}: "
                "it is of another target; put the right one there"
            )

    def rate_rps(self) -> int | None:
        """Requests per second of all its workers; None when it does not say."""
        each = readers.whole(count(self.options.get("requests_per_second")))
        stated = readers.whole(count(self.options.get("concurrency")))  # else "auto", or not said
        listed = sum(result["name"] != "global" for result in self.results)
        if stated and listed and stated != listed:
            raise self.file.refuse(f"says concurrency {stated} and has results of {listed} workers; copy it again")
        return None if each is None else each * (stated or listed or 1)

    def host(self) -> str | None:
        """The host that it sent to: of the Host header, by which a mesh routes, else of the URI."""
        request = self.options.get("request_options")
        headers = request.get("request_headers") if isinstance(request, dict) else None
        for entry in headers if isinstance(headers, list) else ():
            header = entry.get("header") if isinstance(entry, dict) else None
            if isinstance(header, dict) and str(header.get("key")).lower() in ("host", ":authority"):
                return host_of(f"//{header.get('value')}")
        uri = self.options.get("uri")
        return host_of(uri) if isinstance(uri, str) else None

    def counters(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Name → count, Envoy's own included; what is no uint64 stays as it is, to be found as no count."""
        found: dict[str, Any] = {}
        for entry in self.objects(result, "counters", "name"):
            if entry["name"] in found:
                raise self.file.refuse(f"counts {said(entry['name'])} twice; save it again")
            found[entry["name"]] = count(entry.get("value"))
        return found

    def hold_to_workers(self, counters: Mapping[str, Any]) -> None:
        """Workers are parts of ``global``, and Envoy's own counters tell of the same answers: none counts more."""
        parts: Counter[str] = Counter()
        for result in self.results:
            if result["name"] != "global":
                parts.update(counts(self.counters(result)))
        told = counts(counters)
        for name in FAILURES:
            if parts[name] > told.get(name, 0):
                raise self.file.refuse(
                    f"counts {name}={told.get(name, 0)} in its global result and {parts[name]} in its workers'; "
                    "copy it again"
                )
        for status in ("4xx", "5xx"):
            own = told.get(f"upstream_rq_{status}", 0)
            if own and not told.get(f"benchmark.http_{status}"):
                raise self.file.refuse(
                    f"counts upstream_rq_{status}={own} and no benchmark.http_{status}; copy it again"
                )

    def stopped(self, counters: Mapping[str, Any]) -> str | None:
        """Why it ended before its time, as far as its own counters say; None: they do not say that it did."""
        if counters.get(ENDED_EARLY):
            limits = self.options.get("failure_predicates")
            fired = [
                f"{name}={value} (limit {limit})"
                for name, raw in sorted(limits.items() if isinstance(limits, dict) else ())
                if (limit := readers.whole(count(raw))) is not None
                and (value := readers.whole(counters.get(name))) is not None
                and value > limit
            ]
            told = readers.one_line(", ".join(fired)) or "which one is not told"
            return f"nighthawk reported failure: a failure predicate ended the run: {told}"
        if counters.get(CANCELLED):
            return f"nighthawk was stopped before its time ({CANCELLED})"
        return None

    def statistics(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Id → statistic, for those with samples."""
        found: dict[str, Any] = {}
        for entry in self.objects(result, "statistics", "id"):
            name = entry["id"]
            samples = readers.whole(count(entry.get("count")))
            if samples is None:
                raise self.file.refuse(f"has no count of samples of {said(name)}; copy it again")
            if samples == 0 or not name:
                continue  # its numbers are sentinels; a statistic without a name tells nobody anything
            if name in found:
                raise self.file.refuse(f"has the statistic {said(name)} twice; save it again")
            found[name] = {"count": samples} | self.numbers(name, entry)
        return found

    def numbers(self, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        """The numbers of a statistic and their unit; one that is not there stays absent."""
        raw = any(f"raw_{moment}" in entry for moment in MOMENTS) or name.endswith("_size")
        found: dict[str, Any] = {
            moment: self.number(entry, f"raw_{moment}", name) if raw else self.duration_ns(entry, moment, name)
            for moment in MOMENTS
        }
        ladder = []
        for bucket in self.objects(entry, "percentiles"):
            fraction = self.number(bucket, "percentile", name)
            if fraction is None or not 0 <= fraction <= 1:
                raise self.file.refuse(f"has a percentile of {said(name)} that is no fraction")
            value = self.number(bucket, "raw_value", name) if raw else self.duration_ns(bucket, "duration", name)
            ladder.append((fraction, value))
        ladder.sort(key=lambda bucket: bucket[0])
        for key, asked in PERCENTILES.items():
            found[key] = next((value for fraction, value in ladder if fraction >= asked), None)
        told = {key: value for key, value in found.items() if value is not None}
        return {"unit": "raw" if raw else "ns"} | told

    def number(self, value: Mapping[str, Any], key: str, what: str) -> float | None:
        """A number, which YAML gives as text; None when it is absent, NaN or infinite."""
        raw = value.get(key)
        if isinstance(raw, str):
            raw = float(raw) if NUMBER.fullmatch(raw) else None if raw in NO_NUMBER else raw
        if raw is None:
            return None
        number = readers.finite(raw)
        if number is None and not isinstance(raw, float):
            raise self.file.refuse(f"has a {key} of {said(what)} that is no number; copy it again")
        return number

    def duration_ns(self, value: Mapping[str, Any], key: str, what: str) -> int | None:
        """Nanoseconds of a duration, which is text such as ``0.078433106s``; None when it is absent."""
        raw = value.get(key)
        if raw is None:
            return None
        if not isinstance(raw, str) or not SECONDS.fullmatch(raw):
            raise self.file.refuse(f"has a {key} of {said(what)} that is no duration; copy it again")
        return int(Decimal(raw[:-1]) * 1_000_000_000)

    def object(self, value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        found = value.get(key)
        if not isinstance(found, dict):
            raise self.file.refuse(f"has {key} that are no object; copy it again")
        return found

    def objects(self, value: Mapping[str, Any], key: str, name: str | None = None) -> list[dict[str, Any]]:
        """A list of objects, each with text at ``name``; an absent list is empty."""
        found = value.get(key)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
            raise self.file.refuse(f"has {key} that are no list of objects; copy it again")
        if name and not all(isinstance(entry.get(name), str) for entry in found):
            raise self.file.refuse(f"has an entry of {key} without {name}; copy it again")
        return found


def count(raw: object) -> object:
    """A uint64, which is text, as an int; anything else as it is."""
    return int(raw) if isinstance(raw, str) and UINT64.fullmatch(raw) else raw


def host_of(url: str | None) -> str | None:
    """The host that a URL names, in lower case; None when it names none."""
    try:
        return urlsplit(url).hostname or None if url else None
    except ValueError:
        return None
