"""Whether pods, a DaemonSet and a Service are ready: numbers compared as numbers, and nothing at all is never ready."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from harness.errors import FleetError
from harness.fleet.kubernetes.answers import Document, metadata
from harness.fleet.kubernetes.api import Api

POLL_S = 2.0
DAEMON_SET_LIMIT_S = 300.0
ENDPOINTS_LIMIT_S = 60.0
SHOWN = 10
COMPLETED = "Completed"


# --- pods


@dataclass(frozen=True)
class PodState:
    """One pod: how many of its containers are ready, and its state in the words of ``kubectl get pods``."""

    namespace: str
    name: str
    node: str
    ready: int
    wanted: int
    status: str

    @property
    def is_ready(self) -> bool:
        """True for a running pod whose containers are all ready, and has any."""
        return self.status == "Running" and self.ready == self.wanted > 0

    @property
    def is_completed(self) -> bool:
        """True for a pod that has done its work; it is not expected to be ready."""
        return self.status == COMPLETED

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} {self.ready}/{self.wanted} {self.status}"


def pod_state(pod: Document) -> PodState:
    """The state of a pod. Containers that no status tells of count as wanted and not ready."""
    spec, status = _table(pod, "spec"), _table(pod, "status")
    sidecars = {str(c.get("name")) for c in _rows(spec, "initContainers") if c.get("restartPolicy") == "Always"}
    names = {str(container.get("name")) for container in _rows(spec, "containers")} | sidecars
    statuses = _rows(status, "containerStatuses") + [
        seen for seen in _rows(status, "initContainerStatuses") if seen.get("name") in sidecars
    ]
    ready = {str(seen.get("name")) for seen in statuses if seen.get("ready") is True}
    return PodState(
        namespace=str(metadata(pod).get("namespace", "")),
        name=str(metadata(pod).get("name", "")),
        node=str(spec.get("nodeName", "")),
        ready=len(ready & names),
        wanted=len(names),
        status=_status_word(pod, sidecars),
    )


def pods_ready(pods: list[Document], namespace: str) -> tuple[bool, str]:
    """Whether every pod of a listing is ready, and what was seen. Completed pods are left out; no pod is no answer."""
    states = [pod_state(pod) for pod in pods]
    expected = [state for state in states if not state.is_completed]
    completed = len(states) - len(expected)
    aside = f"; {completed} completed left out" if completed else ""
    if not states:
        return False, f"the listing of namespace {namespace} is empty: there is no pod to be ready"
    if not expected:
        return False, f"namespace {namespace} has no pod to be ready{aside}"
    bad = [str(state) for state in expected if not state.is_ready]
    if bad:
        more = f", and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        return False, f"not ready: {len(bad)} of {len(expected)} pods: {', '.join(bad[:SHOWN])}{more}{aside}"
    pods, containers = len(expected), sum(state.wanted for state in expected)
    return True, f"ready: {pods} of {pods} pods, {containers} of {containers} containers{aside}"


def _status_word(pod: Document, sidecars: set[str]) -> str:
    status = _table(pod, "status")
    phase = str(status.get("phase", "Unknown"))
    if metadata(pod).get("deletionTimestamp"):
        return "Terminating"
    if phase == "Succeeded":
        return COMPLETED
    starting = _starting(_rows(status, "initContainerStatuses"), sidecars)
    if starting:
        return starting
    for seen in _rows(status, "containerStatuses"):
        state = _table(seen, "state")
        reason = _table(state, "waiting").get("reason") or _table(state, "terminated").get("reason")
        if reason:
            return str(reason)
    return str(status.get("reason") or phase)


def _starting(statuses: list[Document], sidecars: set[str]) -> str:
    done = 0
    for seen in statuses:
        state = _table(seen, "state")
        finished = _table(state, "terminated")
        if (finished and finished.get("exitCode") == 0) or (seen.get("name") in sidecars and seen.get("started")):
            done += 1
            continue
        reason = finished.get("reason") or _table(state, "waiting").get("reason")
        plain = not reason or reason == "PodInitializing"
        return f"Init:{done}/{len(statuses)}" if plain else f"Init:{reason}"
    return ""


# --- DaemonSets


@dataclass(frozen=True)
class DaemonSetState:
    """Counts of a DaemonSet's status; ``observed`` is False until its controller has seen the newest change."""

    desired: int
    ready: int
    updated: int
    observed: bool

    @property
    def is_ready(self) -> bool:
        """True when it wants at least one pod, and all that it wants are ready and of the newest change."""
        return self.observed and self.ready == self.desired == self.updated > 0

    def __str__(self) -> str:
        seen = "" if self.observed else ", its newest change not seen yet"
        return f"{self.ready} of {self.desired} ready, {self.updated} up to date{seen}"


