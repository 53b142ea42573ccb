"""Where the chart and its images come from: each by digest, each signed by the workflow that the settings name.

The chart is fetched once for a run. The file that was looked at is the file that is installed, with the images that
were looked at: ``verified_chart`` holds both against ``live/chart.json`` right before helm gets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import FleetError, PinError, ProvenanceError
from harness.files import read_json, sha256_file, sha256_text, write_json
from harness.fleet.base import Check
from harness.fleet.kubernetes import commands
from harness.fleet.kubernetes.answers import Document
from harness.fleet.kubernetes.chart import LEAST_VERSION, Helm, chart_folder
from harness.fleet.kubernetes.config import OCI, ClusterConfig

CHART_FOLDER, CHART_JSON = "chart", "chart.json"
LEAST_COSIGN = 3
COSIGN_LIMIT_S, VERSION_LIMIT_S = 120.0, 15.0
LEAST_IMAGES = 2  # an engine and a driver
BY_DIGEST = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")
NOT_VERIFIED = "note: NOT VERIFIED"
UNVERIFIED = "no"
AUTO, REQUIRE, OFF = "auto", "require", "off"


@dataclass
class Provenance:
    """What was found: a line per thing looked at, and as far as it got the chart, its images and who verified them.

    ``verified`` is ``no``, or ``cosign-<version>`` when the chart and every image are signed as the settings ask.
    """

    checks: list[Check] = field(default_factory=list)
    file: Path | None = None
    digest: str = ""
    images: tuple[str, ...] = ()
    helm: str = ""
    cosign: str = ""
    verified: str = UNVERIFIED

    @property
    def ok(self) -> bool:
        """Whether every line holds, and the chart is there."""
        return self.file is not None and all(check.ok for check in self.checks)

    def add(self, name: str, ok: bool, seen: str) -> bool:
        """Add a line; whether it holds."""
        self.checks.append(Check(name, ok, seen))
        return ok


def examine(config: ClusterConfig) -> Provenance:
    """Fetch the chart once, render it as this run will, look at everything; keep what was found when all holds.

    Never raises for what is wrong with chart, images, signatures or tools: each is a line. Raises OSError (full disk).
    """
    found = Provenance()
    helm = Helm(config)
    if _pinned(config, found) and _fetched(helm, found) and _rendered(helm, found):
        _signed(config, found)
    if found.ok and found.file is not None:
        write_json(
            config.live / CHART_JSON,
            {
                "schema": 1,
                "chart": config.chart,
                "digest": found.digest,
                "file": f"{CHART_FOLDER}/{found.file.name}",
                "sha256": sha256_file(found.file),
                "images": sorted(set(found.images)),
                "helm": found.helm,
                "verified": found.verified,
            },
        )
    return found


def verified_chart(config: ClusterConfig) -> Path:
    """The chart to install: the very file, rendering the very images, that ``examine`` passed.

    Raises ProvenanceError when either is another now, and FleetError when helm cannot render it.
    """
    record = _record(config)
    path = config.live / str(record["file"])
    try:
        seen = sha256_file(path)
    except OSError as error:
        raise ProvenanceError(f"the chart that was looked at is gone: {error}; start a new run") from error
    if seen != record["sha256"]:
        raise ProvenanceError(
            f"{path} is not the chart that was looked at (sha256 {seen[:12]}…, was {str(record['sha256'])[:12]}…): "
            "it was changed; nothing was installed, start a new run"
        )
    images = sorted(set(_images(Helm(config).template(path, plan=_plan(config)))))
    if images != record["images"]:
        raise ProvenanceError(
            f"the chart now renders {', '.join(images)}, and {', '.join(record['images'])} when it was looked at: a "
            "values file was changed; nothing was installed, start a new run"
        )
    return path


def verified_by(config: ClusterConfig) -> str:
    """``VERIFIED`` of run.env: ``no`` or ``cosign-<version>``. Raises ProvenanceError before ``examine`` passed."""
    return str(_record(config)["verified"])


def pins(config: ClusterConfig) -> dict[str, str]:
    """Name → version or digest of chart, images and tools. Raises ProvenanceError with every line that fails."""
    found = examine(config)
    if not found.ok:
        failed = "; ".join(f"{check.name}: {check.seen}" for check in found.checks if not check.ok)
        raise ProvenanceError(f"{failed}; nothing was installed")
    named = {"chart": found.digest, "helm": found.helm, "verified": found.verified}
    if found.cosign:
        named["cosign"] = found.cosign
    named |= {f"image {name}": digest for name, _, digest in (image.rpartition("@") for image in found.images)}
    return dict(sorted(named.items()))


# --- by digest


def _pinned(config: ClusterConfig, found: Provenance) -> bool:
    name = "chart by digest"
    if config.chart_is_folder:
        return found.add(name, True, f"{config.chart} is a folder of this machine: its digest is taken from its files")
    last = config.chart.removeprefix(OCI).rpartition("/")[2]
    if ":" in last or "@" in last:
        return found.add(
            name, False, f"k8s.chart={config.chart} names a tag or a digest; give k8s.chart_digest=sha256:… beside it"
        )
    if not config.chart_digest:
        return found.add(name, False, "k8s.chart_digest= is empty, and a tag can be moved; give sha256:…")
    return found.add(name, True, config.chart_reference)


def _fetched(helm: Helm, found: Provenance) -> bool:
    config = helm.config
    try:
        found.helm = helm.version()
        if tuple(map(int, found.helm.split("."))) < LEAST_VERSION:
            least = ".".join(map(str, LEAST_VERSION))
            return found.add("helm", False, f"helm {found.helm} is too old; install {least} or newer")
        found.add("helm", True, f"helm {found.helm}")
        found.file, found.digest = _kept(config) or _fetch(helm)
    except (FleetError, PinError) as error:
        return found.add("chart" if found.helm else "helm", False, str(error))
    if config.chart_is_folder and config.chart_digest not in ("", found.digest):
        return found.add(
            "chart", False, f"{config.chart} has {found.digest}, not k8s.chart_digest={config.chart_digest}"
        )
    return found.add("chart", True, f"{found.file.name}, {found.digest}")


def _fetch(helm: Helm) -> tuple[Path, str]:
    config = helm.config
    digest = folder_digest(chart_folder(config)) if config.chart_is_folder else config.chart_digest
    return helm.fetch(config.live / CHART_FOLDER), digest


def _kept(config: ClusterConfig) -> tuple[Path, str] | None:
    """The chart that this run has already, and its digest. Raises ProvenanceError when it was changed since."""
    if not (config.live / CHART_JSON).exists():
        return None
    record = _record(config)
    path = config.live / str(record["file"])
    try:
        if sha256_file(path) == record["sha256"]:
            return path, str(record["digest"])
    except OSError as error:
        raise ProvenanceError(f"the chart that was looked at is gone: {error}; start a new run") from error
    raise ProvenanceError(f"{path} was changed since it was looked at; start a new run")


def _rendered(helm: Helm, found: Provenance) -> bool:
    name = "images by digest"
    try:
        found.images = tuple(_images(helm.template(found.file or Path(), plan=_plan(helm.config))))
    except FleetError as error:
        return found.add(name, False, str(error))
    if len(found.images) < LEAST_IMAGES:
        seen = ", ".join(found.images) or "none"
        return found.add(name, False, f"the chart renders {len(found.images)} images ({seen}), not engine and driver")
    loose = sorted({image for image in found.images if not BY_DIGEST.fullmatch(image)})
    if loose:
        return found.add(name, False, f"{', '.join(loose)}: a tag can be moved; give NAME@sha256:… in a values file")
    return found.add(name, True, ", ".join(sorted(set(found.images))))


def _images(documents: list[Document]) -> Iterator[str]:
    """Every image that rendered objects name, in order, each as often as it is named."""
    for document in documents:
        yield from _images_in(document)


def _images_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "image" and isinstance(inner, str):
                yield inner
            else:
                yield from _images_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _images_in(inner)


def folder_digest(folder: Path) -> str:
    """``sha256:…`` over names and contents of a chart's files, whenever and wherever they were written."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{sha256_file(path)}  {path.relative_to(folder).as_posix()}\n" for path in files]
    return f"sha256:{sha256_text(''.join(lines))}"


