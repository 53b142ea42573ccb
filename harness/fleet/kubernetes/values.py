"""What a run gives its chart: the same for engines alone and for engines with the driver, so that no engine is rolled.

Only keys that sortie's chart and the harness's own both have, but for those that one of them needs alone.
"""

from __future__ import annotations

from typing import Any

from harness.fleet.kubernetes.config import SORTIE, ClusterConfig

DRIVER_USER = 65532
PROGRESS_S = 60


def release_values(config: ClusterConfig, *, plan: str) -> dict[str, Any]:
    """Values that win over those of the user's files. With the text of a plan the driver's Job is part of it."""
    engine: dict[str, Any] = {
        "enabled": True,
        "kind": "DaemonSet",
        "maxConcurrentExecutions": max(config.max_executions, len(config.targets)),
        "priorityClassName": config.priority_class,
    }
    values: dict[str, Any] = {
        "engine": engine,
        "priorityClassName": config.priority_class,
        # the Job stays until its report is saved: null takes the chart's own limit away
        "job": {"enabled": bool(plan), "backoffLimit": 0, "ttlSecondsAfterFinished": None},
        "report": {
            "path": config.report_path,
            "stream": config.stream_name,
            "volume": {"persistentVolumeClaim": {"claimName": config.pvc}},
        },
        "podSecurityContext": {"fsGroup": DRIVER_USER},
        "args": _driver_arguments(config),
    }
    if config.engine == SORTIE:
        engine["backendNameFrom"] = "node"
        values["report"]["format"] = "json"
    if plan:
        values["plan"] = plan
    if config.image:
        values["image"] = {"ref": config.image}
    return values


def _driver_arguments(config: ClusterConfig) -> list[str]:
    if config.engine == SORTIE:
        return ["run", "--progress", f"{PROGRESS_S}s"]
    return [
        "--progress", str(PROGRESS_S),
        "--timeout-s", f"{config.request_timeout_s:g}",
        "--connections", str(config.connections),
        "--drain-s", f"{config.engine_drain_s:g}",
        "--grace-s", f"{config.engine_grace_s:g}",
    ]  # fmt: skip
