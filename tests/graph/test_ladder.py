"""``./doit e8`` on the real embedded tier: every stage, killed and resumed, refused, torn down, of a deployment."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from harness import processes
from harness.e8.tier import handle
from harness.e8.tier.settings import Profile, TierSettings
from harness.files import read_json
from harness.graph import receipts
from harness.runs import RunFolder
from tests.conftest import Doit, wait_for_rest

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(300)]

SETTINGS = {
    "arm": "capacity",
    "ladder": "1 2",
    "e8.turns_per_rung": "8",
    "e8.sandboxes": "2",
    "e8.min_c": "1",
    "e8.watch_s": "1.5",
    "e8.turn_timeout_s": "10",
}
SLOW = "300/12/64/0.5"


@pytest.fixture(scope="module")
def climbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Doit, str]]:
    """One ladder, climbed to its verdict; and what the terminal said."""
    wait_for_rest()
    doit = Doit(tmp_path_factory.mktemp("climbed") / "runs", dict(SETTINGS))
    code, output = doit("e8", "run=one")
    assert code == 0, output
    yield doit, output
    processes.end(doit.processes(), grace_s=1)


@pytest.fixture
def ladders(tmp_path: Path) -> Iterator[Doit]:
    """An empty runs folder for small ladders."""
    wait_for_rest()
    doit = Doit(tmp_path / "runs", dict(SETTINGS))
    yield doit
    processes.end(doit.processes(), grace_s=1)


def wait_for(what: Callable[[], bool], limit_s: float = 90) -> None:
    end_s = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end_s, "it did not come"
        time.sleep(0.05)


def rows(folder: Path, name: str, sql: str) -> list[tuple[object, ...]]:
    return duckdb.read_parquet(str(folder / name)).project(sql).fetchall()


def test_every_stage_and_every_rung_leaves_its_files(climbed: tuple[Doit, str]) -> None:
    doit, output = climbed
    folder = doit.folder("one-capacity")
    for word in ("plan", "pins", "preflight", "workload", "c1", "c2", "save", "tables", "gate", "report"):
        assert f"\n{word:<11}done" in output
    assert "VERDICT PASS arm=capacity knee=not-observed floor=2" in output
    assert "upper bound" in output
    assert receipts.done(folder) == [
        "plan", "pins", "preflight", "workload", "c1", "c2", "save", "tables", "gate", "report"
    ]  # fmt: skip
    for name in ("c1", "c2"):
        assert read_json(folder.evidence / f"{name}.json")["ok_n"] == 8 * int(name[1:])
        assert rows(folder.evidence, f"{name}.parquet", "c, ok, arm") == [
            (int(name[1:]), 8 * int(name[1:]), "capacity")
        ]
    assert rows(folder.tables, "rungs.parquet", "c, attempts") == [(1, 8), (2, 16)]
    assert read_json(folder.evidence / "ladder.json")["planned"] == ["c1", "c2"]
    assert folder.report.exists()
    assert doit.leftovers() == []


def test_the_same_command_again_repeats_the_verdict_and_does_nothing(climbed: tuple[Doit, str]) -> None:
    doit, _ = climbed
    before = {path: path.stat().st_mtime_ns for path in doit.runs.rglob("*") if path.is_file()}
    code, output = doit("e8", "run=one")
    assert code == 0
    assert "VERDICT PASS arm=capacity" in output
    assert "done" not in output.replace("VERDICT", "")
    after = {path: path.stat().st_mtime_ns for path in doit.runs.rglob("*") if path.is_file()}
    assert {path: at for path, at in after.items() if before.get(path) != at and path.name != ".lock"} == {}


def test_a_changed_byte_of_a_turn_is_refused(climbed: tuple[Doit, str], tmp_path: Path) -> None:
    doit, _ = climbed
    shutil.copytree(doit.runs, tmp_path / "runs", copy_function=shutil.copy2)
    copy = Doit(tmp_path / "runs", doit.settings)
    turns = copy.folder("one-capacity").evidence / "c2.turns.jsonl"
    turns.write_bytes(turns.read_bytes().replace(b'"code":"200"', b'"code":"201"', 1))
    code, output = copy("gate:one-capacity")
    assert code == 2, output
    assert "c2.turns.jsonl" in output


def test_killed_in_a_rung_it_goes_on_with_that_rung_and_says_so(ladders: Doit) -> None:
    folder = ladders.folder("k-capacity")
    child = ladders.start("e8", "run=k", **{"e8.turns_per_rung": "40"})
    wait_for(lambda: (folder.live / "c2.turns.jsonl").exists() and (folder.live / "c2.turns.jsonl").stat().st_size > 0)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert receipts.done(folder) == ["plan", "pins", "preflight", "workload", "c1"]
    first = folder.rung_json("c1").read_bytes()
    tier = read_json(folder.tier_json)["launcher"]

    code, output = ladders("e8", "run=k", **{"e8.turns_per_rung": "40"})
    assert code == 0, output
    assert "\nc1         kept" in output
    assert "\nworkload   kept" in output
    assert (folder.evidence / "c1.json").read_bytes() == first
    assert read_json(folder.evidence / "tier.json")["launcher"] == tier, "the rungs are of one system"
    assert read_json(folder.evidence / "c2.json")["cut_tries"] == 1
    assert (folder.evidence / "c2.cut1.turns.jsonl").stat().st_size
    assert "c2 was measured again" in output
    assert ladders.leftovers() == []


def test_stopped_by_hand_it_can_be_torn_down_and_what_was_measured_is_graded(ladders: Doit) -> None:
    folder = ladders.folder("s-capacity")
    child = ladders.start("e8", "run=s", **{"e8.turns_per_rung": "40"})
    wait_for(lambda: (folder.live / "c2.turns.jsonl").exists())
    os.kill(child.pid, signal.SIGTERM)
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM
    assert "its tier waits: continue with ./doit e8 run=s-capacity, end it with ./doit teardown:s-capacity" in output
    code, output = ladders("e8", "run=other")
    assert code == 3
    assert "run s-capacity is unfinished: continue it with ./doit e8 run=s-capacity" in output
    code, output = ladders("teardown:s-capacity")
    assert code == 0, output
    assert ladders.leftovers() == []
    code, output = ladders("gate:s-capacity")
    assert code == 2, output
    assert "RUNG  capacity  c1  " in output
    assert "c2" in output.partition("REFUSED")[2]


def test_torn_down_while_it_is_climbed_the_rung_is_cut_off_and_the_others_are_saved(ladders: Doit) -> None:
    folder = ladders.folder("b-capacity")
    child = ladders.start("e8", "run=b", **{"e8.turns_per_rung": "40"})
    wait_for(lambda: (folder.live / "c2.turns.jsonl").exists())
    code, output = ladders("teardown:b-capacity")
    child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM
    assert code == 0, output
    assert f"stopping the ./doit that climbs b-capacity (pid {child.pid})" in output
    assert sorted(path.name for path in folder.evidence.glob("c[12].json")) == ["c1.json"]
    assert folder.saved.exists()
    assert ladders.leftovers() == []
    assert ladders("gate:b-capacity")[0] == 2


def test_rungs_of_two_tiers_are_never_one_ladder(ladders: Doit) -> None:
    folder = ladders.folder("t-capacity")
    child = ladders.start("e8", "run=t", **{"e8.turns_per_rung": "40"})
    wait_for(lambda: (folder.live / "c2.turns.jsonl").exists())
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    handle.Tier(folder.tier_json).stop()
    code, output = ladders("e8", "run=t", **{"e8.turns_per_rung": "40"})
    assert code == 4, output
    assert "the tier that carried c1 is gone, and further rungs would be of another system" in output
    code, output = ladders("teardown:t-capacity")
    assert code == 0, output
    assert (folder.evidence / "c1.json").exists()
    assert (folder.evidence / "c2.turns.jsonl").exists(), "what was cut off is evidence too"


def test_a_tier_that_is_gone_before_the_first_rung_is_started_again(ladders: Doit) -> None:
    folder = ladders.folder("u-capacity")
    child = ladders.start("e8", "run=u")
    wait_for(lambda: receipts.read(folder, "preflight") is not None and folder.tier_json.exists())
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    handle.Tier(folder.tier_json).stop()
    code, output = ladders("e8", "run=u")
    assert code == 0, output


@pytest.mark.parametrize(
    ("arm", "profile", "sentence"),
    [
        ("capacity", SLOW, "which is not a fast profile"),
        ("realism", "10/1/64/0.5", "the realism arm is pinned to 300 and 12 ms"),
        ("capacity", "10/1/64/0", "no session ever reaches a sandbox"),
    ],
)
def test_a_mislabelled_arm_is_refused_before_any_turn(ladders: Doit, arm: str, profile: str, sentence: str) -> None:
    code, output = ladders("e8", "run=m", f"arm={arm}", f"e8.profile={profile}")
    assert code == 2, output
    assert f"VERDICT REFUSED arm={arm} knee=invalid" in output
    assert sentence in output.rpartition("VERDICT")[2]
    folder = ladders.folder(f"m-{arm}")
    assert sorted(path.name for path in folder.evidence.glob("c[0-9]*")) == []
    assert ladders.leftovers() == []


def test_an_automatic_ladder_finds_its_rungs_and_ends_at_its_top(ladders: Doit) -> None:
    code, output = ladders("e8", "run=a", "ladder=auto 3")
    assert code == 0, output
    folder = ladders.folder("a-capacity")
    assert read_json(folder.evidence / "rungs.json") == {
        "schema": 1, "ladder": "auto 3", "planned": ["c1", "c2", "c3"], "complete": True
    }  # fmt: skip
    assert output.count("next-rung  done") == 3
    assert "\nplan       kept" not in output, "a graph that is drawn again does not tell twice"
    assert "VERDICT PASS arm=capacity knee=not-observed floor=3" in output


def test_a_leak_is_refused_at_its_rung_which_still_shows_its_numbers(ladders: Doit) -> None:
    code, output = ladders("e8", "run=l", "fault=leak store by 1")
    assert code == 2, output
    assert "\nDRILL  faults were injected on purpose: leak store by 1" in output
    assert "RUNG  capacity  c1  healthy  ok=8/8" in output
    assert "store connections were left open" in output.rpartition("VERDICT REFUSED")[2]
    assert "\nc2         not measured: refused in c1\n" in output
    assert not (ladders.folder("l-capacity").evidence / "c2.json").exists()


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[handle.Tier]:
    """A tier that no ladder started: somebody else's, as far as the harness knows."""
    settings = TierSettings(
        workers=2, turns_per_worker=4, sandboxes=2, cap=4, profile=Profile(10, 1, 64, 0.5), tool_command="true"
    )
    tier = handle.start(settings, state=tmp_path / "deployment" / "tier.json", mark="test-deployment")
    yield tier
    tier.stop()


