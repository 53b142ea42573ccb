"""Runs made by hand for tests: Parquet tables to the declared schemas, a verdict, receipts. Nothing was driven."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyarrow.parquet import read_metadata

from harness.files import sha256_file, write_json
from harness.gate import store
from harness.runs import RunFolder
from harness.store.columns import SOAK
from harness.store.kinds import tables_of
from harness.store.parquet import write_table
from harness.store.schemas import SCHEMA_VERSION

T0 = datetime(2026, 10, 8, 10, 15, 0, tzinfo=UTC)
TARGETS = {"svc-1": 9, "svc-2": 9, "svc-3": 9, "svc-4": 9, "echo": 9, "mixed-svc": 9, "uds-echo": 3, "uds-cr-echo": 3}
NODES = ("node-a", "node-b", "node-c", "node-d", "node-e")
COUNTED = (
    "http_2xx",
    "http_4xx",
    "http_5xx",
    "stream_resets",
    "pool_overflow",
    "pool_connection_failure",
    "pool_failure_timeout",
    "http_inflight_lost",
)

Row = dict[str, Any]
Tables = dict[str, list[Row]]


def clean_tables(
    targets: dict[str, int] | None = None, nodes: Iterable[str] = NODES, duration_s: int = 60, slow: float = 1.0
) -> Tables:
    """A run in which every request was answered. ``slow`` multiplies every latency."""
    targets, nodes = targets or TARGETS, tuple(nodes)
    rng = random.Random(7)
    tables: Tables = {name: [] for name in tables_of(SOAK)}
    tables["runs"] = [
        {
            "schema_version": 1,
            "run_tag": "quick",
            "kind": "soak",
            "profile": "quick",
            "fleet": "local",
            "created_at": T0,
            "backends": len(nodes),
            "duration_s": duration_s,
            "nodes_listed": len(nodes),
            "targets_planned": len(targets),
            "source": "report",
            "skipped_lines": 0,
            "report_pass": True,
            "log_present": True,
            "log_skip_lines": 0,
            "log_summary": None,
            "log_not_run": 0,
            "schedule_present": True,
            "rolls_planned": 3,
            "limits_planned": 0,
            "churn_log_present": True,
            "floor_pct": 99,
            "max_send_delay_ms": 250.0,
        }
    ]
    tables["capabilities"] = [{"counter": f"benchmark.{name}", "counted": True} for name in COUNTED]
    for number, node in enumerate(nodes, 1):
        tables["plan_nodes"].append(
            {"node_no": number, "ip": f"127.0.1.{number}", "node": node, "engine": f"engine-{node}"}
        )
    for number, (target, rate) in enumerate(targets.items(), 1):
        label = f"mesh/{target}"
        tables["plan_targets"].append(
            {"target_no": number, "target": target, "label": label, "rate_rps": rate, "url": None}
        )
        tables["executions"].append(
            {
                "exec_no": number,
                "label": label,
                "rate_rps": rate,
                "duration_ms": duration_s * 1000,
                "elapsed_ms": duration_s * 1000,
                "started_at": T0,
                "ended_at": T0 + timedelta(seconds=duration_s),
                "passed": True,
                "not_run": False,
                "has_refused_key": False,
                "total_http_2xx": rate * duration_s * len(nodes),
            }
        )
        tables["thresholds"].append(
            {
                "exec_no": number,
                "threshold_no": 1,
                "expr": "counter:benchmark.http_5xx == 0",
                "scope": "total",
                "passed": True,
                "actual": "0",
            }
        )
        for backend_no, node in enumerate(nodes, 1):
            _backend(tables, number, backend_no, node, rate * duration_s, duration_s, label, rng, slow)
    for roll_no, (at_s, kind, name) in enumerate(
        ((8.0, "proxy", nodes[0]), (22.0, "target", next(iter(targets))), (41.0, "proxy", nodes[-1])), 1
    ):
        tables["plan_rolls"].append({"roll_no": roll_no, "at_s": at_s, "kind": kind, "name": name})
        tables["events"].append(
            {
                "event_no": roll_no,
                "source": "churn",
                "at": T0 + timedelta(seconds=at_s),
                "at_s": at_s,
                "outcome": "ROLLED",
                "kind": kind,
                "name": name,
                "took_ms": 812.4,
                "detail": f"ROLLED local/{kind}/{name}",
            }
        )
    for at_s in range(0, duration_s + 1, 5):
        for number, (name, kind, cpu, rss) in enumerate(
            (
                ("engine-node-a", "engine", 0.031, 48),
                ("proxy-node-a", "proxy", 0.022, 71),
                ("svc-1-1", "target", 0.009, 30),
                ("driver", "driver", 0.004, 41),
            )
        ):
            tables["resources"].append(
                {
                    "at": T0 + timedelta(seconds=at_s),
                    "name": name,
                    "kind": kind,
                    "node": "node-a" if "node" in name else None,
                    "pid": 100 + number,
                    "cpu_s": 0.4 + cpu * at_s,
                    "rss_bytes": rss * 2**20,
                }
            )
    return tables


def _backend(
    tables: Tables,
    exec_no: int,
    backend_no: int,
    node: str,
    planned: int,
    duration_s: int,
    label: str,
    rng: random.Random,
    slow: float,
) -> None:
    address = f"127.0.1.{backend_no}:7000"
    place = {"exec_no": exec_no, "backend_no": backend_no, "backend": address, "node": node}
    tables["backends"].append(
        {
            **place,
            "ip": address.split(":")[0],
            "dispatched": True,
            "returned": True,
            "in_error": False,
            "elapsed_ms": duration_s * 1000,
            "started_at": T0,
            "planned_requests": planned,
            "released_requests": planned,
        }
    )
    tables["counters"].append({**place, "counter": "benchmark.http_2xx", "value": planned})
    p50 = rng.uniform(0.7e6, 1.4e6) * slow
    p99 = p50 * rng.uniform(2, 5)
    latency = {
        "count": planned,
        "mean": p50,
        "min": p50 / 2,
        "max": p99 * rng.uniform(1.2, 6),
        "p50": p50,
        "p90": p99 * 0.7,
        "p99": p99,
        "p99_9": p99 * 1.1,
    }
    tables["statistics"].append({**place, "statistic": "benchmark_http_client.latency_2xx", "unit": "ns", **latency})
    tables["statistics"].append(
        {
            **place,
            "statistic": "harness.send_delay",
            "unit": "ns",
            "count": planned,
            "mean": 9e4,
            "min": 1e4,
            "max": 4e6,
            "p50": 8e4,
            "p90": 3e5,
            "p99": 6.1e5,
            "p99_9": 2e6,
        }
    )
    rate = planned // duration_s
    for at_s in range(10, duration_s + 1, 10):
        tables["progress"].append(
            {
                "at": T0 + timedelta(seconds=at_s),
                "elapsed_s": at_s + 0.2,
                "label": label,
                "node": node,
                "backend": address,
                "http_2xx": rate * at_s,
                "failures": 0,
                "count": rate * 10,
                "p50_ns": int(p50),
                "p99_ns": int(p99 * rng.uniform(0.7, 1.1)),
                "max_ns": int(latency["max"] * rng.uniform(0.5, 1)),
            }
        )


def verdict_of(
    tables: Tables,
    run: str,
    word: str = "PASS",
    reason: str | None = None,
    findings: Iterable[Row] = (),
    run_findings: Iterable[Row] = (),
) -> Row:
    """A grading's document; a target with findings is failed."""
    findings = list(findings)
    nodes = len(tables["plan_nodes"])
    targets = []
    for row in tables["plan_targets"]:
        own = [{k: v for k, v in f.items() if k != "target"} for f in findings if f["target"] == row["target"]]
        execution = next((e for e in tables["executions"] if e["label"] == row["label"]), {})
        targets.append(
            {
                "target": row["target"],
                "verdict": "FAIL" if own else "PASS",
                "findings": own,
                "nodes": [],
                "http_2xx": execution.get("total_http_2xx"),
                "planned": row["rate_rps"] * 60 * nodes,
            }
        )
    failed = sum(1 for t in targets if t["verdict"] == "FAIL")
    lost = len({f["node"] for f in findings if f["rule"] == "lost_backend"})
    refused = word == "REFUSED"
    return {
        "schema": 1,
        "run": run,
        "verdict": word,
        "reason": reason,
        "gate_sha256": "ab" * 32,
        "graded_at": "2026-10-08T10:17:00.000Z",
        "counts": {}
        if refused
        else {
            "targets": len(targets),
            "passed": len(targets) - failed,
            "failed": failed,
            "not_run": 0,
            "backends": nodes,
            "lost_backends": lost,
        },
        "targets": [] if refused else targets,
        "run_findings": list(run_findings),
        "window": {},
        "lines": [],
    }


