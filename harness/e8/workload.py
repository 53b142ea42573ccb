"""What a turn makes a sandbox do, prepared and measured before the ladder: a duty is measured, never modelled.

duty = execs × cost of one exec ÷ Σ turn time. Execs are counted by a line that the command itself leaves behind, turns
are driven one after another through the supervisor, and the cost is timed inside the sandbox. The second probe shares
none of these figures: in new turns every exec writes down its own begin and end.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.e8 import chain
from harness.e8.arms import BASES, CAPACITY, NO_BASIS, REALISM, threshold
from harness.e8.probes import Probe, Timing
from harness.e8.turns import Turn
from harness.errors import PreflightError

TURNS = 10
MAX_ROUNDS = 10
FIRST_REPEATS = 8
SAMPLES = 9
MAX_SPREAD_PCT = 35.0
TIMINGS_BEFORE_GIVING_UP = 12  # another load that came and went is not the command's own spread
MAX_SANDBOXES_APART_PCT = 15.0
DISTURBED = 0.1  # of the usual cost of one repeat: two quiet rounds differ by a few hundredths
TIMER_MS = 0.001
SEED_LIMIT_S = 120.0
RUN_LIMIT_S = 180.0


Progress = Callable[[str], object]


def untold(text: str) -> None:
    """Progress that nobody is told of."""


@dataclass(frozen=True)
class Ran:
    """A command that was run in a sandbox outside any turn."""

    exit_code: int
    output: str


class Bench(Protocol):
    """The system under test, as far as a workload is prepared on it."""

    def sandboxes(self) -> Sequence[str]:
        """The names of all sandboxes."""

    def run(self, sandbox: str, script: str, *, limit_s: float) -> Ran:
        """Run a script in a sandbox. Raises StageError when it cannot be run."""

    def use(self, command: str) -> None:
        """From now on the model calls for this command. Raises StageError."""

    def turn(self) -> Turn:
        """One turn, to its end or its deadline."""


@dataclass(frozen=True)
class Workload:
    """What was prepared and measured; None is what was not measured, and ``reason`` then says why."""

    arm: str
    basis: str
    command: str | None
    execs_per_turn: float | None
    mean_turn_ms: float | None
    duty: float | None
    duty_second: float | None = None
    duty_is_bound: bool = False
    method: str = "counted × timed"
    reason: str | None = None
    per_exec_ms: float | None = None
    spread_pct: float | None = None
    per_sandbox_ms: dict[str, float] = field(default_factory=dict)
    repeats: int | None = None
    files: int | None = None
    head: str | None = None
    tool_call_rate: float | None = None
    rounds: list[dict[str, Any]] = field(default_factory=list)
    schema: int = 1

    @property
    def duty_text(self) -> str:
        """The duty for people."""
        if self.duty is None:
            return "not measured"
        return f"<{self.duty:.5f}" if self.duty_is_bound else f"{self.duty:.4f}"

    def facts(self) -> dict[str, Any]:
        """What a ladder's record says of it."""
        return {name: getattr(self, name) for name in ("arm", "basis", "duty", "duty_second", "execs_per_turn")}

    def to_json(self) -> dict[str, Any]:
        """The form that stands in the run's files."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Workload:
        """Inverse of ``to_json``. Raises TypeError on another shape."""
        return cls(**value)

    def lines(self) -> list[str]:
        """What is said about it."""
        said = [f"MEASURED DUTY {self.duty_text} (second probe {_text(self.duty_second)}), basis {self.basis}"]
        if self.reason:
            said.append(f"not measured: {self.reason}")
        said.append(
            f"execs per turn {_text(self.execs_per_turn)}, mean turn {_text(self.mean_turn_ms)} ms, "
            f"cost of one exec {_text(self.per_exec_ms)} ms (spread {_text(self.spread_pct)} %), "
            f"tool-call rate {_text(self.tool_call_rate)}, repeats {_text(self.repeats)}"
        )
        if self.command is not None:
            said.append(f"SH_STUB_TOOL_INPUT={tool_input(self.command)}")
        return said


def _text(value: object) -> str:
    return "not measured" if value is None else str(value)


def tool_input(command: str) -> str:
    """The stub's tool input for a command."""
    return json.dumps({"command": command})


# --- arithmetic


