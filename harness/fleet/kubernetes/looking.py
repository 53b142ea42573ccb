"""How a load on a cluster stands, for looking only: the newest lines of the driver's log become progress.json.

Both drivers print the same line for each execution and engine now and then. Nothing is graded by it, and nothing here
ever ends a load: what cannot be read is not shown.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from harness.errors import FleetError
from harness.files import utc_stamp, write_json
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.config import ClusterConfig
from harness.sortie.durations import parse_duration
from harness.sortie.report import is_failure

LINE = re.compile(r" {4}(?P<label>\S+)  (?P<backend>\S+:[0-9]+)  (?P<elapsed>\S+)  (?P<counts>http_2xx [0-9]+.*)")
COUNT = re.compile(r"([a-z0-9_]+) ([0-9]+)")
TAIL_LINES_PER_ENGINE = 2
PATIENCE_S = 5.0


def show(config: ClusterConfig, api: Api, pod: str) -> None:
    """Write progress.json from the end of the driver's log; leaves it as it was when there is nothing new to read."""
    backends = _engines(config)
    with suppress(FleetError):
        tail = api.pod_log(
            pod,
            config.namespace,
            tail_lines=max(100, TAIL_LINES_PER_ENGINE * len(backends) * len(config.targets)),
            patience_s=PATIENCE_S,
        )
        progress = progress_of(tail.decode(errors="replace"), config, engines=len(backends))
        if progress is not None:
            write_json(config.folder.progress_json, progress)


def progress_of(log: str, config: ClusterConfig, *, engines: int) -> dict[str, Any] | None:
    """The newest counts in a piece of the driver's log; None when it holds none."""
    newest = {(found["label"], found["backend"]): found for found in map(LINE.fullmatch, log.splitlines()) if found}
    if not newest:
        return None
    http_2xx, failures, elapsed_s = 0, dict[str, int](), 0.0
    backends: dict[str, dict[str, Any]] = {}
    for (_, backend), found in newest.items():
        elapsed_s = max(elapsed_s, (parse_duration(found["elapsed"]) or 0) / 1e9)
        counts = {name: int(count) for name, count in COUNT.findall(found["counts"])}
        http_2xx += counts["http_2xx"]
        own = backends.setdefault(backend, {"http_2xx": 0})
        own["http_2xx"] += counts["http_2xx"]
        for name, count in counts.items():
            if is_failure(f"benchmark.{name}"):
                failures[name] = failures.get(name, 0) + count
    return {
        "at": utc_stamp(),
        "elapsed_s": elapsed_s,
        "duration_s": config.duration_s,
        "planned": sum(target.rate_rps for target in config.targets) * config.duration_s * engines,
        "http_2xx": http_2xx,
        "failures": failures,
        "backends": backends,
    }


def _engines(config: ClusterConfig) -> list[str]:
    path = config.folder.engines
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
