"""Records that look whole and are not: each part of the documented example that is made false is found, by name.

The same figures, rounded as a person writes them, contradict nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.e8.arms import REALISM
from harness.e8.grade import judge
from harness.e8.questions import Suspect, ask_of
from harness.e8.reading import parse_ladder
from harness.e8.text import render
from harness.e8.verdict import LadderVerdict
from harness.errors import ReportFormatError
from harness.gate.verdict import PASS, REFUSED, UNPROVEN
from harness.store.contradictions.ladder import of_ladder
from harness.store.contradictions.rung import half_unit
from tests.docs.test_ladder_record import REALISM_FACTS, examples

Document = dict[str, Any]
CPU = ("worker_cpu_s", "host_cpu_s", "sandbox_cpu")


def graded(document: Document) -> LadderVerdict:
    ladder = parse_ladder(document)
    return judge("e8-1", ladder, ask_of(ladder), of_ladder(ladder, None))


def example(change: Callable[[Document], object] | None = None, **facts: Any) -> Document:
    """The whole record of the page, with each of its rungs changed."""
    ladder = examples()[1] | facts
    for rung in ladder["rungs"] if change else ():
        change(rung)
    return ladder


def by_shares(**shares: Any) -> Callable[[Document], None]:
    """A rung that tells shares of CPU and no seconds."""

    def change(rung: Document) -> None:
        for key in CPU:
            del rung[key]
        rung |= {"sandbox_util": 1.0, **shares}

    return change


def of_worker(**values: Any) -> Callable[[Document], None]:
    return lambda rung: rung["workers"][0].update(values)


FALSE: dict[str, tuple[Callable[[Document], object], str]] = {
    "more than all of the workers' cores": (by_shares(worker_cpu_util=5000), "worker_cpu_util_pct 5000"),
    "more than all of the host": (by_shares(host_cpu_util=100_000), "host_cpu_util_pct 100000"),
    "two shares of the same cores": (
        by_shares(worker_cpu_util=90, worker_cpu_util_box=5),
        "worker_cpu_util_box_pct 5, and worker_cpu_util_pct come to 90",
    ),
    "a host that did less than its workers": (lambda r: r.update(host_cpu_s=0.01), "host_cpu_s 0.01, of which"),
    "workers that did more than all of them": (
        lambda r: [worker.update(cpu_s=4.0) for worker in r["workers"]],
        "worker_cpu_s 0.58, and cpu_s of its workers come to 8",
    ),
    "a worst lag that no worker had": (lambda r: r.update(lag_p99_worst_ms=900), "lag_p99_worst_ms 900"),
    "a worst lag below a worker's": (lambda r: r.update(lag_p99_worst_ms=0.5), "lag_p99_worst_ms 0.5"),
    "a median lag above its p99": (of_worker(lag_p99_median_ms=500), "lag_p99_median_ms 500 of worker 1"),
    "a p99 of the generator above its longest": (
        lambda r: r.update(generator_lag_p99_ms=40, generator_lag_max_ms=1),
        "generator_lag_p99_ms 40 above generator_lag_max_ms 1",
    ),
    "more leases than a sandbox gives": (lambda r: r.update(lease_saturation=5000), "lease_saturation 5000"),
    "more turns in a worker than clients": (of_worker(in_flight_max=5000), "in_flight_max 5000 of worker 1"),
    "more turns in all workers than clients": (lambda r: r.update(in_flight_max=5000), "in_flight_max 5000, and 1"),
    "one process twice": (
        lambda r: [worker.update(pid=5) for worker in r["workers"]],
        "two workers of pid 5",
    ),
    "latency of no turn": (lambda r: r.update(ok_n=0) if r["c"] == 32 else None, "p50_ms 352, and no turn"),
    "more in the rung than in all": (
        lambda r: r.update(over_admission=1, over_admission_delta=100),
        "over_admission_delta 100, and 1 in all",
    ),
    "more descriptors opened than open": (
        lambda r: r.update(descriptors=3, descriptors_delta=9),
        "descriptors_delta 9, and 3 in all",
    ),
    "execs of more turns than there were": (
        lambda r: r.update(execs=None, execs_per_turn={"1": 5000}),
        "execs_per_turn of 5000 turns, and 30 were attempted",
    ),
    "a profile that is told at the begin alone": (
        lambda r: r.update(system={"profile": "x"}, p50Ms=1, p95Ms=1, achieved_c=None),
        "the stub's profile alone",
    ),
}


@pytest.mark.parametrize(("change", "says"), FALSE.values(), ids=FALSE)
def test_what_cannot_be_is_a_contradiction(change: Callable[[Document], object], says: str) -> None:
    verdict = graded(example(change))
    assert verdict.word == REFUSED
    assert verdict.refusals[0].rule == "contradiction" and says in verdict.refusals[0].sentence, verdict.refusals[0]


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"turns_per_worker": 0}, "more than the 0 admitted"),
        ({"turns_per_worker": 1}, "more than the 2 admitted"),
        ({"cap": 0}, "a sandbox gives 0 leases"),
    ],
)
def test_a_target_that_holds_fewer_turns_than_clients_refuses_some(facts: Document, says: str) -> None:
    """Whether or not a rule asks for headroom: realism has none."""
    verdict = graded(example(**facts))
    assert verdict.word == REFUSED and any(says in refusal.sentence for refusal in verdict.refusals)


def test_a_stub_that_hardly_ever_calls_a_tool_runs_no_exec_each_turn() -> None:
    ladder = example()
    ladder["profile"]["toolCallRate"] = 1e-9
    assert "toolCallRate 1e-09" in str(graded(ladder).reason)


@pytest.mark.parametrize("word", ["status alone", "status", "STATUS", "stop reason ", "Stop reason", "anything", ""])
def test_only_the_stop_reason_tells_a_success(word: str) -> None:
    verdict = graded(example(success_by=word))
    assert (verdict.word, verdict.missing) == (UNPROVEN, ("whether a success had more than status 200",))


def test_a_p95_at_c1_that_its_own_turns_contradict_is_refused() -> None:
    """Of 30 turns two took p95 or longer, by nearest rank: twice 3 s do not fit into 3.2 s."""
    ladder = example()
    del ladder["rungs"][0]["p50Ms"]
    ladder["rungs"][0]["p95Ms"] = 3000
    assert "c1 had at least 1.8" in str(graded(ladder).reason)


def rounded(rung: Document) -> None:
    wall_ms = rung["wall_ms"]
    tps = 1000 * rung["ok_n"] / wall_ms
    rung |= {
        "wall_ms": round(wall_ms),
        "throughput": round(tps, 1 if tps >= 10 else 2),
        "success_rate": 1,
        "worker_cpu_util": round(50 * rung["worker_cpu_s"] / wall_ms * 1000),
        "host_cpu_util": round(50 * rung["host_cpu_s"] / wall_ms * 1000),
        "worker_cpu_ms_per_turn": round(1000 * rung["worker_cpu_s"] / rung["ok_n"]),
    }


def test_what_a_person_rounds_contradicts_nothing() -> None:
    assert graded(example(rounded)).word == PASS


@pytest.mark.parametrize(
    ("key", "times"), [("throughput", 1.02), ("throughput", 0.98), ("worker_cpu_util", 1.1), ("host_cpu_util", 0.9)]
)
def test_what_is_changed_by_more_than_rounding_does(key: str, times: float) -> None:
    ladder = example(rounded)
    ladder["rungs"][4][key] = round(times * ladder["rungs"][4][key], 2)
    assert graded(ladder).refusals[0].rule == "contradiction"


def test_a_success_rate_may_be_rounded_to_two_decimals_and_no_further() -> None:
    ladder = example()
    rung = ladder["rungs"][4]
    rung |= {"ok_n": 466, "execs": 466, "wall_ms": 5714.286, "success_rate": 0.97}
    assert graded(ladder).word == PASS
    rung["success_rate"] = 1
    assert "success_rate 1, and 466 of 480" in str(graded(ladder).reason)


def test_a_time_in_whole_ms_may_lie_below_one_with_decimals() -> None:
    ladder = example()
    ladder["rungs"][3] |= {"attempts": 8, "ok_n": 8, "execs": 8, "turns_per_client": 1, "wall_ms": 110, "p50Ms": 105}
    ladder["rungs"][3] |= {"p95Ms": 110.4, "worker_cpu_s": 0.15, "host_cpu_s": 0.15, "sandbox_cpu": 0.03}
    assert graded(ladder).word == PASS


def test_half_a_unit_of_the_last_decimal_is_what_rounding_moves() -> None:
    steps = [half_unit(value, 0.0005, 0.5) for value in (18, 9.4, 9.37, 9.365, 1e-7)]
    assert steps == pytest.approx([0.5, 0.05, 0.005, 0.0005, 0.0005])


def suspects(document: Document, bound: str) -> list[Suspect]:
    return [suspect for suspect in graded(document).suspects if suspect.bound == bound]


def test_refusals_that_were_not_counted_clear_nobody() -> None:
    """c=32 is cut off, and nobody says of what its turns failed: admission control is not seen, and says why."""
    ladder = example(lambda rung: rung.update(spurious_429=0) if rung["c"] < 32 else rung.update(ok_n=400, execs=400))
    del ladder["rungs"][5]["worker_cpu_s"]
    (unseen,) = suspects(ladder, "admission-control")
    assert (unseen.ratio, unseen.convicts) == (None, False) and "not every rung counted" in unseen.what
    ladder["rungs"][5]["spurious_429"] = 0
    (cleared,) = suspects(ladder, "admission-control")
    assert (cleared.ratio, cleared.convicts) == (0, False)


def test_refusals_of_one_repeat_are_not_those_of_all() -> None:
    ladder = example(lambda rung: rung.update(spurious_429=0))
    ladder["planned"] = None
    ladder["rungs"].append(ladder["rungs"][3] | {"repeat": 2, "spurious_429": None})
    (unseen,) = suspects(ladder, "admission-control")
    assert unseen.ratio is None


def test_failures_of_another_kind_are_no_want_of_a_lease() -> None:
    """The signature of a lease cap is told by successes, where failures are not known to be of something else."""
    capped = {"ok_n": 8 * 30, "execs": 8 * 30, "worker_cpu_s": None, "host_cpu_s": None}
    ladder = example(cap=2, **{**REALISM_FACTS, "turns_per_worker": 32})
    ladder["rungs"] = [rung for rung in ladder["rungs"] if rung["c"] <= 16]
    ladder["planned"] = None
    for rung in ladder["rungs"]:
        rung["lease_saturation"] = 1
    ladder["rungs"][4] |= capped
    assert suspects_before_contradiction(ladder) == [True]
    ladder["rungs"][4]["timed_out"] = 480 - 240
    assert suspects_before_contradiction(ladder) == [False]


def suspects_before_contradiction(document: Document) -> list[bool]:
    found = ask_of(parse_ladder(document)).suspects
    return [suspect.convicts for suspect in found if suspect.bound == "sandbox-pool"][:1]


def test_a_generator_whose_waiting_is_not_known_is_not_cleared() -> None:
    ladder = example(lambda rung: rung.update(generator_cpu_s=0.01))
    assert [suspect.ratio for suspect in suspects(ladder, "generator")] == [None]
    ladder = example(lambda rung: rung.update(generator_cpu_s=0.01, generator_wait_s=0))
    assert all((suspect.ratio or 0) > 0 for suspect in suspects(ladder, "generator"))


def test_a_least_knee_of_nothing_is_judged_and_told_alike() -> None:
    verdict = graded(example(min_c=0))
    assert verdict.min_c == 0 and any("the least knee is 0" in line for line in render(verdict))


@pytest.mark.parametrize("key", ["ok_n", "attempts", "execs", "pool"])
def test_a_count_that_no_ladder_has_is_refused_by_its_field(key: str) -> None:
    ladder = example()
    ladder["rungs"][2][key] = 10**10
    with pytest.raises(ReportFormatError, match=rf"^rung 3: {key} is 10000000000, and no count of a ladder is above"):
        parse_ladder(ladder)


@pytest.mark.parametrize(("mean", "word"), [(1.05, PASS), (0.5, REFUSED), (2, REFUSED)])
def test_realism_runs_as_many_execs_as_its_probe_did(mean: float, word: str) -> None:
    ladder = example(lambda rung: rung.update(execs=round(mean * rung["ok_n"])), **REALISM_FACTS)
    assert ladder["arm"] == REALISM and judge_alone(ladder) == word


def judge_alone(document: Document) -> str:
    ladder = parse_ladder(document)
    return judge("e8-1", ladder, ask_of(ladder)).word
