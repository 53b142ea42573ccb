"""Why a ladder may not be quoted: one small function per rule, each with its own sentence.

A rule looks at a ladder, or at one of its rungs, and gives None where it holds, a sentence where it does not, or
``Unknown`` where the fact it needs is not there. Of a target that a harness asked itself, a fact that could not be had
is a refusal like any other; of somebody else's record it is a gap, which leaves the ladder unproven.

The driver asks ``before`` any turn is sent, ``after_first`` rung and ``after_rung``; a grading asks ``all_of``. Rules
that belong to one arm say so themselves, so that each is judged in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from harness.e8 import rules, rung_rules
from harness.e8.record import Ladder, Rung
from harness.e8.rules import Said, Unknown


@dataclass(frozen=True)
class Refusal:
    """A rule that does not hold, and of which rung, where it is one's."""

    rule: str
    sentence: str
    c: int | None = None


@dataclass(frozen=True)
class Found:
    """What the rules came to; ``missing`` are the facts that are not there, each once."""

    refusals: tuple[Refusal, ...] = ()
    missing: tuple[str, ...] = ()


NAMED_RUNG = re.compile(r"\bc[1-9][0-9]*(?:\.r[0-9]+)?\b")
PERCENTAGE = re.compile(r"[0-9.]+ ?%")
MOST_NAMED = 4

Check = Callable[[Ladder], Said]
RungCheck = Callable[[Ladder, Rung], Said]

BEFORE: tuple[Check, ...] = (
    rules.arm_unknown,
    rules.no_first_rung,
    rules.stub_not_pinned,
    rules.profile_unusable,
    rules.profile_of_another_arm,
    rules.no_tool_calls,
    rules.workers_unknown,
    rules.admission_headroom,
    rules.basis_of_another_arm,
    rules.duty_out_of_band,
    rules.not_one_exec,
    rules.success_untold,
    rules.host_not_at_rest,
)
AFTER_FIRST: tuple[Check, ...] = (
    rules.no_success,
    rules.first_rung_late,
    rules.first_rung_unsteady,
    rules.pool_unobserved,
    rules.pool_under_floor,
    rules.lease_headroom,
)
OF_A_RUNG: tuple[RungCheck, ...] = (
    rung_rules.nothing_attempted,
    rung_rules.workers_miscounted,
    rung_rules.worker_frozen,
    rung_rules.store_leak,
    rung_rules.host_shared,
    rung_rules.generator_bound,
    rung_rules.execs_off,
    rung_rules.sandbox_unmeasured,
    rung_rules.sandbox_over_ceiling,
    rung_rules.unmeasured_turns,
)
AT_THE_END: tuple[Check, ...] = (
    rung_rules.system_changed,
    rung_rules.success_under_floor,
    rung_rules.rungs_missing,
    rung_rules.rungs_unplanned,
)


def before(ladder: Ladder) -> Found:
    """Judge a ladder of which no rung was measured yet."""
    return _found(ladder, ((check.__name__, check(ladder), None) for check in BEFORE))


def after_first(ladder: Ladder) -> Found:
    """Judge the facts that only turns make known."""
    return _found(ladder, ((check.__name__, check(ladder), None) for check in AFTER_FIRST))


def after_rung(ladder: Ladder, rung: Rung) -> Found:
    """Judge one rung."""
    return _found(ladder, ((check.__name__, check(ladder, rung), rung.c) for check in OF_A_RUNG))


def all_of(ladder: Ladder) -> Found:
    """Judge a finished ladder by every rule."""
    return _found(ladder, _all(ladder))


def together(refusals: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """The refusals, those that say the same of several rungs as one that names them, percentages apart."""
    alike: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in refusals:
        bare = PERCENTAGE.sub("", NAMED_RUNG.sub("", refusal.sentence)) if refusal.c is not None else refusal.sentence
        alike.setdefault((refusal.rule, bare), []).append(refusal)
    return tuple(_as_one(group) for group in alike.values())


def _as_one(group: list[Refusal]) -> Refusal:
    """The first of them: in its own words where those are all the same, else with the other rungs behind them."""
    first, names = group[0], [found.group() for each in group if (found := NAMED_RUNG.search(each.sentence))]
    if len(names) < 2:
        return first
    if len({NAMED_RUNG.sub("", each.sentence) for each in group}) == 1:
        return replace(first, sentence=NAMED_RUNG.sub(listed(names), first.sentence, count=1))
    return replace(first, sentence=f"{first.sentence}; likewise at {listed(names[1:])}")


def listed(names: list[str]) -> str:
    """Names of rungs in a sentence: of many, the first two and the last."""
    return ", ".join(names) if len(names) <= MOST_NAMED else f"{names[0]}, {names[1]}, … {names[-1]}"


def _all(ladder: Ladder) -> Iterator[tuple[str, Said, int | None]]:
    for check in (*BEFORE, *AFTER_FIRST):
        yield check.__name__, check(ladder), None
    for of_rung in OF_A_RUNG:
        for rung in ladder.rungs:
            yield of_rung.__name__, of_rung(ladder, rung), rung.c
    for check in AT_THE_END:
        yield check.__name__, check(ladder), None


def _found(ladder: Ladder, said: Iterable[tuple[str, Said, int | None]]) -> Found:
    refusals: list[Refusal] = []
    missing: list[str] = []
    for rule, says, c in said:
        if isinstance(says, Unknown) and (says.sentence is None or not ladder.probed):
            missing += [says.what] if says.what not in missing else []
        elif says is not None:
            sentence = says if isinstance(says, str) else str(says.sentence)
            refusals.append(Refusal(rule, sentence, c))
    return Found(tuple(refusals), tuple(missing))
