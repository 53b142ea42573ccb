"""Processes of the cluster, each with a log, none of which outlives the test run; and what a killed run left behind.

Every process is told by the kernel to end when the thread that started it does (so only the main thread starts any).
A run that is killed therefore leaves no process, no mount and no namespace: only cgroups and its folder, which its
state file names. The next run removes those, and ends by pid and start time whatever should be there all the same.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from harness.files import read_json, write_json
from harness.processes import Identity, alive, identify, own_identity, send
from tests.cluster.supplies import SupplyError, cache, only_one

LAST_LINES_BYTES = 2000
GONE_LIMIT_S = 15.0


class Daemon:
    """One process and its log."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log
        self.identity = identify(process.pid) or Identity(process.pid, 0)

    @property
    def running(self) -> bool:
        """True while it runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.wait(GONE_LIMIT_S)

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_bytes()[-LAST_LINES_BYTES:].decode(errors="replace")


class State:
    """What one cluster has outside of its folder, in a file of the folder that is written before it exists."""

    def __init__(self, name: str) -> None:
        self.folder = clusters() / name
        self._processes: dict[str, Identity] = {}
        self._cgroups: list[str] = []
        with only_one("clusters"):  # a folder without a state file would be swept
            (self.folder / "logs").mkdir(parents=True)
            self._write()

    def start(self, name: str, *command: str | Path, environment: Mapping[str, str] | None = None) -> Daemon:
        """Start a process that ends with the calling thread; its output goes into ``logs/NAME.log``."""
        log = self.folder / "logs" / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
                | (environment or {}),
                start_new_session=True,  # Ctrl-C is the test run's
            )
        daemon = Daemon(name, process, log)
        self._processes[name] = daemon.identity
        self._write()
        return daemon

    def cgroup(self, name: str) -> list[Path]:
        """Make cgroup ``name`` in every v1 hierarchy: their folders. Raises SupplyError where there is none."""
        if name not in self._cgroups:
            self._cgroups.append(name)
            self._write()
        parents = hierarchies()
        if not parents:
            raise SupplyError("no cgroup v1 hierarchy is mounted, and this kubelet needs them")
        for parent in parents:
            (parent / name).mkdir(exist_ok=True)
            for inherited in ("cpuset.cpus", "cpuset.mems"):
                if (parent / inherited).exists():
                    (parent / name / inherited).write_text((parent / inherited).read_text())
        return [parent / name for parent in parents]

    def remove(self) -> None:
        """End whatever is left of it, and remove cgroups and folder. Raises SupplyError naming what could not be."""
        remove(self.folder)

    def _write(self) -> None:
        processes = {name: identity.to_json() for name, identity in self._processes.items()}
        document = {"owner": own_identity().to_json(), "processes": processes, "cgroups": self._cgroups}
        write_json(self.folder / "state.json", document)


def clusters() -> Path:
    """Where every cluster has its folder: on a disk, since file systems of containers are laid over it."""
    return cache() / "clusters"


def hierarchies() -> list[Path]:
    """The mounted cgroup v1 hierarchies."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(words[1]) for words in mounts if words[2] == "cgroup"]


def sweep() -> list[str]:
    """Remove what clusters left whose test run is gone: their names."""
    with only_one("clusters"):
        left = [folder for folder in sorted(clusters().glob("*/")) if not _owned(folder)]
        for folder in left:
            remove(folder)
    return [folder.name for folder in left]


def _owned(folder: Path) -> bool:
    try:
        return alive(Identity.from_json(read_json(folder / "state.json")["owner"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def remove(folder: Path) -> None:
    """End the processes of a cluster's state file, remove its cgroups and its folder. Raises SupplyError."""
    try:
        state = read_json(folder / "state.json")
        processes = [Identity.from_json(value) for value in state["processes"].values()]
        names = [str(name) for name in state["cgroups"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        processes, names = [], []  # it was killed before it had anything
    (folder / "kubeconfig").unlink(missing_ok=True)  # first: it names an address that may be somebody's outside
    cgroups = [parent / name for parent in hierarchies() for name in names]
    for group in cgroups:
        thaw(group)  # what is frozen cannot be killed
    for process in processes:
        send(process, signal.SIGKILL)
    end_s = time.monotonic() + GONE_LIMIT_S
    while left := [str(group) for group in cgroups if not _removed(group)] + [
        f"process {process.pid}" for process in processes if alive(process)
    ]:
        if time.monotonic() > end_s:
            raise SupplyError(f"a test cluster is not gone after {GONE_LIMIT_S:g} s: {', '.join(left)}")
        time.sleep(0.1)
    shutil.rmtree(folder)


def freeze(group: Path) -> None:
    """Stop every process of a freezer cgroup and of those below it, at once."""
    (group / "freezer.state").write_text("FROZEN")


def thaw(group: Path) -> None:
    """The end of ``freeze``; nothing where nothing is frozen."""
    for path, _, files in os.walk(group):
        if "freezer.state" in files:
            with contextlib.suppress(OSError):
                (Path(path) / "freezer.state").write_text("THAWED")


def wait_empty(group: Path) -> None:
    """Wait until no process is in a cgroup or below it. Raises SupplyError."""
    end_s = time.monotonic() + GONE_LIMIT_S
    while any(_has_processes(Path(path)) for path, _, _ in os.walk(group)):
        if time.monotonic() > end_s:
            raise SupplyError(f"processes of {group} are still there {GONE_LIMIT_S:g} s after they were killed")
        time.sleep(0.05)


def _has_processes(group: Path) -> bool:
    try:
        return bool((group / "cgroup.procs").read_text())
    except OSError:
        return False  # removed meanwhile


def _removed(group: Path) -> bool:
    for path, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            Path(path).rmdir()
    return not group.exists()
