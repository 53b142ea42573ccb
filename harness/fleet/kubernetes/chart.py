"""The chart and its release, by helm. Every call names the context; what helm says is kept in ``live/``.

helm can be killed between two of its writes and then calls the release pending for ever. ``install`` takes such a
release up again without taking anything of it away: a rollback would delete the Job of a load that runs.
"""

from __future__ import annotations

import json
import re
import shlex
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
from harness.errors import FleetError
from harness.files import LineLog, copy_whole, utc_stamp, write_atomic
from harness.fleet.kubernetes import commands
from harness.fleet.kubernetes.answers import Document, metadata
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.commands import Done
from harness.fleet.kubernetes.config import IN_CLUSTER, OWN_CHART, ClusterConfig
from harness.fleet.kubernetes.values import release_values
from harness.processes import end, find_marked

LEAST_VERSION = (3, 17)
QUICK_S, PULL_S, CHANGE_S, UNINSTALL_S = 30.0, 120.0, 300.0, 180.0
MARK = "HARNESS_HELM"  # in the environment of a helm that changes the release: finds one whose harness was killed
ORPHAN_S, ORPHAN_GRACE_S, POLL_S = 30.0, 10.0, 0.2
# of the environment: they would lead helm to another cluster, account or store
NOT_INHERITED = (
    "HELM_KUBECONTEXT", "HELM_KUBEAPISERVER", "HELM_KUBETOKEN", "HELM_KUBEASUSER", "HELM_KUBEASGROUPS",
    "HELM_KUBECAFILE", "HELM_KUBETLS_SERVER_NAME", "HELM_NAMESPACE",
)  # fmt: skip
PENDING = "pending-"
UNINSTALL_LOG = "helm-uninstall.log"
PLACES = (
    Path(harness.__file__).resolve().parent.parent / "charts",
    Path(harness.__file__).resolve().parent / "_charts",
)


@dataclass(frozen=True)
class ReleaseStatus:
    """A release: ``deployed``, ``failed``, ``pending-…`` or ``uninstalling``, and its revision."""

    status: str
    revision: int


