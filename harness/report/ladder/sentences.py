"""A ladder's answer, what to do next and what was measured, in words that name the arm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.e8.advice import next_step
from harness.e8.arms import ABOUT, ARMS, BASES, NO_BASIS, THRESHOLDS, threshold
from harness.e8.record import EMBEDDED, Ladder
from harness.e8.verdict import KNEE, NOT_OBSERVED
from harness.gate.verdict import REFUSED
from harness.report import words
from harness.report.ladder.facts import Facts
from harness.report.ladder.measures import milliseconds, per_second

Verdict = Mapping[str, Any]
Tile = tuple[str, str, str]
DUTY = ".4f"
NOT_KNOWN = "not known"


def arm_of(arm: str | None) -> str:
    """The arm in words, as every figure's heading has it."""
    if arm is None:
        return "arm not recorded"
    return f"{arm} arm" if arm in ARMS else f"arm {arm!r}, which is none"


def answer(verdict: Verdict) -> str:
    """One of the three things that a ladder can say; before a grading that there is none."""
    knee = verdict.get("knee") or {}
    if not verdict:
        return "No answer yet: the ladder was not graded."
    if knee.get("answer") == KNEE:
        return (
            f"The knee lies in [{knee['lo']}, {knee['hi']}]; c={knee['floor']} is the highest healthy level. "
            f"Bound by {verdict.get('bound')}; runner-up {verdict.get('runner_up') or 'none'}."
        )
    if knee.get("answer") == NOT_OBSERVED:
        return f"No knee was observed up to c={knee['floor']}."
    return f"Nothing can be said, because {verdict.get('reason') or 'the verdict gives no reason'}."


def next_steps(run: str, word: str, verdict: Verdict, *, closed: bool, drill: bool) -> list[str]:
    """What to do now, a sentence each; of refusals one for each rule, in the order in which they were found."""
    if closed and not verdict:
        return ["There is nothing to grade. What was kept is in evidence/; a new ladder is needed: ./doit e8"]
    steps = list(dict.fromkeys(step for refusal in _refusals(verdict) if (step := next_step(refusal["rule"]))))
    if word == "PASS" and drill:
        return ["Climb again without the fault: of a drill nothing may be quoted."]
    if word == "PASS":
        return ["Quote the claim as it stands, or nothing. To set it beside others of its arm: harness sql ladders"]
    if word == "REFUSED":
        return steps or [
            f"Nothing was judged: mend or restore what the reason names, then grade again: harness gate {run}"
        ]
    if word == "UNPROVEN":
        return [
            "Nothing here may be quoted until what is missing (listed below) was recorded: add it to the record and "
            "take it in again, or measure the target with ./doit e8, which asks the target for all of it."
        ]
    if word == "FAIL":
        return [
            f"The tier carries fewer than {verdict.get('min_c')} turns at once, so it is broken rather than slow: look "
            f"into what bound it ({verdict.get('bound')}), and climb again."
        ]
    return [f"Grade it: harness gate {run}"]


def refusals(verdict: Verdict) -> list[dict[str, Any]]:
    """Each reason not to quote, with what to do next."""
    return [{**refusal, "next": next_step(refusal["rule"])} for refusal in _refusals(verdict)]


def _refusals(verdict: Verdict) -> list[dict[str, Any]]:
    return [{"rule": "–", "sentence": "–", "c": None} | dict(found) for found in verdict.get("refusals") or []]


def tiles(facts: Facts, verdict: Verdict, arm: str) -> list[Tile]:
    """The key figures: name, value, remark. Each names the arm; without a floor nothing is known at it."""
    knee = verdict.get("knee") or {}
    floor = knee.get("floor")
    planned = facts.ladder.planned if facts.ladder else None
    shown = {KNEE: f"[{knee.get('lo')}, {knee.get('hi')}]", NOT_OBSERVED: "not observed"}
    said = [
        ("knee", shown.get(str(knee.get("answer")), NOT_KNOWN), arm if floor is None else f"{arm}, floor c={floor}"),
        ("bound by", *_bound(verdict, arm)),
        *_at_floor(facts, verdict, arm, floor),
        ("rungs measured", str(len(facts.rungs)), f"{arm}, planned: {NOT_KNOWN if planned is None else len(planned)}"),
    ]
    return [(name, str(value), remark) for name, value, remark in said]


def _bound(verdict: Verdict, arm: str) -> tuple[str, str]:
    """What bound it, and a remark; nothing did where no knee was observed."""
    bound = verdict.get("bound")
    if bound == NOT_OBSERVED:
        return "nothing", f"{arm}, up to the top rung"
    return (bound, f"{arm}, runner-up {verdict.get('runner_up') or 'none'}") if bound else (NOT_KNOWN, arm)


