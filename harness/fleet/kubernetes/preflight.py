"""Checks before a run on a cluster. Every one runs, each says what it saw, none writes anything into the cluster.

Two failures end the pass early, since nothing behind them would mean anything: no API that answers, and no targets.
A line whose text begins with ``note:`` decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import FleetError, HarnessError, NotFoundError
from harness.fleet.base import Check
from harness.fleet.kubernetes.answers import metadata
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.config import IN_CLUSTER, SORTIE, ClusterConfig, ClusterTarget, read_config
from harness.fleet.kubernetes.objects import MISMATCH, choose_storage_class, priority_state, pvc_fault
from harness.fleet.kubernetes.provenance import examine
from harness.fleet.kubernetes.readiness import addresses, daemon_set_state, pods_ready
from harness.runs import RunFolder

READY_LIMIT_S = 15.0
PATIENCE_S = 15.0
GRPC_PROBES = (1, 24)
OTHER_LOAD = ("k6",)
MODULE, RUN_DIR = "harness.fleet.kubernetes", "--run-dir"  # how the process of a run is started
Look = Callable[[], tuple[bool, str]]


@dataclass(frozen=True)
class _Looks:
    """What the checks of one pass look at."""

    config: ClusterConfig
    api: Api

    def early(self) -> list[tuple[str, Look]]:
        """Those without which the others mean nothing."""
        return [("api", self._api), ("targets", self._targets)]

    def late(self) -> list[tuple[str, Look]]:
        """The others, in their order."""
        config = self.config
        looks: list[tuple[str, Look]] = [
            ("release of kubernetes", self._release),
            (f"namespace {config.namespace}", self._namespace),
            (f"PriorityClass {config.priority_class}", self._priority_class),
            ("volume of the reports", self._volume),
        ]
        if config.system_namespace:
            looks.append((f"pods of {config.system_namespace}", self._system_pods))
        looks += [(f"Service of {target.name}", _of(self._service, target)) for target in config.targets]
        looks += [
            (f"no Job of release {config.release}", self._no_job),
            ("no other load", self._other_load),
            ("restarts can be counted", self._baseline),
            ("no other run from here", self._no_other_run),
        ]
        return looks

    def _api(self) -> tuple[bool, str]:
        answer = self.api.ready(deadline_s=READY_LIMIT_S)
        where = "the pod's own account" if self.config.context == IN_CLUSTER else f"context {self.config.context}"
        return answer == "ok", f"/readyz of {where} answers {answer}"

    def _targets(self) -> tuple[bool, str]:
        targets = self.config.targets
        names = [target.name for target in targets]
        twice = sorted({name for name in names if names.count(name) > 1})
        idle = [target.name for target in targets if target.rate_rps <= 0]
        if not targets:
            return False, "the share table is empty: there is nothing to send to"
        if twice or idle:
            return False, f"the share table lists {', '.join(twice or idle)} {'twice' if twice else 'without a rate'}"
        return True, f"{len(targets)} targets, {sum(target.rate_rps for target in targets)} rps per node"

    def _release(self) -> tuple[bool, str]:
        version = self.api.version(patience_s=PATIENCE_S)
        numbers = tuple(int(part) for part in version.removeprefix("v").split(".")[:2] if part.isdigit())
        if self.config.engine == SORTIE and numbers < GRPC_PROBES:
            return False, f"{version}, and the probes of sortie's chart need 1.24 or newer; use k8s.engine=harness"
        return True, version

    def _namespace(self) -> tuple[bool, str]:
        try:
            found = self.api.get("Namespace", self.config.namespace, patience_s=PATIENCE_S)
        except NotFoundError:
            return False, "it is absent; create it, or name another with k8s.namespace="
        phase = (found.get("status") or {}).get("phase")
        return phase == "Active", f"phase {phase}"

    def _priority_class(self) -> tuple[bool, str]:
        name = self.config.priority_class
        state = priority_state(self.api.find("PriorityClass", name, patience_s=PATIENCE_S), name)
        return state.state != MISMATCH, state.seen

    def _volume(self) -> tuple[bool, str]:
        config = self.config
        found = self.api.find("PersistentVolumeClaim", config.pvc, config.namespace, patience_s=PATIENCE_S)
        if found is None:
            storage_class = choose_storage_class(self.api, config.storage_class)
            return True, f"{config.pvc} is absent; the run makes it with storage class {storage_class}"
        wrong = pvc_fault(found, config)
        return not wrong, wrong or f"{config.pvc} is there, {(found.get('status') or {}).get('phase')}"

    def _system_pods(self) -> tuple[bool, str]:
        namespace = self.config.system_namespace
        return pods_ready(self.api.select("Pod", namespace, patience_s=PATIENCE_S), namespace)

    def _service(self, target: ClusterTarget) -> tuple[bool, str]:
        where = target.service
        if where is None:
            return False, f"the host of {target.url} names no Service: NAME.NAMESPACE is expected at its beginning"
        namespace, name = where
        if self.api.find("Service", name, namespace, patience_s=PATIENCE_S) is None:
            return False, f"{namespace}/{name} is absent"
        behind = addresses(self.api.find("Endpoints", name, namespace, patience_s=PATIENCE_S))
        waiting = f", {behind.not_ready} not ready" if behind.not_ready else ""
        return len(behind.ready) > 0, f"{namespace}/{name} has {len(behind.ready)} ready addresses{waiting}"

    def _no_job(self) -> tuple[bool, str]:
        config = self.config
        jobs = self.api.select("Job", config.namespace, labels=config.instance_labels, patience_s=PATIENCE_S)
        names = ", ".join(str(metadata(job).get("name")) for job in jobs)
        if names:
            return False, f"{names} is there; save the run that it belongs to, then tear that down"
        return True, "none"

    def _other_load(self) -> tuple[bool, str]:
        namespace = self.config.namespace
        for found in self.api.select("DaemonSet", namespace, patience_s=PATIENCE_S):
            name = str(metadata(found).get("name", ""))
            if any(part in OTHER_LOAD for part in name.split("-")) and daemon_set_state(found).ready > 0:
                return True, f"note: DaemonSet {namespace}/{name} is up and may send load of its own"
        return True, "none seen"

    def _baseline(self) -> tuple[bool, str]:
        namespaces = sorted({name for name in (self.config.namespace, self.config.system_namespace) if name})
        counts = [f"{len(self.api.select('Pod', name, patience_s=PATIENCE_S))} pods in {name}" for name in namespaces]
        return True, ", ".join(counts)

    def _no_other_run(self) -> tuple[bool, str]:
        """Nobody else on this machine watches, rolls or saves the same release."""
        own = self.config
        for pid, folder in _supervisors():
            with suppress(FleetError):  # of a run that is being made, or was removed
                other = read_config(folder)
                same = (other.context, other.namespace, other.release) == (own.context, own.namespace, own.release)
                if same:
                    return False, f"run {folder.run} is at work on the same release, pid {pid}; wait for its end"
        return True, "none"


def preflight(config: ClusterConfig, api: Api, *, more: Sequence[Callable[[], list[Check]]] = ()) -> list[Check]:
    """All checks, in a fixed order; ``more`` are those of the churn, asked last."""
    looks = _Looks(config, api)
    checks = [_checked(name, look) for name, look in looks.early()]
    if not all(check.ok for check in checks):
        return checks
    checks += examine(config).checks
    checks += [_checked(name, look) for name, look in looks.late()]
    for others in more:
        checks += _checked_all(others)
    return checks


def _of(look: Callable[[ClusterTarget], tuple[bool, str]], target: ClusterTarget) -> Look:
    return lambda: look(target)


def _supervisors() -> Iterator[tuple[int, RunFolder]]:
    """Pid and run folder of every process of this machine that looks after a run on a cluster."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(f"{word}.".startswith(f"{MODULE}.") for word in words) and RUN_DIR in words[:-1]:
            yield int(entry.name), RunFolder(Path(words[words.index(RUN_DIR) + 1]))


def _checked(name: str, look: Look) -> Check:
    try:
        ok, seen = look()
    except (HarnessError, OSError) as error:
        ok, seen = False, str(error)
    return Check(name, ok, seen)


def _checked_all(others: Callable[[], list[Check]]) -> list[Check]:
    try:
        return others()
    except (HarnessError, OSError) as error:
        return [Check("churn", False, str(error))]
