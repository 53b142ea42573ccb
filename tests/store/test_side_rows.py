"""What was written beside the report: what a line does not say is unknown, never 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.store.side_rows import progress_rows


@pytest.mark.parametrize(
    ("counters", "http_2xx", "failures"),
    [
        ({"benchmark.http_2xx": 7, "benchmark.http_5xx": 2, "benchmark.pool_overflow": 1}, 7, 3),
        ({}, 0, 0),
        (None, None, None),
        ([], None, None),
        ({"benchmark.http_2xx": "7"}, None, 0),
        ({"benchmark.http_2xx": 7, "benchmark.http_5xx": -1}, 7, None),
    ],
)
def test_progress_counts_only_what_is_a_count(
    tmp_path: Path, counters: Any, http_2xx: int | None, failures: int | None
) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text(json.dumps({"label": "mesh/echo", "backend": "10.0.0.1:7000", "counters": counters}) + "\n")
    (row,) = progress_rows(path, {"10.0.0.1": "node-a"})
    assert (row["node"], row["http_2xx"], row["failures"]) == ("node-a", http_2xx, failures)
