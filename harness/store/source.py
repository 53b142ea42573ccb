"""What is graded: executions in the form of the driver's report, and what their producer counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.sortie.names import COUNTERS

Json = Mapping[str, Any]

KINDS = {
    "report": "the driver's report",
    "stream": "the results stream",
    "nighthawk": "nighthawk's result files",
    "k6": "k6's summaries",
}
"""What executions may be of → in words."""


def all_counted() -> dict[str, bool]:
    """A producer of the report counts each of these for plain HTTP: one that is absent never moved."""
    return dict.fromkeys(COUNTERS, True)


@dataclass(frozen=True)
class Source:
    """The executions to grade, where they came from, and counter → whether its absence is a measured 0.

    ``files``: what was read beside ``file``, for the tables' metadata.
    """

    file: str
    kind: str  # one of KINDS
    executions: list[Json]
    skipped_lines: int
    passed: bool | None
    files: frozenset[str] = frozenset()
    capabilities: Mapping[str, bool] = field(default_factory=all_counted)