def next_repeats(
    repeats: int, cost_ms: float, execs_per_turn: float, mean_turn_ms: float, middle: float, *, again: bool = False
) -> int:
    """The repeat count that would put the duty at ``middle``: what is not sandbox time in a turn stays as it is.

    Where that is the one there is, it is one more, or with ``again`` the same one more time.
    """
    rest_ms = mean_turn_ms - execs_per_turn * cost_ms
    wanted_ms = middle * rest_ms / (execs_per_turn * (1 - middle))
    wished = math.floor(repeats * wanted_ms / cost_ms + 0.5)
    found = min(max(wished, max(1, repeats // 4)), 4 * repeats)
    return found if found != repeats or again else repeats + 1


# --- preparing


def prepare_realism(bench: Bench, *, basis: str, rate: float, progress: Progress = untold) -> Workload:
    """Seed every sandbox and calibrate the git chain until both probes lie in the basis row's band.

    Raises PreflightError.
    """
    return calibrate(bench, basis=basis, band=BASES[basis].duty, rate=rate, progress=progress)


def calibrate(
    bench: Bench, *, basis: str, band: tuple[float, float], rate: float, progress: Progress = untold
) -> Workload:
    """The same for any band."""
    progress("seeding the sandboxes")
    head = seed(bench)
    repeats = FIRST_REPEATS
    middle = sum(band) / 2
    rounds: list[dict[str, Any]] = []
    units_ms: list[float] = []
    for number in range(1, MAX_ROUNDS + 1):
        progress(f"calibrating, round {number} of at most {MAX_ROUNDS}: {repeats} repeats{_last_of(rounds)}")
        command = chain.git_chain(repeats)
        timing = _time(bench, bench.sandboxes()[0], command)
        first = _counted_probe(bench, command, timing)
        second = _spanned_probe(bench, command) if _in(band, first.duty) else None
        rounds.append(
            {"repeats": repeats, "cost_ms": timing.cost_ms, "spread_pct": timing.spread_pct}
            | {"execs_per_turn": first.execs_per_turn, "mean_turn_ms": first.mean_turn_ms}
            | {"duty": first.duty, "duty_second": second.duty if second else None}
        )
        if second is not None and _in(band, second.duty):
            progress("timing every sandbox")
            costs = _costs_alike(bench, command)
            bench.use(command)
            return Workload(
                arm=REALISM,
                basis=basis,
                command=command,
                execs_per_turn=first.execs_per_turn,
                mean_turn_ms=first.mean_turn_ms,
                duty=first.duty,
                duty_second=second.duty,
                per_exec_ms=timing.cost_ms,
                spread_pct=timing.spread_pct,
                per_sandbox_ms=costs,
                repeats=repeats,
                files=chain.FILES,
                head=head,
                tool_call_rate=rate,
                rounds=rounds,
            )
        probe, cost_ms = (second, second.busy_ms / second.execs) if second else (first, timing.cost_ms)
        # one repeat costs what it cost in most rounds: a round that something else disturbed is measured again
        units_ms.append(cost_ms / repeats)
        usual_ms = statistics.median(units_ms)
        repeats = next_repeats(
            repeats,
            usual_ms * repeats,
            probe.execs / probe.turns,
            probe.wall_ms / probe.turns,
            middle,
            again=abs(units_ms[-1] / usual_ms - 1) > DISTURBED,
        )
    duties = ", ".join(f"{_duty_of(each)} ({each['repeats']} repeats)" for each in rounds)
    raise PreflightError(
        f"the workload could not land its duty in {band[0]}–{band[1]} ({basis}) in {MAX_ROUNDS} rounds: {duties}; "
        "see that nothing else runs on this machine and give the same command again"
    )


def _duty_of(one_round: dict[str, Any]) -> float:
    """The duty by which a round was out of the band: the second probe's, where the first one was in it."""
    return float(one_round["duty_second"] or one_round["duty"])


def _last_of(rounds: Sequence[dict[str, Any]]) -> str:
    return f" (with {rounds[-1]['repeats']} the duty was {_duty_of(rounds[-1])})" if rounds else ""


def prepare_capacity(bench: Bench, *, rate: float, progress: Progress = untold) -> Workload:
    """Seed every sandbox and measure the trivial exec; there is no band. Raises PreflightError."""
    progress("seeding the sandboxes")
    head = seed(bench)
    progress("counting the execs of a turn")
    timing = _time(bench, bench.sandboxes()[0], chain.TRIVIAL, steady=False)
    first = _counted_probe(bench, chain.TRIVIAL, timing)
    low, high = threshold("execs_per_turn_low"), threshold("execs_per_turn_high")
    if not low <= first.execs_per_turn <= high:
        raise PreflightError(
            f"a turn made {first.execs_per_turn} execs and the capacity arm needs one ({low:g} to {high:g}); "
            "set the stub's tool-call rate to 0.5"
        )
    second = _spanned_probe(bench, chain.TRIVIAL)
    bench.use(chain.TRIVIAL)
    bound = round(first.execs / first.turns * TIMER_MS / (first.wall_ms / first.turns), 5)
    return Workload(
        arm=CAPACITY,
        basis=NO_BASIS,
        command=chain.TRIVIAL,
        execs_per_turn=first.execs_per_turn,
        mean_turn_ms=first.mean_turn_ms,
        duty=first.duty if timing.cost_ms else bound,
        duty_second=second.duty,
        duty_is_bound=not timing.cost_ms,
        per_exec_ms=timing.cost_ms,
        spread_pct=timing.spread_pct,
        files=chain.FILES,
        head=head,
        tool_call_rate=rate,
    )


def seed(bench: Bench) -> str:
    """Make the repository in every sandbox. Returns its commit. Raises PreflightError when two differ."""
    heads = {}
    for sandbox in bench.sandboxes():
        ran = bench.run(sandbox, chain.SEED, limit_s=SEED_LIMIT_S)
        if ran.exit_code:
            raise PreflightError(
                f"the repository could not be made in sandbox {sandbox} (exit code {ran.exit_code}): "
                f"{ran.output.strip()[-300:]}; the sandbox needs bash 5 and git"
            )
        heads[sandbox] = ran.output.split()[-1]
    if not heads:
        raise PreflightError("there is no sandbox to prepare; start the tier with at least one")
    if len(set(heads.values())) != 1:
        raise PreflightError(f"the sandboxes made different repositories: {heads}; they need the same git")
    return next(iter(heads.values()))


def _costs_alike(bench: Bench, command: str) -> dict[str, float]:
    """Cost of one exec in every sandbox. Raises PreflightError when one lies too far from the first."""
    timed: dict[str, list[float]] = {sandbox: [] for sandbox in bench.sandboxes()}
    for _ in range(TIMINGS_BEFORE_GIVING_UP):
        for sandbox, seen in timed.items():
            seen.append(_time(bench, sandbox, command, steady=False).cost_ms)
        # medians: what disturbs one timing is no difference between two sandboxes
        costs = {sandbox: round(statistics.median(seen), 3) for sandbox, seen in timed.items()}
        reference, *others = costs.values()
        if all(abs(cost - reference) <= reference * MAX_SANDBOXES_APART_PCT / 100 for cost in others):
            return costs
    raise PreflightError(
        f"one exec costs {', '.join(f'{cost} ms in {sandbox}' for sandbox, cost in costs.items())}: more than "
        f"{MAX_SANDBOXES_APART_PCT:g} % from the first, so the pool has no one duty; see that nothing else runs there, "
        "or use sandboxes of one kind"
    )


def _time(bench: Bench, sandbox: str, command: str, *, steady: bool = True) -> Timing:
    """Time a command in a sandbox, again when the samples lie too far apart. Raises PreflightError."""
    timing = None
    for _ in range(TIMINGS_BEFORE_GIVING_UP):
        ran = bench.run(sandbox, chain.timed(command, SAMPLES), limit_s=RUN_LIMIT_S)
        if ran.exit_code:
            raise PreflightError(f"the workload fails in sandbox {sandbox} (exit code {ran.exit_code}); is it seeded?")
        timing = Timing.of(_spans(sandbox, ran.output, SAMPLES))
        if not steady or timing.spread_pct <= MAX_SPREAD_PCT:
            return timing
    raise PreflightError(
        f"{SAMPLES} timings of the workload in sandbox {sandbox} spread over {timing.spread_pct if timing else 0} % "
        f"(limit {MAX_SPREAD_PCT:g} %): it cannot pin a duty; see that nothing else runs on this machine"
    )


def _counted_probe(bench: Bench, command: str, timing: Timing) -> Probe:
    lines, wall_ms = _drive(bench, chain.counted(command), chain.EXECS_FILE)
    return Probe(TURNS, len(lines), wall_ms, len(lines) * timing.cost_ms)


def _spanned_probe(bench: Bench, command: str) -> Probe:
    lines, wall_ms = _drive(bench, chain.spanned(command), chain.SPANS_FILE)
    return Probe(TURNS, len(lines), wall_ms, sum(_spans("any", "\n".join(lines), len(lines))))


def _drive(bench: Bench, command: str, file: str) -> tuple[list[str], float]:
    """Drive turns that run ``command``. Returns the lines it left in all sandboxes, and Σ turn time in ms."""
    for sandbox in bench.sandboxes():
        bench.run(sandbox, chain.taken(file), limit_s=RUN_LIMIT_S)
    bench.use(command)
    wall_ms = sum(successful(bench.turn()).ms for _ in range(TURNS))
    lines = []
    for sandbox in bench.sandboxes():
        lines += bench.run(sandbox, chain.taken(file), limit_s=RUN_LIMIT_S).output.splitlines()
    if not lines:
        raise PreflightError(
            f"no sandbox exec was recorded in {TURNS} turns: the turns never reached a sandbox, or the workload fails "
            "there; see the logs of the workers and of the relay"
        )
    return lines, wall_ms


def successful(turn: Turn) -> Turn:
    """The turn, when it succeeded. Raises PreflightError."""
    if not turn.ok:
        raise PreflightError(
            f"a probe turn failed (code {turn.code}, stop reason {turn.stop}, {turn.error or 'no message'}); "
            "see the target's logs"
        )
    return turn


def _spans(sandbox: str, output: str, wanted: int) -> list[float]:
    try:
        spans = chain.read_spans_ms(output)
    except ValueError:
        spans = []
    if len(spans) != wanted or min(spans, default=-1) < 0:
        raise PreflightError(f"sandbox {sandbox} did not time the workload; it needs bash 5: {output.strip()[-200:]!r}")
    return spans


def _in(band: tuple[float, float], duty: float) -> bool:
    return band[0] <= duty <= band[1]