def daemon_set_state(document: Document) -> DaemonSetState:
    """The counts of a DaemonSet; what the API leaves out is 0."""
    status = _table(document, "status")
    return DaemonSetState(
        desired=_count(status, "desiredNumberScheduled"),
        ready=_count(status, "numberReady"),
        updated=_count(status, "updatedNumberScheduled"),
        observed=_count(status, "observedGeneration") >= _count(metadata(document), "generation") > 0,
    )


def wait_daemon_set(
    api: Api,
    name: str,
    namespace: str,
    *,
    limit_s: float = DAEMON_SET_LIMIT_S,
    sleep: Callable[[float], object] = time.sleep,
) -> DaemonSetState:
    """Wait until the DaemonSet is ready. Raises FleetError with the counts and the pods that are not."""
    deadline = time.monotonic() + limit_s
    while True:
        found = api.get("DaemonSet", name, namespace)
        state = daemon_set_state(found)
        if state.is_ready:
            return state
        if time.monotonic() >= deadline:
            break
        sleep(POLL_S)
    if state.desired == 0 and state.observed:
        raise FleetError(
            f"DaemonSet {namespace}/{name} wants no pod on any node: look at its node selector and tolerations, and at "
            "the taints of the nodes"
        )
    labels = _table(_table(_table(found, "spec"), "selector"), "matchLabels")
    pods = api.select("Pod", namespace, labels=",".join(f"{key}={value}" for key, value in sorted(labels.items())))
    _, seen = pods_ready(pods, namespace)
    raise FleetError(f"DaemonSet {namespace}/{name} was not ready within {limit_s:g} s: {state}; {seen}")


# --- a headless Service


@dataclass(frozen=True, order=True)
class EngineAddress:
    """One address that a Service lists: where an engine is reached, its node, and its pod."""

    ip: str
    node: str
    pod: str


@dataclass(frozen=True)
class ServiceAddresses:
    """What stands behind a Service: its ready addresses, sorted, and how many are not ready."""

    ready: tuple[EngineAddress, ...]
    not_ready: int


def addresses(endpoints: Document | None) -> ServiceAddresses:
    """The addresses of an Endpoints object, each once; none when there is no such object."""
    ready: set[EngineAddress] = set()
    waiting: set[EngineAddress] = set()
    for subset in _rows(endpoints or {}, "subsets"):
        ready |= {_address(row) for row in _rows(subset, "addresses")}
        waiting |= {_address(row) for row in _rows(subset, "notReadyAddresses")}
    return ServiceAddresses(tuple(sorted(ready)), len(waiting - ready))


def wait_addresses(
    api: Api,
    service: str,
    namespace: str,
    wanted: int,
    *,
    limit_s: float = ENDPOINTS_LIMIT_S,
    sleep: Callable[[float], object] = time.sleep,
) -> tuple[EngineAddress, ...]:
    """Wait until the headless Service lists exactly ``wanted`` ready addresses. Raises FleetError with both numbers.

    More than wanted is no better than fewer: the driver would send to all of them.
    """
    deadline = time.monotonic() + limit_s
    while True:
        found = addresses(api.find("Endpoints", service, namespace))
        if len(found.ready) == wanted:
            return found.ready
        if time.monotonic() >= deadline:
            raise FleetError(
                f"Service {namespace}/{service} lists {len(found.ready)} ready addresses and {found.not_ready} that "
                f"are not, where {wanted} engines are ready; look at its endpoints, then go on with the same command"
            )
        sleep(POLL_S)


def _address(row: Document) -> EngineAddress:
    pod = _table(row, "targetRef")
    return EngineAddress(str(row.get("ip", "")), str(row.get("nodeName") or ""), str(pod.get("name", "")))


# --- shapes


def _table(document: Document, key: str) -> Document:
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def _rows(document: Document, key: str) -> list[Document]:
    found = document.get(key)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _count(document: Document, key: str) -> int:
    found = document.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0
