"""The plan file in sortie's format (``version: v1``): rendered here, and read back by whoever drives it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from harness.errors import PlanError
from harness.plan.model import Plan, PlannedTarget
from harness.plan.shares import MAX_TARGETS, POSITIVE

SECONDS = re.compile(r"([1-9][0-9]*)s")
SCENARIO = re.compile(r"[a-z0-9_]+")
TARGET_NAME = re.compile(r"[^\s/]+")

ZERO_FAILURES = (
    "counter:benchmark.http_4xx == 0",
    "counter:benchmark.http_5xx == 0",
    "counter:benchmark.stream_resets == 0",
    "counter:benchmark.pool_connection_failure == 0",
    "counter:benchmark.pool_failure_timeout == 0",
    "counter:benchmark.pool_overflow == 0",
    "counter:benchmark.http_inflight_lost == 0",
)

KNOWN_KEYS = {
    "plan": {"version", "pools", "stats", "scenarios", "defaults", "thresholds"},
    "scenario": {
        "name", "pool", "protocol", "concurrency", "connections", "max_pending_requests", "timeout", "headers",
        "executor", "nighthawk_template", "targets", "thresholds", "method",
    },
    "executor": {"type", "rate", "duration", "per_backend", "open_loop"},
    "target": {"name", "url", "weight"},
}  # fmt: skip


def render_plan(plan: Plan) -> str:
    """The plan as YAML. Reading it back gives an equal Plan."""
    scenario: dict[str, Any] = {
        "name": plan.scenario,
        "pool": plan.pool,
        "protocol": "http1",
        "concurrency": str(plan.concurrency),
    }
    if plan.connections is not None:
        scenario["connections"] = plan.connections
    if plan.max_pending is not None:
        scenario["max_pending_requests"] = plan.max_pending
    if plan.timeout_s is not None:
        scenario["timeout"] = f"{plan.timeout_s:g}s"
    scenario |= {
        "headers": list(plan.headers),
        "executor": {
            "type": "constant-rate",
            "rate": plan.rate_rps,
            "duration": f"{plan.duration_s}s",
            "per_backend": True,
            "open_loop": True,
        },
        "targets": [{"name": t.name, "url": t.url, "weight": t.rate_rps} for t in plan.targets],
        "thresholds": list(plan.thresholds),
    }
    document = {"version": "v1", "pools": [{"name": plan.pool, "dns": plan.dns}], "scenarios": [scenario]}
    return yaml.safe_dump(document, sort_keys=False, width=1000)


def read_plan(path: Path) -> Plan:
    """Read a plan file: one open-loop constant-rate scenario over one ``dns`` pool. Raises PlanError."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: the plan cannot be read ({getattr(error, 'strerror', None) or error})") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PlanError(f"{path}: the plan is not YAML ({' '.join(str(error).split())[:200]})") from error
    return _Reader(str(path)).plan(document)


