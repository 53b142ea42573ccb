"""Statements of the evidence that disagree about one fact.

Rules judge one of the two. What the other says would be seen by nobody, and nothing tells which of them was damaged.
A statement that is absent, or that is not read here, contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from harness.store.contradictions import beside, run, within
from harness.store.readers import one_line
from harness.store.source import Json, Source
from harness.store.stated import Stated


def of_execution(execution: Json, stated: Stated, counted: Mapping[str, bool]) -> str | None:
    """The first contradiction of an execution, whose form was checked, with itself or with what is stated beside it.

    ``counted``: counter → whether its producer counts it, so that its absence is a 0.
    """
    found = chain(
        within.copies(execution),
        within.names(execution),
        within.requests(execution),
        within.times(execution),
        within.statistics(execution, counted),
        within.thresholds(execution),
        beside.shares(execution, stated),
        beside.plan(execution, stated.plan, stated.shares.get(execution["label"])),
        beside.started(execution, stated.log.running.get(execution["label"])),
        beside.log(execution, stated.log),
        beside.stream(execution, stated.stream),
        beside.times(execution, stated.times),
    )
    return next(map(one_line, found), None)


def of_run(source: Source, stated: Stated, *, duration_s: int | None, engines: int | None) -> str | None:
    """The first contradiction about the run as a whole. ``engines``: rows of the engine list, None without one."""
    found = chain(
        run.planned(stated, duration_s, engines),
        run.driven(source.executions, stated),
        run.together(source.executions),
        run.dated(source.executions, stated.dated),
        run.summary(source, stated.log),
        run.narrated(source, stated),
    )
    return next(map(one_line, found), None)
