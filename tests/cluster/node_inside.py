"""The first process of a node, in namespaces of its own: mounts, then containerd and kubelet, until either ends.

``python node_inside.py FOLDER``, by ``node.py`` alone. The kubelet and its plugins have folders whose names cannot be
set; over each a folder of the node is laid, so that nodes do not share them and the machine does not keep them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SOCKET = Path("/run/containerd/cri.sock")
SOCKET_LIMIT_S = 30.0


def mount(*arguments: object) -> None:
    """mount(8). Raises CalledProcessError."""
    subprocess.run(["mount", *map(str, arguments)], check=True)


def lay_over(folder: Path, sysctls: dict[str, int]) -> None:
    """The node's own folders, and the kernel settings that its kubelet is to see."""
    mount("--bind", folder / "lib", "/var/lib")
    mount("--bind", folder / "log", "/var/log")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for path in ("/run/containerd", "/run/netns", "/run/lock"):
        Path(path).mkdir()
    for name, value in sysctls.items():
        shown = folder / "sysctls" / name.replace("/", ".")
        shown.write_text(f"{value}\n")
        mount("--bind", shown, f"/proc/sys/{name}")


def start(folder: Path, name: str, *command: str) -> subprocess.Popen[bytes]:
    """Start one of the two; its output goes into NAME.log."""
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def main() -> int:
    """Runs until containerd or kubelet ends, and reaps every orphan meanwhile."""
    folder = Path(sys.argv[1])
    node: dict[str, Any] = json.loads((folder / "node.json").read_text())
    Path(node["freezer"], "cgroup.procs").write_text("0")  # itself, and so every process that it starts
    lay_over(folder, node["sysctls"])
    containerd = start(folder, "containerd", "containerd", "-c", str(folder / "containerd.toml"))
    end_s = time.monotonic() + SOCKET_LIMIT_S
    while not SOCKET.exists():
        if containerd.poll() is not None or time.monotonic() > end_s:
            print("containerd did not come up", flush=True)
            return 1
        time.sleep(0.05)
    kubelet = start(
        folder, "kubelet", node["kubelet"], f"--config={folder / 'kubelet.yaml'}", f"--kubeconfig={node['kubeconfig']}",
        "--container-runtime=remote", f"--container-runtime-endpoint=unix://{SOCKET}",
        f"--root-dir={folder / 'kubelet'}", f"--hostname-override={node['name']}", f"--node-ip={node['address']}",
    )  # fmt: skip
    names = {containerd.pid: "containerd", kubelet.pid: "kubelet"}
    while True:
        pid, status = os.wait()
        if pid in names:
            print(f"{names[pid]} ended with status {os.waitstatus_to_exitcode(status)}", flush=True)
            return 1


if __name__ == "__main__":
    sys.exit(main())