def cpu_hook(tmp_path: Path, tier: handle.Tier) -> str:
    """A command that prints the CPU seconds of each sandbox, as an operator would write one."""
    script = tmp_path / "sandbox_cpu.py"
    pids = [process.pid for process in tier.identities("sandbox")]
    script.write_text(
        "import os\n"
        f"for pid in {pids}:\n"
        "    f = open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()\n"
        "    print(sum(map(int, f[11:15])) / os.sysconf('SC_CLK_TCK'))\n"
    )
    return f"{sys.executable} {script}"


def test_a_deployment_of_somebodys_is_measured_by_the_same_driver(
    ladders: Doit, deployment: handle.Tier, tmp_path: Path
) -> None:
    urls = deployment.urls
    words = [f"e8.base={urls['base']}", f"e8.metrics={urls['metrics']}", f"e8.stub={urls['stub']}", "e8.sandboxes=0"]
    code, output = ladders("e8", "run=d", *words)
    assert code == 2, output
    assert "sandbox utilisation is UNMEASURED" in output
    assert "e8.sandbox_cpu_cmd" in output

    code, output = ladders("e8", "run=h", *words, f"e8.sandbox_cpu_cmd={cpu_hook(tmp_path, deployment)}")
    assert code == 0, output
    document = read_json(ladders.folder("h-capacity").evidence / "ladder.json")
    assert document["measured"] == urls["base"]
    assert f"Capacity arm on {urls['base']}" in output
    assert document["rungs"][1]["sandbox_cpu"] is not None
    handle.Tier(deployment.path)  # it was looked at, and goes on

    code, output = ladders("e8", "run=w", *words, "e8.workers=3")
    assert code == 4
    assert "e8.workers=3 and the target tells 2" in output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("e8", "nodes=3"), "nodes= means nothing to ./doit e8: it goes with ./doit soak"),
        (("soak", "arm=capacity"), "arm= means nothing to ./doit soak: it goes with ./doit e8"),
        (("soak", "e8"), "one load at a time"),
        (("e8", "e8.soak_c=4"), "e8.soak_c= means nothing to ./doit e8: it goes with ./doit e8-soak"),
        (("e8-soak", "ladder=1 2"), "ladder= means nothing to ./doit e8-soak: it goes with ./doit e8"),
        (("e8-lag-check", "arm=realism"), "arm= means nothing to ./doit e8-lag-check: it goes with ./doit e8"),
        (("e8", "arm=capacity", "e8.basis=e7"), "e8.basis= means nothing to the capacity arm"),
        (("e8-soak", "arm=capacity", "e8.basis=e7"), "e8.basis= means nothing to the capacity arm"),
        (
            ("e8", "arm=capacity", "ladder=1 2 4 8 16", "e8.sandboxes=16", "e8.lease_cap=1"),
            "e8.lease_cap=1: 16 sandboxes of 1 lease hold 16 turns, and the capacity arm needs 32 for a top rung of "
            "16: give 2 or more",
        ),
        (
            ("e8", "arm=capacity", "ladder=1 2", "e8.turns_per_worker=1"),
            "e8.turns_per_worker=1: 2 workers of 1 turn admit 2, and the capacity arm needs 4 for a top rung of 2",
        ),
        (("e8", "arm=both", "ladder=2 4"), "has no c=1 rung"),
        (("e8", "arm=density"), "arm=density must be one of both, realism, capacity"),
        (
            ("e8", "run=x-capacity", "arm=realism"),
            "run=x-capacity names the capacity arm, and arm=realism says another thing",
        ),
        (("e8", "e8.base=http://127.0.0.1:1"), "e8.metrics= is missing"),
        (("e8", "fault=melt worker 1 at c1"), "reads as none of those that are known"),
        (("e8", "e8.profile=fast"), "the profile is 'fast'"),
        (("e8", "run=x-realism", "arm=both"), "names the realism arm, and arm=both says another thing"),
        (("e8", "e8.sandbox_cpu_cmd=cat x"), "e8.sandbox_cpu_cmd= tells of a deployment"),
        (("e8", "e8.body=hello"), "e8.body=hello is no JSON object"),
        (("e8:nowhere:c1",), "there is no run nowhere"),
        (("workload",), "workload of which run?"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(
    ladders: Doit, words: tuple[str, ...], sentence: str
) -> None:
    code, output = ladders(*words)
    assert code == 3, output
    assert sentence in output
    assert [path.name for path in ladders.runs.glob("*")] in ([], [".lock"])


@pytest.mark.parametrize("words", [("e8", "--help"), ("soak", "-h"), ("--help",), ("e8-soak", "--help")])
def test_help_tells_settings_and_an_example_and_does_nothing(ladders: Doit, words: tuple[str, ...]) -> None:
    code, output = ladders(*words)
    assert code == 0
    assert "\nExample:\n  ./doit " in output
    assert ("e8.turns_per_rung" in output) == (words[0] == "e8")
    assert ("e8.soak_c" in output) == (words[0] == "e8-soak")
    assert not ladders.runs.exists()


def test_what_a_stage_could_not_do_is_told_until_it_is_done(ladders: Doit, tmp_path: Path) -> None:
    pins = tmp_path / "pins.toml"
    pins.write_text('[ladder]\ngit = "0.0.1"\n')
    code, output = ladders("e8", "run=p", f"pin_file={pins}")
    assert code == 4
    assert "git is " in output
    assert "pinned is 0.0.1" in output
    assert "p-capacity                   stopped: git is " in ladders()[1]
    pins.write_text("[ladder]\n")
    code, output = ladders("e8", "run=p", "ladder=1", timeout_s=120, ladder="1 2")
    assert code == 3, output
    code, output = ladders("e8", "run=p")
    assert code == 0, output
    assert not ladders.folder("p-capacity").failed.exists()


def test_a_soak_and_a_ladder_do_not_take_each_other_s_runs(climbed: tuple[Doit, str]) -> None:
    doit, _ = climbed
    code, output = doit("soak", "run=one-capacity")
    assert code == 3
    assert "run one-capacity is no soak: ./doit e8 run=one-capacity goes on with it" in output
    code, output = doit("e8", "run=one", "ladder=1 2 4")
    assert code == 3
    assert "run one-capacity goes on with its own settings, not with ladder=1 2 4 (it has 1 2)" in output
    code, output = doit()
    assert code == 0
    assert "VERDICT PASS arm=capacity" in output


def test_a_ladder_names_its_folder_by_its_arm(climbed: tuple[Doit, str]) -> None:
    doit, _ = climbed
    assert [RunFolder(path).run for path in doit.runs.iterdir() if path.is_dir()] == ["one-capacity"]


@pytest.mark.parametrize("deed", ["receipt", "record", "turns"])
def test_a_rung_is_never_measured_twice(ladders: Doit, deed: str) -> None:
    """Killed in c2; then somebody takes away or alters what c1 left, as one would who wants a better c1."""
    folder = ladders.folder("n-capacity")
    child = ladders.start("e8", "run=n", **{"e8.turns_per_rung": "40"})
    wait_for(lambda: (folder.live / "c2.turns.jsonl").exists() and (folder.live / "c2.turns.jsonl").stat().st_size > 0)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    record, turns = folder.rung_json("c1").read_bytes(), (folder.live / "c1.turns.jsonl").read_bytes()
    if deed == "receipt":
        receipts.remove(folder, "c1")
    elif deed == "record":
        folder.rung_json("c1").write_bytes(record.replace(b'"ok_n": 40', b'"ok_n": 39'))
    else:
        (folder.live / "c1.turns.jsonl").unlink()
    code, output = ladders("e8", "run=n", **{"e8.turns_per_rung": "40"})
    if deed == "receipt":
        assert code == 0, output
        assert (folder.evidence / "c1.json").read_bytes() == record, "what was measured is taken as it is"
        assert (folder.evidence / "c1.turns.jsonl").read_bytes() == turns
        assert (folder.evidence / "c2.cut1.turns.jsonl").stat().st_size, "turns answered before the kill are kept"
    else:
        assert code == 2, output
        assert "not as it was when c1 was measured, and a rung is not measured twice" in output
        assert (folder.live / "c2.turns.jsonl").stat().st_size, "what was cut off stays where it is"
