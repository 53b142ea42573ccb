"""One set of credentials of the official client, and single requests with it: what ``api`` tries again is told here.

Traps of the client that are met here, and held by tests:

* its urllib3 tries again by itself, three times, and obeys a Retry-After of an hour in silence: turned off;
* its read timeout is per packet, so that a trickle lasts for ever: bodies are read under one deadline;
* a log read as text has come as ``b'...'``, and models refuse objects of other releases: raw bytes are asked for;
* the token is read once, when the client is made: a new session reads it anew.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.errors import ClusterError, CredentialsError
from harness.fleet.kubernetes.answers import Refused, Unanswered, as_document
from harness.fleet.kubernetes.config import IN_CLUSTER, ClusterConfig

CONNECT_S = 5.0
BLOCK_BYTES = 1 << 16
LONGEST_BYTES = 512 << 20
LONGEST_WHY = 300
LONGEST_RETRY_AFTER_S = 60.0

KINDS: dict[str, tuple[str, str, bool]] = {
    "ConfigMap": ("CoreV1Api", "config_map", True),
    "CSINode": ("StorageV1Api", "csi_node", False),
    "DaemonSet": ("AppsV1Api", "daemon_set", True),
    "Deployment": ("AppsV1Api", "deployment", True),
    "Endpoints": ("CoreV1Api", "endpoints", True),
    "Event": ("CoreV1Api", "event", True),
    "Job": ("BatchV1Api", "job", True),
    "Namespace": ("CoreV1Api", "namespace", False),
    "Node": ("CoreV1Api", "node", False),
    "PersistentVolumeClaim": ("CoreV1Api", "persistent_volume_claim", True),
    "Pod": ("CoreV1Api", "pod", True),
    "PriorityClass": ("SchedulingV1Api", "priority_class", False),
    "ReplicaSet": ("AppsV1Api", "replica_set", True),
    "Secret": ("CoreV1Api", "secret", True),
    "Service": ("CoreV1Api", "service", True),
    "ServiceAccount": ("CoreV1Api", "service_account", True),
    "StatefulSet": ("AppsV1Api", "stateful_set", True),
    "StorageClass": ("StorageV1Api", "storage_class", False),
}
"""Kind → the client's class, the name in its methods, whether objects of it stand in a namespace."""


@dataclass(eq=False)
class Session:
    """An ``ApiClient`` of the official client, as ``connect`` made it. Safe for threads, as its pool is."""

    client: Any
    _apis: dict[str, Any] = field(default_factory=dict)

    def request(
        self, kind: str, verb: str, namespace: str | None, deadline_s: float, *, part: str = "", **options: Any
    ) -> bytes:
        """The body of the answer to one request about objects of ``kind``; ``part`` is ``_scale`` or ``_log``.

        ``verb`` is read, list, create, patch or delete. Raises Unanswered and Refused.
        """
        method, arguments = self._method(kind, verb, namespace, part)
        until = time.monotonic() + deadline_s
        with _Translated():
            return _whole(method(**arguments, **options, **_raw(deadline_s)), until)

    def lines(self, kind: str, namespace: str | None, deadline_s: float, **options: Any) -> Iterator[dict[str, Any]]:
        """The JSON objects of a watch as they come, until the server ends it. Raises Unanswered and Refused."""
        method, arguments = self._method(kind, "list", namespace, "")
        until = time.monotonic() + deadline_s
        with _Translated():
            response = method(**arguments, **options, **_raw(deadline_s))
        try:
            rest = b""
            while True:
                with _Translated():
                    block = _block(response, until)
                if not block:
                    break
                *whole, rest = (rest + block).split(b"\n")
                for line in whole:
                    if line.strip():
                        yield as_document(line)
            if rest.strip():
                raise Unanswered("the watch was cut in the middle of a line")
        finally:
            response.close()

    def path(self, path: str, deadline_s: float) -> bytes:
        """The body of the answer to a GET of a path that is no object. Raises Unanswered and Refused."""
        until = time.monotonic() + deadline_s
        with _Translated():
            answer = self.client.call_api(path, "GET", auth_settings=["BearerToken"], **_raw(deadline_s))
            return _whole(answer[0] if isinstance(answer, tuple) else answer, until)

    def _method(self, kind: str, verb: str, namespace: str | None, part: str) -> tuple[Any, dict[str, str]]:
        from kubernetes import client

        api, name, namespaced = KINDS[kind]
        if api not in self._apis:
            self._apis[api] = getattr(client, api)(self.client)
        arguments = {}
        if not namespaced:
            method = f"{verb}_{name}{part}"
        elif namespace is None:
            method = f"{verb}_{name}_for_all_namespaces"
        else:
            method, arguments = f"{verb}_namespaced_{name}{part}", {"namespace": namespace}
        return getattr(self._apis[api], method), arguments


