"""The fault= schedule of a ladder: what reads, what is refused, and what it does to the real embedded tier."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.e8 import faults, rules, rung_rules
from harness.e8.arms import CAPACITY, NO_BASIS
from harness.e8.compose import RungPlan
from harness.e8.driver import run_rung
from harness.e8.faults import FORMS, Fault, Faults, _Injection, parse
from harness.e8.metrics import read_metrics, read_profile
from harness.e8.record import Ladder, Rung
from harness.e8.target import embedded
from harness.e8.tier.handle import Tier, start
from harness.e8.tier.settings import Profile, TierSettings
from harness.errors import FaultError, LoadError
from harness.processes import Identity, identify

LADDER = (1, 2, 4, 8)


# --- what reads


def test_the_documented_schedule_reads() -> None:
    found = parse("freeze worker 2 at c4 for 1.5s; change stub at c8 to 10/1/64/0.5 ;leak store by 1;", ladder=LADDER)
    assert [(f.verb, f.part, f.rung, f.number, f.for_s, f.profile) for f in found.faults] == [
        ("freeze-worker", "worker 2", "c4", 2, 1.5, ""),
        ("change-stub", "stub", "c8", 0, None, "10/1/64/0.5"),
        ("leak-store", "store", None, 1, None, ""),
    ]
    assert found.leak_connections == 1
    assert found


def test_nothing_asked_for_is_no_fault() -> None:
    found = parse(" ; ;", ladder=LADDER)
    assert not found
    assert (found.leak_connections, found.burn_ms("c1")) == (0, 0.0)


def test_the_generator_burns_at_its_rung_alone() -> None:
    found = parse("burn generator at c4 by 20 ms", ladder=LADDER)
    assert [found.burn_ms(rung) for rung in ("c1", "c4", "c4.r2", "c8")] == [0, 20, 0, 0]


def test_a_ladder_that_is_not_known_beforehand_may_have_any_rung() -> None:
    assert parse("kill stub at c77", ladder=None).faults[0].rung == "c77"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("explode at c4", f"'explode at c4' reads as none of those that are known: {'; '.join(FORMS.values())}"),
        ("freeze worker at c4", "reads as none"),
        ("freeze worker 1 at c4 for 3", "reads as none"),
        ("kill stub at c04", "reads as none"),
        ("kill stub at c4, kill worker 1 at c4", "reads as none"),
        ("kill stub at c3", "is at a rung of c=3, and of rungs there are only 1 2 4 8"),
        ("kill worker 0 at c4", "has the number 0; give one from 1 to 2"),
        ("freeze worker 3 at c4", "has the number 3; give one from 1 to 2"),
        ("leak store by 0", "has the number 0; give one from 1 to 100"),
        ("leak store by 101", "has the number 101"),
        ("freeze worker 1 at c4 for 0s", "lasts no time at all"),
        ("burn generator at c4 by 0 ms", "burns 0 ms; give more than 0, at most 10000"),
        ("burn generator at c4 by 10001 ms", "burns 10001 ms"),
        ("change stub at c4 to 10/1/64", "the profile is '10/1/64'; give ttft_ms/"),
        ("change stub at c4 to 10/1/64/7", "SH_STUB_TOOL_CALL_RATE"),
        ("kill stub at c4; change stub at c4 to 1/1/1/0.5", "'kill stub at c4' and 'change stub at c4 to 1/1/1/0.5'"),
        ("freeze worker 1 at c4; kill worker 1 at c4", "befall one part at one rung"),
        ("leak store by 1; leak store by 2", "befall one part at one rung"),
    ],
)
def test_refused_in_a_sentence(text: str, says: str) -> None:
    with pytest.raises(FaultError) as raised:
        parse(text, ladder=LADDER, workers=2)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_where_there_are_no_rungs_no_fault_may_be_at_one() -> None:
    assert parse("leak store by 2", ladder=()).leak_connections == 2
    with pytest.raises(FaultError, match="of rungs there are none here"):
        parse("kill stub at c1", ladder=())


def test_several_parts_and_rungs_may_go_wrong() -> None:
    text = "kill worker 1 at c4; kill worker 2 at c4; kill worker 1 at c8; kill stub at c4"
    assert len(parse(text, ladder=LADDER).faults) == 4


@given(st.text(alphabet=st.sampled_from("abcdefghijklmnopqrstuvwxyz -;./0123456789"), max_size=60))
def test_any_text_reads_or_is_refused_never_crashes(text: str) -> None:
    try:
        found = parse(text, ladder=None)
    except FaultError:
        return
    assert all(fault.verb in FORMS for fault in found.faults)


@given(st.sampled_from(sorted(FORMS)), st.integers(1, 64), st.integers(1, 500), st.integers(1, 9), st.integers(1, 5000))
def test_every_form_filled_in_reads_back_as_what_was_put_in(verb: str, n: int, c: int, for_s: int, ms: int) -> None:
    profile = "10/1/64/0.5"
    text = FORMS[verb].replace("[", "").replace("]", "").replace("TTFT/DELAY/TOKENS/RATE", profile)
    text = text.replace(" N", f" {n}").replace("cK", f"c{c}").replace("Ts", f"{for_s}s").replace("MS", str(ms))
    (found,) = parse(text, ladder=None).faults
    form = FORMS[verb]
    assert found == Fault(
        verb,
        text,
        rung=f"c{c}" if "cK" in form else None,
        number=n if " N" in form else 0,
        for_s=for_s if "Ts" in form else None,
        burn_ms=ms if "MS" in form else 0,
        profile=profile if "TTFT" in form else "",
    )


# --- what they do

MARK = "test-e8-faults"
FAST = Profile(10, 1, 16, 0.5)
SETTINGS = TierSettings(
    workers=2, turns_per_worker=16, sandboxes=2, cap=16, profile=FAST, tool_command="true", lifetime_s=90
)
PLAN = RungPlan(c=4, arm=CAPACITY, duty_basis=NO_BASIS, turns_per_client=15, turn_timeout_s=2, deadline_s=20)


class Bench:
    """A tier, and rungs that are measured on it under a schedule of faults."""

    def __init__(self, folder: Path, tier: Tier) -> None:
        self.folder = folder
        self.tier = tier
        self.logged: list[dict[str, Any]] = []

    def measure(self, faults: Faults, **more: Any) -> Rung:
        plan = dataclasses.replace(PLAN, **more)
        plan = dataclasses.replace(plan, burn_ms=faults.burn_ms(plan.name))
        with faults.during(plan.name, self.tier, self.logged.append) as ready:
            return run_rung(embedded(self.tier), plan, self.folder, mark=MARK, ready=ready)

    def ladder(self, *rungs: Rung) -> Ladder:
        return Ladder(arm=CAPACITY, measured="embedded", pool=2, workers=2, cores=2, rungs=rungs)

    def did(self) -> list[str]:
        """What was logged of faults; every line is whole."""
        assert all(set(line) == {"at", "rung", "fault", "did"} for line in self.logged)
        return [line["did"] for line in self.logged]

    def workers(self) -> list[int | None]:
        return list(read_metrics(embedded(self.tier).admin).pids)


@pytest.fixture
def bench_of(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    tiers: list[Tier] = []

    def begin(**more: Any) -> Bench:
        tiers.append(start(dataclasses.replace(SETTINGS, **more), state=tmp_path / "tier.json", mark=MARK))
        return Bench(tmp_path, tiers[-1])

    yield begin
    for tier in tiers:
        tier.stop()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fault")]


def state_of(pid: int | None) -> str:
    """R, S, T (stopped) … of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class NoStub:
    """A tier whose new stub ended at once."""

    def change_stub(self, **_: object) -> None:
        pass

    def identities(self, *_: str) -> list[Identity]:
        return []