# --- signatures


def _signed(config: ClusterConfig, found: Provenance) -> None:
    """Every signature that the settings ask for, each its own line."""
    if config.verify == OFF:
        found.add("signatures", True, f"{NOT_VERIFIED}: k8s.verify=off")
        return
    required = config.verify == REQUIRE
    if not commands.is_there(config.cosign):
        seen = f"{config.cosign} is not installed"
        found.add("cosign", not required, f"{seen}, and k8s.verify=require" if required else f"{NOT_VERIFIED}: {seen}")
        return
    try:
        found.cosign = cosign_version(config.cosign)
    except FleetError as error:
        found.add("cosign", False, str(error))
        return
    if int(found.cosign.partition(".")[0]) < LEAST_COSIGN:
        found.add(
            "cosign",
            False,
            f"cosign {found.cosign} is too old to find today's signatures; install {LEAST_COSIGN} or newer",
        )
        return
    if not config.identity or not config.issuer:
        seen = "k8s.identity= and k8s.issuer= do not say whose signature is wanted"
        found.add("signatures", not required, seen if required else f"{NOT_VERIFIED}: {seen}")
        return
    if not (config.identity.startswith("^") and config.identity.endswith("$")):
        found.add("signatures", False, "k8s.identity= must begin with ^ and end with $, or others' names match as well")
        return
    found.add("cosign", True, f"cosign {found.cosign}")
    results = [_verify(config, found, f"image {image}", image) for image in dict.fromkeys(found.images)]
    if config.chart_is_folder:
        seen = "the chart is a folder of this machine, which nobody signs"
        found.add("signature of the chart", not required, seen if required else f"{NOT_VERIFIED}: {seen}")
        results.append(False)
    else:
        results.append(_verify(config, found, "the chart", config.chart_reference))
    if all(results):
        found.verified = f"cosign-{found.cosign}"


