"""Grading a ladder: its tables → a verdict, kept beside the earlier ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.e8 import refusals, usl
from harness.e8.arms import Claimed, claim, threshold
from harness.e8.notes import notes_on_answer, notes_on_rungs
from harness.e8.questions import NOTHING, Answers, Row, Suspect, ask, database, hold_against, ladder_in, load_files
from harness.e8.record import Ladder, Rung
from harness.e8.refusals import Refusal
from harness.e8.rung_rules import generator_bound
from harness.e8.text import render
from harness.e8.verdict import KNEE, NOT_OBSERVED, Knee, LadderVerdict
from harness.errors import EvidenceError
from harness.files import sha256_file, sha256_text
from harness.gate.saved import check_evidence, read_tables_index
from harness.gate.store import store
from harness.gate.verdict import FAIL, PASS, REFUSED, UNPROVEN
from harness.runs import RunFolder
from harness.sqlfiles import sql_files
from harness.store.columns import LADDER
from harness.store.kinds import tables_of
from harness.store.ladder_evidence import LadderEvidence, read_ladder_evidence
from harness.store.made import check_run, check_tables

GENERATOR_RULE = generator_bound.__name__
BESIDE = "the files that a harness leaves beside a ladder that it measured"
"""What is missing where a record says that a harness measured it, and nothing there proves it."""


def grade_run(folder: RunFolder) -> tuple[LadderVerdict, Path]:
    """Grade a ladder and store the verdict; returns it with its file. What cannot be graded is REFUSED, and stored too.

    Raises EvidenceError when the run has no tables at all: then nothing was there to be graded, and nothing is stored.
    """
    index = read_tables_index(folder)
    try:
        if index["refused"] is not None:
            raise EvidenceError(str(index["refused"]))
        check_run(folder, index["run"], folder.tables_index.name)
        sums = check_evidence(folder, index["sums_sha256"])
        files = check_tables(folder, index["tables"], tables_of(LADDER))
        verdict = grade(files, read_ladder_evidence(folder.evidence, run=folder.run, files=sums))
        check_run(folder, verdict.run, "tables")
    except EvidenceError as error:
        verdict = refused(folder.run, error.message)
    return verdict, store(folder.verdicts, verdict.to_json(), render(verdict), sha256_file(folder.tables_index))


def grade(files: Mapping[str, Path], evidence: LadderEvidence | None = None) -> LadderVerdict:
    """The verdict of the ladder whose tables these are; no other file is read.

    ``evidence``: what they were made from, which they must hold, and by which a measured ladder is proven. Raises
    EvidenceError.
    """
    with database() as connection:
        load_files(connection, files)
        run, ladder = ladder_in(connection)
        (contradiction,) = connection.execute("SELECT contradiction FROM ladders").fetchone() or (None,)
        missing: tuple[str, ...] = ()
        if evidence is not None:
            hold_against(connection, run, evidence.rows)
            contradiction = evidence.contradiction
            missing = (BESIDE,) if ladder.probed and not evidence.proven else ()
        return judge(run, ladder, ask(connection).get(run, NOTHING), contradiction, missing)


def refused(run: str, reason: str) -> LadderVerdict:
    """A ladder that could not even be read, and why."""
    return LadderVerdict(run=run, word=REFUSED, reason=reason, gate_sha256=digest())


def judge(
    run: str, ladder: Ladder, answers: Answers, contradiction: str | None = None, missing: tuple[str, ...] = ()
) -> LadderVerdict:
    """The verdict from what the rules and the SQL say of a ladder.

    ``contradiction`` is what its record says twice, ``missing`` are facts that are not there beside those of the rules.
    """
    found = refusals.all_of(ladder)
    against = refusals.together(refusal for refusal in found.refusals if not _needless(refusal, answers.knee))
    cost = answers.worker_cpu if answers.worker_cpu.get("fits") else {}
    if contradiction is not None:
        against = (Refusal("contradiction", contradiction), *against)
    about = LadderVerdict(
        run=run,
        word=REFUSED,
        arm=ladder.arm,
        measured=ladder.measured,
        refusals=against,
        missing=(*found.missing, *missing),
        degrade_x=ladder.degrade_x or threshold("degrade_x"),
        min_c=int(threshold("min_c")) if ladder.min_c is None else ladder.min_c,
        marginal_ms_per_turn=cost.get("marginal_ms_per_turn"),
        marginal_range_ms=(cost["lo_ms_per_turn"], cost["hi_ms_per_turn"]) if cost else None,
        background_ms_per_s=cost.get("background_ms_per_s"),
        notes=tuple(notes_on_rungs(ladder)),
        facts=_facts(ladder),
        rungs=tuple(_rungs(ladder, answers)),
        gate_sha256=digest(),
    )
    if against or answers.knee is None:
        reason = against[0].sentence if against else "no rung can be held against c=1"
        of_client = any(refusal.rule == GENERATOR_RULE for refusal in against)
        return dataclasses.replace(about, reason=reason, bound="generator" if of_client else None)
    return _judged(about, ladder, answers, answers.knee)


def _needless(refusal: Refusal, knee: Row | None) -> bool:
    """A rung that measured its generator is left out; where the knee lies below it, the ladder does not need it."""
    found = knee is not None and knee["answer"] == KNEE and knee["hi_c"] is not None
    return refusal.rule == GENERATOR_RULE and found and knee is not None and (refusal.c or 0) > knee["hi_c"]


def _judged(about: LadderVerdict, ladder: Ladder, answers: Answers, row: Row) -> LadderVerdict:
    """The verdict of a ladder against which no rule stands."""
    knee = Knee(row["answer"], row["floor_c"], row["lo_c"], row["hi_c"])
    saturated = knee.answer == KNEE
    bound, runner_up = _bound(answers.suspects) if saturated else (NOT_OBSERVED, None)
    least, floor = about.min_c or 0, knee.floor or 0
    missing = about.missing
    if not saturated and floor < least:
        missing += (f"a rung of c={least}, the least knee: the ladder ends at {ladder.top}",)
    missing += tuple(_too_few(answers, floor))
    missing += tuple(_cut_unsaid(ladder))
    under = f"the knee is at {floor}, under the least of {least}" if saturated and floor < least else None
    gaps = f"not recorded: {'; '.join(missing)}" if missing else None
    level = next(level for level in answers.levels if level["c"] == floor)
    claimed = Claimed(
        measured=_measured(ladder),
        floor=floor,
        saturated=saturated,
        throughput_tps=level["throughput_tps"],
        workers=ladder.workers,
        turns_per_worker=ladder.turns_per_worker,
        pool=ladder.pool,
        basis=ladder.basis,
        duty=ladder.duty,
        worker_cpu_ms_per_turn=level["worker_cpu_ms_per_turn"],
        worker_cpu_ms_marginal=about.marginal_range_ms,
    )
    stands = [(rung.c, rung.throughput_tps) for rung in map(ladder.settle, ladder.rungs)]
    whole = {level["c"] for level in answers.levels if level["in_ladder"]}
    return dataclasses.replace(
        about,
        word=UNPROVEN if gaps else FAIL if under else PASS,
        reason=gaps or under,
        knee=knee,
        saturated=saturated,
        bound=bound,
        runner_up=runner_up,
        suspects=answers.suspects,
        missing=missing,
        notes=(*about.notes, *notes_on_answer(ladder, answers, knee, bound, under if gaps else None)),
        claim=claim(ladder.arm, claimed) if ladder.arm and not missing else None,
        usl=usl.fit([(c, tps) for c, tps in stands if c in whole and tps is not None]),
    )


def _too_few(answers: Answers, floor: int) -> Iterator[str]:
    """The turns that the answer would have to rest on, where its bound or its floor rests on fewer."""
    least = threshold("claim_turns")
    for level in answers.levels:
        if level["c"] in (1, floor) and level["ok"] is not None and level["ok"] < least:
            yield f"{least:g} turns that succeeded at c={level['c']} ({level['ok']:g} did)"


def _cut_unsaid(ladder: Ladder) -> Iterator[str]:
    """How a rung ended that says so itself no more than that turns were left unsent."""
    for rung in ladder.rungs:
        if rung.ended is None and rung.attempts is not None and rung.attempts < (rung.planned_turns or 0):
            yield f"how {rung.name} ended ({rung.attempts} of {rung.planned_turns} turns were attempted)"


def _bound(suspects: Iterable[Suspect]) -> tuple[str, str | None]:
    """The first tier that is convicted, and of the others the one that came nearest to its threshold; None was near."""
    bound = next((suspect.bound for suspect in suspects if suspect.convicts), "unattributed")
    near = threshold("runner_up")
    others = [suspect for suspect in suspects if suspect.bound != bound and (suspect.ratio or 0) >= near]
    nearest = max(others, key=lambda suspect: suspect.ratio or 0, default=None)
    return bound, nearest.bound if nearest else None


def _measured(ladder: Ladder) -> str:
    return {"embedded": "the embedded tier", None: "a target that is not named"}.get(
        ladder.measured, str(ladder.measured)
    )


def _facts(ladder: Ladder) -> dict[str, Any]:
    """What was known of the target: the ladder's fields but for rungs and what stands in the verdict itself."""
    facts = ladder.to_json()
    return {name: value for name, value in facts.items() if name not in ("schema", "rungs", "arm", "measured")}


