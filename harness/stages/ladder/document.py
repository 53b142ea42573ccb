"""The ladder as it stands, put together from its files: for the rules while it is climbed, and for the evidence."""

from __future__ import annotations

from typing import Any

from harness.e8.plan import LadderPlan
from harness.e8.reading import parse_ladder
from harness.e8.record import SCHEMA, TARGET_FACTS, WORKLOAD_FACTS, Ladder
from harness.e8.target import Target, silent
from harness.errors import EvidenceError, FleetError, LoadError
from harness.files import read_json, utc_stamp, write_json
from harness.fleet.tier import TierPlace
from harness.graph import receipts, rungs
from harness.graph.invocation import current
from harness.runs import RunFolder


def ladder(folder: RunFolder) -> Ladder:
    """The ladder so far. Raises ReportFormatError for a file of it that is not what it should be."""
    return parse_ladder(ladder_document(folder))


def ladder_document(folder: RunFolder) -> dict[str, Any]:
    """``ladder.json``: what is known of the target and the workload, and the record of every rung that was measured.

    Raises EvidenceError when one of these files cannot be read.
    """
    plan = TierPlace(folder).plan()
    own, planned = plan.settings.e8, rungs.planned(folder)
    target = _object(folder, folder.target_json.name) or {}
    workload = _object(folder, folder.workload_json.name) or {}
    records = [_object(folder, f"{name}.json") for name in measured(folder)]
    about = {key: target.get(key) for key in TARGET_FACTS} | {key: workload.get(key) for key in WORKLOAD_FACTS}
    pools = [record["pool"] for record in records if record and record.get("pool") is not None]
    return about | {
        "schema": SCHEMA,
        "run": folder.run,
        "arm": plan.arm,
        "basis": plan.basis,
        "pool": max(pools, default=None) if about["pool"] is None else about["pool"],
        "turns_per_client": own.turns_per_rung,
        "degrade_x": own.degrade_x,
        "min_c": own.min_c,
        "rss_budget_bytes": own.rss_budget_bytes or None,
        "planned": list(planned.names),
        "complete": planned.complete,
        "rungs": records,
    }


def measured(folder: RunFolder) -> list[str]:
    """The rungs that have a record, in the order in which they are planned."""
    return [name for name in rungs.planned(folder).names if folder.rung_json(name).exists()]


def stopped_in(folder: RunFolder) -> str | None:
    """The stage in which a rule refused the target, or a rung of it: no further rung is measured. None: in none."""
    for stage in ("workload", *rungs.planned(folder).names):
        receipt = receipts.read(folder, stage)
        if receipt and isinstance(receipt.outcome.get("refused"), str):
            return stage
    return None


def check_same_system(place: TierPlace) -> None:
    """Give the run up when rungs were measured and the embedded tier that carried them is gone.

    Raises LoadError: the rungs that are left would be of another system.
    """
    folder = place.folder
    done = measured(folder)
    if not done or place.plan().tier is None or place.is_up():
        return
    reason = f"the tier that carried {', '.join(done)} is gone, and further rungs would be of another system"
    saved = f"what was measured is kept: ./doit teardown:{folder.run} saves it"
    write_json(folder.closed, {"schema": 1, "run": folder.run, "at": utc_stamp(), "reason": reason, "saved": saved})
    raise LoadError(
        f"{reason}; {current().again(f'teardown:{folder.run}')} saves what was measured, "
        f"{current().again('e8')} starts a new ladder",
        run=folder.run,
    )


def check_it_answers(folder: RunFolder, target: Target) -> None:
    """Raise FleetError when a deployment gives no answer: what is asked of it then would be recorded as measured."""
    if target.tier is None and (url := silent(target)) is not None:
        raise FleetError(
            f"{url} gives no answer; start it and go on with {current().again(f'e8 run={folder.run}')}, "
            f"or end the ladder with {current().again(f'teardown:{folder.run}')}"
        )


def plan_of(folder: RunFolder) -> LadderPlan:
    """What the ladder is to be."""
    return TierPlace(folder).plan()


def _object(folder: RunFolder, name: str) -> dict[str, Any] | None:
    """A JSON object of the live files, None where there is none yet. Raises EvidenceError for another thing."""
    path = folder.live / name
    if not path.exists():
        return None
    try:
        document = read_json(path)
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{path} cannot be read ({error})", run=folder.run) from error
    if not isinstance(document, dict):
        raise EvidenceError(f"{path} holds no JSON object", run=folder.run)
    return document
