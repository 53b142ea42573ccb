"""What a dead run left behind: found by what it wrote down and by its mark, ended, and removed.

Only processes whose pid and start time were recorded, or whose environment carries the run's token, are touched.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from harness.files import read_json
from harness.fleet.local.config import LocalConfig
from harness.fleet.local.envoy import remove_shared_memory
from harness.processes import Identity, alive, end, find_marked

SUPERVISOR_GRACE_S = 20.0
GRACE_S = 5.0


def read_fleet(path: Path) -> dict[str, Any]:
    """fleet.json, or an empty document when there is none or it is no JSON object."""
    try:
        document = read_json(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def supervisor_of(fleet: dict[str, Any]) -> Identity | None:
    """The supervisor that wrote fleet.json, None when it does not say."""
    try:
        return Identity.from_json(fleet["supervisor"])
    except (KeyError, TypeError, ValueError):
        return None


def recorded_processes(fleet: dict[str, Any]) -> dict[Identity, str]:
    """Every process that fleet.json knows, with its name."""
    found = {}
    for process in fleet.get("processes", []):
        try:
            found[Identity.from_json(process)] = str(process["name"])
        except (KeyError, TypeError, ValueError):
            continue
    return found


def sweep(config: LocalConfig) -> list[str]:
    """End and remove everything of this run. Returns one line for each thing; an empty list when nothing was left."""
    fleet = read_fleet(config.folder.fleet_json)
    done: list[str] = []
    supervisor = supervisor_of(fleet)
    if supervisor and alive(supervisor) and supervisor.pid != os.getpid():
        end([supervisor], grace_s=SUPERVISOR_GRACE_S)  # it ends its own parts in order
        done.append(f"ended the supervisor, pid {supervisor.pid}")
    names = recorded_processes(fleet)
    left = {process for process in names if alive(process)} | set(find_marked(config.token))
    killed = end(sorted(left), grace_s=GRACE_S)
    for process in sorted(left):
        name = names.get(process, "a process with this run's mark")
        done.append(f"{'killed' if process in killed else 'ended'} {name}, pid {process.pid}")
    removed = [base_id for base_id in sorted(_base_ids(fleet, config.socket_dir)) if remove_shared_memory(base_id)]
    done += [f"removed the shared memory of an Envoy with base id {base_id}" for base_id in removed]
    if config.socket_dir.is_dir():
        shutil.rmtree(config.socket_dir, ignore_errors=True)
        done.append(f"removed the socket folder {config.socket_dir}")
    return done


def _base_ids(fleet: dict[str, Any], socket_dir: Path) -> set[int]:
    noted = [path.read_text().strip() for path in socket_dir.glob("*.base_id")]
    noted += [str(node.get("proxy_base_id")) for node in fleet.get("nodes", [])]
    return {int(text) for text in noted if text.isdigit()}
