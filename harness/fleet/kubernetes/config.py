"""What a fleet on Kubernetes is to be: read from the run's folder, the same for every process that asks.

Names of objects follow from the release and the kind of engine, here and nowhere else. The context is always named:
the current context of a kubeconfig is never used, since it may be anybody's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.errors import FleetError
from harness.files import read_json
from harness.runs import RunFolder

SORTIE, HARNESS = "sortie", "harness"
ENGINES = (SORTIE, HARNESS)
IN_CLUSTER = "in-cluster"
"""The name of the context for a harness that runs in a pod itself, with the pod's own account."""
ENGINE_PORT = 8443
REPORT_FOLDER = "/var/run/sortie"
OWN_CHART = "charts/harness"
OCI = "oci://"
VERIFY_MODES = ("auto", "require", "off")
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
LONGEST_RELEASE = 53  # helm's own limit
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
FULL_LENGTH, ENGINE_LENGTH, SERVICE_LENGTH = 63, 56, 50


@dataclass(frozen=True)
class ClusterTarget:
    """One target of the plan. ``rate_rps`` is per node."""

    name: str
    url: str
    rate_rps: int

    @property
    def service(self) -> tuple[str, str] | None:
        """Namespace and name of the Service behind it, or None when its host does not say: ``NAME.NAMESPACE[.…]``."""
        labels = (urlsplit(self.url).hostname or "").split(".")
        return (labels[1], labels[0]) if len(labels) >= 2 and all(labels[:2]) else None


@dataclass(frozen=True)
class ClusterConfig:
    """A fleet on Kubernetes, as run.json and shares.tsv of its run describe it. Times in seconds.

    ``engine_settle_s`` is between ready engines and the load, ``settle_s`` between the load's start and the first roll.
    """

    folder: RunFolder
    token: str
    context: str
    kubeconfig: str
    namespace: str
    system_namespace: str
    release: str
    engine: str
    image: str
    reader_image: str
    chart: str
    chart_digest: str
    values: tuple[Path, ...]
    storage_class: str
    priority_class: str
    cluster_domain: str
    statsd: str
    statsd_service: str
    verify: str
    identity: str
    issuer: str
    trusted_root: str
    plain_http: bool
    helm: str
    cosign: str
    duration_s: int
    engine_settle_s: float
    settle_s: float
    max_executions: int
    connections: int
    request_timeout_s: float
    engine_drain_s: float
    engine_grace_s: float
    targets: tuple[ClusterTarget, ...]

    @property
    def live(self) -> Path:
        """Where every process of this fleet writes."""
        return self.folder.live

    @property
    def run_tag(self) -> str:
        """The run's id: names its files on the volume."""
        return self.folder.run

    @property
    def fullname(self) -> str:
        """What the chart's objects are named after."""
        return _cut(f"{self.release}-{self.engine}", FULL_LENGTH)

    @property
    def daemon_set(self) -> str:
        """The DaemonSet of the engines."""
        return f"{_cut(self.fullname, ENGINE_LENGTH)}-engine"

    @property
    def engine_service(self) -> str:
        """The headless Service that lists every engine."""
        return f"{_cut(self.fullname, SERVICE_LENGTH)}-engine-nodes"

    @property
    def pool_dns(self) -> str:
        """``host:port`` that resolves to every engine inside the cluster: the pool of the plan."""
        return f"{self.engine_service}.{self.namespace}.svc.{self.cluster_domain}:{ENGINE_PORT}"

    @property
    def instance_labels(self) -> str:
        """Selects every object of the release."""
        return f"app.kubernetes.io/name={self.engine},app.kubernetes.io/instance={self.release}"

    @property
    def engine_labels(self) -> str:
        """Selects the pods of the engines."""
        return f"{self.instance_labels},app.kubernetes.io/component=engine"

    @property
    def pvc(self) -> str:
        """The claim of the volume that keeps the reports; it outlives the release."""
        return f"{self.release}-report"

    @property
    def reader_pod(self) -> str:
        """The one-shot pod that prints a file of the volume."""
        return f"{self.release}-report-reader"

    @property
    def report_path(self) -> str:
        """The report on the volume, in the driver's pod."""
        return f"{REPORT_FOLDER}/{self.run_tag}.json"

    @property
    def stream_name(self) -> str:
        """The results stream: a bare name beside the report."""
        return f"{self.run_tag}.jsonl"

    @property
    def chart_is_folder(self) -> bool:
        """True when the chart is a folder of this machine, and not pulled from a registry."""
        return not self.chart.startswith(OCI)

    @property
    def chart_reference(self) -> str:
        """``REGISTRY/PATH/NAME@sha256:…``, or the folder."""
        return self.chart if self.chart_is_folder else f"{self.chart.removeprefix(OCI)}@{self.chart_digest}"


