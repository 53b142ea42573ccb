"""Whole ladders that went wrong on the real embedded tier, each refused or convicted by its right name.

Single rungs that went wrong are in tests/e8/test_wrong_runs.py, and mislabelled arms and a leak in
tests/graph/test_ladder.py; these take too long for CI.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import processes
from harness.cli import main
from tests.conftest import Doit, wait_for_rest

pytestmark = [pytest.mark.fleet, pytest.mark.sweep, pytest.mark.timeout(900)]

CAPACITY = {"arm": "capacity", "e8.turns_per_rung": "20", "e8.turn_timeout_s": "4", "e8.min_c": "1"}
REALISM = {"arm": "realism", "ladder": "1 2 4 8", "e8.turns_per_rung": "10", "e8.min_c": "1"}


@pytest.fixture
def ladders(tmp_path: Path) -> Iterator[Doit]:
    wait_for_rest()
    doit = Doit(tmp_path / "runs")
    yield doit
    processes.end(doit.processes(), grace_s=1)


def climb(ladders: Doit, capsys: pytest.CaptureFixture[str], settings: dict[str, str]) -> dict[str, Any]:
    """The verdict of a ladder that was climbed with these settings; its line is shown."""
    code, output = ladders("e8", "run=w", *(f"{key}={value}" for key, value in settings.items()), timeout_s=800)
    assert ladders.leftovers() == []
    capsys.readouterr()
    assert main(["gate", f"w-{settings['arm']}", "--runs", str(ladders.runs), "--json"]) == code, output
    verdict = json.loads(capsys.readouterr().out)
    with capsys.disabled():
        print(f"\n  {output.splitlines()[-1]}")
    return dict(verdict)


@pytest.mark.parametrize(
    ("settings", "rule", "words"),
    [
        ({"e8.sandboxes": "1", "ladder": "1 8 32 64"}, "sandbox_over_ceiling", "exceeds the 25% ceiling"),
        ({"ladder": "1 2 4", "fault": "freeze worker 1 at c4"}, "worker_frozen", "was frozen at c4"),
        ({"ladder": "1 2", "fault": "kill stub at c1"}, "no_success", "ZERO successful turns at c=1 (20 × 200 with an"),
        ({"ladder": "1 2", "fault": "change stub at c2 to 20/1/64/0.5"}, "system_changed", "system under test changed"),
        (
            {"ladder": "1 2", "fault": "kill worker 1 at c2"},
            "system_changed",
            "system under test changed: restarts of workers",
        ),
        (
            {"ladder": "1 4", "fault": "burn generator at c4 by 60 ms"},
            "generator_bound",
            "the rung measured the client",
        ),
    ],
)
def test_a_ladder_that_may_not_be_quoted_is_refused_by_its_rule(
    ladders: Doit, capsys: pytest.CaptureFixture[str], settings: dict[str, str], rule: str, words: str
) -> None:
    verdict = climb(ladders, capsys, CAPACITY | settings)
    assert verdict["verdict"] == "REFUSED"
    assert rule in [refusal["rule"] for refusal in verdict["refusals"]]
    assert words in " ".join(refusal["sentence"] for refusal in verdict["refusals"])


@pytest.mark.parametrize(
    ("settings", "bound"),
    [({"e8.lease_cap": "1"}, "sandbox-pool"), ({"e8.turns_per_worker": "1"}, "admission-control")],
)
def test_a_cap_that_ends_a_ladder_is_named(
    ladders: Doit, capsys: pytest.CaptureFixture[str], settings: dict[str, str], bound: str
) -> None:
    verdict = climb(ladders, capsys, REALISM | settings)
    assert verdict["verdict"] == "PASS", verdict["reason"]
    assert verdict["knee"]["floor"] == 2
    assert (verdict["saturated"], verdict["bound"]) == (True, bound)
