"""The supervisor of a node proxy, in its pod: a real Envoy that is given endpoints, and is hot restarted in place.

Endpoints are read from the API every half second. With ``--in-place`` the pod is not replaced by a rollout restart (its
DaemonSet updates OnDelete): the supervisor sees the annotation that every rollout restart writes, and starts the next
Envoy beside the old one, which drains and ends by itself. The pod ends when its Envoy does.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness.files import write_json
from harness.fleet.local import envoy
from harness.fleet.local.config import LocalConfig, NodeConfig, TargetConfig
from harness.fleet.local.endpoints import write_endpoints
from harness.runs import RunFolder

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
LOOK_S = 0.5
API_LIMIT_S = 5.0
RESTART_MARGIN_S = 2.0


class Api:
    """The API as the pod's own account sees it, over one connection."""

    def __init__(self) -> None:
        tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        host = os.environ["KUBERNETES_SERVICE_HOST"]
        self._connection = http.client.HTTPSConnection(host, 443, timeout=API_LIMIT_S, context=tls)

    def get(self, path: str) -> Any:
        """The document of ``path``. Raises OSError whatever went wrong."""
        token = (ACCOUNT / "token").read_text()
        try:
            self._connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise OSError(f"{path}: {error}") from error
        if answer.status != 200:
            raise OSError(f"{path}: HTTP {answer.status}")
        return json.loads(text)


class Proxy:
    """One node's Envoy; ``old`` is the one that drains after a hot restart."""

    def __init__(self, config: LocalConfig, port: int) -> None:
        self.config = config
        self.port = port
        self.endpoints = config.folder.root / "endpoints"
        self.epoch = 0
        self.generation = 0
        self.current = self._start()
        self.old: subprocess.Popen[bytes] | None = None
        self.restarted_s = time.monotonic()

    def _start(self) -> subprocess.Popen[bytes]:
        root, node = self.config.folder.root, self.config.nodes[0]
        bootstrap = root / f"bootstrap-{self.epoch}.json"
        admin = root / f"admin-{self.epoch}"
        document = envoy.bootstrap(self.config, node, port=self.port, admin=admin, endpoints=self.endpoints)
        write_json(bootstrap, document)
        noted = root / "base_id"
        base_id = int(noted.read_text()) if self.epoch else None
        words = envoy.command(self.config, bootstrap, epoch=self.epoch, base_id_file=noted, base_id=base_id)
        return subprocess.Popen(words)

    def hot_restart(self) -> None:
        """Start the next Envoy; later than the old one's end it is, and not sooner."""
        least_s = self.config.parent_shutdown_s + RESTART_MARGIN_S
        time.sleep(max(0.0, least_s - (time.monotonic() - self.restarted_s)))
        if self.old is not None:
            self.old.wait(least_s)
        self.epoch += 1
        self.old, self.current = self.current, self._start()
        self.restarted_s = time.monotonic()
        say(f"hot restart: epoch {self.epoch}, pid {self.old.pid} -> {self.current.pid}")

    def ended(self) -> str:
        """Why the pod has to end; empty while all is well."""
        if self.old is not None and self.old.poll() is not None:
            self.old = None
        status = self.current.poll()
        return "" if status is None else f"envoy ended with status {status}"


def say(text: str) -> None:
    """A line of the pod's log."""
    print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), text, flush=True)


def addresses_of(listed: dict[str, Any], target: TargetConfig, sockets: str) -> list[str]:
    """Who serves a target: the ready endpoints of its Service, or its socket on this node."""
    if target.over_unix_socket:
        return [f"unix:{sockets}/{target.name}.sock"]
    found = []
    for item in listed["items"]:
        if item["metadata"]["name"] == target.name:
            for subset in item.get("subsets") or []:
                port = subset["ports"][0]["port"]
                found += [f"{address['ip']}:{port}" for address in subset.get("addresses") or []]
    return sorted(found)


def make_config(options: argparse.Namespace) -> LocalConfig:
    """What Envoy is to be, in the terms of the embedded fleet, whose proxies are the same."""
    targets = tuple(TargetConfig(*word.split("=", 1), 1) for word in options.target)
    node = NodeConfig(options.node, options.address)
    folder = RunFolder(Path(options.folder))
    (folder.root / "endpoints").mkdir(parents=True, exist_ok=True)
    folder.live.mkdir(parents=True, exist_ok=True)
    return LocalConfig(
        folder=folder, token="", nodes=(node,), targets=targets, replicas=1, duration_s=0, settle_s=0, fault="",
        access_log="errors", connections=0, max_executions=0, request_timeout_s=options.timeout_s, engine_drain_s=0,
        engine_grace_s=0, proxy_drain_s=options.drain_s, parent_shutdown_s=options.shutdown_s, target_drain_s=0,
        progress_s=0,
    )  # fmt: skip


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", required=True)
    parser.add_argument("--address", required=True, help="where it listens")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--namespace", required=True, help="of the targets' Services")
    parser.add_argument("--daemon-set", required=True, metavar="NAMESPACE/NAME", help="its own")
    parser.add_argument("--target", action="append", required=True, metavar="NAME=URL")
    parser.add_argument("--sockets", required=True, help="folder of the targets' sockets on this node")
    parser.add_argument("--folder", required=True, help="an empty folder of its own")
    parser.add_argument("--in-place", action="store_true")
    parser.add_argument("--timeout-s", type=float, default=30)
    parser.add_argument("--drain-s", type=float, default=1)
    parser.add_argument("--shutdown-s", type=float, default=3)
    return parser.parse_args()


def main() -> int:
    """Runs until its Envoy ends."""
    options = parse()
    config, api = make_config(options), Api()
    namespace, _, name = options.daemon_set.partition("/")
    served: dict[str, list[str]] = {}
    restarted_at: str | None = None
    proxy: Proxy | None = None
    while True:
        try:
            listed = api.get(f"/api/v1/namespaces/{options.namespace}/endpoints")
            own = api.get(f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}")
        except OSError as error:
            say(f"goes on with what it knows: {error}")
        else:
            for target in config.targets:
                addresses = addresses_of(listed, target, options.sockets)
                if served.get(target.name) != addresses:
                    write_endpoints(config.folder.root / "endpoints", target.name, addresses)
                    served[target.name] = addresses
            asked = (own["spec"]["template"]["metadata"].get("annotations") or {}).get(RESTARTED_AT, "")
            if proxy is not None and options.in_place and asked != restarted_at:
                proxy.hot_restart()
            restarted_at = asked
            proxy = proxy or Proxy(config, options.port)
        if proxy is not None and (why := proxy.ended()):
            say(why)
            return 1
        time.sleep(LOOK_S)


if __name__ == "__main__":
    sys.exit(main())
