"""The API of Kubernetes for the test cluster's own parts: JSON over HTTPS, and nothing of the code under test."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

PATCH = "application/strategic-merge-patch+json"
GROUPS = {
    "DaemonSet": "/apis/apps/v1", "Deployment": "/apis/apps/v1", "Job": "/apis/batch/v1",
    "Role": "/apis/rbac.authorization.k8s.io/v1", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1", "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1",
    "StorageClass": "/apis/storage.k8s.io/v1", "PriorityClass": "/apis/scheduling.k8s.io/v1",
}  # fmt: skip
CLUSTER_WIDE = {"Namespace", "Node", "PersistentVolume", "StorageClass", "PriorityClass"}
CLUSTER_WIDE |= {"ClusterRole", "ClusterRoleBinding"}


class ApiError(Exception):
    """The API refused a request; ``status`` is its HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Api:
    """One account at one server. ``OSError`` is raised when the server cannot be reached."""

    def __init__(self, server: str, token: str, certificate: str) -> None:
        self.server = server
        self.token = token
        tls = urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=certificate))
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), tls)

    @classmethod
    def of(cls, kubeconfig: Path) -> Api:
        """As a kubeconfig of the test cluster says."""
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        certificate = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return cls(cluster["server"], user["token"], certificate)

    def call(self, method: str, path: str, body: Any = None, *, content: str = "application/json") -> Any:
        """The answer's document (its text when it is no JSON). Raises ApiError."""
        with self._open(method, path, body, content, 30.0) as answer:
            text = answer.read().decode()
        return json.loads(text) if text[:1] == "{" else text

    def get(self, path: str) -> Any:
        """The document of ``path``. Raises ApiError."""
        return self.call("GET", path)

    def patch(self, path: str, body: Any) -> Any:
        """A strategic merge. Raises ApiError."""
        return self.call("PATCH", path, body, content=PATCH)

    def make(self, *objects: dict[str, Any]) -> None:
        """Make objects; those that are there already are left as they are."""
        for thing in objects:
            try:
                self.call("POST", path_of(thing["kind"], thing["metadata"].get("namespace", "")), thing)
            except ApiError as error:
                if error.status != 409:
                    raise

    def watch(self, path: str, *, limit_s: int = 60) -> Iterator[tuple[str, dict[str, Any]]]:
        """What is there (as ADDED), then every change, for ``limit_s``: kind of event, object."""
        with self._open("GET", f"{path}?watch=1&timeoutSeconds={limit_s}", None, "", limit_s + 10.0) as lines:
            for line in lines:
                event = json.loads(line)
                yield event["type"], event["object"]

    def _open(self, method: str, path: str, body: Any, content: str, limit_s: float) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content, "Accept": "application/json"}
        request = urllib.request.Request(self.server + path, data=data, method=method, headers=headers)  # noqa: S310
        try:
            return self._opener.open(request, timeout=limit_s)
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, error.read().decode(errors="replace")[:500]) from error


def path_of(kind: str, namespace: str, name: str = "") -> str:
    """Where an object of ``kind`` stands, or where all of them do."""
    place = "" if kind in CLUSTER_WIDE else f"/namespaces/{namespace}"
    plural = {"NetworkPolicy": "networkpolicies"}.get(kind, kind.lower() + ("es" if kind.endswith("ss") else "s"))
    plural = "endpoints" if kind == "Endpoints" else plural
    return f"{GROUPS.get(kind, '/api/v1')}{place}/{plural}" + (f"/{name}" if name else "")
