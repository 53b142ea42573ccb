"""The workload: its arithmetic, and its commands run for real by a bench whose turns are sleep, command, sleep."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.e8 import chain, workload
from harness.e8.probes import Probe, Timing
from harness.e8.turns import Turn
from harness.e8.workload import Ran, Workload, calibrate, next_repeats, prepare_capacity
from harness.errors import PreflightError


@dataclass
class FolderBench:
    """A stand-in for a tier: sandboxes are folders, a turn sleeps where the model would answer and runs the command."""

    root: Path
    names: tuple[str, ...] = ("sandbox-0", "sandbox-1")
    model_s: float = 0.12
    execs: int = 1
    slow: dict[str, float] = field(default_factory=dict)
    fails: bool = False
    command: str = ""
    turns: int = 0

    def sandboxes(self) -> Sequence[str]:
        return self.names

    def run(self, sandbox: str, script: str, *, limit_s: float) -> Ran:
        folder = self.root / sandbox
        folder.mkdir(exist_ok=True)
        script = f"spin() {{ sleep {self.slow.get(sandbox, 0)}; }}\n{script}"
        done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=limit_s)
        return Ran(done.returncode, done.stdout + done.stderr)

    def use(self, command: str) -> None:
        self.command = command

    def turn(self) -> Turn:
        began = time.monotonic()
        time.sleep(self.model_s)
        for _ in range(self.execs):
            self.run(self.names[self.turns % len(self.names)], self.command, limit_s=10)
        self.turns += 1
        ms = (time.monotonic() - began) * 1000
        return Turn(1, 0, ms, "200", "error" if self.fails else "stop")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderBench:
    monkeypatch.setattr(workload, "MAX_SPREAD_PCT", 1000)  # another load on this machine is not what is tested here
    monkeypatch.setattr(workload, "TURNS", 4)
    return FolderBench(tmp_path)


# --- arithmetic


def test_the_smallest_sample_is_dropped_and_the_median_is_of_the_rest() -> None:
    timing = Timing.of([50, 113, 110, 111, 113, 114, 113, 112, 115])
    assert timing.cost_ms == 113
    assert timing.spread_pct == pytest.approx(100 * 5 / 113, abs=0.05)


def test_duty_is_execs_times_cost_by_turn_time_to_four_decimals() -> None:
    probe = Probe(turns=10, execs=10, wall_ms=15_370, busy_ms=10 * 113.0)
    assert (probe.execs_per_turn, probe.mean_turn_ms, probe.duty) == (1.0, 1537, 0.0735)


@pytest.mark.parametrize(
    ("repeats", "cost", "expected"),
    [
        (8, 82.0, 10),  # wanted 0.07 × 1424 / 0.93 = 107.2 ms: 8 × 107.2 / 82 = 10.5
        (11, 113.0, 10),
        (10, 107.2, 11),  # 10 stays 10, which changes nothing: one more
        (8, 1.0, 32),  # never more than four times
        (8, 5000.0, 2),  # never less than a quarter
        (1, 5000.0, 2),  # 1 stays 1, which changes nothing: one more
    ],
)
def test_the_next_repeat_count(repeats: int, cost: float, expected: int) -> None:
    assert next_repeats(repeats, cost, 1.0, 1424 + cost, 0.07) == expected


@given(st.integers(1, 500), st.floats(0.5, 500), st.floats(0.5, 3), st.floats(600, 5000), st.floats(0.02, 0.5))
def test_the_next_repeat_count_changes_and_stays_within_its_bounds(
    repeats: int, cost: float, execs: float, rest: float, middle: float
) -> None:
    found = next_repeats(repeats, cost, execs, rest + execs * cost, middle)
    assert found != repeats
    assert max(1, repeats // 4) <= found <= max(4 * repeats, repeats + 1)


def test_calibration_by_its_own_arithmetic_lands_in_the_middle() -> None:
    per_repeat, rest, repeats = 10.3, 1424.0, 8
    for _ in range(3):
        repeats = next_repeats(repeats, repeats * per_repeat, 1.0, rest + repeats * per_repeat, 0.07)
    cost = repeats * per_repeat
    assert 0.061 <= cost / (rest + cost) <= 0.079


# --- the commands, for real


def test_the_repository_is_the_same_wherever_it_is_made(bench: FolderBench) -> None:
    head = workload.seed(bench)
    again = workload.seed(bench)
    assert head == again
    assert len(head) == 40
    ran = bench.run("sandbox-0", chain.git_chain(1), limit_s=10)
    assert ran.exit_code == 0
    assert ran.output.count("d0/f0.txt") == 1
    assert "32 files changed" in ran.output
    assert len([line for line in ran.output.splitlines() if line.endswith(("first", "second"))]) == 2


def test_no_file_is_of_the_index_s_own_second(bench: FolderBench) -> None:
    """git would read such files again each time: two sandboxes seeded alike then cost 86 and 130 ms."""
    workload.seed(bench)
    for sandbox in bench.names:
        repo = bench.root / sandbox / "repo"
        files = [path for path in repo.glob("d*/f*") if path.is_file()]
        assert len(files) == chain.FILES
        assert max(int(path.stat().st_mtime) for path in files) < int((repo / ".git/index").stat().st_mtime)
        assert bench.run(sandbox, "cd repo && git status --short", limit_s=10).output == ""


def test_the_chain_leaves_the_repository_as_it_was(bench: FolderBench) -> None:
    workload.seed(bench)
    listing = "find repo -type f -printf '%p %s %T@\\n' | sort"
    before = bench.run("sandbox-0", listing, limit_s=10).output
    bench.run("sandbox-0", chain.git_chain(2), limit_s=10)
    assert bench.run("sandbox-0", listing, limit_s=10).output == before


@pytest.mark.parametrize("command", [chain.git_chain(1), chain.TRIVIAL])
def test_without_a_workspace_nothing_is_counted(bench: FolderBench, command: str) -> None:
    assert bench.run("sandbox-0", chain.counted(command), limit_s=10).exit_code != 0
    assert bench.run("sandbox-0", chain.spanned(command), limit_s=10).exit_code != 0
    assert bench.run("sandbox-0", chain.timed(command, 2), limit_s=10).exit_code != 0
    assert bench.run("sandbox-0", chain.taken(chain.EXECS_FILE), limit_s=10).output == ""


def test_counting_and_spans_leave_one_line_per_exec_and_are_taken_away(bench: FolderBench) -> None:
    workload.seed(bench)
    for _ in range(3):
        bench.run("sandbox-0", chain.counted(chain.TRIVIAL), limit_s=10)
        bench.run("sandbox-0", chain.spanned(f"{chain.TRIVIAL}; sleep 0.05"), limit_s=10)
    assert bench.run("sandbox-0", chain.taken(chain.EXECS_FILE), limit_s=10).output == "1\n1\n1\n"
    spans = chain.read_spans_ms(bench.run("sandbox-0", chain.taken(chain.SPANS_FILE), limit_s=10).output)
    assert len(spans) == 3
    assert all(50 <= span < 200 for span in spans)
    assert bench.run("sandbox-0", chain.taken(chain.SPANS_FILE), limit_s=10).output == ""


# --- whole preparations


def test_realism_is_calibrated_until_both_probes_lie_in_the_band(
    bench: FolderBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "MAX_SANDBOXES_APART_PCT", 100)
    made = calibrate(bench, basis="test", band=(0.25, 0.45), rate=0.5)
    assert made.duty is not None
    assert made.duty_second is not None
    assert 0.25 <= made.duty <= 0.45
    assert 0.25 <= made.duty_second <= 0.45
    assert made.execs_per_turn == 1.0
    assert made.repeats is not None
    assert bench.command == made.command == chain.git_chain(made.repeats)
    assert set(made.per_sandbox_ms) == {"sandbox-0", "sandbox-1"}
    assert made.rounds[-1]["duty"] == made.duty
    said = "\n".join(made.lines())
    for part in ("MEASURED DUTY", "execs per turn", "mean turn", "cost of one exec", "tool-call rate", "repeats"):
        assert part in said
    assert "SH_STUB_TOOL_INPUT={" in said
    assert chain.EXECS_FILE not in said
    assert Workload.from_json(made.to_json()) == made
    assert made.facts()["duty"] == made.duty


def test_capacity_measures_its_trivial_exec_and_has_no_basis(bench: FolderBench) -> None:
    made = prepare_capacity(bench, rate=0.5)
    assert made.basis == "none (capacity arm)"
    assert bench.command == made.command == chain.TRIVIAL
    assert made.duty is not None
    assert 0 < made.duty < 0.06
    assert made.duty_second is not None
    assert made.execs_per_turn == 1.0


def test_capacity_refuses_two_execs_per_turn(bench: FolderBench) -> None:
    bench.execs = 2
    with pytest.raises(PreflightError, match=r"a turn made 2\.0 execs and the capacity arm needs one"):
        prepare_capacity(bench, rate=0.67)


def test_turns_that_reach_no_sandbox_are_refused(bench: FolderBench) -> None:
    bench.execs = 0
    with pytest.raises(PreflightError, match="no sandbox exec was recorded in 4 turns"):
        prepare_capacity(bench, rate=0.5)


def test_a_probe_turn_that_ends_in_an_error_is_refused(bench: FolderBench) -> None:
    bench.fails = True
    with pytest.raises(PreflightError, match=r"a probe turn failed \(code 200, stop reason error"):
        prepare_capacity(bench, rate=0.5)


def test_a_pool_without_sandboxes_is_refused(bench: FolderBench) -> None:
    bench.names = ()
    with pytest.raises(PreflightError, match="there is no sandbox to prepare"):
        prepare_capacity(bench, rate=0.5)


def test_a_band_that_cannot_be_reached_is_refused_after_ten_rounds(
    bench: FolderBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "MAX_ROUNDS", 2)
    with pytest.raises(PreflightError, match=r"could not land its duty in 0\.0001–0\.0002 \(test\) in 2 rounds"):
        calibrate(bench, basis="test", band=(0.0001, 0.0002), rate=0.5)


def test_sandboxes_that_cost_more_than_15_percent_apart_are_refused(
    bench: FolderBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "TIMINGS_BEFORE_GIVING_UP", 1)
    bench.slow = {"sandbox-0": 0.10, "sandbox-1": 0.13}
    monkeypatch.setattr(chain, "git_chain", lambda repeats: "cd repo && spin")
    with pytest.raises(PreflightError, match=r"one exec costs .* ms in sandbox-1: more than 15 % from the first"):
        calibrate(bench, basis="test", band=(0.3, 0.6), rate=0.5)


def test_timings_that_spread_too_far_pin_no_duty(bench: FolderBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "MAX_SPREAD_PCT", 35)
    monkeypatch.setattr(chain, "git_chain", lambda repeats: "cd repo && sleep 0.0$((RANDOM % 9))")
    with pytest.raises(PreflightError, match="it cannot pin a duty"):
        calibrate(bench, basis="test", band=(0.1, 0.9), rate=0.5)
