"""Result files as nighthawk and k6 write them, and a directory of them: two targets on two nodes, 150 s."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

DURATION_S = 150
SHARES = {"cart": 9, "pay": 3}
ENGINES = {"node-a": "10.0.0.1", "node-b": "10.0.0.2"}
LATENCY_2XX = "benchmark_http_client.latency_2xx"
# The fractions of an HDR ladder, cut short: few of them are the ones that anybody asks for.
LADDER = (0, 0.5, 0.75, 0.875, 0.9, 0.9375, 0.95, 0.990625, 0.9990234375, 1)
EMPTY_RAW = {"raw_mean": "NaN", "raw_pstdev": "NaN", "raw_min": "18446744073709551615", "raw_max": "0"}
FILES = itertools.count()  # no two files say the same: of each the start or a mean is a little more
EMPTY = {"mean": "0s", "pstdev": "0s", "min": "0s", "max": "0s"}


def seconds(ns: int) -> str:
    """A duration in the form of protobuf's JSON: 0, 3, 6 or 9 decimals."""
    whole, rest = divmod(ns, 1_000_000_000)
    for digits in (0, 3, 6, 9):
        if rest % 10 ** (9 - digits) == 0:
            return f"{whole}.{rest // 10 ** (9 - digits):0{digits}d}s" if digits else f"{whole}s"
    raise AssertionError


def statistic(name: str, samples: int, ns: int) -> dict[str, Any]:
    """A statistic of durations: percentiles from ``ns`` up, one microsecond more for each step of the ladder."""
    if samples == 0:
        return {"percentiles": [], "count": "0", "id": name, **(EMPTY_RAW if name.endswith("_size") else EMPTY)}
    steps = [(fraction, ns + 1_000 * step) for step, fraction in enumerate(LADDER)]
    if name.endswith("_size"):
        told = {"raw_mean": ns, "raw_pstdev": 0.5, "raw_min": str(ns), "raw_max": str(ns)}
        return {"percentiles": [], "count": str(samples), "id": name, **told}
    return {
        "percentiles": [
            {"percentile": fraction, "count": str(round(samples * fraction)), "duration": seconds(value)}
            for fraction, value in steps
        ],
        "count": str(samples),
        "id": name,
        "mean": seconds(ns + 500),
        "pstdev": seconds(100_001),
        "min": seconds(ns),
        "max": seconds(steps[-1][1]),
    }


def native(
    target: str = "cart",
    rate_rps: int = 9,
    counters: Mapping[str, int | str] | None = None,
    *,
    workers: int = 1,
    elapsed_ns: int = DURATION_S * 1_000_000_000,
    statistics: Iterable[dict[str, Any]] | None = None,
    start: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """An Output of nighthawk: open loop, the default failure predicates, every request a 2xx unless said otherwise."""
    requests = rate_rps * DURATION_S
    moved = {"benchmark.http_2xx": requests, "upstream_rq_total": requests} if counters is None else counters
    if statistics is None:
        names = ("queue_to_connect", "request_to_response", "latency_2xx", "latency_5xx", "response_body_size")
        statistics = [
            statistic(f"benchmark_http_client.{name}", 0 if "5xx" in name else requests, 2_100_000) for name in names
        ]
    result = {
        "statistics": list(statistics),
        "counters": [{"name": name, "value": str(value)} for name, value in moved.items()],
        "execution_duration": seconds(elapsed_ns),
        "execution_start": start or f"2026-03-04T05:06:07.{123456789 + next(FILES)}Z",
        "user_defined_outputs": [],
    }
    names = [*(f"worker_{number}" for number in range(workers if workers > 1 else 0)), "global"]
    return {
        "options": {
            "requests_per_second": rate_rps // workers,
            "connections": 100,
            "duration": f"{DURATION_S}s",
            "concurrency": str(workers),
            "open_loop": True,
            "uri": f"http://{target}.mesh.internal:18081/",
            "failure_predicates": {
                "benchmark.http_4xx": "0",
                "benchmark.http_5xx": "0",
                "benchmark.pool_connection_failure": "0",
                "benchmark.stream_resets": "0",
                "requestsource.upstream_rq_5xx": "0",
            },
            "labels": [],
            **options,
        },
        "results": [{"name": name, **result} for name in names],
        "version": {"version": {"major_number": 0, "minor_number": 5, "patch": 0}},
        "timestamp": "2026-03-04T05:08:37.301Z",
    }


def k6_metrics(requests: int, failed: int = 0, dropped: int | None = 0) -> dict[str, dict[str, Any]]:
    """Metric → its type and values, as ``handleSummary()`` sees them; ``dropped`` None: k6 is silent."""
    counters = {"http_reqs": requests, "iterations": requests}
    if dropped is not None:
        counters["dropped_iterations"] = dropped
    metrics: dict[str, dict[str, Any]] = {
        name: {"type": "counter", "contains": "default", "values": {"count": count, "rate": count / DURATION_S}}
        for name, count in counters.items()
    }
    rate = {"rate": failed / requests if requests else 0, "passes": failed, "fails": requests - failed}
    metrics["http_req_failed"] = {"type": "rate", "contains": "default", "values": rate}
    times = {
        "avg": round(2 + (2 * next(FILES) + 250_001) / 1e6, 6),  # an odd last digit: each is as long as the others
        "min": 1.5,
        "med": 2.125,
        "max": 9.75,
        "p(90)": 3.5,
        "p(95)": 4.0,
        "p(99)": 6.5,
    }
    metrics["http_req_duration"] = {"type": "trend", "contains": "time", "values": times}
    return metrics


def k6_summary(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What ``handleSummary()`` is given."""
    return {
        "root_group": {"name": "", "path": "", "id": "d41d8cd98f00b204e9800998ecf8427e", "groups": [], "checks": []},
        "options": {"summaryTrendStats": ["avg", "min", "med", "max", "p(90)", "p(95)", "p(99)"]},
        "state": {"isStdOutTTY": False, "isStdErrTTY": False, "testRunDurationMs": DURATION_S * 1000 + 12.345678},
        "metrics": dict(metrics),
    }


def k6_export(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What ``--summary-export`` writes: bare values, a rate under ``value``, true for a broken threshold."""
    flat = {}
    for name, metric in metrics.items():
        values = dict(metric["values"])
        if metric["type"] == "rate":
            values["value"] = values.pop("rate")
        if "thresholds" in metric:
            values["thresholds"] = {expr: not judged["ok"] for expr, judged in metric["thresholds"].items()}
        flat[name] = values
    return {"root_group": {"name": "", "path": "", "groups": {}, "checks": {}}, "metrics": flat}


def write_plan(folder: Path, *, shares: Mapping[str, int] = SHARES, engines: Mapping[str, str] = ENGINES) -> None:
    """run.env, shares.tsv and engines.tsv."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.env").write_text(f"RUN_TAG=soak-1\nBACKENDS={len(engines)}\nDURATION_S={DURATION_S}\n")
    (folder / "shares.tsv").write_text(
        "".join(f"{target}\t{rate_rps}\thttp://{target}.mesh.internal:18081/\n" for target, rate_rps in shares.items())
    )
    (folder / "engines.tsv").write_text("".join(f"{ip}\t{node}\tengine-{node}\n" for node, ip in engines.items()))


def mark(folder: Path, format_name: str, engine: str = "upstream") -> None:
    """adopted.json, in the form that evidence has it."""
    (folder / "adopted.json").write_text(json.dumps({"schema": 1, "format": format_name, "engine": engine}) + "\n")
