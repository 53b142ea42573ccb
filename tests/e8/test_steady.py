"""What grows with the turns: the test on made series, and a leak in the embedded tier."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.e8.arms import CAPACITY
from harness.e8.steady import Sample, Soak, hold, judge
from harness.e8.target import embedded
from harness.e8.tier.handle import start
from harness.e8.tier.settings import Profile, TierSettings
from harness.files import read_json

Curve = Callable[[int], float | None]


def soak(
    *, connections: Curve = lambda turns: 3, files: Curve = lambda turns: 90, rss: Curve = lambda turns: 30e6,
    count: int = 180, turns: int = 20_000, ok: int | None = None, changed: str | None = None,
) -> Soak:  # fmt: skip
    samples = []
    for number in range(count):
        so_far = turns * (number + 1) // count
        size, held = rss(so_far), files(so_far)
        samples.append(
            Sample(
                at_s=number * 5.0,
                turns=so_far,
                ok=so_far,
                store_connections=connections(so_far),
                descriptors={"worker": None if held is None else round(held)},
                rss_bytes={"worker": None if size is None else round(size)},
            )
        )
    return judge(
        samples,
        arm=CAPACITY,
        measured="embedded",
        c=4,
        wall_s=900,
        turns=turns,
        ok=turns if ok is None else ok,
        changed=changed,
    )


def noisy(level: float, width: float, per_1000: float = 0.0, seed: int = 1) -> Curve:
    drawn = random.Random(seed)
    return lambda turns: level + drawn.uniform(-width, width) + per_1000 * turns / 1000


def test_a_level_tier_passes() -> None:
    found = soak(connections=noisy(10, 3), files=noisy(100, 8), rss=noisy(30e6, 2e6))
    assert (found.verdict, found.reason, found.exit_code) == ("PASS", None, 0)
    assert found.lines()[-1] == "SOAK PASS"


@pytest.mark.parametrize("seed", range(40))
def test_noise_alone_is_never_a_leak(seed: int) -> None:
    found = soak(
        connections=noisy(10, 6, seed=seed), files=noisy(100, 30, seed=seed + 1), rss=noisy(30e6, 4e6, seed=seed + 2)
    )
    assert found.verdict == "PASS"


@pytest.mark.parametrize(
    ("leak", "name"),
    [
        ({"connections": noisy(10, 3, per_1000=2)}, "store connections"),
        ({"connections": noisy(3, 0, per_1000=2000)}, "store connections"),
        ({"files": noisy(100, 5, per_1000=3)}, "descriptors of worker"),
        ({"rss": noisy(30e6, 1e6, per_1000=1e6)}, "RSS of worker"),
    ],
)
def test_what_grows_with_the_turns_fails_by_name(leak: dict[str, Curve], name: str) -> None:
    found = soak(**leak)  # type: ignore[arg-type]
    assert (found.verdict, found.exit_code) == ("FAIL", 1)
    assert found.reason == f"{name} grow with the turns"
    slope = next(slope for slope in found.slopes if slope.fails)
    assert slope.name == name
    assert slope.low is not None
    assert slope.high is not None
    assert slope.low <= (slope.per_1000_turns or 0) <= slope.high
    assert any(line.startswith("  GROWS") for line in found.lines())


def test_memory_says_nothing_before_enough_turns_and_connections_do() -> None:
    memory: Curve = noisy(30e6, 1e6, per_1000=5e6)
    early = soak(rss=memory, turns=2_000)
    assert (early.verdict, early.exit_code) == ("UNPROVEN", 2)
    assert next(slope for slope in early.slopes if slope.fails).name == "RSS of worker"
    assert soak(rss=memory, turns=12_000).verdict == "FAIL"
    leak = soak(rss=memory, connections=noisy(3, 0, per_1000=1000), turns=2_000)
    assert (leak.verdict, leak.reason) == ("FAIL", "store connections grow with the turns")


def test_what_fills_up_and_then_stays_is_no_leak() -> None:
    found = soak(
        connections=lambda turns: min(40, 3 + turns / 50),
        rss=lambda turns: 30e6 + min(turns, 3000) * 500,
        files=lambda turns: 90 if turns < 12_000 else 93,
    )
    assert found.verdict == "PASS"


@pytest.mark.parametrize(
    ("more", "verdict", "reason"),
    [
        ({"turns": 9_000}, "UNPROVEN", "9,000 turns are less than 10,000: soak for about 1,000 s"),
        ({"turns": 0}, "UNPROVEN", "0 turns are less than 10,000: soak for longer"),
        ({"files": lambda turns: None}, "UNPROVEN", "not measured: descriptors of worker"),
        ({"count": 15}, "UNPROVEN", "not measured: store connections"),
        ({"count": 0}, "UNPROVEN", "not measured: everything"),
        ({"ok": 15_000}, "REFUSED", "only 15000 of 20000 turns succeeded"),
        ({"changed": "worker was 1/2 and is 3/4"}, "REFUSED", "the system under test changed: worker was 1/2"),
    ],
)
def test_what_proves_nothing_does_not_pass(more: dict[str, object], verdict: str, reason: str) -> None:
    found = soak(**more)  # type: ignore[arg-type]
    assert (found.verdict, found.exit_code) == (verdict, 2)
    assert reason in str(found.reason)


@pytest.mark.fleet
@pytest.mark.parametrize(("leak", "verdict"), [(0, "PASS"), (1, "FAIL")])
def test_a_leak_in_the_embedded_tier_is_found(tmp_path: Path, leak: int, verdict: str) -> None:
    settings = TierSettings(
        workers=1,
        turns_per_worker=8,
        sandboxes=1,
        cap=16,
        profile=Profile(1, 0, 2, 0.5),
        tool_command="true",
        leak_connections=leak,
        lifetime_s=60,
    )
    tier = start(settings, state=tmp_path / "tier.json", mark="test-steady")
    try:
        found = hold(
            embedded(tier),
            tmp_path,
            arm=CAPACITY,
            c=2,
            duration_s=8,
            turn_timeout_s=10,
            mark="test-steady",
            every_s=0.25,
            least_turns=100,
        )
    finally:
        tier.stop()
    by_name = {slope.name: slope for slope in found.slopes}
    assert by_name["store connections"].fails == bool(leak), found.lines()
    assert by_name["descriptors of worker"].fails == bool(leak), found.lines()
    assert found.turns > 100
    assert read_json(tmp_path / "soak.json")["verdict"] == found.verdict
    if leak:
        assert found.verdict == verdict
        assert 900 < (by_name["store connections"].per_1000_turns or 0) < 1100
