"""What the engines used of their nodes, against what they had asked for, out of their own logs.

An engine that was held back measures itself and not the mesh, so this belongs to the evidence. An engine that prints no
usage (sortie's prints none) is unknown: null with the reason, never zero.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from harness.engine.usage import KEY
from harness.fleet.kubernetes.answers import Document, metadata

NO_USAGE = "its log holds no usage"
TOO_FEW = "its log holds fewer than two usages of one process"
QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m?)")


def usages(log: bytes) -> list[dict[str, Any]]:
    """The usage lines of an engine's log, in order; lines that are none, or torn, are left out."""
    found = []
    for line in log.splitlines():
        if line.startswith(b'{"'):
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict) and KEY in value and _at_s(value) is not None:
                found.append(value)
    return found


def resource_lines(pod: Document, used: Iterable[dict[str, Any]]) -> list[str]:
    """Lines of ``resources.jsonl`` for one engine: at, name, kind, node, pid, cpu_s, rss_bytes and its throttling."""
    name, node = str(metadata(pod).get("name")), str((pod.get("spec") or {}).get("nodeName"))
    lines = []
    for usage in used:
        rest = {key: value for key, value in usage.items() if key not in (KEY, "at")}
        lines.append(json.dumps({"at": usage["at"], "name": name, "kind": "engine", "node": node, **rest}))
    return lines


def against_request(pod: Document, used: list[dict[str, Any]], *, from_s: float, to_s: float) -> dict[str, Any]:
    """One engine's CPU between two moments (Unix seconds), in thousandths of a core, and whether it was throttled.

    ``{pod, node, request_m, limit_m, used_m, over_request, nr_periods, nr_throttled, throttled_s, reason}``; null is
    unknown, and ``reason`` then says why. Counts of throttling are of the window, too.
    """
    spec = pod.get("spec") or {}
    container = next((c for c in spec.get("containers") or [] if c.get("name") == "engine"), {})
    resources = container.get("resources") or {}
    request_m, limit_m = (millicores((resources.get(key) or {}).get("cpu")) for key in ("requests", "limits"))
    row: dict[str, Any] = {
        "pod": metadata(pod).get("name"), "node": spec.get("nodeName"), "request_m": request_m, "limit_m": limit_m,
        "used_m": None, "over_request": None, "nr_periods": None, "nr_throttled": None, "throttled_s": None,
        "reason": NO_USAGE,
    }  # fmt: skip
    window = _of_last_process([usage for usage in used if from_s <= (_at_s(usage) or 0.0) <= to_s])
    if len(window) < 2:
        return row | ({"reason": TOO_FEW} if used else {})
    first, last = window[0], window[-1]
    seconds = (_at_s(last) or 0.0) - (_at_s(first) or 0.0)
    cpu_s = _moved(first, last, "cpu_s")
    used_m = round(1000 * cpu_s / seconds, 1) if cpu_s is not None and seconds > 0 else None
    over = None if used_m is None or request_m is None else used_m > request_m
    counts = {key: _moved(first, last, key) for key in ("nr_periods", "nr_throttled", "throttled_s")}
    return row | {"used_m": used_m, "over_request": over, **counts, "reason": None}


def said(row: dict[str, Any]) -> str:
    """A row as a line for people."""
    if row["reason"]:
        return f"engine CPU {row['node']}: unknown, {row['reason']}"
    asked = "no request" if row["request_m"] is None else f"{row['request_m']:g}m requested"
    throttled = "unknown" if row["nr_throttled"] is None else f"{row['nr_throttled']} of {row['nr_periods']} periods"
    return f"engine CPU {row['node']}: {row['used_m']}m used, {asked}, throttled in {throttled}"


def millicores(quantity: object) -> float | None:
    """``150m`` → 150, ``2`` → 2000; None for nothing, and for what is no quantity of CPU."""
    found = QUANTITY.fullmatch(str(quantity)) if quantity is not None else None
    return float(found[1]) * (1 if found[2] else 1000) if found else None


def _of_last_process(used: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Counts of a process that was started anew begin again: only those of the last one can be subtracted."""
    start = 0
    for index in range(1, len(used)):
        if _moved(used[index - 1], used[index], "cpu_s") is None:
            start = index
    return used[start:]


def _moved(first: dict[str, Any], last: dict[str, Any], key: str) -> Any:
    """By how much a count grew; None when one of the two is absent, or when it went back."""
    before, after = first.get(key), last.get(key)
    if isinstance(before, int | float) and isinstance(after, int | float) and after >= before:
        return round(after - before, 6)
    return None


def _at_s(usage: dict[str, Any]) -> float | None:
    try:
        return datetime.fromisoformat(str(usage.get("at"))).timestamp()
    except ValueError:
        return None
