"""A clean soak as it is saved elsewhere, made up: 8 targets × 5 backends for 8.5 hours, a report of 100 kB."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import settings
from harness.plan.build import build_plan, node_names
from harness.plan.model import Plan
from harness.plan.shares import shares_tsv
from harness.plan.sortie_yaml import render_plan
from harness.sortie.log import last_line, running_line, summary_lines, verdict_line
from harness.sortie.report import BackendResult, Execution, encode_report, encode_stream_line
from harness.sortie.thresholds import judge, parse_thresholds

START_UNIX_MS = 1_793_513_289_250  # 2026-11-01T06:08:09.250Z
DURATIONS = (
    "benchmark_http_client.latency_2xx",
    "benchmark_http_client.queue_to_connect",
    "benchmark_http_client.request_to_response",
    "sequencer.callback",
)
SIZES = ("benchmark_http_client.response_body_size", "benchmark_http_client.response_header_size")


def plan_of_soak() -> Plan:
    """The plan of profile ``soak``."""
    return build_plan(settings.build({"profile": "soak"}, "benchmark")).plan


def write_soak(folder: Path, run: str, plan: Plan) -> int:
    """Write the run's files into a new folder; no two runs have the same numbers. Returns the size of the report."""
    chance = random.Random(run)
    nodes = {f"10.30.1.{number}": node for number, node in enumerate(node_names(5), start=1)}
    executions = [_execution(plan, number, list(nodes), chance) for number in range(len(plan.targets))]
    report = encode_report(executions)
    lines = [line for execution in executions for line in (running_line(execution), verdict_line(execution))]
    lines += [*(line for execution in executions for line in summary_lines(execution)), last_line(executions)]
    texts = {
        "run.env": f"RUN_TAG={run}\nMODE=soak\nLABEL=benchmark\nBACKENDS={len(nodes)}\nDURATION_S={plan.duration_s}\n",
        "plan.yaml": render_plan(plan),
        "shares.tsv": shares_tsv(plan.targets),
        "engines.tsv": "".join(f"{ip}\t{node}\tengine-{node}\n" for ip, node in nodes.items()),
        "report.json": report,
        "results.jsonl": "".join(encode_stream_line(execution) + "\n" for execution in executions),
        "sortie.log": "".join(f"{line}\n" for line in lines),
    }
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return len(report)


def _execution(plan: Plan, number: int, addresses: list[str], chance: random.Random) -> Execution:
    target = plan.targets[number]
    results = tuple(
        _result(f"{ip}:8443", target.rate_rps * plan.duration_s, plan.duration_s, chance) for ip in addresses
    )
    bare = Execution(
        label=f"{plan.scenario}/{target.name}",
        scenario=plan.scenario,
        pool=plan.pool,
        rate_rps=target.rate_rps,
        duration_ms=plan.duration_s * 1000,
        elapsed_ms=plan.duration_s * 1000 + 700,
        started_unix_ms=START_UNIX_MS + number,
        dns=plan.dns,
        backends=tuple(result.backend for result in results),
        results=results,
    )
    return replace(bare, thresholds=tuple(judge(limit, results) for limit in parse_thresholds(plan.thresholds)))


def _result(backend: str, count: int, duration_s: int, chance: random.Random) -> BackendResult:
    return BackendResult(
        backend=backend,
        elapsed_ms=duration_s * 1000,
        started_at="2026-11-01T06:08:09.560Z",
        counters={"benchmark.http_2xx": count},
        statistics={name: _duration(count, chance) for name in DURATIONS}
        | {name: {"count": count, "unit": "raw", "mean": 799, "min": 799, "max": 799} for name in SIZES},
    )


def _duration(count: int, chance: random.Random) -> dict[str, Any]:
    """A distribution in nanoseconds, its numbers in order."""
    low, p50, p90, p99, p99_9, high = sorted(chance.randrange(700_000, 9_000_000) for _ in range(6))
    numbers = {
        "mean": p50,
        "pstdev": 300_000,
        "min": low,
        "max": high,
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "p99.9": p99_9,
    }
    return {"count": count, "unit": "ns", **numbers}
