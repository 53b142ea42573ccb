"""What a local fleet is to be: read from the run's folder, the same for the supervisor and for whoever asks it."""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.errors import FleetError
from harness.files import read_json, sha256_text
from harness.plan.build import node_names
from harness.runs import RunFolder

MAX_NODES = 26
UDS_PREFIX = "uds-"
SOCKET_PATH_LIMIT = 107  # sun_path holds 108 bytes with its final NUL
LONGEST_SOCKET_NAME = 48


@dataclass(frozen=True)
class NodeConfig:
    """One node: its name, its own loopback address, and the name of its engine."""

    name: str
    address: str

    @property
    def engine_name(self) -> str:
        """The engine's name in engines.tsv."""
        return f"engine-{self.name}"


@dataclass(frozen=True)
class TargetConfig:
    """One target as the proxies and the servers need it."""

    name: str
    url: str
    rate_rps: int

    @property
    def authority(self) -> str:
        """``host:port`` of the URL: what the proxies route by."""
        return urlsplit(self.url).netloc

    @property
    def host(self) -> str:
        """The authority without its port."""
        return urlsplit(self.url).hostname or ""

    @property
    def over_unix_socket(self) -> bool:
        """True when the proxies reach this target over Unix sockets."""
        return self.name.startswith(UDS_PREFIX)


@dataclass(frozen=True)
class LocalConfig:
    """A local fleet, as run.json and shares.tsv of its run describe it. Times in seconds."""

    folder: RunFolder
    token: str
    nodes: tuple[NodeConfig, ...]
    targets: tuple[TargetConfig, ...]
    replicas: int
    duration_s: int
    settle_s: float
    fault: str
    access_log: str
    connections: int
    max_executions: int
    request_timeout_s: float
    engine_drain_s: float
    engine_grace_s: float
    proxy_drain_s: float
    parent_shutdown_s: float
    target_drain_s: float
    progress_s: float

    @property
    def socket_dir(self) -> Path:
        """Short, private folder of every Unix socket; follows from the token, so that a sweep always finds it."""
        name = f"soak-{sha256_text(self.token)[:12]}"
        wanted = Path(tempfile.gettempdir()) / name
        if len(str(wanted)) + 1 + LONGEST_SOCKET_NAME <= SOCKET_PATH_LIMIT:
            return wanted
        return Path("/tmp") / name  # noqa: S108 - private (0700) and named by an unguessable digest

    @property
    def load_limit_s(self) -> float:
        """The longest a load may take, from the start of the driver to its exit.

        The driver gives a backend duration + timeout + drain + grace, 10 s for an answer on its way and 30 s for
        what a cancelled one still says; 30 s more are for its own start and its report.
        """
        waits = self.request_timeout_s + self.engine_drain_s + self.engine_grace_s
        return self.duration_s + waits + 10 + 30 + 30

    @property
    def live(self) -> Path:
        """Where the fleet's parts write."""
        return self.folder.live


def node_configs(count: int) -> tuple[NodeConfig, ...]:
    """``node-a`` … with the addresses ``127.0.1.1`` …. Raises FleetError outside 1 to 26."""
    if not 1 <= count <= MAX_NODES:
        raise FleetError(f"nodes={count} does not fit the embedded fleet, which has 1 to {MAX_NODES} nodes")
    return tuple(NodeConfig(name, f"127.0.1.{i}") for i, name in enumerate(node_names(count), start=1))


def read_config(folder: RunFolder) -> LocalConfig:
    """The fleet of a run. Raises FleetError naming the file and the key that is absent or unusable."""
    try:
        document = read_json(folder.run_json)
        settings: dict[str, Any] = document["settings"]
        return LocalConfig(
            folder=folder,
            token=str(document["token"]),
            nodes=node_configs(int(settings["nodes"])),
            targets=_read_targets(folder.shares),
            replicas=int(settings["replicas"]),
            duration_s=int(settings["duration_s"]),
            settle_s=float(settings["settle_s"]),
            fault=str(settings["fault"]),
            access_log=str(settings["access_log"]),
            connections=int(settings["connections"]),
            max_executions=int(settings["engine.max_executions"]),
            request_timeout_s=float(settings["engine.timeout_s"]),
            engine_drain_s=float(settings["engine.drain_s"]),
            engine_grace_s=float(settings["engine.grace_s"]),
            proxy_drain_s=float(settings["proxy.drain_s"]),
            parent_shutdown_s=float(settings["proxy.parent_shutdown_s"]),
            target_drain_s=float(settings["target.drain_s"]),
            progress_s=float(settings["progress_s"]),
        )
    except KeyError as error:
        raise FleetError(f"{folder.run_json} has no {error.args[0]!r}; make the plan of this run again") from error
    except (OSError, ValueError, TypeError) as error:
        raise FleetError(f"the fleet of run {folder.run} cannot be read: {error}; make its plan again") from error


def _read_targets(path: Path) -> tuple[TargetConfig, ...]:
    targets = []
    for line in path.read_text(encoding="utf-8").splitlines():
        name, rate_rps, url = line.split("\t")
        targets.append(TargetConfig(name, url, int(rate_rps)))
    return tuple(targets)


def make_socket_dir(path: Path) -> None:
    """Create the private folder, or take it when it is already ours. Raises FleetError when it is somebody else's."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        seen = path.lstat()
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid():
            raise FleetError(f"{path} is there and not ours; remove it and start again") from None
        path.chmod(0o700)
