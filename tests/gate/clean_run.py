"""A clean run as it is saved elsewhere: no run.json, no SHA256SUMS, no SAVED. Everything in it is made up, and fits.

Three targets of unlike shares on three nodes, ten minutes. Counts are a request and times a millisecond off the plan
here and there, as real ones are. One counter is of no class that any rule knows.
"""

from __future__ import annotations

import json
from dataclasses import replace

from harness.sortie.log import last_line, running_line, summary_lines, verdict_line
from harness.sortie.report import BackendResult, Execution, encode_report, encode_stream_line
from harness.sortie.thresholds import judge, parse_thresholds

DURATION_S = 600
SHARES = {"cart": 40, "pay": 25, "search": 10}
NODES = {"10.30.1.11": "north", "10.30.2.12": "east", "10.30.3.13": "south"}
START_UNIX_MS = 1_793_513_289_250  # 2026-11-01T06:08:09.250Z
THRESHOLDS = (
    *(
        f"counter:benchmark.{name} == 0"
        for name in (
            "http_4xx", "http_5xx", "stream_resets", "pool_connection_failure", "pool_failure_timeout",
            "pool_overflow", "http_inflight_lost",
        )
    ),
    "rate:benchmark.http_2xx >= 29.7",
    "latency_2xx.p99 < 500ms",
)  # fmt: skip
ROLLS = ((120, "proxy", "north"), (240, "target", "cart"), (360, "proxy", "north"), (480, "target", "pay"))


def clean_run() -> dict[str, bytes]:
    """File name → content."""
    executions = [_execution(number, target, rate) for number, (target, rate) in enumerate(SHARES.items())]
    texts = {
        "run.env": _run_env(),
        "plan.yaml": _plan(),
        "shares.tsv": "".join(f"{target}\t{rate}\t{_url(target)}\n" for target, rate in SHARES.items()),
        "engines.tsv": "".join(f"{ip}\t{node}\tengine-{node}-x7k2p\n" for ip, node in NODES.items()),
        "report.json": encode_report(executions),
        "results.jsonl": "".join(encode_stream_line(execution) + "\n" for execution in executions),
        "sortie.log": _log(executions),
        "schedule.tsv": "".join(f"{at_s}\t{kind}\t{name}\n" for at_s, kind, name in ROLLS),
        "churn.log": _churn_log(),
    }
    return {name: text.encode() for name, text in texts.items()}


def _execution(number: int, target: str, rate_rps: int) -> Execution:
    results = tuple(_result(number, place, ip, rate_rps) for place, ip in enumerate(NODES))
    bare = Execution(
        label=f"mesh/{target}",
        scenario="mesh",
        pool="nodes",
        rate_rps=rate_rps,
        duration_ms=DURATION_S * 1000,
        elapsed_ms=DURATION_S * 1000 + 640 + 7 * number,
        started_unix_ms=START_UNIX_MS + 4 * number,
        dns="engines.load.svc.cluster.local:8443",
        backends=tuple(f"{ip}:8443" for ip in NODES),
        results=results,
    )
    return replace(bare, thresholds=tuple(judge(threshold, results) for threshold in parse_thresholds(THRESHOLDS)))


def _result(number: int, place: int, ip: str, rate_rps: int) -> BackendResult:
    count = rate_rps * DURATION_S - place
    slower = 1 + 0.1 * place + 0.03 * number
    latency = {
        name: round(value * slower)
        for name, value in (
            ("mean", 1_731_100), ("pstdev", 290_300), ("min", 912_700), ("max", 6_140_900), ("p50", 1_684_300),
            ("p90", 2_201_300), ("p99", 3_027_100), ("p99.9", 6_040_900),
        )
    }  # fmt: skip
    return BackendResult(
        backend=f"{ip}:8443",
        elapsed_ms=DURATION_S * 1000 - 1 + place,
        started_at=f"2026-11-01T06:08:09.{560 + 9 * place + number}Z",
        counters={"benchmark.http_2xx": count, "benchmark.stream_brand_new_thing": 3 + place},
        statistics={
            "benchmark_http_client.latency_2xx": {"count": count, "unit": "ns", **latency},
            "benchmark_http_client.response_body_size": {"count": count, "unit": "raw", "mean": 412, "max": 412},
        },
    )


def _url(target: str) -> str:
    return f"http://{target}.shop.internal:18081/"


def _run_env() -> str:
    tag = "soak-20261101T060809Z"
    values = {
        "RUN_TAG": tag, "MODE": "soak", "LABEL": "nightly", "CTX": "lab-west", "NS": "load", "SYS_NS": "mesh",
        "RELEASE": "soak", "PVC": "reports", "BACKENDS": len(NODES), "DURATION_S": DURATION_S,
        "REPORT_FILE": f"/var/run/sortie/{tag}.json", "STREAM_FILE": f"/var/run/sortie/{tag}.jsonl", "STATSD": "",
        "SORTIE_CHART_VERSION": "0.1.0", "SORTIE_CHART_DIGEST": "sha256:" + "5c" * 32, "VERIFIED": "no",
        "JOB": "soak-sortie-7d20c9ab", "T_JOB": 1793513258, "T_LOAD": 1793513275,
    }  # fmt: skip
    return "".join(f"{key}={value}\n" for key, value in values.items())


def _plan() -> str:
    targets = "".join(
        f'      - {{name: {target}, url: "{_url(target)}", weight: {rate}}}\n' for target, rate in SHARES.items()
    )
    thresholds = "".join(f"      - {json.dumps(threshold)}\n" for threshold in THRESHOLDS)
    return f"""\
version: v1
pools:
  - name: nodes
    dns: engines.load.svc.cluster.local:8443
scenarios:
  - name: mesh
    pool: nodes
    protocol: http1
    concurrency: "1"
    max_pending_requests: 80
    headers:
      - "User-Agent: soak"
    executor:
      type: constant-rate
      rate: {sum(SHARES.values())}
      duration: {DURATION_S}s
      per_backend: true
      open_loop: true
    targets:
{targets}    thresholds:
{thresholds}"""


def _log(executions: list[Execution]) -> str:
    lines = [line for execution in executions for line in (running_line(execution), verdict_line(execution))]
    lines += ["", *(line for execution in executions for line in summary_lines(execution)), last_line(executions)]
    return "".join(f"{line}\n" for line in lines)


def _churn_log() -> str:
    lines = ["2026-11-01T06:08:09.100Z churn driver start T0=2026-11-01T06:08:09.250Z build=0.1"]
    for number, (at_s, kind, name) in enumerate(ROLLS):
        stamp = f"2026-11-01T06:{8 + at_s // 60:02}:10.2{number}0Z"
        lines.append(f"{stamp} ROLLED local/{kind}/{name} at_s={at_s} took_ms=9{number}1")
    return "".join(f"{line}\n" for line in [*lines, "2026-11-01T06:16:11.000Z churn driver complete (4 rolls)"])
