"""The driver's report, or its results stream, as rows. A structural fault is a refusal naming file and target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError, ReportFormatError
from harness.sortie.thresholds import PER_BACKEND, split_actual
from harness.store import contradictions, formats
from harness.store.contradictions.within import counts
from harness.store.readers import finite, json_lines, moment, one_line, read_document, text, whole, without_port
from harness.store.side_rows import OUTCOMES_THAT_FAILED
from harness.store.source import Json, Source
from harness.store.stated import Stated

Row = dict[str, Any]

# Each request that was released is counted in exactly one of these.
OUTCOMES = ("benchmark.http_1xx", "benchmark.http_2xx", "benchmark.http_3xx", *OUTCOMES_THAT_FAILED)
STATISTIC_NUMBERS = ("mean", "pstdev", "min", "max", "p50", "p90", "p99")


@dataclass
class ReportRows:
    """Rows of the tables that come from the report."""

    executions: list[Row] = field(default_factory=list)
    backends: list[Row] = field(default_factory=list)
    counters: list[Row] = field(default_factory=list)
    statistics: list[Row] = field(default_factory=list)
    thresholds: list[Row] = field(default_factory=list)
    threshold_actuals: list[Row] = field(default_factory=list)


def read_report(path: Path) -> Source:
    """The whole report. Raises ReportFormatError when it is none, or one that an old driver made."""
    document = read_document(path)
    executions = document.get("executions") if isinstance(document, dict) else None
    if not isinstance(executions, list) or not all(_is_execution(entry) for entry in executions):
        raise ReportFormatError(f"{path.name} is not a sortie JSON report: it holds no list of labelled executions")
    passed = document.get("pass")
    if passed is not None and not isinstance(passed, bool):
        raise ReportFormatError(f"{path.name}: pass is neither true nor false")
    _refuse_old_formats(path.name, executions)
    return Source(path.name, "report", executions, 0, passed)


def read_stream(path: Path) -> Source:
    """The results stream, line by line; what is no execution is counted, not graded. Raises ReportFormatError."""
    executions: list[Json] = []
    skipped = 0
    for value in json_lines(path):
        if _is_execution(value):
            executions.append(value)
        else:
            skipped += 1
    if not executions:
        raise ReportFormatError(f"{path.name} holds no execution ({skipped} line(s) skipped)")
    _refuse_old_formats(path.name, executions)
    return Source(path.name, "stream", executions, skipped, None)


def _is_execution(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("label"), str)


def _refuse_old_formats(file: str, executions: Iterable[Json]) -> None:
    """Two generations of reports cannot be graded: what they lack would read as zero."""
    for execution in executions:
        if execution.get("thresholds") and "results" not in execution:
            raise ReportFormatError(
                f"{file} is an OLD-FORMAT sortie report: {one_line(execution['label'])} has thresholds and no results, "
                "so every counter of every backend would read as zero; grade it with the gate of its own time"
            )
    for execution in executions:
        if execution.get("not_run") is not True and execution.get("started_at") is None:
            raise ReportFormatError(
                f"{file} is an OLD-FORMAT sortie report: {one_line(execution['label'])} has no started_at, so requests "
                "in flight at its end were not counted and would read as zero; grade it with the gate of its own time"
            )


def report_rows(source: Source, nodes: Mapping[str, str], stated: Stated) -> ReportRows:
    """All rows of ``source``. ``nodes`` maps an address without port to a node's name.

    ``stated``: what other files say of the same executions; where they disagree, the execution's row says so.
    """
    rows = ReportRows()
    for exec_no, execution in enumerate(source.executions, start=1):
        _Execution(source.file, exec_no, execution, nodes, rows).read()
        rows.executions[-1]["contradiction"] = contradictions.of_execution(execution, stated, source.capabilities)
    return rows


class _Execution:
    """Reads one execution object into ``rows``."""

    def __init__(self, file: str, exec_no: int, value: Json, nodes: Mapping[str, str], rows: ReportRows) -> None:
        self.where = f"{file}: {one_line(text(value['label']) or '')}"
        self.exec_no = exec_no
        self.value = value
        self.nodes = nodes
        self.rows = rows
        self.backends: list[Row] = []
        self.answered: list[Row] = []  # of these, the ones with a result, in the order of the results

    def read(self) -> None:
        value = self.value
        totals = self.object(value, "totals")
        self.flag(value, "per_backend")
        for key in ("scenario", "pool", "dns"):
            self.text(value, key)
        self.rows.executions.append(
            {
                "exec_no": self.exec_no,
                "label": self.name(value["label"], "its label"),
                "rate_rps": self.whole(value, "rate"),
                "duration_ms": self.whole(value, "duration_ms"),
                "elapsed_ms": self.whole(value, "elapsed_ms"),
                "started_at": self.time(value, "started_at"),
                "ended_at": self.time(value, "ended_at"),
                "passed": self.flag(value, "pass"),
                "not_run": bool(self.flag(value, "not_run")),
                "refused": self.text(value, "refused"),
                "has_refused_key": "refused" in value,
                "error": self.text(value, "error"),
                "total_http_2xx": None if totals is None else whole(totals.get("benchmark.http_2xx", 0)),
            }
        )
        for address in self.entries(value, "backends"):
            if not isinstance(address, str) or not address:
                raise self.refuse("a dispatched backend is not an address")
            self.backend(address)["dispatched"] = True
        for result in self.objects(value, "results", "backend"):
            self.result(result)
        for entry in self.objects(value, "failures", "backend"):
            self.object(entry, "counters")
        for entry in self.objects(value, "backend_errors", "backend"):
            row = self.free(str(entry["backend"]), "in_error")
            row |= {"error": self.text(entry, "error"), "error_refused": self.text(entry, "refused")}
        for number, threshold in enumerate(self.objects(value, "thresholds", "expr"), start=1):
            self.threshold(number, threshold)
        self.rows.backends += self.backends

    def threshold(self, number: int, threshold: Json) -> None:
        actual = threshold.get("actual")
        if isinstance(actual, dict | list):
            raise self.refuse("the actual of a threshold is not text")
        row: Row = {
            "exec_no": self.exec_no,
            "threshold_no": number,
            "expr": self.name(threshold["expr"], "a threshold"),
            "scope": self.text(threshold, "scope"),
            "passed": self.flag(threshold, "pass"),
            "actual": text(actual) if isinstance(actual, str) else None if actual is None else str(actual),
        }
        self.rows.thresholds.append(row)
        survivors = [backend for backend in self.answered if not backend["in_error"]]
        split = split_actual(row["expr"], row["actual"] or "", len(survivors))
        if split is None or row["scope"] != PER_BACKEND or all(holds for _, holds in split) != row["passed"]:
            return  # values that cannot be told apart, or do not bear the judgement out, are nobody's
        for backend, (value, holds) in zip(survivors, split, strict=True):
            place = {key: backend[key] for key in ("backend_no", "backend", "node")}
            self.rows.threshold_actuals.append(
                {"exec_no": self.exec_no, "threshold_no": number, **place, "actual": value, "holds": holds}
            )

    def result(self, result: Json) -> None:
        row = self.free(str(result["backend"]), "returned")
        self.answered.append(row)
        counters = result.get("counters")
        row |= {
            "elapsed_ms": self.whole(result, "elapsed_ms"),
            "started_at": self.time(result, "started_at"),
            "bad_counters": None if isinstance(counters, dict) else "counters is no object",
        }
        own = result.get("harness")
        if isinstance(own, dict):
            row |= {"planned_requests": whole(own.get("planned")), "released_requests": whole(own.get("released"))}
            told, released = counts(counters), row["released_requests"]
            if released is not None and (outcomes := sum(told.get(name, 0) for name in OUTCOMES)) > released:
                row["bad_counters"] = f"{outcomes} outcomes of {released} released requests"
        place = {key: row[key] for key in ("exec_no", "backend_no", "backend", "node")}
        for name, raw in counters.items() if isinstance(counters, dict) else ():
            number = whole(raw)
            if number is None:
                row["bad_counters"] = one_line(f"{name} is {raw!r}")[:200]
            self.rows.counters.append({**place, "counter": self.name(name, "the name of a counter"), "value": number})
        for name, raw in (self.object(result, "statistics") or {}).items():
            if raw is None:
                continue
            if not isinstance(raw, dict):
                raise self.refuse(f"statistic {one_line(name)} is no object")
            numbers = {key: finite(raw.get(key)) for key in STATISTIC_NUMBERS}
            about = {
                "statistic": self.name(name, "the name of a statistic"),
                "unit": text(raw.get("unit")),
                "count": whole(raw.get("count")),
            }
            self.rows.statistics.append({**place, **about, **numbers, "p99_9": finite(raw.get("p99.9"))})

    def backend(self, address: str) -> Row:
        """A new row for ``address``."""
        backend = self.name(address, "the address of a backend")
        ip = without_port(backend)
        row: Row = {
            "exec_no": self.exec_no,
            "backend_no": len(self.backends) + 1,
            "backend": backend,
            "ip": ip,
            "node": self.nodes.get(ip, ip),
            "dispatched": False,
            "returned": False,
            "in_error": False,
        }
        self.backends.append(row)
        return row

    def free(self, address: str, flag: str) -> Row:
        """The first row of ``address`` that lacks ``flag``, which is now set; a second answer is a row of its own."""
        backend = text(address)
        found = next((row for row in self.backends if row["backend"] == backend and not row[flag]), None)
        row = self.backend(address) if found is None else found
        row[flag] = True
        return row

    def name(self, value: str, what: str) -> str:
        """A name as it is: half of a character would be stored as another name."""
        if text(value) != value:
            raise self.refuse(f"{what} is no text")
        return value

    def refuse(self, what: str) -> ReportFormatError:
        return ReportFormatError(f"{self.where}: {what}")

    def whole(self, value: Json, key: str) -> int | None:
        number = whole(value.get(key))
        if number is None and value.get(key) is not None:
            raise self.refuse(f"{key} is not a whole number from 0 to 2^63")
        return number

    def time(self, value: Json, key: str) -> Any:
        found = moment(value.get(key))
        if found is None and value.get(key) is not None:
            raise self.refuse(f"{key} is not a UTC time")
        return found

    def flag(self, value: Json, key: str) -> bool | None:
        found = value.get(key)
        if found is not None and not isinstance(found, bool):
            raise self.refuse(f"{key} is neither true nor false")
        return found

    def text(self, value: Json, key: str) -> str | None:
        found = value.get(key)
        if found is not None and not isinstance(found, str):
            raise self.refuse(f"{key} is not text")
        return text(found)

    def entries(self, value: Json, key: str) -> list[Any]:
        found = value.get(key)
        if found is not None and not isinstance(found, list):
            raise self.refuse(f"{key} is not a list")
        return found or []

    def object(self, value: Json, key: str) -> Json | None:
        found = value.get(key)
        if found is not None and not isinstance(found, dict):
            raise self.refuse(f"{key} is no object")
        return found

    def objects(self, value: Json, key: str, name: str) -> list[Json]:
        found = self.entries(value, key)
        for entry in found:
            if not isinstance(entry, dict) or not isinstance(entry.get(name), str) or not entry[name]:
                raise self.refuse(f"an entry of {key} has no {name}")
        return found


def choose_source(evidence: Path, *, stream: bool, scenario: str) -> Source:
    """The report, or with ``stream`` the results stream of a run that has no report. Raises EvidenceError.

    A run that has a report is graded by it or not at all: the stream is never a way round a damaged report. Evidence
    of another load generator says so in a file of its own; ``scenario`` begins the labels of its executions.
    """
    report, results = evidence / "report.json", evidence / "results.jsonl"
    if (evidence / formats.MARKER).exists():
        if report.exists() or stream:
            other = "report.json is there too" if report.exists() else "it has no results stream"
            raise EvidenceError(f"{formats.MARKER} says that this run is of another load generator, and {other}")
        return formats.read(evidence, scenario=scenario)
    if report.exists():
        if stream:
            raise EvidenceError("report.json is there, so this run is graded by it; leave out --stream")
        return read_report(report)
    if not results.is_file() or results.stat().st_size == 0:
        raise EvidenceError("neither report.json nor results.jsonl is in the evidence; there is nothing to grade")
    if not stream:
        raise EvidenceError(
            "report.json is not there: the run did not live to write it; results.jsonl holds the executions that "
            "finished, and --stream grades those"
        )
    return read_stream(results)
