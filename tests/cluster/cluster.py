"""The test cluster as a whole: up, down, and what a test may ask of it.

``python -m tests.cluster.cluster NODES`` brings one up for a person, says how to reach it, and takes it down at Ctrl-C.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster import images, supplies
from tests.cluster.api import Api, ApiError
from tests.cluster.control import CONTEXT, ControlPlane
from tests.cluster.daemons import Daemon, State, sweep
from tests.cluster.netns import Namespace
from tests.cluster.node import Node
from tests.cluster.registry import Registry
from tests.cluster.supplies import SupplyError

READY_LIMIT_S = 180.0
ROOT = Path(__file__).parents[2]


@dataclass
class Reached:
    """Any cluster that tests run on, a user's own as well."""

    context: str
    kubeconfig: Path | None = None  # None: as the user's environment says
    own: bool = False  # made here: nodes and API may be broken


@dataclass
class Cluster(Reached):
    """A cluster that was made here. Everything that talks to it runs inside ``namespace``."""

    namespace: Namespace = field(default_factory=Namespace)
    nodes: list[Node] = field(default_factory=list)
    took_s: dict[str, float] = field(default_factory=dict)
    daemons: dict[str, Daemon] = field(default_factory=dict)
    state: State = field(init=False)
    control: ControlPlane = field(init=False)
    registry: Registry = field(init=False)
    programs: Path = field(init=False)
    pause_image: str = ""

    @property
    def api(self) -> Api:
        """An administrator at its API; only inside its namespace."""
        return self.control.api

    def up(self, nodes: int) -> None:
        """Bring up control plane and nodes. Raises SupplyError with the last words of what did not come up."""
        began_s = time.monotonic()
        self.state = State(f"harness-{secrets.token_hex(3)}")
        self.programs = supplies.kubernetes()
        with self.namespace.entered():
            self.control = ControlPlane(self.state, self.programs)
            self.kubeconfig = self.control.kubeconfig
            self.registry = Registry(self.state)
            self.pause_image = self.registry.push(images.pause())
            self.control.start()
            self.took_s["api"] = time.monotonic() - began_s
            self.add_on("dns", self.kubeconfig)
            self.add_on("volumes", self.kubeconfig, self.state.folder / "volumes")
            self.add_nodes(nodes)
            self.took_s["nodes"] = time.monotonic() - began_s

    def add_on(self, name: str, *arguments: str | Path) -> None:
        """Start ``tests.cluster.NAME`` as a process of the cluster."""
        command = (sys.executable, "-m", f"tests.cluster.{name}", *arguments)
        self.daemons[name] = self.state.start(name, *command, environment={"PYTHONPATH": str(ROOT)})

    def add_nodes(self, count: int) -> None:
        """Start more nodes and wait until they are ready. Raises SupplyError."""
        first = len(self.nodes) + 1
        for index in range(first, first + count):
            node = Node(
                self.state, self.programs, index, kubeconfig=self._account(), pause_image=self.pause_image
            )  # fmt: skip
            self.nodes.append(node)
            node.start()
        self.wait_nodes()

    def wait_nodes(self, limit_s: float = READY_LIMIT_S) -> None:
        """Wait until every node is ready. Raises SupplyError with the last words of those that are not."""
        end_s = time.monotonic() + limit_s
        while waiting := {node.name for node in self.nodes} - self.ready_nodes():
            late = [node for node in self.nodes if node.name in waiting]
            if time.monotonic() > end_s or not all(node.running for node in late):
                words = "\n".join(node.last_words() for node in late[:2])
                raise SupplyError(f"not ready: {', '.join(sorted(waiting))}\n{words}")
            time.sleep(0.2)

    def ready_nodes(self) -> set[str]:
        """Names of the nodes that the API says are ready."""
        try:
            listed = self.api.get("/api/v1/nodes")["items"]
        except (OSError, ApiError):
            return set()
        return {node["metadata"]["name"] for node in listed if _is_ready(node)}

    def fake_nodes(self, count: int) -> None:
        """Register nodes that run nothing; see ``fake.py``."""
        self.add_on("fake", self._account(), str(count))

    def down(self) -> None:
        """End everything and leave nothing. Raises SupplyError naming what could not be removed."""
        try:
            if hasattr(self, "state"):
                self.state.remove()
        finally:
            self.namespace.close()

    def _account(self) -> Path:
        return self.state.folder / "control" / "kubeconfig"


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


@contextmanager
def running(nodes: int) -> Iterator[Cluster]:
    """A cluster for the time of a ``with`` block. What dead test runs left is removed first. Raises SupplyError."""
    sweep()
    cluster = Cluster(CONTEXT, own=True)
    try:
        cluster.up(nodes)
        yield cluster
    finally:
        cluster.down()


def main() -> int:
    """Bring a cluster up until SIGINT or SIGTERM. Returns the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.suppress(KeyboardInterrupt), running(int(sys.argv[1])) as cluster:
            process = cluster.daemons["dns"].process.pid
            print(f"up after {cluster.took_s}", flush=True)
            print(f"nsenter --net=/proc/{process}/ns/net kubectl --kubeconfig {cluster.kubeconfig} --context {CONTEXT}")
            sys.stdout.flush()
            signal.pause()
    except SupplyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