def _cut(name: str, length: int) -> str:
    return name[:length].rstrip("-")


def read_config(folder: RunFolder) -> ClusterConfig:
    """The fleet of a run. Raises FleetError naming the file and the key that is absent or unusable."""
    try:
        document = read_json(folder.run_json)
        settings: dict[str, Any] = document["settings"]
        return make_config(folder, settings, token=str(document["token"]), targets=_read_targets(folder.shares))
    except KeyError as error:
        raise FleetError(f"{folder.run_json} has no {error.args[0]!r}; make the plan of this run again") from error
    except (OSError, ValueError, TypeError) as error:
        raise FleetError(f"the fleet of run {folder.run} cannot be read: {error}; make its plan again") from error


def make_config(
    folder: RunFolder, settings: dict[str, Any], *, token: str, targets: tuple[ClusterTarget, ...]
) -> ClusterConfig:
    """The fleet that flat settings (``fleet``, ``duration_s``, ``k8s.…``) describe.

    Raises KeyError for an absent key and ValueError for a value that cannot be.
    """
    release = _label("k8s.release", settings)
    if len(release) > LONGEST_RELEASE:
        raise ValueError(f"k8s.release={release} is longer than {LONGEST_RELEASE} characters")
    engine = _one_of("k8s.engine", str(settings["k8s.engine"]), ENGINES)
    chart = str(settings["k8s.chart"])
    if not chart and engine == SORTIE:
        raise ValueError("k8s.chart= is empty; name the chart of sortie, like oci://REGISTRY/PATH/NAME")
    digest = str(settings["k8s.chart_digest"])
    if digest and not DIGEST.fullmatch(digest):
        raise ValueError(f"k8s.chart_digest={digest} is no digest: sha256: and 64 hexadecimal digits")
    context = str(settings["fleet"])
    if not context or context == "local":
        raise ValueError(f"fleet={context} names no context of a kubeconfig")
    return ClusterConfig(
        folder=folder,
        token=token,
        context=context,
        kubeconfig=str(settings["k8s.kubeconfig"]),
        namespace=_label("k8s.namespace", settings),
        system_namespace=_label("k8s.system_namespace", settings, empty=True),
        release=release,
        engine=engine,
        image=str(settings["k8s.image"]),
        reader_image=str(settings["k8s.reader_image"]),
        chart=chart or OWN_CHART,
        chart_digest=digest,
        values=tuple(Path(part.strip()) for part in str(settings["k8s.values"]).split(";") if part.strip()),
        storage_class=str(settings["k8s.storage_class"]),
        priority_class=_label("k8s.priority_class", settings),
        cluster_domain=str(settings["k8s.cluster_domain"]),
        statsd=str(settings["k8s.statsd"]),
        statsd_service=str(settings["k8s.statsd_service"]),
        verify=_one_of("k8s.verify", str(settings["k8s.verify"]), VERIFY_MODES),
        identity=str(settings["k8s.identity"]),
        issuer=str(settings["k8s.issuer"]),
        trusted_root=str(settings["k8s.trusted_root"]),
        plain_http=bool(int(settings["k8s.plain_http"])),
        helm=str(settings["k8s.helm"]),
        cosign=str(settings["k8s.cosign"]),
        duration_s=int(settings["duration_s"]),
        engine_settle_s=float(settings["settle_s"]),
        settle_s=float(settings["k8s.settle_s"]),
        max_executions=int(settings["engine.max_executions"]),
        connections=int(settings["connections"]),
        request_timeout_s=float(settings["engine.timeout_s"]),
        engine_drain_s=float(settings["engine.drain_s"]),
        engine_grace_s=float(settings["engine.grace_s"]),
        targets=targets,
    )


def _one_of(key: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{key}={value} must be one of {', '.join(choices)}")
    return value


def _label(key: str, settings: dict[str, Any], *, empty: bool = False) -> str:
    value = str(settings[key])
    if not LABEL.fullmatch(value) and not (empty and not value):
        raise ValueError(f"{key}={value} is no name of an object: letters a to z, digits and '-', at most 63")
    return value


def _read_targets(path: Path) -> tuple[ClusterTarget, ...]:
    targets = []
    for line in path.read_text(encoding="utf-8").splitlines():
        name, rate_rps, url = line.split("\t")
        targets.append(ClusterTarget(name, url, int(rate_rps)))
    return tuple(targets)
