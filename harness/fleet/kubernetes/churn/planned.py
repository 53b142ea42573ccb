"""The schedule of a run, as its folder holds it, and the checks of it before the load and before the first roll."""

from __future__ import annotations

import asyncio

from harness.errors import PlanError
from harness.fleet.base import Check
from harness.fleet.kubernetes.churn.cluster import Cluster
from harness.fleet.kubernetes.churn.schedule import Schedule, check_length, read_schedule
from harness.fleet.kubernetes.churn.workloads import check_churn
from harness.fleet.kubernetes.config import ClusterConfig
from harness.plan.schedule import read_schedule_tsv, schedule_tsv

SCHEDULE_FILE = "churn.toml"
"""In ``live/``: the schedule as it was given, byte for byte. schedule.tsv beside it is made of it."""
CHECK_PATIENCE_S = 15.0


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
