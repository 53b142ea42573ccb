"""fleet.json: how the fleet of a run stands, for people and for whoever goes on with it. One process writes at a time.

Before the load that is the command that makes the engines ready; from then on the run's supervisor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.files import write_json
from harness.fleet.kubernetes.config import ClusterConfig
from harness.processes import Identity, alive
from harness.progress import read_object

READY, LOADING, STOPPED = "ready", "loading", "stopped"
"""Engines ready; the load is followed; it is over and what could be saved of it is."""


@dataclass(frozen=True)
class FleetDocument:
    """fleet.json as read. ``load_asked_at`` is empty until helm was asked for the load."""

    state: str = ""
    reason: str = ""
    load_asked_at: str = ""
    supervisor: Identity | None = None
    job_state: str = ""
    driver_phase: str = ""
    driver_why: str = ""
    saved: str = ""
    ready: dict[str, list[int]] = field(default_factory=dict)

    @property
    def is_followed(self) -> bool:
        """True while the supervisor that wrote it last lives."""
        return self.supervisor is not None and alive(self.supervisor)


def read_fleet(config: ClusterConfig) -> FleetDocument:
    """The document; an empty one when there is none, or none that can be read."""
    found = read_object(config.folder.fleet_json)
    try:
        supervisor = Identity.from_json(found["supervisor"])
    except (KeyError, TypeError, ValueError):
        supervisor = None
    texts = ("state", "reason", "load_asked_at", "job_state", "driver_phase", "driver_why", "saved")
    ready = found.get("ready")
    return FleetDocument(
        **{key: str(found.get(key) or "") for key in texts},
        supervisor=supervisor,
        ready=ready if isinstance(ready, dict) else {},
    )


def change_fleet(config: ClusterConfig, **changes: Any) -> None:
    """Write it anew with some keys changed. Raises OSError on a full disk."""
    before = read_object(config.folder.fleet_json)
    about = {
        "schema": 1,
        "run": config.run_tag,
        "context": config.context,
        "namespace": config.namespace,
        "release": config.release,
    }
    if before != (after := {**before, **about, **changes}):
        write_json(config.folder.fleet_json, after)
