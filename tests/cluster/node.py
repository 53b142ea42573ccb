"""A node: containerd and kubelet in mount and pid namespaces of their own, started by ``node_inside.py``.

Killing its one process ends every container and takes every mount with it. Its containers, and containerd and kubelet
themselves, are in one freezer cgroup, so that a whole node can be stopped at once, as by a hypervisor.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.cluster import netns
from tests.cluster.daemons import Daemon, State, freeze, thaw, wait_empty

INSIDE = Path(__file__).with_name("node_inside.py")
PLUGINS = Path("/usr/lib/cni")
FIRST_ADDRESS = 10
MOST_NODES = 50
POD_ADDRESSES = ("10.244.1.1", "10.244.3.254")
# What the kubelet wants of the kernel. It finds these values, and so sets nothing on the machine.
SYSCTLS = {
    "vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10, "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000, "kernel/keys/root_maxbytes": 25_000_000,
}  # fmt: skip


class Node:
    """Node ``index`` (from 1) of a cluster: ``node-1`` at ``10.244.0.11``."""

    def __init__(self, state: State, programs: Path, index: int, *, kubeconfig: Path, pause_image: str) -> None:
        if not 1 <= index <= MOST_NODES:
            raise ValueError(f"node {index} of at most {MOST_NODES}")
        self.name = f"node-{index}"
        self.address = f"10.244.0.{FIRST_ADDRESS + index}"
        self.folder = state.folder / self.name
        self._state = state
        self._programs = programs
        self._cgroup = f"{state.folder.name}-{index}"
        self._kubeconfig = kubeconfig
        self._pause_image = pause_image
        self._daemon: Daemon | None = None

    def start(self) -> None:
        """Start it, or start it again after ``kill``: what its disk has is still there. Only the main thread may."""
        netns.add_address(self.address)
        groups = self._state.cgroup(self._cgroup)
        for name in ("lib", "log", "cni", "containerd", "kubelet", "sysctls", "opt"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "containerd.toml").write_text(self._containerd())
        (self.folder / "kubelet.yaml").write_text(json.dumps(self._kubelet(), indent=2))
        (self.folder / "resolv.conf").write_text(f"nameserver {netns.GATEWAY}\n")
        (self.folder / "cni" / "10-bridge.conflist").write_text(json.dumps(self._network(), indent=2))
        document = {
            "name": self.name,
            "address": self.address,
            "kubelet": str(self._programs / "kubelet"),
            "kubeconfig": str(self._kubeconfig),
            "freezer": str(next(group for group in groups if group.parent.name == "freezer")),
            "sysctls": SYSCTLS,
        }
        (self.folder / "node.json").write_text(json.dumps(document, indent=2))
        self._daemon = self._state.start(
            self.name, "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc",
            "--kill-child=KILL", sys.executable, "-I", INSIDE, self.folder,
        )  # fmt: skip

    @property
    def freezer(self) -> Path:
        """The freezer cgroup of everything on this node."""
        return Path(json.loads((self.folder / "node.json").read_text())["freezer"])

    def freeze(self) -> None:
        """Everything on it stands still, its connections stay open. ``thaw`` ends that."""
        freeze(self.freezer)

    def thaw(self) -> None:
        """The end of ``freeze``."""
        thaw(self.freezer)

    def kill(self) -> None:
        """As by a power cut. The API says it is lost after 20 s."""
        self.thaw()  # what is frozen cannot be killed
        if self._daemon is not None:
            self._daemon.kill()
        wait_empty(self.freezer)

    @property
    def running(self) -> bool:
        """True while containerd and kubelet run."""
        return self._daemon is not None and self._daemon.running

    def last_words(self) -> str:
        """The ends of its logs, for a test that failed."""
        logs = [self._state.folder / "logs" / f"{self.name}.log", *sorted(self.folder.glob("*.log"))]
        return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs if log.exists())

    def _containerd(self) -> str:
        return f"""\
version = 2
root = "{self.folder}/containerd"
state = "/run/containerd/state"
oom_score = 0
[grpc]
  address = "/run/containerd/cri.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{self.folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  sandbox_image = "{self._pause_image}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{self.folder}/cni"
"""

    def _kubelet(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "readOnlyPort": 0,
            "healthzPort": 0,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "failSwapOn": False,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "oomScoreAdj": 0,  # a lower one needs a capability that not every root has
            "clusterDNS": [netns.GATEWAY],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.folder / "resolv.conf"),
            "evictionHard": {"memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "nodeStatusUpdateFrequency": "5s",
            "syncFrequency": "2s",
            "enforceNodeAllocatable": [],
            "makeIPTablesUtilChains": False,
            "volumePluginDir": str(self.folder / "lib" / "plugins"),
        }

    def _network(self) -> dict[str, Any]:
        first, last = POD_ADDRESSES
        subnet = {"subnet": "10.244.0.0/16", "rangeStart": first, "rangeEnd": last, "gateway": netns.GATEWAY}
        ipam = {
            "type": "host-local",
            "dataDir": str(self._state.folder / "addresses"),  # of all nodes: they share the bridge
            "ranges": [[subnet]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {"type": "bridge", "bridge": netns.BRIDGE, "isGateway": False, "ipMasq": False, "ipam": ipam}
        return {"cniVersion": "0.4.0", "name": "harness", "plugins": [bridge]}
