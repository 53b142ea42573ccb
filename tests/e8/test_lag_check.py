"""Whether the lag metric tells a starved worker from an idle one."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.e8.lag_check import Resolution, Starved, probe
from harness.e8.tier.handle import start
from harness.e8.tier.settings import TierSettings


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
