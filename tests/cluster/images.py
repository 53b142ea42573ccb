"""Images for the test cluster, made of layers that Python's tarfile writes: nothing is pulled from anywhere.

``pause`` is what every pod's sandbox runs, ``busybox`` a shell with tools, ``harness`` the engine and driver as
``images/Containerfile`` makes it for users, ``mesh`` the same with Envoy and the node proxy's supervisor.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.files import sha256_file
from harness.fleet.local.envoy import envoy_binary
from tests.cluster.supplies import base_image, once, run

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
ROOT = Path(__file__).parents[2]
LOCK = ROOT / "images" / "requirements.lock"
PYTHON = "3.11"  # of Debian 12, which the base image is
SITE = "opt/harness/site"
BUSYBOX = Path("/bin/busybox")
APPLETS = ("sh", "sleep", "cat", "ls", "wget", "nslookup", "kill", "ps", "touch", "id", "test", "true", "false")
MESH = Path(__file__).parent / "mesh"


@dataclass(frozen=True)
class Image:
    """An image: its layers' tars, lowest first, and what its containers start with."""

    name: str
    layers: tuple[Path, ...]
    environment: dict[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    user: str = ""

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """The digest of each layer, which is not compressed: that of its tar as well."""
        return tuple(f"sha256:{sha256_file(layer)}" for layer in self.layers)

    @cached_property
    def config(self) -> bytes:
        """The image's configuration."""
        started = {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
            + [f"{name}={value}" for name, value in self.environment.items()],
            "Entrypoint": list(self.entrypoint),
            "User": self.user,
        }
        return _json(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": started,
                "rootfs": {"type": "layers", "diff_ids": list(self.digests)},
            }
        )

    def manifest(self) -> bytes:
        """The manifest, whose digest names the image."""
        layers = [
            {"mediaType": LAYER, "digest": digest, "size": layer.stat().st_size}
            for digest, layer in zip(self.digests, self.layers, strict=True)
        ]
        config = {"mediaType": CONFIG, "digest": _digest(self.config), "size": len(self.config)}
        return _json({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers})

    def blobs(self) -> Iterator[tuple[str, bytes | Path]]:
        """Digest and content of everything that the manifest names."""
        yield from zip(self.digests, self.layers, strict=True)
        yield _digest(self.config), self.config


def pause() -> Image:
    """What a pod's sandbox runs: busybox, asleep."""
    return Image("pause", (_busybox(),), entrypoint=("/bin/sleep", "1000000000"))


def busybox() -> Image:
    """A shell with tools."""
    return Image("busybox", (_busybox(),))


def harness() -> Image:
    """Engine and driver."""
    environment = {"PYTHONPATH": f"/{SITE}", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    return Image("harness", (base_image(), _packages(), _project()), environment, user="65532:65532")


def mesh() -> Image:
    """Targets and node proxies of a mesh that the tests load. Runs as root: its sockets are in folders of the node."""
    below = harness()
    return Image("mesh", (*below.layers, _envoy(), _supervisor()), below.environment)


def _busybox() -> Path:
    def fill(made: Path) -> None:
        root = made.parent / "root"
        (root / "bin").mkdir(parents=True)
        shutil.copy(BUSYBOX, root / "bin/busybox")
        for applet in APPLETS:
            (root / "bin" / applet).symlink_to("busybox")
        _tar(root, made / "layer.tar")

    return once("busybox", f"{sha256_file(BUSYBOX)} {APPLETS}", fill) / "layer.tar"


def _packages() -> Path:
    """The packages of ``images/requirements.lock``, for the image's Python and not for this one."""
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)]
    platforms += [f"--platform=manylinux{year}_x86_64" for year in (2014, 2010)]

    def fill(made: Path) -> None:
        root = made.parent / "root"
        run(
            sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--no-compile",
            "--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp", *platforms,
            "-r", LOCK, "--target", root / SITE,
        )  # fmt: skip
        _tar(root, made / "layer.tar")

    return once("packages", f"{PYTHON} {LOCK.read_text()}", fill) / "layer.tar"


def _project() -> Path:
    """The project itself: what its wheel would hold."""
    folder = ROOT / "harness"
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    key = "".join(f"{path.relative_to(ROOT)} {sha256_file(path)}\n" for path in files)

    def fill(made: Path) -> None:
        root = made.parent / "root"
        for path in files:
            target = root / SITE / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        _tar(root, made / "layer.tar")

    return once("project", key, fill) / "layer.tar"


def _envoy() -> Path:
    """The installed package, as it stands here."""
    binary = envoy_binary()
    package = next(folder for folder in binary.parents if folder.name == "envoy")

    def fill(made: Path) -> None:
        root = made.parent / "root"
        shutil.copytree(package, root / SITE / "envoy", ignore=shutil.ignore_patterns("__pycache__"))
        _tar(root, made / "layer.tar")

    return once("envoy", sha256_file(binary), fill) / "layer.tar"


def _supervisor() -> Path:
    program = MESH / "proxy.py"

    def fill(made: Path) -> None:
        root = made.parent / "root"
        (root / "opt/mesh").mkdir(parents=True)
        shutil.copy(program, root / "opt/mesh/proxy.py")
        _tar(root, made / "layer.tar")

    return once("supervisor", sha256_file(program), fill) / "layer.tar"


def _tar(root: Path, target: Path) -> None:
    """A layer: the same bytes from the same files, whoever made them and when."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = 0
        info.mode |= 0o444 if info.isfile() else 0o555 if info.isdir() else 0
        return info

    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            archive.add(path, arcname=str(path.relative_to(root)), recursive=False, filter=plain)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