def injection_of(text: str, tier: object, logged: list[dict[str, Any]], pool: ThreadPoolExecutor) -> _Injection:
    due = list(parse(text, ladder=LADDER).faults)
    return _Injection(due, "c4", cast(Tier, tier), logged.append, pool)


def test_a_stub_that_does_not_run_is_a_fault_that_failed() -> None:
    logged: list[dict[str, Any]] = []
    with ThreadPoolExecutor() as pool:
        injection_of("change stub at c4 to 10/1/64/0.5", NoStub(), logged, pool).before()
    assert logged[0]["did"] == "failed: another stub was put on the same port, and it does not run"


def test_a_worker_that_is_let_go_while_the_rung_ends_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[dict[str, Any]] = []
    with ThreadPoolExecutor() as pool:
        injection = injection_of("freeze worker 1 at c4; freeze worker 2 at c4", NoStub(), logged, pool)
        injection._frozen.update({fault: Identity(-number, 0) for number, fault in enumerate(injection.due, 1)})

        def let_go(*_: object) -> bool:
            """As the thread of its time would, in this very moment."""
            injection._frozen.pop(injection.due[1], None)
            return True

        monkeypatch.setattr(faults, "send", let_go)
        injection.end()
    assert [line["did"] for line in logged if "SIGCONT" in line["did"]] == [
        "SIGCONT sent to pid -1 at the end of the rung"
    ]


