"""The plain steps: rolls, several rolls at once, and a workload that is away for a while."""

from __future__ import annotations

import asyncio

from harness.errors import ClusterError
from harness.fleet.kubernetes.churn.calls import Thing, count, part
from harness.fleet.kubernetes.churn.ground import Ground, StepFailedError
from harness.fleet.kubernetes.churn.schedule import Step


async def roll(ground: Ground, step: Step) -> None:
    """One rollout restart; nothing waits for its end. Raises StepFailedError."""
    await _roll(ground, step, step.things[0])


async def roll_together(ground: Ground, step: Step) -> None:
    """Several at once, each waited for by itself. Raises StepFailedError when one failed, after all have ended."""
    name = {2: "pair", 3: "triple"}.get(len(step.things), str(len(step.things)))
    ground.say(f"CONCURRENT {name} begin {ground.at(step.at_s)}")
    outcomes = await asyncio.gather(*(_roll(ground, step, thing) for thing in step.things), return_exceptions=True)
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    ground.say(f"CONCURRENT {name} done rolled={len(outcomes) - len(failed)}/{len(outcomes)}")
    if failed:
        raise failed[0]


async def _roll(ground: Ground, step: Step, thing: Thing) -> None:
    begun_s = ground.clock.now()
    try:
        await ground.calls.restart(thing)
    except ClusterError as error:
        ground.say(f"FAILED {thing} {ground.at(step.at_s)} : {error}")
        raise StepFailedError(f"{thing} failed; the rest of the schedule is not done") from error
    took_ms = round((ground.clock.now() - begun_s) * 1000)
    ground.say(f"ROLLED {thing} {ground.at(step.at_s)} took_ms={took_ms}")


async def shrink(ground: Ground, step: Step) -> None:
    """Scale to 0 for ``for_s`` seconds, then back to the count that was read before.

    The count is on disk before the first call; a call that fails may have been applied, so it is put back and the
    schedule ends. Raises StepFailedError.
    """
    thing = step.things[0]
    try:
        before = count(await ground.calls.read(thing), "spec", "replicas")
    except ClusterError as error:
        raise _shrink_failed(ground, thing, f"its replicas cannot be read: {error}") from error
    if before == 0:
        raise _shrink_failed(ground, thing, "it has no replicas already, so that nothing would go away")
    ground.undo.before_scale(thing, before)
    ground.say(f"SHRINK begin {thing} replicas={before} -> 0 for {step.for_s}s {ground.at(step.at_s)}")
    try:
        await ground.calls.scale(thing, 0)
        await ground.clock.sleep(step.for_s)
        await ground.calls.scale(thing, before)
    except ClusterError as error:
        raise _shrink_failed(ground, thing, str(error)) from error
    ground.undo.done(thing)
    ground.say(f"SHRINK done {thing} restored to replicas={before}")


def _shrink_failed(ground: Ground, thing: Thing, why: str) -> StepFailedError:
    ground.say(f"SHRINK FAILED {thing} : {why}")
    return StepFailedError(f"SHRINK of {thing} failed; the rest of the schedule is not done")


def replicas_text(document: object) -> str:
    """``ready/wanted`` replicas of a Deployment, for a note."""
    return f"{count(document, 'status', 'readyReplicas')}/{part(document, 'spec', 'replicas')}"
