"""What the files beside the report state about the same facts: the plan, the driver's log, the results stream.

Nothing is graded by these. They are held against what is graded, so that no two of them may say different things.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import EvidenceError
from harness.sortie.durations import NS_PER_UNIT, parse_duration
from harness.store.readers import DriverLog, Share, json_lines, one_line, read_text, text, whole
from harness.store.source import Json


@dataclass(frozen=True)
class StatedTarget:
    """A target of plan.yaml. ``rate_rps`` is what one node sends it; None where the plan does not tell."""

    target: str | None
    url: str | None
    rate_rps: float | None


@dataclass(frozen=True)
class StatedPlan:
    """plan.yaml, as far as it tells what other files tell too. None and empty are not told.

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
    """What the plan file states; nothing when there is none. Raises EvidenceError when it is no plan of scenarios."""
    import yaml

    if not path.exists():
        return StatedPlan()
    try:
        document = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise EvidenceError(
            f"{path.name} is not YAML ({one_line(str(error))[:160]}); put the saved file back"
        ) from error
    scenarios = document.get("scenarios") if isinstance(document, dict) else None
    if not isinstance(scenarios, list) or not scenarios or not all(isinstance(one, dict) for one in scenarios):
        raise EvidenceError(
            f"{path.name} is not a plan: it holds no list of scenarios; put the file back as it was saved"
        )
    thresholds = _texts(document.get("thresholds"))
    for one in scenarios:
        thresholds += _texts(one.get("thresholds"))
    graded = next((one for one in scenarios if one.get("name") == scenario), None)
    executor = (graded or {}).get("executor")
    executor = executor if isinstance(executor, dict) else {}
    return StatedPlan(
        thresholds=tuple(thresholds),
        has_scenario=graded is not None,
        targets=tuple(_targets((graded or {}).get("targets"), executor)),
        duration_s=_seconds(executor.get("duration")),
    )


def _texts(value: object) -> list[str]:
    found = [text(entry) for entry in value] if isinstance(value, list) else []
    return [entry.strip() for entry in found if entry]


def _targets(value: object, executor: Json) -> Iterator[StatedTarget]:
    """A rate is shared by weight; only one that is each backend's says what a node sends."""
    entries = [entry if isinstance(entry, dict) else {} for entry in value] if isinstance(value, list) else []
    weights = [whole(entry.get("weight", 1)) for entry in entries]
    total = sum(weight or 0 for weight in weights)
    rate_rps = whole(executor.get("rate")) if executor.get("per_backend") is True and None not in weights else None
    for entry, weight in zip(entries, weights, strict=True):
        share_rps = rate_rps * weight / total if rate_rps is not None and weight is not None and total else None
        yield StatedTarget(_joined(entry.get("name")), _joined(entry.get("url")), share_rps)


def _joined(value: object) -> str | None:
    """Text in which a character that was escaped as two surrogates is one again, as JSON reads it."""
    return text(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")) if isinstance(value, str) else None


def _seconds(value: object) -> float | None:
    duration_ns = parse_duration(value) if isinstance(value, str) else None
    return None if duration_ns is None else duration_ns / NS_PER_UNIT["s"]


def read_stream_statement(path: Path) -> dict[tuple[str, str], Json]:
    """Executions of the results stream by label and start; a line that is none says nothing here."""
    found: dict[tuple[str, str], Json] = {}
    for value in json_lines(path) if path.is_file() else ():
        if isinstance(value, dict):
            label, start = value.get("label"), value.get("started_at")
            if isinstance(label, str) and isinstance(start, str):
                found.setdefault((label, start), value)
    return found