def finding(
    target: str,
    node: str | None,
    rule: str,
    cause: str = "mesh",
    class_: str | None = None,
    count: int | None = None,
    detail: str = "",
) -> Row:
    """One finding of a target."""
    return {
        "target": target,
        "node": node,
        "rule": rule,
        "cause": cause,
        "class": class_,
        "count": count,
        "detail": detail,
    }


def save_run(runs: Path, run: str, tables: Tables, verdict: Row | None) -> RunFolder:
    """Write the tables, run.json, two receipts and the verdict of a run."""
    folder = RunFolder(runs / run)
    folder.tables.mkdir(parents=True)
    for name, table in tables_of(SOAK).items():
        write_table(folder.tables / f"{name}.parquet", table, tables[name], run=run, sources={"report.json": "00"})
    index(folder)
    write_json(
        folder.run_json,
        {
            "schema": 1,
            "run": run,
            "kind": "soak",
            "profile": "quick",
            "fleet": "local",
            "created_at": "2026-10-08T10:14:52.100Z",
            "settings": {"rate": 60, "nodes": 5, "fault": ""},
        },
    )
    folder.stages.mkdir()
    for number, (stage, summary) in enumerate((("plan", "8 targets × 5 nodes"), ("save", "31 files"))):
        write_json(
            folder.stages / f"{number:02d}-{stage}.json",
            {
                "schema": 1,
                "stage": stage,
                "started_at": "2026-10-08T10:14:52.100Z",
                "ended_at": "2026-10-08T10:14:52.400Z",
                "who": "user@machine",
                "inputs": {"a": "1"},
                "outputs": {"b": "2"},
                "outcome": {"summary": summary},
            },
        )
    if verdict is not None:
        folder.verdicts.mkdir()
        path = folder.verdicts / "000001-20261008T101700000Z.json"
        path.write_text(store.sealed(verdict, path.name))
    return folder


