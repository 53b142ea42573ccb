"""The schedule of a run, as its folder holds it, and the checks of it before the load and before the first roll."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from harness.errors import PlanError
from harness.fleet.base import Check
from harness.fleet.kubernetes.churn.cluster import Cluster
from harness.fleet.kubernetes.churn.schedule import Schedule, check_length, read_schedule, shipped
from harness.fleet.kubernetes.churn.undo import FILE, Say, Undo
from harness.fleet.kubernetes.churn.workloads import check_churn
from harness.fleet.kubernetes.config import ClusterConfig
from harness.plan.model import Roll
from harness.plan.schedule import read_schedule_tsv, schedule_tsv

SCHEDULE_FILE = "churn.toml"
"""In ``live/``: the schedule as it was given, byte for byte. schedule.tsv beside it is made of it."""
CHECK_PATIENCE_S = 15.0


@dataclass(frozen=True)
class PlannedChurn:
    """What a plan keeps of a schedule: the file byte for byte (``SCHEDULE_FILE``), and the rows of schedule.tsv."""

    content: bytes
    rolls: tuple[Roll, ...]


def plan_churn(
    choice: str,
    profile: str,
    *,
    namespace: str,
    system_namespace: str,
    image: str,
    settle_s: float,
    duration_s: int,
) -> PlannedChurn | None:
    """The churn that the setting ``churn`` asks for: ``off``, ``profile`` (none where it has no schedule), or a file.

    Raises PlanError for a schedule that cannot be, or is not for a load of ``duration_s``.
    """
    path = shipped(profile) if choice == "profile" else None if choice == "off" else Path(choice)
    if path is None:
        return None
    schedule = read_schedule(path, namespace=namespace, system_namespace=system_namespace, image=image)
    offset_s = schedule.offset_s(settle_s)
    check_length(schedule, duration_s=duration_s, offset_s=offset_s)
    return PlannedChurn(path.read_bytes(), schedule.rolls(offset_s))


def load_schedule(config: ClusterConfig) -> Schedule:
    """The schedule of a run. Raises PlanError when it is not the one that schedule.tsv was made of."""
    schedule = read_schedule(
        config.live / SCHEDULE_FILE,
        namespace=config.namespace,
        system_namespace=config.system_namespace,
        image=config.image,
    )
    offset_s = schedule.offset_s(config.settle_s)
    check_length(schedule, duration_s=config.duration_s, offset_s=offset_s)
    planned = config.folder.schedule
    try:
        rows = schedule_tsv(read_schedule_tsv(planned))
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{planned} cannot be read ({error}); make the plan of this run again") from error
    if rows != schedule_tsv(schedule.rolls(offset_s)):
        raise PlanError(f"{SCHEDULE_FILE} is not the schedule that {planned.name} of this run was made of")
    return schedule


def churn_checks(config: ClusterConfig) -> list[Check]:
    """The pre-flight of the churn, for the run's own; empty for a run without churn. Raises PlanError."""
    if not (config.live / SCHEDULE_FILE).exists():
        return []
    schedule = load_schedule(config)
    return asyncio.run(check_churn(schedule, Cluster(config, patience_s=CHECK_PATIENCE_S)))


def put_back_left(config: ClusterConfig, say: Say) -> bool:
    """Put back what a churn that was killed left changed; whether nothing of it is left. Not while a churn runs.

    Raises FleetError when the notes of it cannot be read.
    """
    return asyncio.run(Undo(config.live / FILE).put_back(Cluster(config), say))