def _at_floor(facts: Facts, verdict: Verdict, arm: str, floor: int | None) -> list[Tile]:
    if floor is None:
        said = "not quoted: refused" if verdict.get("verdict") == REFUSED else NOT_KNOWN
        return [(name, said, arm) for name in ("throughput", "p95", "worker CPU per turn")]
    level, where = facts.level(floor), f"{arm}, at c={floor}"
    bound, marginal, rest = facts.p95_bound_ms, *map(verdict.get, ("marginal_ms_per_turn", "background_ms_per_s"))
    known = marginal is not None and rest is not None
    further = f"; a further turn {marginal:.1f} ms, without turns {rest:.0f} ms a second" if known else ""
    return [
        ("throughput", per_second(level.get("throughput_tps")), where),
        ("p95", milliseconds(level.get("p95_ms")), f"{where}, bound {milliseconds(bound)}"),
        ("worker CPU per turn", milliseconds(level.get("worker_cpu_ms_per_turn")), f"{where}{further}"),
    ]


def about(ladder: Ladder, verdict: Verdict) -> Iterator[tuple[str, str]]:
    """What was measured, and what its number is and is not."""
    known = ABOUT.get(ladder.arm or "")
    yield "measured", _measured(ladder)
    yield "arm", arm_of(ladder.arm)
    if known:
        yield "asks", known.asks
        yield "its number is", known.number_is
    yield "duty", _duty(ladder)
    yield "second probe of the duty", _told(ladder.duty_second, DUTY)
    yield "basis of the duty", _basis(ladder)
    yield "commands per turn, before the ladder", _told(ladder.execs_per_turn)
    yield "model stub", _profile(ladder)
    yield "stub pinned by URL", f"{ladder.stub_url or 'not recorded'}; the target says {ladder.stub_url_echoed or '–'}"
    yield "workers (W)", _told(ladder.workers)
    yield "turns per worker (S)", _told(ladder.turns_per_worker)
    yield "sandboxes (K)", _told(ladder.pool)
    yield "leases per sandbox (cap)", _told(ladder.cap)
    yield "cores of the target", _told(ladder.cores)
    yield "host CPU at rest", _told(ladder.host_rest_pct, ".1f", " %")
    yield (
        "memory budget of a worker",
        "none" if ladder.rss_budget_bytes is None else words.mebibytes(ladder.rss_budget_bytes),
    )
    yield "a success is told by", ladder.success_by or words.NOT_MEASURED
    yield "event-loop lag", _lag(ladder)
    yield "turns per client and rung", _told(ladder.turns_per_client)
    yield "planned rungs", " ".join(ladder.planned) if ladder.planned is not None else "not recorded"
    degrade = verdict.get("degrade_x") or ladder.degrade_x or threshold("degrade_x")
    yield "p95 bound", f"{degrade:g} {THRESHOLDS['degrade_x'].unit}"
    yield "least knee", f"c={verdict.get('min_c') or ladder.min_c or int(threshold('min_c'))}"
    for name, says in ladder.unusable.items():
        yield f"{name}, as it stands", says


def measured_short(ladder: Ladder) -> str:
    """What was measured, in two words."""
    return {EMBEDDED: "embedded tier", None: "a target that is not named"}.get(ladder.measured, str(ladder.measured))


def _measured(ladder: Ladder) -> str:
    if ladder.measured is None:
        return "a target that is not named: the record is somebody else's, and nobody asked the target"
    if ladder.measured == EMBEDDED:
        return "the embedded tier: supervisor, workers, sandboxes, stub, relay and store on this machine"
    return f"the deployment at {ladder.measured}"


def _duty(ladder: Ladder) -> str:
    if ladder.duty is None:
        return words.NOT_MEASURED
    return f"{ladder.duty:{DUTY}} of a turn's wall time, counted and timed before the ladder"


def _basis(ladder: Ladder) -> str:
    if ladder.basis is None:
        return "not recorded"
    row = BASES.get(ladder.basis)
    if row is None:
        return ladder.basis if ladder.basis == NO_BASIS else f"{ladder.basis}, which is no row of recorded duty"
    return f"{ladder.basis} ({row.workload}): {row.duty[0]:g} to {row.duty[1]:g}"


def _profile(ladder: Ladder) -> str:
    if (profile := ladder.profile) is None:
        return "profile not recorded"
    return (
        f"{profile.ttft_ms:g} ms to the first token, {profile.token_delay_ms:g} ms a token, "
        f"{profile.output_tokens:g} tokens, {profile.tool_call_rate:g} tool calls a request"
    )


def _lag(ladder: Ladder) -> str:
    resolution = _told(ladder.lag_resolution_ms, "g", " ms")
    shown = {
        True: "a starved worker was shown to differ from an idle one",
        False: "a starved worker was shown not to differ from an idle one",
        None: "nobody showed that a starved worker differs from an idle one",
    }[ladder.lag_discriminates]
    return f"resolution {resolution}; {shown}, so lag {'may' if ladder.lag_discriminates else 'may not'} convict"


def _told(value: float | None, form: str = ",g", unit: str = "") -> str:
    return words.NOT_MEASURED if value is None else f"{value:{form}}{unit}"