class Helm:
    """helm for one run. Raises FleetError whenever helm cannot do what it is asked for, with helm's own words."""

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config

    def version(self) -> str:
        """Like ``3.17.2``. Raises FleetError when helm is absent or says no version."""
        done = commands.run(self.config.helm, ["version", "--template", "{{.Version}}"], limit_s=QUICK_S)
        found = re.search(r"v?(\d+\.\d+\.\d+)", done.out)
        if done.code or not found:
            raise FleetError(f"{self.config.helm} tells no version: {done.said}")
        return found[1]

    # --- the chart

    def fetch(self, folder: Path) -> Path:
        """Pull the chart by its digest, or pack the folder; the one ``.tgz`` in ``folder``, whole.

        helm checks every byte of a pulled chart against the digest.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
            if self.config.chart_is_folder:
                self._must(["package", str(chart_folder(self.config)), "--destination", scratch], PULL_S)
            else:
                plain = ["--plain-http"] if self.config.plain_http else []
                reference = f"oci://{self.config.chart_reference}"
                self._must(["pull", reference, "--destination", scratch, *plain], PULL_S)
            packed = sorted(Path(scratch).glob("*.tgz"))
            if len(packed) != 1:
                raise FleetError(f"helm left {len(packed)} packed charts of {self.config.chart}, where one is expected")
            target = folder / packed[0].name
            copy_whole(packed[0], target)
        return target

    def template(self, chart: Path, *, plan: str = "") -> list[Document]:
        """The objects of the release, rendered here; with the driver's Job when there is the text of a ``plan``."""
        arguments = ["template", self.config.release, str(chart), "--namespace", self.config.namespace]
        done = self._must([*arguments, *self._values(plan)], QUICK_S)
        return read_objects(done.out)

    # --- the release

    def install(self, api: Api, chart: Path, *, plan: str = "", log: str) -> None:
        """Install or upgrade the release to engines alone, or with the text of a ``plan`` to engines and one driver.

        May be called again after any death: what helm left behind is waited for and taken up. ``log`` is a file
        name in ``live/``. Does not wait for pods. Engines alone are refused while the release has a Job: helm would
        delete it, and its load with it.
        """
        self._take_up(api)
        if not plan and (jobs := api.select("Job", self.config.namespace, labels=self.config.instance_labels)):
            names = ", ".join(str(metadata(job).get("name")) for job in jobs)
            raise FleetError(
                f"release {self.config.release} has the Job {names}, which engines alone would delete; save the run "
                "that it belongs to, then tear that down"
            )
        arguments = ["upgrade", "--install", self.config.release, str(chart), "--history-max", "5"]
        self._must([*arguments, *self._values(plan), *self._where()], CHANGE_S, log=log)

    def uninstall(self, *, log: str = UNINSTALL_LOG) -> bool:
        """Take the release away and wait for its objects' end; False when there is none."""
        self._wait_alone()
        if self.status() is None:
            return False
        limit = ["--wait", "--timeout", f"{UNINSTALL_S:g}s"]
        done = self._helm(["uninstall", self.config.release, *limit, *self._where()], UNINSTALL_S + QUICK_S, log)
        if done.code and not _not_found(done):
            raise FleetError(f"helm could not take release {self.config.release} away: {done.said}")
        return True

    def status(self) -> ReleaseStatus | None:
        """How the release stands, None when there is none."""
        done = self._helm(["status", self.config.release, "--output", "json", *self._where()], QUICK_S)
        if done.code:
            if _not_found(done):
                return None
            raise FleetError(f"helm cannot tell how release {self.config.release} stands: {done.said}")
        try:
            document = json.loads(done.out)
            return ReleaseStatus(str(document["info"]["status"]), int(document["version"]))
        except (ValueError, KeyError, TypeError) as error:
            raise FleetError(f"helm status of release {self.config.release} cannot be read: {error}") from error

    def _take_up(self, api: Api) -> None:
        """Forget the revision that a killed helm left pending. Its objects stay, and the next upgrade owns them."""
        self._wait_alone()
        found = self.status()
        if found is not None and found.status.startswith(PENDING):
            record = f"sh.helm.release.v1.{self.config.release}.v{found.revision}"
            api.delete("Secret", record, self.config.namespace)

    def _wait_alone(self) -> None:
        """Let a helm of this run whose harness was killed come to its end, and end it when it takes too long."""
        deadline = time.monotonic() + ORPHAN_S
        while (found := find_marked(self.config.token, MARK)) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        end(found, grace_s=ORPHAN_GRACE_S)

    # --- calls

    def _values(self, plan: str) -> list[str]:
        """The user's values files, then the run's own, which win."""
        own = self.config.live / ("values-load.yaml" if plan else "values-engines.yaml")
        write_atomic(own, _yaml(release_values(self.config, plan=plan)))
        return [argument for path in (*self.config.values, own) for argument in ("--values", str(path))]

    def _where(self) -> list[str]:
        """The cluster and the namespace; a pod's own account is what helm takes where no context is named."""
        where = ["--namespace", self.config.namespace]
        if self.config.context != IN_CLUSTER:
            where += ["--kube-context", self.config.context]
        return where + (["--kubeconfig", self.config.kubeconfig] if self.config.kubeconfig else [])

    def _must(self, arguments: list[str], limit_s: float, *, log: str = "") -> Done:
        done = self._helm(arguments, limit_s, log)
        if done.code:
            raise FleetError(f"helm {arguments[0]} failed: {done.said}")
        return done

    def _helm(self, arguments: list[str], limit_s: float, log: str = "") -> Done:
        variables = dict.fromkeys(NOT_INHERITED, "") | {"HELM_DRIVER": "secret"}
        if log:
            variables[MARK] = self.config.token
        done = commands.run(self.config.helm, arguments, variables=variables, limit_s=limit_s)
        if log:
            self._note(log, arguments, done)
        return done

    def _note(self, log: str, arguments: list[str], done: Done) -> None:
        lines = LineLog(self.config.live / log)
        try:
            lines.write(f"{utc_stamp()} helm {shlex.join(arguments)}: exit code {done.code}")
            for line in f"{done.out}\n{done.err}".splitlines():
                if line.strip():
                    lines.write(f"  {line}")
        finally:
            lines.close()


def chart_folder(config: ClusterConfig) -> Path:
    """The folder of an unpacked chart: the named one, or the project's own. Raises FleetError when it is absent."""
    places = [place / "harness" for place in PLACES] if config.chart == OWN_CHART else [Path(config.chart)]
    for place in places:
        if (place / "Chart.yaml").is_file():
            return place
    raise FleetError(f"{places[0]} holds no chart: Chart.yaml is absent; name one with k8s.chart=")


def read_objects(text: str) -> list[Document]:
    """The objects of rendered manifests. Raises FleetError for what is no YAML, and for no object at all."""
    import yaml

    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError) as error:
        raise FleetError(f"the rendered chart is no YAML: {' '.join(str(error).split())[:200]}") from error
    objects = [document for document in documents if isinstance(document, dict)]
    if not objects:
        raise FleetError("the chart renders no object at all")
    return objects


def _yaml(values: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(values, sort_keys=False)


def _not_found(done: Done) -> bool:
    return "release: not found" in f"{done.err}{done.out}"
