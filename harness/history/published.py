"""Runs that others published: totals or ladders from a named source, one JSON file each under ``runs/published/``.

A ladder (``kind`` e8) has the form of ``ladder.json``, and can be adopted and graded like one. Of a soak every field of
``FIELDS`` is in the file, grouped by what stands before its dot. Null is what the source does not say: each null is
named once more in ``unknown``, so that nothing is left out by oversight and nothing is made up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.e8.reading import KIND, LADDER_FIELDS, parse_ladder
from harness.e8.record import Ladder
from harness.errors import EvidenceError, UsageError
from harness.files import read_json
from harness.runs import RESERVED, RUN_ID
from harness.store.readers import moment

SCHEMA = 1
FOLDER = "published"
VERDICTS = ("PASS", "FAIL")


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _counts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_text, value)) and all(map(_whole, value.values()))


def _moment(value: Any) -> bool:
    return isinstance(value, str) and value.endswith("Z") and moment(value) is not None


def _verdict(value: Any) -> bool:
    return value in VERDICTS


Check = tuple[Callable[[Any], bool], str]
TEXT: Check = (_text, "a text on one line")
WHOLE: Check = (_whole, "a whole number from 0")
NUMBER: Check = (_number, "a number from 0")
COUNTS: Check = (_counts, "an object of names and whole numbers")
MOMENT: Check = (_moment, "a moment like 2026-10-08T02:01:51.550Z")

FIELDS: Mapping[str, Check] = {
    "source.title": TEXT,
    "source.where": TEXT,
    "kind": TEXT,
    "plan.profile": TEXT,
    "plan.duration_s": WHOLE,
    "plan.backends": WHOLE,
    "plan.rate_rps": WHOLE,
    "plan.targets": COUNTS,
    "plan.rolls": WHOLE,
    "totals.planned": WHOLE,
    "totals.sent": WHOLE,
    "totals.http_2xx": WHOLE,
    "totals.failures": COUNTS,
    "totals.lost_backends": WHOLE,
    "totals.worst_p50_ms": NUMBER,
    "totals.worst_p99_ms": NUMBER,
    "totals.worst_max_ms": NUMBER,
    "window.dispatched": MOMENT,
    "window.ended": MOMENT,
    "verdict": (_verdict, " or ".join(VERDICTS)),
}
"""Field → how it is checked and what it has to be. Rates and ``plan.targets`` are requests per second and node."""

REQUIRED = frozenset({"source.title", "source.where", "kind"})


@dataclass(frozen=True)
class Published:
    """One published run: the value of every field of ``FIELDS``, None where the source does not say it."""

    run: str
    values: Mapping[str, Any]

    @property
    def unknown(self) -> list[str]:
        """The fields that the source does not say, in the order of ``FIELDS``."""
        return [name for name in FIELDS if self.values[name] is None]


def published_files(runs_folder: Path) -> list[Path]:
    """The files under ``published/`` of a runs folder, sorted by name."""
    return sorted(path for path in (runs_folder / FOLDER).glob("*.json") if path.is_file())


def read_published(path: Path) -> Published | Ladder:
    """One file. Raises UsageError, one sentence with the file's name, for anything that is not as it should be."""
    try:
        document = read_json(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(document, dict):
        raise UsageError(f"{path}: is no JSON object")
    try:
        return _ladder(document, path.stem) if document.get("kind") == KIND else _checked(document, path.stem)
    except (ValueError, EvidenceError) as error:
        raise UsageError(f"{path}: {error}") from None


def _ladder(document: dict[str, Any], run: str) -> Ladder:
    """A ladder, with its source and every field of a ladder; of its rungs only what the source has is there."""
    _check_name(document.get("run"), run)
    if missing := sorted(LADDER_FIELDS - document.keys()):
        raise ValueError(f"{missing[0]} is missing; what is not known is null")
    ladder = parse_ladder(document)
    for name, said in (("title", ladder.source_title), ("where", ladder.source_where)):
        if not _text(said):
            raise ValueError(f"source.{name} must be said, on one line")
    return ladder


def _check_name(said: object, run: str) -> None:
    if said != run or not RUN_ID.fullmatch(run) or run.lower() in RESERVED:
        raise ValueError("run must be the name of the file without .json, and one that a run may have")


def _checked(document: dict[str, Any], run: str) -> Published:
    fields = _flat(document)
    about = {name: fields.pop(name, None) for name in ("schema", "run", "unknown")}
    if about["schema"] != SCHEMA:
        raise ValueError(f"schema must be {SCHEMA}")
    _check_name(about["run"], run)
    if wrong := sorted(fields.keys() ^ FIELDS.keys()):
        raise ValueError(f"{wrong[0]} is {'no field' if wrong[0] in fields else 'missing; what is not known is null'}")
    for name, (holds, meaning) in FIELDS.items():
        if fields[name] is None and name in REQUIRED:
            raise ValueError(f"{name} must be said")
        if fields[name] is not None and not holds(fields[name]):
            raise ValueError(f"{name} must be {meaning}, or null where the source does not say it")
    published = Published(run, fields)
    if about["unknown"] != published.unknown:
        raise ValueError(f"unknown must name every null, in order: {published.unknown}")
    _check_sums(published)
    return published


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    """Groups of fields as ``group.field``; ``plan.targets`` and the like stay objects."""
    groups = {name.partition(".")[0] for name in FIELDS if "." in name}
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if key in groups and isinstance(value, dict):
            flat |= {f"{key}.{name}": item for name, item in value.items()}
        else:
            flat[key] = value
    return flat


def _check_sums(published: Published) -> None:
    """What follows from other fields must agree with them."""
    values = published.values
    targets, rate_rps = values["plan.targets"], values["plan.rate_rps"]
    if targets is not None and rate_rps is not None and sum(targets.values()) != rate_rps:
        raise ValueError(f"plan.targets add up to {sum(targets.values())} rps, plan.rate_rps is {rate_rps}")
    factors = [rate_rps, values["plan.duration_s"], values["plan.backends"], values["totals.planned"]]
    if None not in factors and math.prod(factors[:3]) != factors[3]:
        raise ValueError(f"totals.planned is not rate × duration × backends, {math.prod(factors[:3])}")
