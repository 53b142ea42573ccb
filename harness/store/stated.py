"""What the files beside the report state about the same facts: the plan, the driver's log, the results stream.

Nothing is graded by these. They are held against what is graded, so that no two of them may say different things.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.sortie.durations import NS_PER_UNIT, parse_duration
from harness.store.readers import DIGITS, DriverLog, Share, json_lines, one_line, read_text, text
from harness.store.source import Json

SURROGATES = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
DAYS = re.compile(r"([0-9]{1,4})d(.*)", re.ASCII)
S_PER_DAY = 86_400


@dataclass(frozen=True)
class StatedTarget:
    """A target of plan.yaml. ``rate_rps`` is what one node sends it; None where the plan does not tell."""

    target: str | None
    url: str | None
    rate_rps: float | None


@dataclass(frozen=True)
class StatedPlan:
    """plan.yaml, as far as it tells what other files tell too. None is not told.

    ``thresholds`` are all of the plan's, in its order, ``targets`` and ``duration_s`` those of the scenario that is
    graded. ``has_scenario``: there is a plan, and it holds that scenario or not.
    """

    thresholds: tuple[str, ...] = ()
    has_scenario: bool | None = None
    targets: tuple[StatedTarget, ...] = ()
    duration_s: float | None = None


@dataclass(frozen=True)
class Stated:
    """What is stated beside the report. ``shares`` by label; ``stream`` by label and start, as it writes them."""

    backends: int | None = None
    shares: Mapping[str, Share] = field(default_factory=dict)
    plan: StatedPlan = field(default_factory=StatedPlan)
    log: DriverLog = field(default_factory=DriverLog)
    stream: Mapping[tuple[str, str], Json] = field(default_factory=dict)


def read_plan_statement(path: Path, scenario: str) -> StatedPlan:
    """What the plan file states; nothing when there is none. Raises EvidenceError when it is no plan."""
    return _PlanReader(path.name, read_text(path)).read(scenario) if path.exists() else StatedPlan()


class _PlanReader:
    """Reads a plan of any generation: what it does not know is left alone, what it reads must be of its form."""

    def __init__(self, file: str, content: str) -> None:
        self.file = file
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
        executor = graded.get("executor")
        executor = executor if isinstance(executor, dict) else {}
        return StatedPlan(
            thresholds=tuple(expr for one in (top, *scenarios) for expr in _texts(one.get("thresholds"))),
            has_scenario=bool(graded),
            targets=tuple(self.targets(graded.get("targets"), executor)),
            duration_s=self.seconds(executor.get("duration")),
        )

    def targets(self, value: object, executor: Json) -> Iterator[StatedTarget]:
        """A rate is shared by weight; only one that is each backend's says what a node sends."""
        entries = [entry if isinstance(entry, dict) else {} for entry in value] if isinstance(value, list) else []
        rate_rps = self.whole(executor.get("rate"), "rate")
        weights = [self.whole(entry.get("weight", "1"), "weight") or 0 for entry in entries]
        total = sum(weights)
        told = executor.get("per_backend") == "true" and rate_rps is not None and total
        for entry, weight in zip(entries, weights, strict=True):
            share_rps = rate_rps * weight / total if told and rate_rps is not None else None
            yield StatedTarget(text(entry.get("name")), text(entry.get("url")), share_rps)

    def whole(self, value: object, key: str) -> int | None:
        if value is None:
            return None
        if not isinstance(value, str) or not DIGITS.fullmatch(value):
            raise self.refuse(f"has a {key} that is no whole number")
        return int(value)

    def seconds(self, value: object) -> float | None:
        if value is None:
            return None
        days = DAYS.fullmatch(value) if isinstance(value, str) else None
        rest_ns = parse_duration((days[2] or "0s") if days else value) if isinstance(value, str) else None
        if rest_ns is None:
            raise self.refuse("has a duration that is none")
        return (int(days[1]) * S_PER_DAY if days else 0) + rest_ns / NS_PER_UNIT["s"]


def _texts(value: object) -> list[str]:
    found = [text(entry) for entry in value] if isinstance(value, list) else []
    return [entry.strip() for entry in found if entry]


def read_stream_statement(path: Path) -> dict[tuple[str, str], Json]:
    """Executions of the results stream by label and start; a line that is none says nothing here."""
    found: dict[tuple[str, str], Json] = {}
    for value in json_lines(path) if path.is_file() else ():
        if isinstance(value, dict):
            label, start = value.get("label"), value.get("started_at")
            if isinstance(label, str) and isinstance(start, str):
                found.setdefault((label, start), value)
    return found
