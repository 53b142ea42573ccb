"""What each execution came to: the slots of all backends → one entry of the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from harness.driver.link import EngineLink, Slot
from harness.driver.protocol import label_of
from harness.plan.model import Plan, PlannedTarget
from harness.sortie.report import EXECUTION_CAP, BackendError, BackendResult, Execution
from harness.sortie.thresholds import Threshold, judge


def executions(
    plan: Plan,
    thresholds: Sequence[Threshold],
    links: Sequence[EngineLink],
    *,
    dispatched_s: float,
    dispatched_unix_ms: int,
    cancelled: str | None,
) -> list[Execution]:
    """All executions in plan order, once every slot has ended.

    ``dispatched_s`` is monotonic. ``cancelled`` says who asked to stop the load, None when nobody did.
    """
    refusal = None if cancelled else _refusal(links)
    entries = []
    for target in plan.targets:
        slots = [link.slots[label_of(plan, target)] for link in links]
        ended_s = max(slot.ended_s or dispatched_s for slot in slots)
        started = {
            "elapsed_ms": max(0, int((ended_s - dispatched_s) * 1000)),
            "started_unix_ms": dispatched_unix_ms,
        }
        if cancelled:
            told: dict[str, Any] = {"error": f"execution cancelled: {cancelled}"}
        elif refusal:
            told = {"error": refusal, "refused": EXECUTION_CAP, "backend_errors": _errors(slots)}
        else:
            told = _judged(slots, thresholds)
        entries.append(_execution(plan, target, links, **started, **told))
    return entries


def announced(plan: Plan, links: Sequence[EngineLink]) -> list[Execution]:
    """The executions as they are about to run, for the log's first lines."""
    return [_execution(plan, target, links) for target in plan.targets]


def histogram_rows(slots: Iterable[Slot]) -> list[dict[str, Any]]:
    """``{label, backend, id, hdr}`` for every histogram that came with a result."""
    return [
        {"label": slot.label, "backend": slot.backend, "id": name, "hdr": encoded}
        for slot in slots
        if slot.result
        for name, encoded in sorted(slot.result.histograms.items())
    ]


def _execution(plan: Plan, target: PlannedTarget, links: Sequence[EngineLink], **told: Any) -> Execution:
    return Execution(
        label=label_of(plan, target),
        scenario=plan.scenario,
        pool=plan.pool,
        rate_rps=target.rate_rps,
        duration_ms=plan.duration_s * 1000,
        dns=plan.dns,
        backends=tuple(link.backend for link in links),
        **told,
    )


def _judged(slots: Sequence[Slot], thresholds: Sequence[Threshold]) -> dict[str, Any]:
    results = tuple(slot.result for slot in slots if slot.result)
    errors = _errors(slots)
    if not results:
        lost = "\n".join(f"backend {error.backend}: {error.error}" for error in errors)
        return {"error": lost or "no backend returned anything", "backend_errors": errors}
    survivors: list[BackendResult] = [slot.result for slot in slots if slot.result and not slot.error]
    return {
        "thresholds": tuple(judge(threshold, survivors) for threshold in thresholds),
        "results": results,
        "backend_errors": errors,
    }


def _errors(slots: Iterable[Slot]) -> tuple[BackendError, ...]:
    return tuple(slot.error for slot in slots if slot.error)


def _refusal(links: Sequence[EngineLink]) -> str | None:
    """One refusal at the cap stops the whole scenario, so every execution carries it."""
    for link in links:
        for slot in link.slots.values():
            if slot.error and slot.error.refused:
                return f"backend {link.backend} refused a start because the engine is at its execution cap"
    return None
