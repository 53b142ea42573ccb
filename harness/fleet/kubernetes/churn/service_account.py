"""A pod whose ServiceAccount did not exist a moment ago asks every target: a new identity must be let in at once.

The pod tells its tally in its termination message, so that neither exec nor logs are needed. Both objects are noted
before they are made and deleted after, whatever happens.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.errors import ClusterError, ConflictError
from harness.fleet.kubernetes.churn.calls import Document, Thing, is_ready, objects, part
from harness.fleet.kubernetes.churn.ground import Ground, StepFailedError
from harness.fleet.kubernetes.churn.schedule import Step

POLL_S = 1.0
START_LIMIT_S = 180.0
EVERY_S, ANSWER_LIMIT_S = 0.2, 5.0
PROBE = Path(__file__).parent / "probe.py"
USER = 65532


async def new_service_account(ground: Ground, step: Step) -> None:
    """Do the step; a tally with failures is a finding, logged FAILED. Raises StepFailedError without a tally."""
    pod, account = ground.thing("pod", step.name), ground.thing("serviceaccount", step.name)
    ground.say(f"NEWSA begin {account} for {step.for_s}s {ground.at(step.at_s)}")
    begun_s = ground.clock.now()
    try:
        for thing, document in ((account, account_document(account)), (pod, pod_document(ground, pod, step))):
            await _create(ground, thing, document)
        ready_s, node, tallies = await _tallies(ground, pod, step, begun_s)
        for thing in (pod, account):
            await ground.calls.delete(thing)
            ground.undo.done(thing)
    except ClusterError as error:
        ground.say(f"FAILED newsa/{step.name} {ground.at(step.at_s)} : {error}")
        raise StepFailedError(f"the new-SA step gave no tally: {error}") from error
    words = [f"{name}:{tally_text(tallies.get(name, {}))}" for name in ground.destinations]
    good = all(answered(tallies.get(name, {})) for name in ground.destinations)
    took_ms = round((ground.clock.now() - begun_s) * 1000)
    ground.say(
        f"{'ROLLED' if good else 'FAILED'} newsa/{step.name} {node} ready={ready_s} {ground.at(step.at_s)} "
        f"took_ms={took_ms} {' '.join(words)}"
    )


async def _create(ground: Ground, thing: Thing, document: Document) -> None:
    ground.undo.before_create(thing)
    try:
        await ground.calls.create(thing, document)
    except ConflictError:
        ground.undo.done(thing)  # somebody else's, and not ours to delete
        raise


def account_document(account: Thing) -> Document:
    """The ServiceAccount."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": account.name, "namespace": account.namespace},
        "automountServiceAccountToken": False,
    }


def pod_document(ground: Ground, pod: Thing, step: Step) -> Document:
    """The pod: one process that ends by itself, without rights, without a token."""
    wanted = {"for_s": step.for_s, "every_s": EVERY_S, "limit_s": ANSWER_LIMIT_S, "urls": ground.destinations}
    container = {
        "name": "probe",
        "image": step.image,
        "command": ["python3", "-c", PROBE.read_text(encoding="utf-8"), json.dumps(wanted)],
        "terminationMessagePolicy": "File",
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "labels": {"app.kubernetes.io/name": pod.name, **step.labels},
            "annotations": dict(step.annotations),
        },
        "spec": {
            "serviceAccountName": pod.name,
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": int(START_LIMIT_S) + step.for_s,
            "terminationGracePeriodSeconds": 5,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }


async def _tallies(
    ground: Ground, pod: Thing, step: Step, begun_s: float
) -> tuple[str, str, dict[str, dict[str, int]]]:
    """How long the pod took to be ready (``Ns``), its node, and its tallies. Raises ClusterError without any."""
    ready = "?"
    deadline_s = begun_s + START_LIMIT_S + step.for_s + ANSWER_LIMIT_S
    while True:
        document = await ground.calls.read(pod)
        phase = part(document, "status", "phase")
        if ready == "?" and is_ready(document):
            ready = f"{ground.clock.now() - begun_s:g}s"
        if phase in ("Succeeded", "Failed"):
            return ready, str(part(document, "spec", "nodeName") or "?"), _read_tallies(document)
        if ground.clock.now() >= deadline_s:
            raise ClusterError(f"{pod} did not end within {deadline_s - begun_s:g} s, it is {phase or 'unknown'}")
        await ground.clock.sleep(POLL_S)


def _read_tallies(pod: Document) -> dict[str, dict[str, int]]:
    """What the pod told as it ended. Raises ClusterError when that is no tally."""
    statuses = objects(pod, "status", "containerStatuses")
    end = next((part(status, "state", "terminated") for status in statuses if status.get("name") == "probe"), None)
    text = str(part(end, "message") or "")
    try:
        tallies = json.loads(text).items()
        return {str(name): {str(key): _count(number) for key, number in tally.items()} for name, tally in tallies}
    except (ValueError, AttributeError, RecursionError) as error:
        phase, code = part(pod, "status", "phase"), part(end, "exitCode")
        said = " ".join(text.split())[:200] or part(pod, "status", "message") or "nothing"
        raise ClusterError(f"the pod ended {phase} with exit code {code} and no tally; it said {said}") from error


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def answered(tally: dict[str, int]) -> bool:
    """Whether a target was asked, and every answer was a 2xx."""
    return sum(tally.values()) > 0 and all(key.startswith("2") for key, number in tally.items() if number)


def tally_text(tally: dict[str, int]) -> str:
    """``ok=,non2xx=,connerr=,codes=`` of one target, codes as ``200x90+503x1``."""
    codes = {key: number for key, number in sorted(tally.items()) if key != "connerr"}
    good = sum(number for key, number in codes.items() if key.startswith("2"))
    listed = "+".join(f"{key}x{number}" for key, number in codes.items()) or "-"
    return f"ok={good},non2xx={sum(codes.values()) - good},connerr={tally.get('connerr', 0)},codes={listed}"
