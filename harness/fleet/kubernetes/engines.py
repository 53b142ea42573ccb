"""Engines: the release with its Job disabled, then one ready engine on every node, each of them in the pool's Service.

Which address is which node is written down here, at the start, and again at the end with what was restarted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from harness.errors import FleetError
from harness.files import read_json, write_atomic
from harness.fleet.base import Readiness
from harness.fleet.kubernetes.answers import Document, metadata
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.chart import Helm
from harness.fleet.kubernetes.config import ClusterConfig
from harness.fleet.kubernetes.document import READY, change_fleet
from harness.fleet.kubernetes.objects import ensure_priority_class, ensure_pvc
from harness.fleet.kubernetes.readiness import addresses, daemon_set_state, pod_state, wait_addresses, wait_daemon_set

ENGINES_LOG = "helm-engines.log"


def start(
    config: ClusterConfig, api: Api, helm: Helm, chart: Path, *, sleep: Callable[[float], object] = time.sleep
) -> list[Readiness]:
    """Make the engines ready, or find them so; writes engines.tsv. What is there already is kept.

    ``chart`` is the packed chart. Raises FleetError when anything is not as the plan needs it, with both numbers.
    """
    wanted = planned_nodes(config)
    ensure_priority_class(api, config.priority_class)
    ensure_pvc(api, config)
    helm.install(api, chart, log=ENGINES_LOG)
    state = wait_daemon_set(api, config.daemon_set, config.namespace, sleep=sleep)
    if state.desired != wanted:
        raise FleetError(
            f"{config.daemon_set} runs {state.desired} engines, one on every node that takes them, and the plan is for "
            f"{wanted}: tear this run down and give nodes={state.desired}, or choose nodes in a values file"
        )
    listed = wait_addresses(api, config.engine_service, config.namespace, wanted, sleep=sleep)
    pods = engine_pods(config, api)
    rows = engine_rows(pods)
    if sorted(address.ip for address in listed) != sorted(row.partition("\t")[0] for row in rows):
        raise FleetError(
            f"Service {config.engine_service} lists {len(listed)} addresses that are not those of the {len(rows)} "
            "engine pods; look at its endpoints, then go on with the same command"
        )
    _check_priority(config, pods)
    write_atomic(config.folder.engines, "".join(f"{row}\n" for row in rows))
    change_fleet(config, state=READY, ready={"engines": [state.ready, wanted], "endpoints": [len(listed), wanted]})
    return [Readiness("engines", state.ready, wanted), Readiness("endpoints", len(listed), wanted)]


def are_up(config: ClusterConfig, api: Api) -> bool:
    """True while the engines that ``start`` wrote down still stand: all ready, and under the same addresses."""
    if not config.folder.engines.exists():
        return False
    found = api.find("DaemonSet", config.daemon_set, config.namespace)
    if found is None or not daemon_set_state(found).is_ready:
        return False
    listed = addresses(api.find("Endpoints", config.engine_service, config.namespace)).ready
    noted = config.folder.engines.read_text(encoding="utf-8").splitlines()
    return sorted(address.ip for address in listed) == sorted(row.partition("\t")[0] for row in noted)


def engine_pods(config: ClusterConfig, api: Api) -> list[Document]:
    """The pods of the engines that are not being deleted, by name."""
    pods = api.select("Pod", config.namespace, labels=config.engine_labels)
    return sorted((pod for pod in pods if not metadata(pod).get("deletionTimestamp")), key=_name)


def engine_rows(pods: list[Document]) -> list[str]:
    """``podIP TAB node TAB pod`` of each, sorted by the whole line. Raises FleetError for one that is not ready."""
    rows = []
    for pod in pods:
        state, address = pod_state(pod), str((pod.get("status") or {}).get("podIP") or "")
        if not state.is_ready or not address:
            raise FleetError(f"the engine {state} has no address, or is not ready; go on with the same command")
        rows.append(f"{address}\t{state.node}\t{state.name}")
    return sorted(rows)


def end_rows(pods: list[Document]) -> list[str]:
    """As ``engine_rows`` with the restarts of all containers, of whatever is there; ``-`` for what is not known."""
    rows = []
    for pod in pods:
        status, spec = pod.get("status") or {}, pod.get("spec") or {}
        seen = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
        restarts = sum(int(container.get("restartCount") or 0) for container in seen)
        rows.append(
            f"{status.get('podIP') or '-'}\t{spec.get('nodeName') or '-'}\t{_name(pod)}\t{restarts if seen else '-'}"
        )
    return sorted(rows)


def planned_nodes(config: ClusterConfig) -> int:
    """How many engines the plan is for: ``nodes`` of run.json. Raises FleetError when it says no number."""
    try:
        return int(read_json(config.folder.run_json)["settings"]["nodes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FleetError(f"{config.folder.run_json} does not say for how many nodes its plan is ({error})") from error


def _check_priority(config: ClusterConfig, pods: list[Document]) -> None:
    """Engines that were made before the PriorityClass, or by another chart, would be the first to go."""
    wrong = [_name(pod) for pod in pods if (pod.get("spec") or {}).get("priorityClassName") != config.priority_class]
    if wrong:
        raise FleetError(
            f"{', '.join(wrong[:5])}: not of PriorityClass {config.priority_class}; the chart must take "
            "engine.priorityClassName"
        )


def _name(pod: Document) -> str:
    return str(metadata(pod).get("name", ""))
