"""What the tests load on the cluster: six targets over TCP, two over Unix sockets, and a node proxy on every node.

A target is the embedded fleet's own server, rolled without loss as the churn's pre-flight demands. A proxy listens on
its node's address, which engines know as ``$(HOST_IP)``, and sends a request to a target by the request's authority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TCP = ("svc-1", "svc-2", "svc-3", "svc-4", "svc-5", "echo")
UDS = ("uds-echo", "uds-cr-echo")
PORT = 18081
PROXY_PORT = 18080
SOCKETS = "/run/mesh"
PROXY = "aether-proxy"
FOLDER = "/run/target"
Object = dict[str, Any]


@dataclass(frozen=True)
class Mesh:
    """A mesh in two namespaces. ``image`` by digest; ``in_place``: a rollout restart hot restarts the proxies."""

    image: str
    namespace: str
    system_namespace: str
    replicas: int = 1
    in_place: bool = True

    def urls(self) -> dict[str, str]:
        """Target → URL."""
        return {name: f"http://{name}.{self.namespace}:{PORT}/" for name in (*TCP, *UDS)}

    @property
    def proxy(self) -> str:
        """What an engine is told as its proxy."""
        return f"$(HOST_IP):{PROXY_PORT}"

    def objects(self) -> list[Object]:
        """Everything, in the order of making."""
        spaces = [_namespaced("v1", "Namespace", name, "") for name in {self.namespace, self.system_namespace}]
        made: list[Object] = [*spaces]
        for name in (*TCP, *UDS):
            made += [self._account(name, self.namespace), self._service(name), self._target(name)]
        return [*made, *self._rights(), self._proxies()]

    def _account(self, name: str, namespace: str) -> Object:
        return _namespaced("v1", "ServiceAccount", name, namespace)

    def _service(self, name: str) -> Object:
        ports = [{"name": "http", "port": PORT, "targetPort": PORT, "protocol": "TCP"}]
        return _namespaced("v1", "Service", name, self.namespace, {"selector": {"app": name}, "ports": ports})

    def _target(self, name: str) -> Object:
        over_socket = name in UDS
        listen = f"unix:{SOCKETS}/{name}.sock" if over_socket else f"0.0.0.0:{PORT}"
        words = ["--name", name, "--replica", "0", "--listen", listen, "--drain-s", "1"]
        words += ["--config", f"{FOLDER}/config.json", "--address-file", f"{FOLDER}/address"]
        container: Object = {
            "name": "server",
            "image": self.image,
            # a server without a config file says so once, and answers at once
            "command": ["python3", "-P", "-m", "harness.fleet.local.target", *words],
            "volumeMounts": [{"name": "own", "mountPath": FOLDER}],
            "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
            "lifecycle": {"preStop": {"exec": {"command": ["sleep", "10"]}}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        pod: Object = {
            "serviceAccountName": name,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "own", "emptyDir": {}}],
            "containers": [container],
        }
        if over_socket:
            pod["volumes"].append({"name": "sockets", "hostPath": {"path": SOCKETS, "type": "DirectoryOrCreate"}})
            container["volumeMounts"].append({"name": "sockets", "mountPath": SOCKETS})
            container["readinessProbe"] = {"exec": {"command": ["test", "-S", f"{SOCKETS}/{name}.sock"]}}
            container["readinessProbe"] |= {"periodSeconds": 2}
            spec = _pods(name, pod) | {"updateStrategy": {"type": "RollingUpdate"}}
            return _namespaced("apps/v1", "DaemonSet", name, self.namespace, spec)
        pod["securityContext"] = {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        container["ports"] = [{"name": "http", "containerPort": PORT}]
        container["readinessProbe"] = {"tcpSocket": {"port": "http"}, "periodSeconds": 2}
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        spec = _pods(name, pod) | {"replicas": self.replicas, "minReadySeconds": 10, "strategy": strategy}
        return _namespaced("apps/v1", "Deployment", name, self.namespace, spec)

    def _rights(self) -> list[Object]:
        """The proxies' account may read endpoints of the targets and their own DaemonSet."""
        rights: list[Object] = [self._account(PROXY, self.system_namespace)]
        subject = {"kind": "ServiceAccount", "name": PROXY, "namespace": self.system_namespace}
        rules = {
            self.namespace: {"apiGroups": [""], "resources": ["endpoints"], "verbs": ["get", "list"]},
            self.system_namespace: {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
        }
        for namespace, rule in rules.items():
            group = "rbac.authorization.k8s.io"
            role = {"apiGroup": group, "kind": "Role", "name": PROXY}
            rights.append(_namespaced(f"{group}/v1", "Role", PROXY, namespace) | {"rules": [rule]})
            binding = _namespaced(f"{group}/v1", "RoleBinding", PROXY, namespace)
            rights.append(binding | {"roleRef": role, "subjects": [subject]})
        return rights

    def _proxies(self) -> Object:
        words = ["--node", "$(NODE_NAME)", "--address", "$(HOST_IP)", "--port", str(PROXY_PORT)]
        words += ["--namespace", self.namespace, "--daemon-set", f"{self.system_namespace}/{PROXY}"]
        words += ["--sockets", SOCKETS, "--folder", "/run/proxy"]
        words += [word for name, url in self.urls().items() for word in ("--target", f"{name}={url}")]
        words += ["--in-place"] if self.in_place else []
        fields = {"NODE_NAME": "spec.nodeName", "HOST_IP": "status.hostIP"}
        container = {
            "name": "proxy",
            "image": self.image,
            "command": ["python3", "-P", "/opt/mesh/proxy.py", *words],
            "env": [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()],
            "readinessProbe": {"tcpSocket": {"port": PROXY_PORT}, "periodSeconds": 2},
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
            "volumeMounts": [{"name": "own", "mountPath": "/run/proxy"}, {"name": "sockets", "mountPath": SOCKETS}],
        }
        pod = {
            "serviceAccountName": PROXY,
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 5,
            "volumes": [
                {"name": "own", "emptyDir": {}},
                {"name": "sockets", "hostPath": {"path": SOCKETS, "type": "DirectoryOrCreate"}},
            ],
            "containers": [container],
        }
        update = {"type": "OnDelete"} if self.in_place else {"type": "RollingUpdate"}
        spec = _pods(PROXY, pod) | {"updateStrategy": update}
        return _namespaced("apps/v1", "DaemonSet", PROXY, self.system_namespace, spec)


def _pods(name: str, pod: Object) -> Object:
    labels = {"app": name, "aether.io/managed": "true"}
    return {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": labels}, "spec": pod}}


def _namespaced(version: str, kind: str, name: str, namespace: str, spec: Object | None = None) -> Object:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta} | ({"spec": spec} if spec else {})