SHOWN = (
    "ended",
    "cut_tries",
    "attempts",
    "ok",
    "success_rate",
    "refused_429",
    "refused_503",
    "errors_in_200",
    "timed_out",
    "failed_otherwise",
    "wall_ms",
    "throughput_tps",
    "p50_ms",
    "p95_ms",
    "achieved_c",
    "execs",
    "execs_per_turn",
    "worker_cpu_s",
    "worker_cpu_ms_per_turn",
    "worker_cpu_util_pct",
    "worker_cpu_util_box_pct",
    "host_cpu_s",
    "host_cpu_util_pct",
    "sandbox_cpu_s",
    "sandbox_util_pct",
    "generator_cpu_s",
    "generator_wait_s",
    "lease_saturation",
    "file_op_p95_ms",
)
"""Of a rung, what stands in a verdict; the tables hold all of it."""


def _rungs(ladder: Ladder, answers: Answers) -> Iterator[Row]:
    levels: dict[int, Row] = {level["c"]: level for level in answers.levels}
    walked: dict[int, bool] = {row["c"]: row["healthy"] for row in answers.walk}
    for recorded in sorted(ladder.rungs, key=lambda rung: (rung.c, rung.repeat)):
        rung = ladder.settle(recorded)
        level = levels[rung.c]
        healthy = walked.get(rung.c)
        state = "above" if healthy is None else "healthy" if healthy else "miss"
        yield {
            "name": rung.name,
            "c": rung.c,
            "repeat": rung.repeat,
            "arm": ladder.arm,
            "state": state if level["in_ladder"] else "generator" if level["client_bound"] else "cut",
            **{name: getattr(rung, name) for name in SHOWN},
            "lag_p99_ms": _worst(rung, "lag_p99_ms") or rung.lag_p99_worst_ms,
            "rss_bytes": _worst(rung, "rss_bytes"),
            "connections_per_1000_turns": _per_1000(rung, rung.store_connections_delta),
            "descriptors_per_1000_turns": _per_1000(rung, rung.descriptors_delta),
            "why_unknown": dict(rung.why_unknown),
        }


