"""Whether the lag metric tells a starved worker from an idle one."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.e8 import lag_check
from harness.e8.lag_check import LagCheck, Resolution, Starved, probe
from harness.e8.tier.handle import start
from harness.e8.tier.settings import TierSettings
from harness.processes import find_marked


def resolution(ms: int, idle_ms: float, *lags_ms: float) -> Resolution:
    pairs = zip((10, 20, 50), lags_ms, strict=True)
    return Resolution(ms, idle_ms, tuple(Starved(away, lag, round(lag / idle_ms, 2)) for away, lag in pairs))


def test_a_fine_timer_convicts_and_a_coarse_one_does_not() -> None:
    fine, coarse = resolution(1, 2.3, 10.4, 20.9, 51.4), resolution(10, 11.3, 20.9, 30.9, 62.1)
    assert fine.discriminates
    assert fine.convicts_from_ms == 10
    assert not coarse.discriminates
    assert coarse.convicts_from_ms == 50
    assert coarse.line().endswith("lag may not convict")
    assert resolution(10, 30.0, 31.0, 32.0, 33.0).convicts_from_ms is None


def test_the_check_passes_by_the_resolution_that_ladders_have() -> None:
    fine, coarse = resolution(1, 2.3, 10.4, 20.9, 51.4), resolution(10, 11.3, 20.9, 30.9, 62.1)
    found = LagCheck((fine, coarse))
    assert (found.verdict, found.reason, found.exit_code) == ("PASS", None, 0)
    assert found.lines()[-1] == "LAG-CHECK PASS (convict: may at 1 ms, may not at 10 ms)"
    assert [each["discriminates"] for each in found.to_json()["resolutions"]] == [True, False]
    blind = LagCheck((resolution(1, 15.0, 16.0, 30.9, 62.1), resolution(10, 2.0, 20.0, 30.0, 60.0)))
    assert (blind.verdict, blind.exit_code) == ("FAIL", 1)
    assert "at 1 ms a worker that lacks 20 of every 100 ms is not told from one at rest" in str(blind.reason)
    assert LagCheck(()).verdict == "FAIL", "nothing measured is no pass"


@pytest.mark.fleet
def test_the_whole_check_at_one_resolution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_check, "RESOLUTIONS_MS", (10,))
    monkeypatch.setattr(lag_check, "STOPPED_MS", (50,))
    said: list[str] = []
    found = lag_check.run(tmp_path, mark="test-lag-check-run", watch_s=1.0, say=said.append)
    (only,) = found.resolutions
    assert only.resolution_ms == 10
    assert only.starved[0].lag_p99_ms > 25
    assert only.loaded_ms is not None
    assert only.competing_ms is not None
    assert found.verdict == "FAIL", "ladders are not measured at 10 ms"
    assert list(dict.fromkeys(said)) == [
        "resolution 10 ms: idle",
        "resolution 10 ms: 50 of every 100 ms away",
        "resolution 10 ms: serving 16 clients",
        "resolution 10 ms: serving 16 clients, its core shared",
    ]
    assert not find_marked("test-lag-check-run")


@pytest.mark.fleet
def test_a_real_worker_that_lacks_half_its_time_is_told_from_an_idle_one(tmp_path: Path) -> None:
    tier = start(
        TierSettings(workers=1, sandboxes=1, lifetime_s=60), state=tmp_path / "tier.json", mark="test-lag-check"
    )
    try:
        found = probe(tier, stopped_ms=(50,), watch_s=2.5)
        again = probe(tier, stopped_ms=(), watch_s=1.5)
    finally:
        tier.stop()
    assert found.resolution_ms == 1
    assert found.starved[0].lag_p99_ms > 25
    assert found.starved[0].ratio > 3
    assert again.idle_ms < 25, "the worker is let go again"
