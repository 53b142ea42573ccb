"""The control plane: etcd, API server, controller manager, scheduler. All real, all inside the network namespace.

The API listens on port 443 of every address of the namespace, so that pods reach it at the address of the Service
``kubernetes`` without a kube-proxy; the kubeconfig names the loopback address and is there only while the API answers.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from harness.files import write_atomic
from tests.cluster.api import Api, ApiError
from tests.cluster.daemons import Daemon, State
from tests.cluster.netns import API_SERVICE, GATEWAY, SERVICES
from tests.cluster.supplies import SupplyError, run

CONTEXT = "harness-test"
READY_LIMIT_S = 90.0
SERVER = "https://127.0.0.1:443"
NAMES = "IP:127.0.0.1,IP:{},IP:{},DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
GATES = "TTLAfterFinished=true"  # from 1.21 on it needs no gate


class ControlPlane:
    """Started by ``start``; ``stop_api`` and ``start_api`` are faults that a test may want."""

    def __init__(self, state: State, programs: Path) -> None:
        self._state = state
        self._programs = programs
        self._folder = state.folder / "control"
        self._folder.mkdir()
        self._api_server: Daemon | None = None
        self.token = secrets.token_hex(16)
        self.kubeconfig = state.folder / "kubeconfig"

    @property
    def api(self) -> Api:
        """An administrator at the API."""
        return Api(SERVER, self.token, self._file("api.crt").read_text())

    def start(self) -> None:
        """Start all four. Raises SupplyError with the last words of the one that did not."""
        self._make_keys()
        etcd = self._state.start("etcd", "etcd", "--data-dir", self._file("etcd"), "--unsafe-no-fsync")
        self.start_api()
        account = self._file("kubeconfig")
        write_atomic(account, self.kubeconfig_for(self.token))
        account.chmod(0o600)
        others = [
            self._state.start(
                "kube-controller-manager", self._programs / "kube-controller-manager", f"--kubeconfig={account}",
                "--leader-elect=false", "--port=0", "--secure-port=0", "--use-service-account-credentials=true",
                f"--service-account-private-key-file={self._file('sa.key')}", f"--root-ca-file={self._file('api.crt')}",
                f"--feature-gates={GATES}", "--node-monitor-grace-period=20s", "--pod-eviction-timeout=10s",
            ),
            self._state.start(
                "kube-scheduler", self._programs / "kube-scheduler", f"--kubeconfig={account}",
                "--leader-elect=false", "--port=0", "--secure-port=0",
            ),
        ]  # fmt: skip
        self._wait(lambda: bool(self.api.get("/api/v1/namespaces/default/serviceaccounts/default")), etcd, *others)

    def start_api(self) -> None:
        """Start the API server, wait until it is ready, then write the kubeconfig. Raises SupplyError."""
        write_atomic(self._file("tokens.csv"), f'{self.token},admin,admin,"system:masters"\n')
        self._api_server = self._state.start(
            "kube-apiserver", self._programs / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
            "--bind-address=0.0.0.0", "--secure-port=443", f"--advertise-address={GATEWAY}",
            f"--tls-cert-file={self._file('api.crt')}", f"--tls-private-key-file={self._file('api.key')}",
            f"--token-auth-file={self._file('tokens.csv')}", "--authorization-mode=RBAC",
            f"--service-cluster-ip-range={SERVICES}", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._file('sa.key')}", "--allow-privileged=true",
            f"--service-account-signing-key-file={self._file('sa.key')}", f"--feature-gates={GATES}",
            "--kubelet-preferred-address-types=InternalIP",
        )  # fmt: skip
        self._wait(lambda: self.api.get("/readyz") == "ok", self._api_server)
        write_atomic(self.kubeconfig, self.kubeconfig_for(self.token))
        self.kubeconfig.chmod(0o600)

    def stop_api(self) -> None:
        """Kill the API server: every request is refused until ``start_api``."""
        if self._api_server is not None:
            self._api_server.kill()

    def kubeconfig_for(self, token: str) -> str:
        """A kubeconfig for whoever has ``token``; its one context is ``CONTEXT``, and it names no current one."""
        certificate = base64.b64encode(self._file("api.crt").read_bytes()).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": {"server": SERVER, "certificate-authority-data": certificate}}],
            "users": [{"name": CONTEXT, "user": {"token": token}}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
            "current-context": "",
        }
        return json.dumps(document, indent=2) + "\n"  # JSON is YAML

    def _file(self, name: str) -> Path:
        return self._folder / name

    def _make_keys(self) -> None:
        run("openssl", "genrsa", "-out", self._file("sa.key"), "2048")
        run(
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=harness-test",
            "-addext", f"subjectAltName={NAMES.format(GATEWAY, API_SERVICE)}",
            "-addext", "keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign",
            "-keyout", self._file("api.key"), "-out", self._file("api.crt"),
        )  # fmt: skip

    def _wait(self, ready: Callable[[], bool], *daemons: Daemon) -> None:
        end_s = time.monotonic() + READY_LIMIT_S
        while True:
            try:
                if ready():
                    return
            except (OSError, ApiError):
                pass  # not yet
            for daemon in daemons:
                if not daemon.running or time.monotonic() > end_s:
                    raise SupplyError(f"{daemon.name} did not come up:\n{daemon.last_words()}")
            time.sleep(0.1)