def index(folder: RunFolder, refused: str | None = None, schema_version: int = SCHEMA_VERSION) -> None:
    """What is left beside the tables when they are made: which they are, or why there are none."""
    files = folder.tables.glob("*.parquet")
    tables = {path.stem: {"rows": read_metadata(path).num_rows, "sha256": sha256_file(path)} for path in files}
    document = {"schema": 1, "run": folder.run, "refused": refused, "tables": {} if refused else tables}
    document |= {"stream": False, "schema_version": schema_version}
    sums_sha256 = sha256_file(folder.sums) if folder.sums.is_file() else None
    write_json(folder.tables_index, {**document, "sums_sha256": sums_sha256})


def put_fault(folder: RunFolder, fault: str) -> None:
    """Make a saved run a drill."""
    document = json.loads(folder.run_json.read_text())
    write_json(folder.run_json, {**document, "settings": {**document["settings"], "fault": fault}})


def lose(tables: Tables, *nodes: str) -> Tables:
    """Make these nodes lost: in error on every target, and nothing of theirs in the report."""
    for backend in tables["backends"]:
        if backend["node"] in nodes:
            backend.update(returned=False, in_error=True, error="gone", released_requests=None)
    for name in ("counters", "statistics"):
        tables[name] = [row for row in tables[name] if row["node"] not in nodes]
    for execution in tables["executions"]:
        execution["total_http_2xx"] = (
            execution["total_http_2xx"] * (len(tables["plan_nodes"]) - len(nodes)) // len(tables["plan_nodes"])
        )
    return tables
