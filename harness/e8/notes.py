"""What is said beside a ladder's answer: of rungs that were measured again, and of what its figures do not show."""

from __future__ import annotations

from collections.abc import Iterator

from harness.e8.arms import CAPACITY, threshold
from harness.e8.questions import Answers
from harness.e8.record import EMBEDDED, PARTS, Ladder
from harness.e8.refusals import listed
from harness.e8.rung_rules import used_by_others_s
from harness.e8.verdict import NOT_OBSERVED, Knee

WHOLE_PCT = 100.0


def notes_on_rungs(ladder: Ladder) -> Iterator[str]:
    """What befell single rungs."""
    for rung in sorted(ladder.rungs, key=lambda rung: (rung.c, rung.repeat)):
        if rung.cut_tries:
            tries = "1 earlier try was" if rung.cut_tries == 1 else f"{rung.cut_tries} earlier tries were"
            yield f"{rung.name} was measured again: {tries} cut off"
        if rung.late:
            attempted, planned = ("?" if turns is None else turns for turns in (rung.attempts, rung.planned_turns))
            yield f"{rung.name} ended by its deadline: {attempted} of {planned} planned turns were attempted"
    yield from _stalls(ladder)
    yield from _few_turns(ladder)
    yield from _rest(ladder)
    yield from _probes(ladder)
    yield from _not_shared_out(ladder)


def _stalls(ladder: Ladder) -> Iterator[str]:
    """Where turns were slow that no percentile shows: a stop of all of a tier delays one turn of each client."""
    most = threshold("stall_x")
    for rung in map(ladder.settle, ladder.rungs):
        mean_ms = rung.mean_ms
        if mean_ms is None or not rung.p50_ms or (rung.rate or 0) < threshold("success_floor"):
            continue
        if mean_ms > most * rung.p50_ms:
            yield (
                f"the mean turn at {rung.name} took {mean_ms:.0f} ms, and half of them at most {rung.p50_ms:.0f} ms: "
                "a few took far longer, as where something stands still for a while"
            )


def _few_turns(ladder: Ladder) -> Iterator[str]:
    least = threshold("p95_turns")
    few = [rung.name for rung in ladder.rungs if rung.p95_ms is not None and rung.ok is not None and rung.ok < least]
    if few:
        yield f"under {least:g} turns succeeded at {listed(few)}: the p95 of so few is the largest one"


def _rest(ladder: Ladder) -> Iterator[str]:
    """Where the host's use at rest was not the target's."""
    told, used, most = ladder.host_rest_pct, ladder.rest_pct, threshold("host_rest_pct")
    if told is None or used is None:
        return
    if told > used + threshold("host_rest_over_pct"):
        yield (
            f"the host was busier at rest ({told:.1f} %) than at c=1 ({used:.1f} %): another load ran before "
            f"the ladder, and {used:.1f} % is taken for its use at rest"
        )
    elif told > most and not ladder.probed:
        yield (
            f"another load used {told:.1f} % of the host before the ladder, where {most:g} % is the most of a host at "
            "rest"
        )


def _probes(ladder: Ladder) -> Iterator[str]:
    apart, duties = threshold("probes_apart"), [duty for duty in (ladder.duty, ladder.duty_second) if duty is not None]
    if ladder.arm == CAPACITY and len(duties) > 1 and max(duties) > apart * min(duties):
        yield f"the two probes of the duty are more than {apart:g} times apart ({duties[0]:.4f} and {duties[1]:.4f})"


def _not_shared_out(ladder: Ladder) -> Iterator[str]:
    rungs = ladder.rungs if ladder.measured == EMBEDDED else ()
    if names := [rung.name for rung in rungs if rung.host_cpu_s is not None and used_by_others_s(ladder, rung) is None]:
        told = {rung.name: rung for rung in rungs}
        gone = [part for part, name in PARTS.items() if any(getattr(told[one], name) is None for one in names)]
        yield (
            f"whether something else ran on the host was not judged at {listed(names)}: the CPU of "
            f"{', '.join(gone) or 'its cores'} is not known"
        )


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
    elif stopped_c := (answers.knee or {}).get("stopped_c"):
        gain = threshold("flat_gain")
        yield f"throughput stopped rising at c={stopped_c}: it is not {gain:g} times that of half the clients or fewer"
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
    yield from _above_all(answers, bound)
    yield from _cost(answers)


def _above_all(answers: Answers, bound: str) -> Iterator[str]:
    """Where a tier is convicted by a share that no tier can have."""
    convicted = next((suspect for suspect in answers.suspects if suspect.bound == bound and suspect.convicts), None)
    if convicted is None or convicted.measured is None or "% of" not in convicted.what:
        return
    if (over := convicted.measured - WHOLE_PCT) <= 0:
        return
    yield (
        f"{bound} was convicted by {convicted.measured:.1f} % at c={convicted.c}, and no share is above 100 %: its "
        f"clock or its count of cores is off by at least {over:.1f} %"
    )


def _cost(answers: Answers) -> Iterator[str]:
    cost = answers.worker_cpu
    if cost and not cost["fits"]:
        missed = (
            "nothing"
            if cost["worst_pct"] is None
            else f"the CPU used at c={cost['worst_c']} by {cost['worst_pct']:.0f} %"
        )
        yield f"what a further turn costs is not told: one cost of a turn and one of being there miss {missed}"


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
    made = {part: rung.made_util_pct(getattr(rung, name), ladder.cores) for part, name in PARTS.items()}
    known = {part: share for part, share in made.items() if share is not None}
    if known:
        told = ", ".join(f"{part} {share:.1f} %" for part, share in known.items())
        of = "of which" if ladder.measured == EMBEDDED else "of which, as far as they ran on it,"
        yield f"the host was busy for {rung.host_cpu_util_pct:.1f} % of its cores at {rung.name}, {of} {told}"
    most = max(known, key=lambda part: known[part], default="workers")
    if ladder.measured == EMBEDDED and most != "workers":  # of another target nobody knows what runs on its host
        yield (
            f"most of the host was used by {most}, not by the workers: with cores of their own for {most} the workers "
            "may carry more"
        )
