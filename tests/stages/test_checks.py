"""Checks beside the runs: what they say, what they keep, and that nothing of them is left however they end."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import processes
from harness.e8.arms import CAPACITY, REALISM
from harness.e8.tier.handle import start
from harness.e8.tier.settings import Profile, TierSettings
from harness.errors import FaultError, SettingsError
from harness.files import read_json, write_json
from harness.gate import store
from harness.graph import lock
from harness.graph.receipts import PROJECT
from harness.runs import CHECKS, RunFolder
from harness.settings import Settings
from harness.stages import checks
from harness.store.sums import verify_sums
from tests.conftest import Doit

SMALL = ("e8.sandboxes=1", "e8.workers=1")
Until = Callable[[Callable[[], bool], float], None]


@pytest.fixture
def check(doit: Doit) -> Iterator[Doit]:
    """``./doit`` in a runs folder of its own; whatever a check of it left is ended after the test."""
    yield doit
    for folder in kept(doit.runs):
        checks.sweep(folder)


def kept(runs: Path) -> list[Path]:
    return sorted((runs / CHECKS).glob("*"))


def running(folder: Path) -> list[processes.Identity]:
    """Processes of a check, by its mark; none before it has one."""
    about = folder / checks.ABOUT
    return processes.find_marked(read_json(about)["token"]) if about.exists() else []


def harness(runs: Path, *words: str) -> str:
    command = [sys.executable, "-m", "harness.cli", *words, "--runs", str(runs)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60).stdout


def adopt(runs: Path, name: str) -> None:
    published = PROJECT / "runs" / "published" / f"{name}.json"
    assert "adopted" in harness(runs, "adopt", str(published), "--format", "e8")


# --- the free check


def test_the_published_realism_ladder_is_checked_for_free(doit: Doit) -> None:
    adopt(doit.runs, "e8-realism")
    code, output = doit("free-check:e8-realism")
    assert code == 0, output
    assert "c32  130.77 s in 57.65 s = 2.27 of 8 cores, 75.6 % of 3 sandboxes; a duty of 0.0709 would" in output
    assert not kept(doit.runs), "it keeps nothing"


def test_what_has_no_free_check_says_why(doit: Doit) -> None:
    adopt(doit.runs, "e8-capacity-w4")
    (doit.runs / "other").mkdir()
    code, output = doit("free-check:e8-capacity-w4")
    assert code == 3
    assert "error: e8-capacity-w4 free-check: the free check is of a realism ladder" in output
    code, output = doit("free-check:other")
    assert code == 3
    assert "error: other free-check: the free check is of a ladder, and this run is a soak" in output


def test_a_ladder_that_was_refused_is_checked_and_said_to_be_refused(doit: Doit) -> None:
    adopt(doit.runs, "e8-realism")
    verdict = {"run": "e8-realism", "verdict": "REFUSED", "reason": "a frozen worker"}
    store.store(doit.folder("e8-realism").verdicts, verdict, ["VERDICT REFUSED"], "")
    code, output = doit("free-check:e8-realism")
    assert code == 0, output
    assert "its verdict is REFUSED, so none of these figures may be quoted: a frozen worker\n" in output


def test_a_run_that_is_not_saved_has_no_free_check(doit: Doit) -> None:
    folder = doit.folder("begun")
    folder.root.mkdir(parents=True)
    write_json(folder.run_json, {"run": "begun", "kind": "e8"})
    code, output = doit("free-check:begun")
    assert code == 3, output
    assert "the free check reads what is saved, and this run is not yet" in output


def test_changed_evidence_is_not_checked(doit: Doit) -> None:
    adopt(doit.runs, "e8-realism")
    (evidence,) = doit.folder("e8-realism").evidence.glob("[lr]*.json")
    evidence.write_text(evidence.read_text().replace("130.77", "13.077"))
    code, output = doit("free-check:e8-realism")
    assert code == 2
    assert "was changed since it was saved" in output


# --- what is refused before anything is started


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("e8-soak", "fault=kill stub at c2"),
            "'kill stub at c2' is at a rung of c=2, and of rungs there are none",
        ),
        (("e8-soak", "e8.soak_s=86000"), "e8.soak_s=86000: the embedded tier lives for a day; give at most 84540"),
        (("e8-soak", "e8.base=http://127.0.0.1:9"), "e8.metrics= is missing"),
        (("e8-lag-check", "e8.base=http://127.0.0.1:9"), "only one of the embedded tier: leave e8.base= empty"),
    ],
)
def test_what_cannot_be_held_is_refused(doit: Doit, words: tuple[str, ...], says: str) -> None:
    code, output = doit(*words)
    assert code == 3, output
    assert says in output
    assert not kept(doit.runs)


def test_no_check_beside_a_live_or_an_unfinished_run(doit: Doit) -> None:
    with lock.hold(doit.runs):
        code, output = doit("e8-soak")
    assert code == 3
    assert "is live under another ./doit" in output
    folder = RunFolder(doit.runs / "r")
    folder.root.mkdir()
    write_json(folder.run_json, {"run": "r"})
    lock.begin(folder)
    code, output = doit("e8-soak")
    assert code == 3
    assert "run r is unfinished and would be measured too" in output
    assert not kept(doit.runs)


def test_what_a_soak_holds_follows_from_the_settings() -> None:
    settings = Settings()
    plan = checks.soak_plan(settings)
    assert (plan.arm, plan.rungs) == (CAPACITY, (1, 2)), "more turns a second than realism has"
    assert plan.tier is not None
    assert plan.tier.lifetime_s == 900 + 60 + checks.PREPARING_S
    one = dataclasses.replace(settings, arm=REALISM, e8=dataclasses.replace(settings.e8, soak_c=1, soak_s=10))
    assert (checks.soak_plan(one).arm, checks.soak_plan(one).rungs) == (REALISM, (1,))
    leaking = checks.soak_plan(dataclasses.replace(settings, fault="leak store by 2"))
    assert leaking.tier is not None
    assert leaking.tier.leak_connections == 2
    with pytest.raises(FaultError):
        checks.soak_plan(dataclasses.replace(settings, fault="kill worker 1 at c1"))
    with pytest.raises(SettingsError):
        checks.soak_plan(dataclasses.replace(settings, e8=dataclasses.replace(settings.e8, soak_s=86_400)))


# --- what is kept, and that nothing is left


@pytest.mark.fleet
def test_a_soak_is_kept_whole_and_is_no_run(check: Doit) -> None:
    code, output = check("e8-soak", "e8.soak_s=6", *SMALL)
    assert code == 2, output
    assert "SOAK UNPROVEN (" in output
    (folder,) = kept(check.runs)
    assert "error: e8-soak: UNPROVEN: " in output
    assert f"stands in {folder}" in output
    assert not running(folder)
    names = {"check.json", "result.json", "soak.samples.jsonl", "soak.turns.jsonl", "tier.json", "workload.json"}
    assert names | {"tier.log", "tier.d/log/supervisor.log"} <= verify_sums(folder).keys()
    assert (folder / "SAVED").exists()
    result = read_json(folder / "result.json")
    assert (result["check"], result["verdict"]) == ("e8-soak", "UNPROVEN")
    assert result["found"]["turns"] == len((folder / "soak.turns.jsonl").read_text().splitlines())
    assert read_json(folder / "tier.json")["stopped_at"]
    # no command takes it for a run
    assert json.loads(harness(check.runs, "runs", "--json"))["runs"] == []
    assert check("list", "--all")[1].count(folder.name) == 0
    assert "no runs in" in check()[1]
    assert "e8-soak" not in harness(check.runs, "sql", "SELECT run FROM run_folders")
    assert check("gate:checks")[0] == 3


@pytest.mark.fleet
def test_a_leak_fails_the_command(check: Doit) -> None:
    code, output = check("e8-soak", "e8.soak_s=10", "fault=leak store by 1", *SMALL)
    assert code == 1, output
    assert re.search(r"GROWS store connections: \+(9[0-9]{2}|1,[01][0-9]{2})\.", output), output
    assert "error: e8-soak: FAIL: store connections grow with the turns" in output


@pytest.mark.fleet
def test_a_deployment_is_held_and_left_alone(check: Doit, tmp_path: Path) -> None:
    settings = TierSettings(
        workers=1, turns_per_worker=8, sandboxes=1, cap=16, profile=Profile(5, 0, 8, 0.5), tool_command="true",
        lifetime_s=120,
    )  # fmt: skip
    tier = start(settings, state=tmp_path / "outside" / "tier.json", mark="test-checks-outside")
    try:
        words = [f"e8.{key}={tier.urls[key]}" for key in ("base", "metrics", "stub")]
        code, output = check("e8-soak", "e8.soak_s=4", *words)
        tier.refresh()
        assert tier.identities("supervisor"), "it runs on"
    finally:
        tier.stop()
    assert code == 2, output
    assert f"capacity arm on {tier.urls['base']}: c=2" in output
    assert "?     store connections: not told at every sample" in output


@pytest.mark.fleet
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_soak_leaves_nothing_running(check: Doit, until: Until, number: signal.Signals) -> None:
    child = check.start("e8-soak", "e8.soak_s=60", *SMALL)
    try:
        until(lambda: any((folder / "soak.turns.jsonl").exists() for folder in kept(check.runs)), 60)
        (folder,) = kept(check.runs)
        assert len(running(folder)) > 5
        child.send_signal(number)
        child.send_signal(number)  # a closing terminal sends more than one
        output, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 128 + number, output
    assert not running(folder)
    assert not (folder / "SAVED").exists()


@pytest.mark.fleet
def test_what_a_killed_soak_left_is_ended_by_the_next(check: Doit, until: Until) -> None:
    child = check.start("e8-soak", "e8.soak_s=60", *SMALL)
    try:
        until(lambda: any((folder / "tier.json").exists() for folder in kept(check.runs)), 60)
        (folder,) = kept(check.runs)
    finally:
        child.kill()
        child.communicate()
    assert running(folder), "the tier outlives the command"
    code, output = check("e8-soak", "e8.soak_s=1", *SMALL)
    assert code == 2, output
    assert not running(folder)
    assert len(kept(check.runs)) == 2


@pytest.mark.fleet
def test_a_soak_that_cannot_go_on_ends_its_tier(check: Doit, until: Until) -> None:
    child = check.start("e8-soak", "e8.soak_s=60", *SMALL)
    try:
        until(lambda: any((folder / "soak.turns.jsonl").exists() for folder in kept(check.runs)), 60)
        (folder,) = kept(check.runs)
        (generator,) = [
            process for process in running(folder)
            if b"harness.e8.client" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        ]  # fmt: skip
        processes.send(generator, signal.SIGKILL)
        output, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 4, output
    assert "error: e8-soak: the generator ended before its load was done" in output
    assert not running(folder)
    assert not (folder / "SAVED").exists()


def test_a_signal_waits_until_the_sweep_is_over() -> None:
    class Stop(BaseException):
        pass

    def stop(number: int, frame: object) -> None:
        raise Stop

    done = []
    before = signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(Stop), checks._undisturbed():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.05)
            done.append("swept")
        assert signal.getsignal(signal.SIGTERM) is stop
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done == ["swept"]


# --- the whole of them


@pytest.mark.sweep
@pytest.mark.timeout(1500)
def test_the_embedded_tier_is_level_over_a_quarter_of_an_hour(check: Doit) -> None:
    code, output = check("e8-soak", timeout_s=1400)
    print(output)
    assert code == 0, output
    (folder,) = kept(check.runs)
    assert read_json(folder / "result.json")["found"]["turns"] >= 10_000


@pytest.mark.sweep
@pytest.mark.timeout(400)
def test_lag_tells_a_starved_worker_at_one_ms(check: Doit) -> None:
    code, output = check("e8-lag-check", timeout_s=300)
    print(output)
    assert code == 0, output
    assert "LAG-CHECK PASS (convict: may at 1 ms, may not at 10 ms)" in output
    (folder,) = kept(check.runs)
    assert not running(folder)
    assert {"tier-1ms.json", "tier-10ms.json", "result.json"} <= verify_sums(folder).keys()
