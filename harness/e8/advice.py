"""A rule that refuses a ladder: what it asserts, whose the finding is, and in one sentence what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.e8 import refusals

TARGET, DRIVER, PLAN, EVIDENCE = OWNERS = ("target", "driver", "plan", "evidence")
"""Whose a finding is: the target is the tier that is measured, with its stub; the plan is what was asked for."""

CONTRADICTION = "contradiction"
"""The rule of a record that says one thing in two ways; whoever makes the tables finds it, and no check of a ladder."""


@dataclass(frozen=True)
class Advice:
    """``owner`` is one of ``OWNERS``."""

    owner: str
    next_step: str


ADVICE: Mapping[str, Advice] = {
    CONTRADICTION: Advice(
        EVIDENCE, "Find out which of the two figures was measured, mend the recorder, and take its record in again."
    ),
    "arm_unknown": Advice(PLAN, "Decide which of the two questions the ladder is to answer, and name it by arm=."),
    "no_first_rung": Advice(PLAN, "Climb again with a ladder= that begins with 1."),
    "stub_not_pinned": Advice(
        PLAN, "Point the target's ANTHROPIC_BASE_URL and e8.stub= at one and the same stub, and climb again."
    ),
    "profile_unusable": Advice(
        TARGET, "Open /profile of the stub that e8.stub= names, mend what it answers, and climb again."
    ),
    "profile_of_another_arm": Advice(
        PLAN, "Restart the stub with the profile that the arm asks for, or climb the other arm."
    ),
    "no_tool_calls": Advice(TARGET, "Restart the stub with a tool-call rate above 0; 0.5 gives one exec per turn."),
    "workers_unknown": Advice(
        TARGET, "Let the target tell SH_WORKERS and SH_TURNS_PER_WORKER in its metrics, and climb again."
    ),
    "admission_headroom": Advice(
        TARGET, "Raise SH_TURNS_PER_WORKER of the target (e8.turns_per_worker=), or end the ladder lower."
    ),
    "basis_of_another_arm": Advice(
        PLAN, "Name the arm that was climbed by arm=, and in the realism arm its row of duty by e8.basis=."
    ),
    "duty_out_of_band": Advice(
        PLAN, "Calibrate the command's repeat count on the idle machine that is measured, and climb again."
    ),
    "not_one_exec": Advice(
        TARGET, "Count execs of one turn with the stub's tool-call rate at 0.5, and look for where the others end."
    ),
    "success_untold": Advice(
        EVIDENCE, "Record the stop reason of each turn's answer beside its status, and measure the ladder again."
    ),
    "host_not_at_rest": Advice(
        TARGET, "Find out what runs on the target's host beside the tier, end it or wait for its end, and climb again."
    ),
    "no_success": Advice(
        TARGET, "Send one turn by hand and read its answer, then the logs of the worker that took it."
    ),
    "first_rung_late": Advice(
        TARGET, "Send one turn by hand and see where its time goes, then climb again from a target that answers it."
    ),
    "first_rung_unsteady": Advice(
        TARGET, "Find the turns of the first rung that took far longer, and what stood still in them; then climb again."
    ),
    "pool_unobserved": Advice(
        TARGET, "See that the turns of a single client reach a sandbox, and that the workers tell how many there are."
    ),
    "pool_under_floor": Advice(
        TARGET, "Start as many sandboxes as the floor asks for (e8.sandboxes=), or admit fewer turns."
    ),
    "lease_headroom": Advice(
        TARGET, "Raise KAGENTI_SANDBOX_CAP of the target (e8.lease_cap=), add sandboxes, or end the ladder lower."
    ),
    "nothing_attempted": Advice(DRIVER, "Read the rung's generator log for why it sent nothing, and measure it again."),
    "workers_miscounted": Advice(
        TARGET, "See that every worker of SH_WORKERS runs and tells of itself in the metrics, and climb again."
    ),
    "worker_frozen": Advice(
        TARGET, "Look at why that worker stood still, by its state and its log, restart it, and climb again."
    ),
    "store_leak": Advice(
        TARGET, "Let workers share their connections to the store, then hold one rung with ./doit e8-soak."
    ),
    "host_shared": Advice(
        TARGET, "Keep other work off the machine while the ladder is climbed, or measure on one of its own."
    ),
    "generator_bound": Advice(
        DRIVER,
        "Generate from a larger machine, send more turns per rung (e8.turns_per_rung=), or end the ladder lower.",
    ),
    "execs_off": Advice(
        TARGET, "Let the stub count tool calls by conversation at a rate of 0.5, and look for where the execs end."
    ),
    "sandbox_unmeasured": Advice(
        DRIVER, "Name by e8.sandbox_cpu_cmd= a command that prints the sandboxes' CPU seconds, and climb again."
    ),
    "sandbox_over_ceiling": Advice(
        TARGET, "Add sandboxes (e8.sandboxes=) until they are out of the way, and climb the ladder again."
    ),
    "unmeasured_turns": Advice(
        DRIVER, "Read the rung's turns and its log for why they were not timed, and measure it again."
    ),
    "system_changed": Advice(
        TARGET, "Find out what restarted or replaced a part in the middle of the ladder, and climb all of it again."
    ),
    "success_under_floor": Advice(TARGET, "Read which failures the rungs count, remove their cause, and climb again."),
    "rungs_missing": Advice(
        EVIDENCE,
        "Climb a new ladder, as one that is saved is over and what it measured stands; where another rule refused a "
        "rung, begin with that rule.",
    ),
    "rungs_unplanned": Advice(
        EVIDENCE, "Leave the rungs of another ladder out, or adopt the record with the plan that names them."
    ),
}


def next_step(rule: str) -> str | None:
    """What to do next about a rule that refuses a ladder; None for a name that is no such rule."""
    return ADVICE[rule].next_step if rule in ADVICE else None


@dataclass(frozen=True)
class Explained:
    """A rule about ladders: what must hold, when that is judged, and the file or folder in which the rule stands."""

    asserts: str
    judged: str
    file: str


JUDGED = {
    "before any turn": refusals.BEFORE,
    "after the first rung": refusals.AFTER_FIRST,
    "at every rung": refusals.OF_A_RUNG,
    "at the end": refusals.AT_THE_END,
}


def explained(rule: str) -> Explained:
    """What a rule is. Raises KeyError for a name that is none."""
    if rule == CONTRADICTION:
        asserts = "Each figure is what its own parts come to, rounding apart, and what the files beside it say."
        return Explained(asserts, "when it is read", "harness/store/contradictions")
    for judged, checks in JUDGED.items():
        for check in checks:
            if check.__name__ == rule:
                asserts = (check.__doc__ or "").strip().splitlines()[0]
                return Explained(asserts, judged, f"{check.__module__.replace('.', '/')}.py")
    raise KeyError(rule)