def cosign_version(cosign: str) -> str:
    """Like ``3.1.1``. Raises FleetError when cosign cannot be started or says no version."""
    done = commands.run(cosign, ["version"], limit_s=VERSION_LIMIT_S)
    seen = re.search(r"gitversion[\"\s:]+v?(\d+(?:\.\d+)+)", done.out + done.err, re.IGNORECASE)
    if done.code or not seen:
        raise FleetError(f"{cosign} tells no version: {done.said}")
    return seen[1]


def _verify(config: ClusterConfig, found: Provenance, what: str, reference: str) -> bool:
    arguments = ["verify", "--certificate-identity-regexp", config.identity, "--certificate-oidc-issuer", config.issuer]
    arguments += ["--trusted-root", config.trusted_root] if config.trusted_root else []
    arguments += ["--allow-http-registry"] if config.plain_http else []
    name = f"signature of {what}"
    try:
        done = commands.run(config.cosign, [*arguments, reference], limit_s=COSIGN_LIMIT_S)
    except FleetError as error:
        return found.add(name, False, str(error))
    if done.code == 0:
        return found.add(name, True, f"signed by {config.identity}")
    return found.add(name, False, f"{_why(done.err + done.out)}; nothing of it is installed: {done.said}")


def _why(said: str) -> str:
    """What a failed verification means. Only the words depend on this, never the verdict."""
    text = said.lower()
    if "none of the expected identities matched" in text:
        return "it is signed, but by another identity than k8s.identity= and k8s.issuer= name"
    if "no signatures found" in text or "no matching signatures" in text:
        return "it is not signed, or not for this digest"
    return "its signature cannot be verified"


# --- what was kept


def _plan(config: ClusterConfig) -> str:
    """The plan's text; before there is one, something for the chart to render its Job with."""
    try:
        return config.folder.plan.read_text(encoding="utf-8")
    except FileNotFoundError:
        return "{}"


def _record(config: ClusterConfig) -> Document:
    path = config.live / CHART_JSON
    try:
        record = read_json(path)
    except FileNotFoundError as error:
        raise ProvenanceError("the chart of this run was not looked at yet; its stage pins does that") from error
    except (OSError, ValueError) as error:
        raise ProvenanceError(f"{path} cannot be read: {error}; start a new run") from error
    wanted = {"file": str, "digest": str, "sha256": str, "images": list, "verified": str}
    if not isinstance(record, dict) or not all(isinstance(record.get(key), kind) for key, kind in wanted.items()):
        raise ProvenanceError(f"{path} is not what this program writes; start a new run")
    return record
