"""What a run puts into the cluster beside its release: the PriorityClass of engines and driver, the reports' volume.

Both outlive the release. What is applied is read back, since an admission plug-in, or somebody else, may have decided
otherwise.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from harness.errors import ConflictError, FleetError
from harness.fleet.kubernetes.answers import Document, annotations, metadata
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.config import ClusterConfig

PRIORITY_VALUE = 1000
NEVER = "Never"
PVC_SIZE = "64Mi"
MANAGED_BY = "soak-harness"
DEFAULT_CLASS_MARKS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
ABSENT, OK, MISMATCH = "absent", "ok", "mismatch"


# --- PriorityClass


@dataclass(frozen=True)
class PriorityState:
    """``ok``, ``absent`` (the run makes it) or ``mismatch`` (somebody else's), and what was seen."""

    state: str
    seen: str


def priority_state(found: Document | None, name: str) -> PriorityState:
    """How a PriorityClass stands: value 1000, preempts nobody, no global default."""
    if found is None:
        return PriorityState(ABSENT, f"PriorityClass {name} is absent; the run makes it")
    value, preempts = found.get("value"), found.get("preemptionPolicy", "PreemptLowerPriority")
    default = found.get("globalDefault") is True
    seen = f"value {value}, preemptionPolicy {preempts}, globalDefault {str(default).lower()}"
    if value == PRIORITY_VALUE and preempts == NEVER and not default:
        return PriorityState(OK, f"PriorityClass {name}: {seen}")
    return PriorityState(
        MISMATCH,
        f"PriorityClass {name} has {seen}, where value {PRIORITY_VALUE}, preemptionPolicy {NEVER} and globalDefault "
        "false are wanted; delete it, or name another with k8s.priority_class=",
    )


def ensure_priority_class(api: Api, name: str) -> PriorityState:
    """Make the PriorityClass when it is absent, and read it back. Raises FleetError for any other state than ok."""
    if api.find("PriorityClass", name) is None:
        document = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": MANAGED_BY}},
            "value": PRIORITY_VALUE,
            "preemptionPolicy": NEVER,
            "globalDefault": False,
            "description": "Load engines and their driver: before workloads without a class, and never preempting.",
        }
        with suppress(ConflictError):  # made by another run just now: what is read back decides
            api.create("PriorityClass", document)
    state = priority_state(api.find("PriorityClass", name), name)
    if state.state != OK:
        raise FleetError(state.seen)
    return state


# --- the reports' volume


def choose_storage_class(api: Api, wanted: str) -> str:
    """The storage class of the reports' volume: ``wanted``, else the default, else the only one.

    Raises FleetError when it is not there, or when there is nothing to choose by.
    """
    names, defaults = [], []
    for found in api.select("StorageClass"):
        name = str(metadata(found).get("name", ""))
        names.append(name)
        if any(annotations(found).get(mark) == "true" for mark in DEFAULT_CLASS_MARKS):
            defaults.append(name)
    known = ", ".join(sorted(names)) or "none"
    if wanted:
        if wanted in names:
            return wanted
        raise FleetError(f"there is no storage class {wanted}; there are: {known}; name one with k8s.storage_class=")
    if len(defaults) == 1 or (not defaults and len(names) == 1):
        return (defaults or names)[0]
    why = f"{len(defaults)} are the default" if defaults else "none is the default"
    raise FleetError(f"no storage class can be chosen, {why}; there are: {known}; name one with k8s.storage_class=")


def ensure_pvc(api: Api, config: ClusterConfig) -> Document:
    """Make the claim of the reports' volume when it is absent, and read it back; a bound one is not waited for.

    Raises FleetError when what is there is being deleted, lost, or of another storage class than asked for.
    """
    found = api.find("PersistentVolumeClaim", config.pvc, config.namespace)
    if found is None:
        document = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": config.pvc,
                "labels": {
                    "app.kubernetes.io/managed-by": MANAGED_BY,
                    "app.kubernetes.io/instance": config.release,
                },
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": choose_storage_class(api, config.storage_class),
                "resources": {"requests": {"storage": PVC_SIZE}},
            },
        }
        with suppress(ConflictError):
            api.create("PersistentVolumeClaim", document, config.namespace)
        found = api.get("PersistentVolumeClaim", config.pvc, config.namespace)
    wrong = pvc_fault(found, config)
    if wrong:
        raise FleetError(wrong)
    return found


def pvc_fault(found: Document, config: ClusterConfig) -> str:
    """Why a claim that is there cannot be used, or nothing."""
    name = f"PersistentVolumeClaim {config.namespace}/{config.pvc}"
    spec, status = found.get("spec") or {}, found.get("status") or {}
    if metadata(found).get("deletionTimestamp"):
        return f"{name} is being deleted; wait for its end, then go on with the same command"
    if status.get("phase") == "Lost":
        return f"{name} has lost its volume; save what can be saved, then delete it"
    if config.storage_class and spec.get("storageClassName") != config.storage_class:
        return (
            f"{name} is there with storage class {spec.get('storageClassName')}, not {config.storage_class}; "
            "leave k8s.storage_class= empty to use it, or delete it"
        )
    return ""


def delete_pvc(api: Api, config: ClusterConfig, *, limit_s: float = 180.0) -> bool:
    """Delete the claim and with it what it keeps; False when it was not there. Raises FleetError when it stays."""
    if not api.delete("PersistentVolumeClaim", config.pvc, config.namespace):
        return False
    if not api.wait_gone("PersistentVolumeClaim", config.pvc, config.namespace, limit_s=limit_s):
        raise FleetError(
            f"PersistentVolumeClaim {config.namespace}/{config.pvc} is still there after {limit_s:g} s: a pod uses it"
        )
    return True