def _worst(rung: Rung, name: str) -> float | None:
    return max((value for worker in rung.workers if (value := getattr(worker, name)) is not None), default=None)


def _per_1000(rung: Rung, grown: int | None) -> float | None:
    return 1000 * grown / rung.attempts if grown is not None and rung.attempts else None


def files() -> list[Path]:
    """Every file whose change must grade a ladder again: the SQL, the rules and numbers, the schemas."""
    from harness.store import columns, database, kinds, ladder_evidence, ladder_files, ladder_schemas, readers
    from harness.store.contradictions import beside_rungs
    from harness.store.contradictions import ladder as of_ladder
    from harness.store.contradictions import rung as of_rung
    from harness.store.formats import e8

    here = Path(__file__).parent
    own = (
        "arms",
        "figures",
        "grade",
        "notes",
        "questions",
        "reading",
        "readings",
        "record",
        "refusals",
        "rules",
        "rung_rules",
        "text",
        "turns",
        "usl",
        "verdict",
    )
    read = (
        columns,
        database,
        kinds,
        ladder_evidence,
        ladder_files,
        ladder_schemas,
        readers,
        of_ladder,
        beside_rungs,
        of_rung,
        e8,
    )
    modules = [Path(str(module.__file__)) for module in read]
    return [*sql_files("e8"), *(here / f"{name}.py" for name in own), *modules]


def digest() -> str:
    """SHA-256 over the names and contents of ``files()``."""
    return sha256_text("".join(f"{sha256_file(path)}  {path.parent.name}/{path.name}\n" for path in files()))
