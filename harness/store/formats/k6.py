"""k6's summary, as ``--summary-export`` writes it and as ``handleSummary()`` is given it.

k6 counts requests and those that it calls failed, not classes of status. A metric that had no sample is not in the
summary, unless a threshold names it. In ``http_req_failed``, ``passes`` are the requests that FAILED: what the metric
asks is whether a request failed. Times are milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.sortie.names import COUNTERS
from harness.store import readers
from harness.store.formats.cells import Cell, CellFile, Plan, Reading, said
from harness.store.formats.content import not_output_of, parse, tool_of

SUFFIXES = (".json",)
ALL_TARGETS = "summary"  # summary@<node>.json: one process drove every target, told apart by a tag
TAGGED = re.compile(r"(\w+)\{ *(target|scenario) *: *[\"']?([^,\"'{}]+?)[\"']? *\}", re.ASCII)
REQUESTS, FAILED, DROPPED, CHECKS = "http_reqs", "http_req_failed", "dropped_iterations", "checks"
DURATION = "http_req_duration"
NUMBERS = {
    "mean": ("avg",), "min": ("min",), "max": ("max",), "p50": ("med", "p(50)"), "p90": ("p(90)",), "p99": ("p(99)",),
    "p99.9": ("p(99.9)",),
}  # fmt: skip
NS_PER_MS = 1_000_000
LONGEST_MS = 1e12  # thirty years; what is longer is no time that anything ran


def read(files: list[CellFile], plan: Plan, engine: str) -> Reading:
    """The cells of every file: one, or one per target. There is one k6, whatever ``engine``. Raises EvidenceError."""
    cells = [cell for file in files for cell in _Summary(file).cells(plan)]
    counters = [cell.result["counters"] for cell in cells if cell.result]
    # k6 leaves out alike what never happened and what it never looked for, so only what is there was counted
    own = {f"k6.{name}": all(f"k6.{name}" in found for found in counters) for name in (REQUESTS, FAILED, DROPPED)}
    return Reading(cells, dict.fromkeys(COUNTERS, False) | own)


class _Summary:
    """One file: the name of a metric, with its tags, → the metric."""

    def __init__(self, file: CellFile) -> None:
        self.file = file
        content = readers.read_text(file.path)
        try:
            tree = parse(file.path, content)
        except ValueError as error:
            raise not_output_of("k6", file, None, content, str(error)) from error
        if tool_of(tree) != "k6":
            raise not_output_of("k6", file, tree, content)
        self.state = tree.get("state")
        self.metrics: Mapping[str, Any] = tree["metrics"]
        if not all(isinstance(metric, dict) for metric in self.metrics.values()):
            raise file.refuse("has a metric that is no object; copy it again")

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """One cell, or one per target that a tag names. A planned target without a tag of its own has none."""
        if self.file.target != ALL_TARGETS or ALL_TARGETS in plan.shares:
            yield self.cell(self.file.target, {key: key for key in self.metrics if "{" not in key}, list(self.metrics))
            return
        tagged = [(match, key) for key in self.metrics if (match := TAGGED.fullmatch(key))]
        tagged = [(match, key) for match, key in tagged if match[2] == "target" or match[3] in plan.shares]
        tagged.sort(key=lambda found: found[0][2] != "target")  # that tag goes before scenario, which k6 sets by itself
        own: dict[str, dict[str, str]] = {}
        for match, key in tagged:
            own.setdefault(match[3], {}).setdefault(match[1], key)
        targets = {target: keys for target, keys in own.items() if REQUESTS in keys}
        if not targets:
            raise self.file.refuse(
                "tells no target apart; set a threshold on http_reqs{target:<name>} for each, or save a file per target"
            )
        none_dropped = DROPPED in self.metrics and self.values(DROPPED).get("count") == 0
        owner = {key: match[3] for match, key in tagged}
        for target, keys in targets.items():
            judged = [key for key in self.metrics if owner.get(key, target) == target]  # of all targets: of each
            yield self.cell(target, {DROPPED: DROPPED} | keys if none_dropped else keys, judged)

    def cell(self, target: str, keys: Mapping[str, str], judged: list[str]) -> Cell:
        """The cell of ``target`` from the metrics of ``keys`` (name → key), with the thresholds on ``judged`` keys."""
        thresholds = {expr: held for key in judged for expr, held in self.thresholds(key)}
        if REQUESTS not in keys:
            return Cell(self.file, target, None, "k6 sent no request: its summary has no http_reqs", thresholds)
        counters = {f"k6.{name}": number for name, key in keys.items() for number in self.counts(name, key)}
        if FAILED in keys:
            counters |= self.failed(keys[FAILED], counters[f"k6.{REQUESTS}"])
        if CHECKS in keys:
            counters[f"k6.{CHECKS}_failed"] = self.values(keys[CHECKS]).get("fails")
        result: dict[str, Any] = {"counters": counters, "statistics": {}}
        if readers.whole(counters[f"k6.{REQUESTS}"]) and DURATION in keys:  # without samples k6 gives 0 for each number
            result["statistics"][f"k6.{DURATION}"] = self.statistic(keys[DURATION])
        if (elapsed_ms := self.elapsed_ms()) is not None:
            result["elapsed_ms"] = elapsed_ms
        return Cell(self.file, target, result, None, thresholds)

    def counts(self, name: str, key: str) -> Iterator[object]:
        """The count of a counter; nothing for any other metric. A script's own may hold fractions: those are no counts.

        What is no count in k6's own stays as it is, to be found as a bad one.
        """
        values = self.values(key)
        if name in (REQUESTS, DROPPED) or ("rate" in values and readers.whole(values.get("count")) is not None):
            yield values.get("count")

    def failed(self, key: str, requests: object) -> dict[str, object]:
        """How many requests failed: ``passes``. Nothing where none did and not every request was asked about."""
        values = self.values(key)
        failed, others = readers.whole(values.get("passes")), readers.whole(values.get("fails"))
        if failed is None or others is None:
            return {f"k6.{FAILED}": values.get("passes") if failed is None else values.get("fails")}
        sent = readers.whole(requests)
        if sent is not None and failed + others > sent:
            raise self.file.refuse(
                f"judges {failed + others} requests in {said(key)} of {sent} that it counts; copy it again"
            )
        return {f"k6.{FAILED}": failed} if failed or failed + others == sent else {}

    def statistic(self, key: str) -> dict[str, Any]:
        """Nanoseconds; a percentile that the run did not ask for is absent."""
        values = self.values(key)
        found: dict[str, Any] = {"unit": "ns", "count": readers.whole(values.get("count"))}
        for name, keys in NUMBERS.items():
            if (given := next((each for each in keys if each in values), None)) is not None:
                found[name] = round(self.number(values[given], key) * NS_PER_MS)
        return found

    def elapsed_ms(self) -> int | None:
        """How long the load ran: as k6 says, else requests ÷ their rate. None: nothing tells."""
        stated = self.state.get("testRunDurationMs") if isinstance(self.state, dict) else None
        if stated is not None:
            return int(self.number(stated, "state.testRunDurationMs"))
        values = self.values(REQUESTS) if REQUESTS in self.metrics else {}
        requests, rate = readers.finite(values.get("count")), readers.finite(values.get("rate"))
        if not requests or not rate or not 0 < requests / rate < LONGEST_MS / 1000:
            return None
        return round(requests / rate * 1000)

    def thresholds(self, key: str) -> Iterator[tuple[str, bool]]:
        """The thresholds on a metric: expression → whether it held. The older form says true where one was broken."""
        stated = self.metrics[key].get("thresholds", {})
        if not isinstance(stated, dict):
            raise self.file.refuse(f"has thresholds of {said(key)} that are no object; copy it again")
        for expr, judged in stated.items():
            held = judged.get("ok") if isinstance(judged, dict) else not judged if isinstance(judged, bool) else None
            if not isinstance(held, bool):
                raise self.file.refuse(f"does not say whether {said(key)} {said(expr)} held; copy it again")
            yield f"k6.{key} {expr}", held

    def values(self, key: str) -> Mapping[str, Any]:
        """The values of a metric, in either form of the summary."""
        metric: Mapping[str, Any] = self.metrics[key]
        values = metric.get("values", metric)
        if not isinstance(values, dict):
            raise self.file.refuse(f"has no values of {said(key)}; copy it again")
        return values

    def number(self, raw: object, what: str) -> float:
        """A time in milliseconds. Raises EvidenceError for anything that cannot be one."""
        number = readers.finite(raw)
        if number is None or not 0 <= number <= LONGEST_MS:
            raise self.file.refuse(f"has a number in {said(what)} that is no time; copy it again")
        return number