class _Reader:
    """Checks a parsed document step by step; every refusal names the file and the field."""

    def __init__(self, source: str) -> None:
        self.source = source

    def refuse(self, text: str) -> PlanError:
        return PlanError(f"{self.source}: {text}")

    def mapping(self, value: object, what: str, keys: set[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.refuse(f"{what} must be a mapping")
        unknown = sorted(str(key) for key in value if key not in keys)
        if unknown:
            raise self.refuse(f"{what} has unknown keys: {', '.join(unknown)}")
        return value

    def sequence(self, value: object, what: str) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise self.refuse(f"{what} must be a list with at least one entry")
        return value

    def text(self, value: object, what: str) -> str:
        if not isinstance(value, str) or not value.strip() or "\n" in value:
            raise self.refuse(f"{what} must be one line of text")
        return value

    def whole(self, value: object, what: str, *, least: int = 1) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.refuse(f"{what} must be a whole number of at least {least}")
        return value

    def plan(self, document: object) -> Plan:
        top = self.mapping(document, "the plan", KNOWN_KEYS["plan"])
        if top.get("version") != "v1":
            raise self.refuse("version must be v1")
        pools = self.sequence(top.get("pools"), "pools")
        scenarios = self.sequence(top.get("scenarios"), "scenarios")
        if len(pools) != 1 or len(scenarios) != 1 or top.get("defaults"):
            raise self.refuse("must hold exactly one pool and one scenario, and no defaults")
        pool = self.mapping(pools[0], "the pool", {"name", "dns"})
        scenario = self.mapping(scenarios[0], "the scenario", KNOWN_KEYS["scenario"])
        executor = self.mapping(scenario.get("executor"), "the executor", KNOWN_KEYS["executor"])
        if executor.get("type") != "constant-rate" or not executor.get("per_backend") or not executor.get("open_loop"):
            raise self.refuse("the executor must be constant-rate, per_backend and open_loop")
        rate_rps = self.whole(executor.get("rate"), "executor.rate")
        pool_name = self.text(pool.get("name"), "the pool's name")
        if scenario.get("pool") != pool_name:
            raise self.refuse(f"the scenario's pool must be {pool_name!r}")
        thresholds = [*(top.get("thresholds") or []), *(scenario.get("thresholds") or [])]
        return Plan(
            scenario=self._scenario_name(scenario.get("name")),
            pool=pool_name,
            dns=self._address(pool.get("dns")),
            rate_rps=rate_rps,
            duration_s=self._seconds(executor.get("duration"), "executor.duration"),
            concurrency=self._concurrency(scenario.get("concurrency", "1")),
            max_pending=self._optional(scenario, "max_pending_requests", least=0),
            connections=self._optional(scenario, "connections", least=1),
            timeout_s=self._timeout(scenario.get("timeout")),
            headers=tuple(self._header(header) for header in scenario.get("headers") or []),
            targets=self._targets(scenario.get("targets"), rate_rps),
            thresholds=tuple(self.text(threshold, "a threshold").strip() for threshold in thresholds),
        )

    def _scenario_name(self, value: object) -> str:
        name = self.text(value, "the scenario's name")
        if not SCENARIO.fullmatch(name):
            raise self.refuse(f"scenario name {name!r} must be lower-case letters, digits and underscores")
        return name

    def _address(self, value: object) -> str:
        address = self.text(value, "the pool's dns")
        host, _, port = address.rpartition(":")
        if not host or not POSITIVE.fullmatch(port) or int(port) > 65535:
            raise self.refuse(f"the pool's dns {address!r} must be host:port")
        return address

    def _seconds(self, value: object, what: str) -> int:
        match = SECONDS.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise self.refuse(f"{what} must be whole seconds, like 900s")
        return int(match[1])

    def _timeout(self, value: object) -> float | None:
        if value is None:
            return None
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)s", value) if isinstance(value, str) else None
        if match is None or float(match[1]) <= 0:
            raise self.refuse("timeout must be seconds above 0, like 30s")
        return float(match[1])

    def _concurrency(self, value: object) -> int:
        if not isinstance(value, str) or not POSITIVE.fullmatch(value):
            raise self.refuse('concurrency must be a positive whole number in quotes, like "1"')
        return int(value)

    def _optional(self, scenario: dict[str, Any], key: str, *, least: int) -> int | None:
        return None if scenario.get(key) is None else self.whole(scenario[key], key, least=least)

    def _header(self, value: object) -> str:
        header = self.text(value, "a header")
        if "\r" in header or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[ \t]*[^\x00-\x1f\x7f]*", header):
            raise self.refuse(f"header {header!r} must be 'Name: value'")
        return header

    def _targets(self, value: object, rate_rps: int) -> tuple[PlannedTarget, ...]:
        targets = []
        for entry in self.sequence(value, "targets"):
            target = self.mapping(entry, "a target", KNOWN_KEYS["target"])
            name = self.text(target.get("name"), "a target's name")
            if not TARGET_NAME.fullmatch(name):
                raise self.refuse(f"target name {name!r} must hold no '/' and no space")
            url = self.text(target.get("url"), f"target {name!r}: url")
            if not re.fullmatch(r"http://[^\s/?#]+\S*", url) or not url.isascii():
                raise self.refuse(f"target {name!r}: url {url!r} must start with http:// and a host")
            targets.append(PlannedTarget(name, url, self.whole(target.get("weight", 1), f"target {name!r}: weight")))
        if len({target.name for target in targets}) != len(targets):
            raise self.refuse("a target is listed twice")
        if len(targets) > MAX_TARGETS:
            raise self.refuse(f"names {len(targets)} targets, an engine runs at most {MAX_TARGETS} at once")
        if sum(target.rate_rps for target in targets) != rate_rps:
            raise self.refuse("the targets' weights must be their shares and sum to executor.rate")
        return tuple(targets)
