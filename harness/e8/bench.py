"""The system under test as a workload is prepared on it: the embedded tier is prepared, anybody else's is checked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from harness.e8.arms import CAPACITY, NO_BASIS
from harness.e8.client import BODY, Generator, Load
from harness.e8.metrics import Measured, between, read_profile
from harness.e8.readings import number
from harness.e8.target import Target, look, look_at_cpu
from harness.e8.tier.handle import Tier
from harness.e8.turns import Turn
from harness.e8.workload import TURNS, Progress, Ran, Workload, prepare_capacity, prepare_realism, successful, untold
from harness.errors import PreflightError

PROBE_TURN_LIMIT_S = 180.0


class TierBench:
    """The embedded tier. Another command means another stub on the same port."""

    def __init__(self, tier: Tier) -> None:
        self._tier = tier

    def sandboxes(self) -> Sequence[str]:
        """The names of all sandboxes."""
        return [each["id"] for each in self._tier.state["sandboxes"]]

    def run(self, sandbox: str, script: str, *, limit_s: float) -> Ran:
        """Run a script in a sandbox. Raises FleetError when it cannot be run."""
        done = self._tier.run(sandbox, script, limit_s=limit_s)
        return Ran(done.exit_code, done.output)

    def use(self, command: str) -> None:
        """From now on the model calls for this command. Raises FleetError."""
        self._tier.change_stub(tool_command=command)

    def turn(self) -> Turn:
        """One turn, to its end or its deadline."""
        return one_turn(self._tier.urls["base"])


def one_turn(base: str, body: str = BODY) -> Turn:
    """One turn of one client; a target that cannot be reached is a turn that failed."""
    rows: list[Turn] = []
    load = Load(base, 1, PROBE_TURN_LIMIT_S, 2 * PROBE_TURN_LIMIT_S, turns_per_client=1, warmup_turns=0, body=body)
    asyncio.run(Generator(load, rows.append).run())
    return rows[0]


def prepare(tier: Tier, arm: str, basis: str, *, progress: Progress = untold) -> Workload:
    """Prepare the embedded tier for an arm; ``basis`` is a row's name. Raises PreflightError or FleetError."""
    rate = float(tier.state["profile"]["toolCallRate"])
    bench = TierBench(tier)
    made = (
        prepare_capacity(bench, rate=rate, progress=progress)
        if arm == CAPACITY
        else prepare_realism(bench, basis=basis, rate=rate, progress=progress)
    )
    tier.refresh()
    return made


def check(target: Target, arm: str, basis: str, *, body: str = BODY) -> Workload:
    """Drive probe turns through somebody's target and measure what can be measured; nothing there is changed.

    Duty is the sandboxes' CPU time by turn time: what a command waits for is not in it. Where execs were not counted or
    CPU time cannot be had it is None with the reason. Raises PreflightError when a turn fails or no exec was counted.
    """
    first = _probe(target, body)
    second = _probe(target, body) if first.duty.value is not None else None
    rate = number((read_profile(target.stub) or {}).get("toolCallRate"))
    return Workload(
        arm=arm,
        basis=NO_BASIS if arm == CAPACITY else basis,
        command=None,
        execs_per_turn=first.execs_per_turn.value,
        mean_turn_ms=round(first.wall_ms / TURNS, 1),
        duty=first.duty.value,
        duty_second=second.duty.value if second else None,
        method="counted × sandbox CPU time",
        reason=first.duty.reason,
        tool_call_rate=rate,
    )


@dataclass(frozen=True)
class _Checked:
    execs_per_turn: Measured
    duty: Measured
    wall_ms: float


def _probe(target: Target, body: str) -> _Checked:
    before = look(target)
    wall_ms = sum(successful(one_turn(target.base.url, body)).ms for _ in range(TURNS))
    after = look(target, look_at_cpu(target, before.reading))
    execs = between(before.execs, after.execs, "the count of execs")
    busy_s = between(before.cpu_s["sandbox"], after.cpu_s["sandbox"], "the sandboxes' CPU time")
    if execs.value == 0:
        raise PreflightError(
            f"no sandbox exec was counted in {TURNS} turns: the turns never reach a sandbox; see the stub's tool-call "
            "rate and the target's pool of sandboxes"
        )
    if execs.value is None:
        return _Checked(execs, execs, wall_ms)
    per_turn = Measured(round(execs.value / TURNS, 3))
    if busy_s.value is None:
        return _Checked(per_turn, busy_s, wall_ms)
    return _Checked(per_turn, Measured(round(1000 * busy_s.value / wall_ms, 4)), wall_ms)
