"""The tier is as ready as it is seen to be, whatever its settings say."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from harness.e8.readings import Reading, WorkerReading
from harness.fleet import tier as place
from harness.fleet.base import Readiness
from harness.runs import RunFolder


@dataclasses.dataclass
class OneSandbox:
    """A tier of which one sandbox runs."""

    state: dict[str, Any]
    urls: ClassVar = dict.fromkeys(("base", "metrics", "stub", "control"), "http://127.0.0.1:1")

    def identities(self, *kinds: str) -> list[str]:
        return ["one"] if kinds == ("sandbox",) else []


def test_a_worker_that_is_ill_and_a_sandbox_that_is_gone_are_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = tuple(WorkerReading(number, 0, healthy, None, None, None) for number, healthy in ((1, True), (2, False)))
    settings = {"workers": 2, "sandboxes": 2}
    monkeypatch.setattr(place.handle, "start", lambda *_, **__: OneSandbox({"settings": settings}))
    monkeypatch.setattr(place, "read_metrics", lambda admin: Reading(workers=workers))
    monkeypatch.setattr(place.TierPlace, "plan", lambda self: SimpleNamespace(tier=SimpleNamespace(**settings)))
    monkeypatch.setattr(place.TierPlace, "_mark", lambda self: "mark")
    found = place.TierPlace(RunFolder(tmp_path / "run")).start()
    assert found == [Readiness("workers", 1, 2), Readiness("sandboxes", 1, 2)]
