"""Teardown: takes the release away, and only what is saved. The volume stays unless it is asked for by name.

The PriorityClass, the churn and the watchdog are never touched here.
"""

from __future__ import annotations

from harness.errors import LoadError
from harness.files import utc_stamp
from harness.fleet.kubernetes import load
from harness.fleet.kubernetes.answers import metadata
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.chart import Helm
from harness.fleet.kubernetes.config import ClusterConfig
from harness.fleet.kubernetes.objects import delete_pvc
from harness.fleet.kubernetes.reader import free_name
from harness.fleet.kubernetes.saver import say


def teardown(config: ClusterConfig, api: Api, helm: Helm, *, force: bool, purge: bool) -> list[str]:
    """Take the release away, with ``purge`` the reports' volume too. Returns a line for each thing that was done.

    Raises LoadError while the run is not saved or a Job of the release has active pods, unless ``force``; FleetError
    when something cannot be deleted. May be given again after any death.
    """
    if not force:
        check_allowed(config, api)
    done = []
    if helm.uninstall():
        done.append(f"release {config.release} is uninstalled")
    free_name(config, api)
    if purge and delete_pvc(api, config):
        done.append(f"the volume claim {config.pvc} is deleted, and every report on it")
    elif not purge:
        done.append(f"the volume claim {config.pvc} stays; purge=1 deletes it")
    done.append("SORTIE_TEARDOWN_DONE")
    for line in done:
        say(config, line)
    return done


def check_allowed(config: ClusterConfig, api: Api) -> None:
    """Raise LoadError with the reason why a teardown would lose something."""
    if not config.folder.saved.exists():
        raise LoadError(
            f"REFUSED: run {config.run_tag} is not saved; go on with it, which saves it, or give force=1 to lose what "
            "it has"
        )
    for job in api.select("Job", config.namespace, labels=config.instance_labels):
        active = (job.get("status") or {}).get("active") or 0
        if active and load.state_of(job) == load.ACTIVE:
            raise LoadError(
                f"REFUSED: Job {metadata(job).get('name')} has {active} active pods at {utc_stamp()}; wait for its "
                "end, or give force=1 to end its load"
            )
