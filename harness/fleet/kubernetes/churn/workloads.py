"""What must hold on the cluster before the first roll: read, not only found, and each difference told by itself.

A Deployment that loses requests when it is rolled would make every later finding a finding about itself.
"""

from __future__ import annotations

import re
from pathlib import Path

from harness.errors import ClusterError, NotFoundError
from harness.fleet.base import Check
from harness.fleet.kubernetes.churn.calls import ClusterCalls, Document, Thing, count, objects, part
from harness.fleet.kubernetes.churn.schedule import UDS_CSI, Schedule

MANAGED = ("aether.io/managed", "true")
MANIFEST = Path(__file__).parent / "workloads.yaml"
LEAST_MIN_READY_S = 10
LEAST_SLEEP_S = 10.0
GRACE_MARGIN_S = 2.0
GRACE_UNSET_S = 30
QUIET = "--quiet"
SLEEP = re.compile(r"(?:^|[\s/])sleep\s+([0-9]+(?:\.[0-9]+)?)s?\b")


async def check_churn(schedule: Schedule, calls: ClusterCalls) -> list[Check]:
    """All checks of a schedule's objects: everything is read once, one check for each difference.

    A note is a check that holds and begins with ``note``.
    """
    checks: list[Check] = []
    documents: dict[Thing, Document] = {}
    for thing in _things(schedule):
        try:
            documents[thing] = await calls.read(thing)
        except NotFoundError:
            checks.append(Check(f"churn {thing}", False, "absent"))
        except ClusterError as error:
            checks.append(Check(f"churn {thing}", False, f"cannot be read: {error}"))
    to_be_made = any(Check(f"churn {thing}", False, "absent") in checks for thing in schedule.workloads)
    for thing in schedule.workloads:
        if thing in documents:
            waits, differs = differences(thing, documents[thing])
            checks += [Check(f"churn {thing}", False, text) for text in (*waits, *differs)]
            checks += [Check(f"churn {thing}", True, f"note: {text}") for text in notes(documents[thing])]
            to_be_made = to_be_made or bool(differs)
    if to_be_made:
        checks.append(Check("churn workloads", False, f"{MANIFEST.name} of the harness makes them as they must be"))
    unsound = {check.name for check in checks if not check.ok}
    for thing in documents:
        if (name := f"churn {thing}") not in unsound:
            checks.append(Check(name, True, "as it must be" if thing in schedule.workloads else "there"))
    return checks + [await _noted(thing, calls) for thing in schedule.noted]


def _things(schedule: Schedule) -> list[Thing]:
    found = dict.fromkeys(schedule.workloads)
    for step in schedule.done:
        found |= dict.fromkeys(step.things)
        if step.do == UDS_CSI and step.victim is not None:
            found[step.victim] = None
    return list(found)


async def _noted(thing: Thing, calls: ClusterCalls) -> Check:
    try:
        document = await calls.read(thing)
    except ClusterError as error:
        return Check(f"churn {thing}", True, f"note: {'absent' if isinstance(error, NotFoundError) else error}")
    return Check(
        f"churn {thing}", True,
        f"note: replicas={count(document, 'spec', 'replicas')} ready={count(document, 'status', 'readyReplicas')}",
    )  # fmt: skip


def differences(thing: Thing, document: Document) -> tuple[list[str], list[str]]:
    """Why a Deployment cannot be rolled without loss: what will pass by waiting, then what has to be changed."""
    replicas = count(document, "spec", "replicas")
    return _waits(document, replicas), [*_of_spec(thing, document, replicas), *_of_pod(document)]


def _waits(document: Document, replicas: int) -> list[str]:
    status = part(document, "status")
    available, updated, total = (count(status, key) for key in ("availableReplicas", "updatedReplicas", "replicas"))
    found = []
    if replicas and available != replicas:
        found.append(f"wait: {available} of {replicas} replicas are available")
    generation, observed = count(document, "metadata", "generation"), count(status, "observedGeneration")
    if not updated == total == replicas or observed != generation:
        found.append(
            f"wait: it is being rolled (updated={updated} total={total} replicas={replicas}, generation {observed} of "
            f"{generation} is observed)"
        )
    return found


def _of_spec(thing: Thing, document: Document, replicas: int) -> list[str]:
    spec = part(document, "spec")
    found = []
    if replicas == 0:
        found.append("replicas is 0, must be above")
    key, value = MANAGED
    if (label := part(spec, "template", "metadata", "labels", key)) != value:
        found.append(f"pod label {key} is {label!r}, must be {value!r}")
    account = part(spec, "template", "spec", "serviceAccountName") or "default"
    if account != thing.name:
        found.append(f"ServiceAccount is {account}, must be {thing.name}")
    strategy = part(spec, "strategy", "type") or "RollingUpdate"
    if strategy != "RollingUpdate":
        found.append(f"strategy is {strategy}, must be RollingUpdate")
    else:
        unavailable = part(spec, "strategy", "rollingUpdate", "maxUnavailable")
        if unavailable not in (0, "0", "0%"):
            found.append(f"maxUnavailable is {'unset' if unavailable is None else unavailable}, must be 0")
    if (ready_s := count(spec, "minReadySeconds")) < LEAST_MIN_READY_S:
        found.append(f"minReadySeconds is {ready_s}, must be {LEAST_MIN_READY_S} or more")
    return found


def _of_pod(document: Document) -> list[str]:
    pod = part(document, "spec", "template", "spec")
    containers = objects(pod, "containers")
    found = []
    sleeps = [sleep_s(container) for container in containers]
    if not any(sleep >= LEAST_SLEEP_S for sleep in sleeps):
        found.append(f"preStop sleeps {max(sleeps, default=0.0):g} s, must be {LEAST_SLEEP_S:g} or more")
    given = part(pod, "terminationGracePeriodSeconds")
    grace_s = given if isinstance(given, int) and not isinstance(given, bool) else GRACE_UNSET_S
    if grace_s < max(sleeps, default=0.0) + GRACE_MARGIN_S:
        found.append(
            f"termination grace is {grace_s} s, must be {GRACE_MARGIN_S:g} s above the sleep of {max(sleeps):g} s"
        )
    if not any(isinstance(container.get("readinessProbe"), dict) for container in containers):
        found.append("it has no readiness probe")
    return found


def sleep_s(container: Document) -> float:
    """How long a container's preStop hook sleeps, by its ``sleep`` or by a command that sleeps; 0 without one."""
    hook = part(container, "lifecycle", "preStop")
    if part(hook, "sleep") is not None:
        return float(count(hook, "sleep", "seconds"))
    command = part(hook, "exec", "command")
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    match = SLEEP.search(" ".join(words))
    return float(match[1]) if match else 0.0


def notes(document: Document) -> list[str]:
    """What is told, and decides nothing."""
    containers = objects(document, "spec", "template", "spec", "containers")
    words = [word for item in containers for key in ("command", "args") for word in (item.get(key) or [])]
    return [] if QUIET in words else [f"no server of it is started with {QUIET}, so that it may log every request"]
