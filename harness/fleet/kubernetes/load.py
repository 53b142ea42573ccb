"""The one load of a run: a Job that is made once, found again by its uid, and never made a second time.

Before helm is asked for it, an intent is on disk; as soon as the Job is seen, its uid is. Whoever comes later, after
any death, attaches to that Job. A load of which nobody knows whether it began is started only when neither a Job nor a
file of it on the volume says that it did; the driver, too, refuses a run whose claim lies there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import FleetError, LoadError
from harness.files import read_json, utc_stamp, write_json
from harness.fleet.kubernetes.answers import Document, metadata, uid
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.chart import Helm
from harness.fleet.kubernetes.config import ClusterConfig
from harness.fleet.kubernetes.document import change_fleet, read_fleet
from harness.fleet.kubernetes.objects import ensure_priority_class
from harness.fleet.kubernetes.reader import Reader
from harness.fleet.kubernetes.runenv import append_run_env

JOB_TRIES, JOB_POLL_S = 30, 2.0
RUN_LOG = "helm-run.log"
ACTIVE, COMPLETE, FAILED, GONE = "active", "complete", "failed", "gone"
OVER = (COMPLETE, FAILED, GONE)


@dataclass(frozen=True)
class Job:
    """The Job of the load. ``t_job_s`` is when it was first seen, in Unix seconds."""

    name: str
    uid: str
    t_job_s: int


def start(
    config: ClusterConfig,
    api: Api,
    helm: Helm,
    chart: Path,
    plan: str,
    reader: Callable[[], Reader],
    *,
    sleep: Callable[[float], object] = time.sleep,
) -> Job:
    """Start the load, or attach to it. Returns its Job, whose uid is on disk by then.

    ``chart`` is the packed chart and ``plan`` the text of the plan; ``reader`` is called only after a death.
    Raises LoadError when it began before and its Job is gone, FleetError when the release holds another run's Job or
    helm cannot make this one.
    """
    job = attach(config, api)
    if job is not None:
        return job
    _check_free(config, api)
    if read_fleet(config).load_asked_at:
        _check_unbegun(config, reader())
    ensure_priority_class(api, config.priority_class)
    asked_at = utc_stamp()
    write_json(config.folder.intent, {**_about(config), "asked_at": asked_at})
    change_fleet(config, load_asked_at=asked_at)
    try:
        helm.install(api, chart, plan=plan, log=RUN_LOG)
    except FleetError:
        job = attach(config, api)  # helm may have failed after it made the Job
        if job is None:
            raise
        return job
    for _ in range(JOB_TRIES):
        job = attach(config, api)
        if job is not None:
            return job
        sleep(JOB_POLL_S)
    raise FleetError(
        f"helm has installed the driver, and there is no Job of release {config.release} in {config.namespace} within "
        f"{JOB_TRIES * JOB_POLL_S:g} s; look at {RUN_LOG} and at the namespace's events"
    )


def attach(config: ClusterConfig, api: Api) -> Job | None:
    """The Job of this run's load: as it was noted, else as the API has it, and then noted at once.

    None when no load was started, as far as the API knows. Raises FleetError when two Jobs are there for one run.
    """
    job = noted(config)
    if job is None:
        found = find(config, api)
        if found is None:
            return None
        job = Job(str(metadata(found)["name"]), uid(found), int(time.time()))
        write_json(config.folder.intent, {**_about(config), "job": job.name, "uid": job.uid, "t_job_s": job.t_job_s})
    append_run_env(config.folder.run_env, JOB=job.name, JOB_UID=job.uid, T_JOB=job.t_job_s)
    return job


def noted(config: ClusterConfig) -> Job | None:
    """The Job that intent.json names, None when it names none."""
    about = intent(config)
    try:
        return Job(str(about["job"]), str(about["uid"]), int(about["t_job_s"]))
    except (KeyError, TypeError, ValueError):
        return None


def intent(config: ClusterConfig) -> dict[str, Any]:
    """intent.json, empty when there is none. Raises LoadError when it cannot be read: it may name a load."""
    try:
        document = read_json(config.folder.intent)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise LoadError(
            f"{config.folder.intent} cannot be read ({error}), so nobody knows of this run's load"
        ) from error
    return document if isinstance(document, dict) else {}


def find(config: ClusterConfig, api: Api) -> Document | None:
    """The Job whose driver writes this run's report. Raises FleetError when there are two."""
    mine = [job for job in api.select("Job", config.namespace, labels=config.instance_labels) if _is_of(config, job)]
    if len(mine) > 1:
        names = ", ".join(sorted(str(metadata(job).get("name")) for job in mine))
        raise FleetError(f"two Jobs write the report of run {config.run_tag}: {names}; nothing of them can be graded")
    return mine[0] if mine else None


def look(config: ClusterConfig, api: Api, job: Job, *, patience_s: float | None = None) -> Document | None:
    """That very Job as it stands; None when it is gone, also when another bears its name now."""
    found = api.find("Job", job.name, config.namespace, patience_s=patience_s)
    return found if found is not None and uid(found) == job.uid else None


def state_of(job: Document | None) -> str:
    """``complete``, ``failed``, ``active`` or ``gone``."""
    if job is None:
        return GONE
    conditions = (job.get("status") or {}).get("conditions") or []
    true = {str(condition.get("type")) for condition in conditions if condition.get("status") == "True"}
    return COMPLETE if "Complete" in true else FAILED if "Failed" in true else ACTIVE


def driver_pods(config: ClusterConfig, api: Api, job: Job) -> list[Document]:
    """The pods that the Job made, oldest first. The first is the driver; one after it only stands for a deleted one."""
    pods = api.select("Pod", config.namespace, labels=f"job-name={job.name}")
    own = [pod for pod in pods if any(o.get("uid") == job.uid for o in metadata(pod).get("ownerReferences") or [])]
    return sorted(own, key=lambda pod: (str(metadata(pod).get("creationTimestamp")), str(metadata(pod).get("name"))))


def phase_of(pod: Document) -> str:
    """The pod's phase, empty before it has one."""
    return str((pod.get("status") or {}).get("phase") or "")


def _is_of(config: ClusterConfig, job: Document) -> bool:
    return any(word == config.report_path or word.endswith(f"={config.report_path}") for word in _arguments(job))


def _arguments(job: Document) -> Iterator[str]:
    with suppress(KeyError, TypeError):
        for container in job["spec"]["template"]["spec"]["containers"]:
            yield from map(str, [*(container.get("command") or []), *(container.get("args") or [])])


def _check_free(config: ClusterConfig, api: Api) -> None:
    """An upgrade would take the Job of another run away, and with it its load."""
    jobs = api.select("Job", config.namespace, labels=config.instance_labels)
    others = sorted(str(metadata(job).get("name")) for job in jobs)
    if others:
        raise FleetError(
            f"release {config.release} in {config.namespace} has a Job of another run ({', '.join(others)}): "
            "save it and tear it down first, or take another k8s.release="
        )


def _check_unbegun(config: ClusterConfig, reader: Reader) -> None:
    for path in (f"{Path(config.report_path).parent}/{config.stream_name}", config.report_path):
        if reader.read(path) is not None:
            raise LoadError(
                f"the load of this run began, since {path} is on the volume, and its Job is gone; it is never started "
                "twice"
            )


def _about(config: ClusterConfig) -> dict[str, Any]:
    return {
        "schema": 1,
        "what": "load",
        "run": config.run_tag,
        "context": config.context,
        "namespace": config.namespace,
        "release": config.release,
        "report": config.report_path,
    }
