"""plan.yaml, as far as it states what other files state too. Nothing is graded by it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.sortie.durations import NS_PER_UNIT, parse_duration
from harness.store.readers import DIGITS, one_line, read_text, text
from harness.store.source import Json

SURROGATES = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
DAYS = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,9})?)d", re.ASCII)
S_PER_DAY = 86_400


@dataclass(frozen=True)
class StatedTarget:
    """A target of plan.yaml. ``rate_rps`` is what one node sends it; None where the plan does not tell."""

    target: str | None
    url: str | None
    rate_rps: float | None


@dataclass(frozen=True)
class StatedPlan:
    """What a plan tells. None is not told.

    ``thresholds`` and ``scenarios`` are all of the plan's, in its order; ``targets``, ``duration_s``, ``pool``, ``dns``
    and ``open_loop`` those of the scenario that is graded. ``has_scenario``: there is a plan, and it holds that
    scenario or not.
    """

    thresholds: tuple[str, ...] = ()
    has_scenario: bool | None = None
    targets: tuple[StatedTarget, ...] = ()
    duration_s: float | None = None
    scenarios: tuple[str, ...] = ()
    pool: str | None = None
    dns: str | None = None
    open_loop: bool | None = None

    @cached_property
    def by_target(self) -> Mapping[str | None, StatedTarget]:
        """The targets by name; of two with one name the first."""
        return {one.target: one for one in reversed(self.targets)}


def read_plan_statement(path: Path, scenario: str, *, backends: int) -> StatedPlan:
    """What the plan file states for ``backends`` nodes; nothing when there is none. Raises EvidenceError."""
    return _PlanReader(path.name, read_text(path), backends).read(scenario) if path.exists() else StatedPlan()


class _PlanReader:
    """Reads a plan of any generation: what it does not know is left alone, what it reads must be of its form."""

    def __init__(self, file: str, content: str, backends: int) -> None:
        self.file = file
        self.backends = backends
        self.document = self.parse(content)

    def refuse(self, what: str) -> EvidenceError:
        return EvidenceError(f"{self.file} {what}; put the file back as it was saved")

    def parse(self, content: str) -> Any:
        """Dicts, lists and text: a name like ``on`` or ``1e3`` is no truth and no number.

        What writes YAML as JSON escapes a character beyond U+FFFF as two halves, which YAML does not know.
        """
        import yaml

        class Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
            def construct_mapping(self, node: Any, deep: bool = False) -> Any:
                found = super().construct_mapping(node, deep)
                if len(found) != len(node.value):
                    raise ValueError("a key stands twice in one mapping")
                return found

        try:
            whole = SURROGATES.sub(lambda pair: str(json.loads(f'"{pair[0]}"')), content)
            return yaml.load(whole, Loader=Loader)  # noqa: S506 - constructs text only
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise self.refuse(f"is not YAML ({one_line(str(error))[:160]})") from error

    def read(self, scenario: str) -> StatedPlan:
        top = self.document if isinstance(self.document, dict) else {}
        scenarios = top.get("scenarios")
        if not isinstance(scenarios, list) or not scenarios or not all(isinstance(one, dict) for one in scenarios):
            raise self.refuse("is not a plan: it lists no scenarios")
        graded: Json = next((one for one in scenarios if one.get("name") == scenario), {})
        whole = (
            {**_object(top.get("defaults")), **graded} if graded else {}
        )  # a default fills what is unset, as a whole
        executor = _object(whole.get("executor"))
        return StatedPlan(
            thresholds=tuple(expr for one in (top, *scenarios) for expr in self.thresholds(one.get("thresholds"))),
            has_scenario=bool(graded),
            targets=tuple(self.targets(whole.get("targets"), executor)),
            duration_s=self.planned_s(executor),
            scenarios=tuple(name for one in scenarios if (name := text(one.get("name")))),
            pool=(pool := text(whole.get("pool"))),
            dns=next((text(one.get("dns")) for one in _objects(top.get("pools")) if one.get("name") == pool), None),
            open_loop={"true": True, "false": False}.get(str(executor.get("open_loop")).lower()),
        )

    def thresholds(self, value: object) -> list[str]:
        found = [] if value in (None, "") else value
        if not isinstance(found, list) or not all(isinstance(entry, str) for entry in found):
            raise self.refuse("has thresholds that are no list of text")
        return [entry.strip() for one in found if (entry := text(one))]

    def targets(self, value: object, executor: Json) -> Iterator[StatedTarget]:
        """A rate is shared by weight; one that is not each backend's is the pool's."""
        entries = [_object(entry) for entry in value] if isinstance(value, list) else []
        rate_rps = self.whole(executor.get("rate"), "rate")
        weights = [self.whole(entry.get("weight", "1"), "weight") or 0 for entry in entries]
        total = sum(weights) * (1 if str(executor.get("per_backend")).lower() == "true" else self.backends)
        for entry, weight in zip(entries, weights, strict=True):
            share_rps = rate_rps * weight / total if total and rate_rps is not None else None
            yield StatedTarget(text(entry.get("name")), text(entry.get("url")), share_rps)

    def whole(self, value: object, key: str) -> int | None:
        if value is None:
            return None
        if not isinstance(value, str) or not DIGITS.fullmatch(value):
            raise self.refuse(f"has a {key} that is no whole number")
        return int(value)

    def planned_s(self, executor: Json) -> float | None:
        """How long the scenario is: of a staircase, all of its stages together."""
        stages = [self.seconds(stage.get("duration")) for stage in _objects(executor.get("stages"))]
        told = [stage_s for stage_s in stages if stage_s is not None]
        if stages and executor.get("duration") is None:
            return sum(told) if len(told) == len(stages) else None
        return self.seconds(executor.get("duration"))

    def seconds(self, value: object) -> float | None:
        """Any unit from ns to d, and sums of them."""
        if value is None:
            return None
        if not isinstance(value, str) or not value or not value[0].isdigit():
            raise self.refuse("has a duration that is none")
        days, rest = sum(map(Decimal, DAYS.findall(value))), DAYS.sub("", value)
        rest_ns = parse_duration(rest) if rest else 0
        if rest_ns is None:
            raise self.refuse("has a duration that is none")
        return float(days * S_PER_DAY + Decimal(rest_ns) / NS_PER_UNIT["s"])


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
