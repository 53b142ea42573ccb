"""What the report says of the run as a whole, and what the plan, run.env, the log and the stream say of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from harness.store.driver_log import DriverLog
from harness.store.readers import moment
from harness.store.source import Json, Source
from harness.store.stated import Stated

SHOWN = 5  # names in one sentence
BEFORE_THE_LOAD = timedelta(hours=24)  # a run is set up and then driven
CLOCKS_APART = timedelta(hours=1)
STAGE = "stage-"


def planned(stated: Stated, duration_s: int | None, engines: int | None) -> Iterator[str]:
    """The engine list, run.env, the share table and plan.yaml are one plan."""
    plan = stated.plan
    if engines not in (None, stated.backends):
        yield f"engines.tsv lists {engines} engines, run.env says BACKENDS={stated.backends}"
    if plan.has_scenario is False:
        yield f"plan.yaml holds no scenario for {_listed(stated.shares)}"
    if None not in (plan.duration_s, duration_s) and plan.duration_s != duration_s:
        yield f"plan.yaml plans {plan.duration_s:g} s, run.env says DURATION_S={duration_s}"
    named, shared = [one.target or "?" for one in plan.targets], [one.target for one in stated.shares.values()]
    if plan.has_scenario and named != shared:
        yield f"plan.yaml names the targets {_listed(named) or 'none'}, shares.tsv {_listed(shared)}"


def driven(executions: Iterable[Json], stated: Stated) -> Iterator[str]:
    """Every scenario of the plan has an execution."""
    executions = list(executions)
    seen = {execution["label"].split("/", 1)[0] for execution in executions}
    seen |= {execution.get("scenario") for execution in executions}
    if undriven := [name for name in stated.plan.scenarios if name not in seen]:
        yield f"plan.yaml plans {_listed(undriven)}, and no execution is of it"


def together(executions: Iterable[Json]) -> Iterator[str]:
    """The targets of a scenario are driven at the same time, stage by stage."""
    ran: dict[tuple[str, str], list[tuple[datetime, datetime, str]]] = {}
    for execution in executions:
        start, end = moment(execution.get("started_at")), moment(execution.get("ended_at"))
        if start and end:
            parts = execution["label"].split("/")
            stage = parts[-1] if parts[-1].startswith(STAGE) else ""
            ran.setdefault((parts[0], stage), []).append((start, end, execution["label"]))
    for group in ran.values():
        _, ended, first = min(group, key=lambda one: one[1])
        started, _, last = max(group, key=lambda one: one[0])
        if started >= ended and first != last:
            yield f"{last} started at {started:%FT%TZ}, when {first} had ended: they are of two loads"


def dated(executions: Iterable[Json], stated: Mapping[str, datetime]) -> Iterator[str]:
    """What run.env dates was shortly before the load, which starts with its first execution, else its first result."""
    executions = list(executions)
    results = (result for execution in executions for result in execution.get("results") or [])
    starts = _starts(executions) or _starts(results)
    for key, at in stated.items():
        if starts and not -CLOCKS_APART <= min(starts) - at <= BEFORE_THE_LOAD:
            yield f"{key} of run.env is of {at:%FT%TZ}, the load started at {min(starts):%FT%TZ}"


def _starts(entries: Iterable[Json]) -> list[datetime]:
    return [start for entry in entries if (start := moment(entry.get("started_at")))]


def summary(source: Source, log: DriverLog) -> Iterator[str]:
    """The driver's last line counts what the report lists; a stream may hold less than what ran."""
    if log.summary is None:
        return
    executions = source.executions
    ran = [execution for execution in executions if execution.get("not_run") is not True]
    passed = sum(execution.get("pass") is True for execution in ran)
    says_pass = log.summary.startswith("PASS")
    if source.kind == "report":
        if (log.passed, log.ran) != (passed, len(ran)) or says_pass != (passed == len(executions)):
            yield f'sortie.log says "{log.summary}", and {passed} of {len(ran)} executions in the report passed'
        return
    failed = (log.ran or 0) - (log.passed or 0) + (log.not_run or 0)
    if max(failed, not says_pass) > len(executions) - passed:
        yield f'sortie.log says "{log.summary}", and {len(executions) - passed} executions in {source.file} failed'


def narrated(source: Source, stated: Stated) -> Iterator[str]:
    """Log, stream and times.tsv tell of no execution that is not there."""
    labels = {execution["label"] for execution in source.executions}
    for file, told in (
        ("sortie.log", stated.log.running), ("results.jsonl", stated.stream.executions), ("times.tsv", stated.times),
    ):  # fmt: skip
        if strange := sorted(set(told) - labels):
            yield f"{file} tells of {_listed(strange)}, and {source.file} does not"
    if stated.stream.strangers:
        yield f"results.jsonl holds {stated.stream.strangers} lines that are no executions"


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