def connect(config: ClusterConfig) -> Session:
    """Credentials of the config's context, read now. Raises CredentialsError, also when there is no such context."""
    from kubernetes import client
    from kubernetes import config as kubeconfig

    configuration = client.Configuration()
    try:
        if config.context == IN_CLUSTER:
            kubeconfig.load_incluster_config(client_configuration=configuration)
        else:
            kubeconfig.load_kube_config(
                config_file=config.kubeconfig or None, context=config.context, client_configuration=configuration
            )
    except Exception as error:  # a damaged file, or a plugin that fails, raises whatever it likes
        where = config.kubeconfig or "the kubeconfig (KUBECONFIG, or ~/.kube/config)"
        raise CredentialsError(
            f"no credentials for context {config.context} in {where}: {squeezed(str(error))}; fleet= names a context "
            "of it, k8s.kubeconfig= another file"
        ) from error
    return Session(make_client(configuration))


def make_client(configuration: Any) -> Any:
    """The official client's ``ApiClient``, with its own ways of waiting turned off."""
    from kubernetes import client

    configuration.retries = False
    return client.ApiClient(configuration)


def squeezed(text: str) -> str:
    """``text`` on one line, at most 300 characters."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_WHY else f"{line[:LONGEST_WHY]}…"


def _raw(deadline_s: float) -> dict[str, Any]:
    return {"_preload_content": False, "_request_timeout": (min(CONNECT_S, deadline_s), deadline_s)}


def _whole(response: Any, until: float) -> bytes:
    """All of the body, or nothing."""
    blocks, taken = [], 0
    try:
        while block := _block(response, until):
            blocks.append(block)
            taken += len(block)
            if taken > LONGEST_BYTES:
                raise Unanswered(f"the answer is longer than {LONGEST_BYTES >> 20} MiB")
    finally:
        response.close()  # what was read whole went back to the pool before
    return b"".join(blocks)


def _block(response: Any, until: float) -> bytes:
    """What comes next of the body, b"" at its end; one packet may make the deadline late by its own timeout."""
    block = bytes(response.read1(BLOCK_BYTES))
    if block and time.monotonic() > until:
        raise Unanswered("the answer was not whole in time")
    return block


class _Translated:
    """Turns what the client and its libraries raise into Unanswered and Refused; ClusterError passes."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, (Unanswered, Refused, ClusterError)):
            return
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        if isinstance(error, ApiException):
            if not error.status:  # a TLS failure, among others
                raise Unanswered(squeezed(str(error.reason))) from error
            raise Refused(int(error.status), _said(error), _retry_after_s(error.headers)) from error
        if isinstance(error, (HTTPError, http.client.HTTPException, OSError)):
            raise Unanswered(squeezed(f"{type(error).__name__}: {error}")) from error


def _said(error: Any) -> str:
    """The message of the API's Status object, or whatever else the answer was."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else str(error.body or "")
    try:
        said = json.loads(body)["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        said = body or error.reason or ""
    return squeezed(str(said))


def _retry_after_s(headers: Any) -> float:
    text = str((headers or {}).get("Retry-After", "")).strip()
    return min(float(text), LONGEST_RETRY_AFTER_S) if text.isascii() and text.isdigit() else 0.0