@pytest.mark.fleet
def test_a_worker_is_frozen_through_its_rung_and_named(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of()
    faults = parse("freeze worker 2 at c4", ladder=LADDER)
    bench.measure(faults, c=1)
    assert bench.logged == [], "the fault is at another rung"
    rung = bench.measure(faults)
    pid = bench.workers()[1]
    assert f"worker 2 (pid {pid}) was frozen at c4" in str(rung_rules.worker_frozen(bench.ladder(rung), rung))
    assert rung.timed_out
    assert bench.did() == [f"SIGSTOP sent to pid {pid}", f"SIGCONT sent to pid {pid} at the end of the rung"]
    assert state_of(pid) != "T"


@pytest.mark.fleet
def test_a_worker_is_let_go_after_its_time(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of()
    rung = bench.measure(parse("freeze worker 1 at c4 for 1s", ladder=LADDER), turns_per_client=30, turn_timeout_s=10)
    assert rung.ok == rung.attempts
    stopped, went_on = bench.did()
    assert stopped == f"SIGSTOP sent to pid {bench.workers()[0]}"
    assert went_on.startswith(f"SIGCONT sent to pid {bench.workers()[0]} after 1.")


@pytest.mark.fleet
def test_a_rung_that_fails_leaves_no_worker_frozen(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of()
    bench.measure(Faults(), c=1)  # the workers have told of themselves
    faults = parse("freeze worker 1 at c4; kill worker 2 at c4", ladder=LADDER)
    seen = []
    with pytest.raises(LoadError, match="lost"), faults.during("c4", bench.tier, bench.logged.append) as ready:
        ready()
        seen.append(state_of(bench.workers()[0]))
        raise LoadError("lost")
    pid = bench.workers()[0]
    assert seen == ["T"]
    assert state_of(pid) != "T"
    assert bench.did()[0] == f"SIGSTOP sent to pid {pid}"
    assert set(bench.did()[1:]) == {
        f"SIGCONT sent to pid {pid} at the end of the rung",
        "nothing: the rung was over before",
    }


@pytest.mark.fleet
def test_a_rung_without_a_measured_part_says_that_nothing_was_done(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of()
    faults = parse("kill worker 2 at c4", ladder=LADDER)
    with faults.during("c4", bench.tier, bench.logged.append):
        pass
    assert bench.did() == ["nothing: the rung ended before its measured part began"]


@pytest.mark.fleet
def test_a_worker_is_killed_while_it_works(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of()
    before = bench.measure(Faults(), c=1)
    old = bench.workers()[1]
    rung = bench.measure(parse("kill worker 2 at c4", ladder=LADDER), turns_per_client=40)
    assert bench.did() == [f"SIGKILL sent to pid {old}"]
    assert identify(old or 0) is None
    assert rung.worker_cpu_s is None
    assert "the system under test changed: worker was" in str(rung_rules.system_changed(bench.ladder(before, rung)))


@pytest.mark.fleet
def test_a_dead_stub_fails_every_turn_and_a_second_cannot_die(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of()
    faults = parse("kill stub at c1; kill stub at c2", ladder=LADDER)
    rung = bench.measure(faults, c=1, turns_per_client=3, turn_timeout_s=20, deadline_s=60)
    assert (rung.ok, rung.errors_in_200) == (0, 3)
    assert "3 × 200 with an error" in str(rules.no_success(bench.ladder(rung)))
    with faults.during("c2", bench.tier, bench.logged.append):
        pass
    assert bench.did()[0].startswith("SIGKILL sent to pid ")
    assert bench.did()[1] == "failed: no stub runs"


@pytest.mark.fleet
def test_a_changed_stub_is_another_system(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of()
    faults = parse("change stub at c2 to 30/1/16/0.5", ladder=LADDER)
    before = bench.measure(faults, c=1, turns_per_client=5)
    after = bench.measure(faults, c=2, turns_per_client=5)
    assert read_profile(embedded(bench.tier).stub) == Profile(30, 1, 16, 0.5).to_json()
    assert "the system under test changed: profile was" in str(rung_rules.system_changed(bench.ladder(before, after)))
    assert bench.did() == [f"another stub on the same port, pid {bench.tier.identities('stub')[0].pid}"]


@pytest.mark.fleet
def test_a_burning_generator_is_what_bound(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of()
    faults = parse("burn generator at c4 by 200 ms", ladder=LADDER)
    rung = bench.measure(faults, turns_per_client=5, turn_timeout_s=10)
    assert "the generator" in str(rung_rules.generator_bound(bench.ladder(rung), rung))
    assert bench.did() == ["the generator burns 200 ms before each turn"]


@pytest.mark.fleet
def test_a_leaking_store_is_named_and_logged_once(bench_of: Callable[..., Bench]) -> None:
    faults = parse("leak store by 1", ladder=LADDER)
    bench = bench_of(leak_connections=faults.leak_connections)
    bench.measure(faults, c=1, turns_per_client=5)
    rung = bench.measure(faults, c=2)
    assert "store connections were left open by 30 turns at c2" in str(rung_rules.store_leak(bench.ladder(rung), rung))
    assert bench.did() == ["each turn leaves 1 store connections open, from the start"]


@pytest.mark.fleet
def test_a_log_that_cannot_be_written_ends_the_rung_and_freezes_nobody(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of()
    bench.measure(Faults(), c=1)

    def full(line: dict[str, Any]) -> None:
        raise OSError(28, "No space left on device")

    faults = parse("freeze worker 1 at c4", ladder=LADDER)
    with pytest.raises(OSError, match="No space"), faults.during("c4", bench.tier, full) as ready:
        ready()
    assert state_of(bench.workers()[0]) != "T"
