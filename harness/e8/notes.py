"""What is said beside a ladder's answer: of rungs that were measured again, and of what its figures do not show."""

from __future__ import annotations

from collections.abc import Iterator

from harness.e8.arms import threshold
from harness.e8.questions import Answers
from harness.e8.record import EMBEDDED, Ladder
from harness.e8.verdict import NOT_OBSERVED, Knee

PARTS = {
    "workers": "worker_cpu_s",
    "supervisor": "supervisor_cpu_s",
    "sandboxes": "sandbox_cpu_s",
    "stub": "stub_cpu_s",
    "relay": "relay_cpu_s",
    "store": "store_cpu_s",
    "generator": "generator_cpu_s",
}
"""Whose CPU time is measured on a target's host, where all of it runs there."""


def notes_on_rungs(ladder: Ladder) -> Iterator[str]:
    """What befell single rungs."""
    for rung in sorted(ladder.rungs, key=lambda rung: (rung.c, rung.repeat)):
        if rung.cut_tries:
            tries = "1 earlier try was" if rung.cut_tries == 1 else f"{rung.cut_tries} earlier tries were"
            yield f"{rung.name} was measured again: {tries} cut off"
        if rung.late:
            attempted, planned = ("?" if turns is None else turns for turns in (rung.attempts, rung.planned_turns))
            yield f"{rung.name} ended by its deadline: {attempted} of {planned} planned turns were attempted"


def notes_on_answer(
    ladder: Ladder, answers: Answers, knee: Knee, bound: str, under: str | None = None
) -> Iterator[str]:
    """What the knee and its bound rest on, and what they do not say. ``under``: the knee is below the least one."""
    if under:
        yield under
    yield from _notes_on_limits(ladder)
    if knee.answer == NOT_OBSERVED:
        top = max(level["c"] for level in answers.levels)
        limit = "the ladder's limit, not the tier's"
        yield f"c={knee.floor} is {limit}" if knee.floor == top else f"c={top} missed by no more than noise: repeat it"
    elif knee.lo != knee.floor:
        yield f"c={knee.floor} holds by no more than noise, or throughput had stopped to rise there"
    if bound_c := min((level["c"] for level in answers.levels if level["client_bound"]), default=None):
        yield f"c={bound_c} and above measured the generator and were left out"
    unseen = sorted({suspect.bound for suspect in answers.suspects if suspect.ratio is None} - _seen(answers))
    if bound == "unattributed":
        seen = ", ".join(sorted(_seen(answers))) or "none"
        yield f"unattributed of the tiers that can be seen: {seen}; not seen: {', '.join([*unseen, 'relay'])}"
    if bound == "host-cpu":
        if ladder.host_rest_pct is None:
            yield "the host's use at rest was not recorded: whatever else ran there counts as the target's"
        convicted = next(suspect for suspect in answers.suspects if suspect.bound == bound)
        yield from _shares(ladder, convicted.c)


def _notes_on_limits(ladder: Ladder) -> Iterator[str]:
    """By what it was judged, where that is not what ladders are judged by."""
    for name, own, what in (
        ("degrade_x", ladder.degrade_x, "a healthy rung's p95 is at most {:g} times that at c=1"),
        ("min_c", ladder.min_c, "the least knee is {:g}"),
    ):
        if own not in (None, usual := threshold(name)):
            yield f"{what.format(own)}, where {usual:g} is usual"


def _seen(answers: Answers) -> set[str]:
    return {suspect.bound for suspect in answers.suspects if suspect.ratio is not None}


def _shares(ladder: Ladder, c: int | None) -> Iterator[str]:
    """Of which parts the host's use consists: it is right about the host, and says nothing of who used it."""
    rung = next((ladder.settle(rung) for rung in ladder.rungs if rung.c == c), None)
    if rung is None or rung.host_cpu_util_pct is None:
        return
    shares = {part: rung.made_util_pct(getattr(rung, name), ladder.cores) for part, name in PARTS.items()}
    told = ", ".join(f"{part} {share:.1f}" for part, share in shares.items() if share is not None)
    if told:
        yield f"of the {rung.host_cpu_util_pct:.1f} % of the host at {rung.name} were, where they ran there: {told}"
    known = {part: share for part, share in shares.items() if share is not None}
    most = max(known, key=lambda part: known[part], default="workers")
    if ladder.measured == EMBEDDED and most != "workers":  # of another target nobody knows what runs on its host
        yield (
            f"most of the host was used by {most}, not by the workers: with cores of their own for {most} the workers "
            "may carry more"
        )
