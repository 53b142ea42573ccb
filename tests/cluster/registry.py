"""A registry inside the network namespace: the nodes pull every image from it by digest, as from any other."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.cluster.daemons import Daemon, State
from tests.cluster.images import MANIFEST, Image
from tests.cluster.supplies import SupplyError

ADDRESS = "127.0.0.1:5000"  # containerd, helm and cosign speak plain HTTP to loopback
READY_LIMIT_S = 20.0
LIMIT_S = 120.0
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Registry:
    """docker-registry over a folder of the cluster."""

    def __init__(self, state: State) -> None:
        folder = state.folder / "registry"
        folder.mkdir()
        config = {
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": str(folder)}, "delete": {"enabled": True}},
            "http": {"addr": ADDRESS},
            "log": {"level": "warn", "accesslog": {"disabled": True}},
        }
        file = folder / "config.yml"
        file.write_text(json.dumps(config))
        self._daemon: Daemon = state.start("registry", "docker-registry", "serve", file)
        end_s = time.monotonic() + READY_LIMIT_S
        while not self._answers():
            if not self._daemon.running or time.monotonic() > end_s:
                raise SupplyError(f"the registry did not come up:\n{self._daemon.last_words()}")
            time.sleep(0.05)

    def push(self, image: Image, tag: str = "test") -> str:
        """Push an image; its reference by digest. Raises SupplyError."""
        for digest, content in image.blobs():
            try:
                _request("HEAD", f"/v2/{image.name}/blobs/{digest}")
            except urllib.error.HTTPError:
                place = _request("POST", f"/v2/{image.name}/blobs/uploads/", b"")["Location"]
                place += f"{'&' if '?' in place else '?'}digest={digest}"
                _request("PUT", place, content, "application/octet-stream")
        headers = _request("PUT", f"/v2/{image.name}/manifests/{tag}", image.manifest(), MANIFEST)
        return f"{ADDRESS}/{image.name}@{headers['Docker-Content-Digest']}"

    @staticmethod
    def _answers() -> bool:
        try:
            _request("GET", "/v2/")
        except OSError:
            return False
        return True


def _request(method: str, path: str, body: bytes | Path | None = None, kind: str = "") -> dict[str, str]:
    url = path if path.startswith("http:") else f"http://{ADDRESS}{path}"
    headers = {"Content-Type": kind} if kind else {}
    if not isinstance(body, Path):
        return _send(urllib.request.Request(url, data=body, method=method, headers=headers))  # noqa: S310
    headers["Content-Length"] = str(body.stat().st_size)
    with body.open("rb") as file:  # streamed: a layer may be hundreds of MB
        return _send(urllib.request.Request(url, data=file, method=method, headers=headers))  # noqa: S310


def _send(request: urllib.request.Request) -> dict[str, str]:
    with OPENER.open(request, timeout=LIMIT_S) as answer:
        return dict(answer.headers.items())
