"""Files of the reports' volume, read through a one-shot pod that prints one part of one file and ends.

Nothing is executed in a pod that runs, which many clusters deny. A node keeps only the newest part of a long log, and a
broken connection leaves half of one: each part therefore ends in a line with its place, the file's size and a digest,
and counts only when all of them hold.
"""

from __future__ import annotations

import functools
import hashlib
import re
import time
from collections.abc import Callable
from typing import Any

from harness.errors import ClusterError, ConflictError, FleetError, NotFoundError
from harness.fleet.kubernetes.answers import Document, uid
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.config import HARNESS, REPORT_FOLDER, ClusterConfig

PART_BYTES = 4 << 20  # well under the 10 MiB that a node keeps of a log
LONGEST_FILE_BYTES = 1 << 30
POLL_S = 2.0
PHASE_TRIES = 90
DELETE_LIMIT_S = 60.0
FORCED_LIMIT_S = 30.0
LOG_LIMIT_S = 120.0
MARK = b"HARNESS-READ"
TRAILER = re.compile(MARK + rb" (?:absent|([0-9]+) ([0-9]+) ([0-9a-f]{64}))")
SCRIPT = """\
if [ ! -e "$1" ]; then printf '\\nHARNESS-READ absent\\n'; exit 0; fi
part() { tail -c "+$(($2 + 1))" "$1" 2>/dev/null | head -c "$3"; }
set -e
size=$(wc -c < "$1")
sum=$(part "$@" | sha256sum)
part "$@"
printf '\\nHARNESS-READ %d %d %s\\n' "$size" "$2" "${sum%% *}"
"""

Part = tuple[bytes, int]
"""The bytes of a part, and the size of the whole file."""


class Reader:
    """Reads files of one claim, one pod at a time. ``mount`` is where the volume stands in the pod.

    ``image`` needs a shell with wc, head, tail and sha256sum. Raises from every method FleetError (also ClusterError).
    """

    def __init__(
        self,
        api: Api,
        config: ClusterConfig,
        image: str,
        *,
        mount: str,
        part_bytes: int = PART_BYTES,
        poll_s: float = POLL_S,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._api = api
        self._config = config
        self._image = image
        self._mount = mount
        self._part_bytes = part_bytes
        self._poll_s = poll_s
        self._sleep = sleep

    def read(self, path: str) -> bytes | None:
        """The file's bytes, whole; None when there is no such file. Raises FleetError when it cannot be read."""
        content = b""
        while True:
            part = self._part(path, len(content))
            if part is None:
                return None
            block, size = part
            content += block
            if size > LONGEST_FILE_BYTES:
                raise FleetError(f"{path} holds {size} bytes, more than are read through a log")
            if len(content) >= size:
                return content
            if not block:
                raise FleetError(f"{path} ended at {len(content)} of {size} bytes")

    def _part(self, path: str, offset: int) -> Part | None:
        free_name(self._config, self._api)
        try:
            made = self._api.create("Pod", self._pod(path, offset), self._config.namespace)
        except ConflictError as error:
            raise FleetError(f"{path} was not read: the reader pod's name is taken again ({error})") from error
        try:
            self._wait(path, uid(made))
            log = self._api.pod_log(self._config.reader_pod, self._config.namespace, deadline_s=LOG_LIMIT_S)
        except NotFoundError as error:
            raise FleetError(f"{path} was not read: the reader pod is gone before its time ({error})") from error
        finally:
            self._delete(uid(made))
        return parse_part(log, path, offset)

    def _delete(self, made_uid: str) -> None:
        """Best effort: what was read is read, and the next read frees the name or says why it cannot."""
        try:
            self._api.delete(
                "Pod", self._config.reader_pod, self._config.namespace, uid=made_uid, patience_s=FORCED_LIMIT_S
            )
        except ClusterError:
            return

    def _wait(self, path: str, made_uid: str) -> None:
        phase = "Pending"
        pod: Document = {}
        for _ in range(PHASE_TRIES):
            pod = self._api.get("Pod", self._config.reader_pod, self._config.namespace)
            if uid(pod) != made_uid:
                raise FleetError(f"{path} was not read: another reader took the pod's name; give the command again")
            phase = str(pod.get("status", {}).get("phase"))
            if phase == "Succeeded":
                return
            if phase == "Failed":
                break
            self._sleep(self._poll_s)
        raise FleetError(f"{path} was not read: the reader pod is {phase} ({why_waiting(pod)})")

    def _pod(self, path: str, offset: int) -> Document:
        command = ["sh", "-c", SCRIPT, "reader", path, str(offset), str(self._part_bytes)]
        container: dict[str, Any] = {
            "name": "reader",
            "image": self._image,
            "command": command,
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "128Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": "report", "mountPath": self._mount, "readOnly": True}],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self._config.reader_pod,
                "labels": {
                    "app.kubernetes.io/name": "report-reader",
                    "app.kubernetes.io/instance": self._config.release,
                },
            },
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "terminationGracePeriodSeconds": 1,
                "activeDeadlineSeconds": 600,
                "tolerations": [{"operator": "Exists"}],
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "runAsGroup": 65532,
                    "fsGroup": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
                "volumes": [
                    {"name": "report", "persistentVolumeClaim": {"claimName": self._config.pvc, "readOnly": True}}
                ],
            },
        }


def free_name(config: ClusterConfig, api: Api) -> None:
    """Free the reader pod's name. Raises FleetError when it is stuck: a first delete of 60 s, a forced one of 30 s."""
    for grace_s, limit_s in ((None, DELETE_LIMIT_S), (0, FORCED_LIMIT_S)):
        if not api.delete("Pod", config.reader_pod, config.namespace, grace_s=grace_s, patience_s=limit_s):
            return
        if api.wait_gone("Pod", config.reader_pod, config.namespace, limit_s=limit_s):
            return
    raise FleetError(
        f"stuck: the pod {config.namespace}/{config.reader_pod} of an earlier read cannot be deleted; look at its node"
    )


def reader_of(
    config: ClusterConfig, api: Api, *, sleep: Callable[[float], object] = time.sleep
) -> Callable[[], Reader]:
    """Makes the run's reader when it is first asked for one. Raises FleetError then, when there is no image for it."""

    @functools.cache
    def make() -> Reader:
        return Reader(api, config, config.reader_image or _image(config, api), mount=REPORT_FOLDER, sleep=sleep)

    return make


def _image(config: ClusterConfig, api: Api) -> str:
    """The image that the run's own nodes have already: that of its engines."""
    if config.engine == HARNESS:
        found = api.find("DaemonSet", config.daemon_set, config.namespace) or {}
        containers = (((found.get("spec") or {}).get("template") or {}).get("spec") or {}).get("containers") or []
        images = [str(container["image"]) for container in containers if container.get("name") == "engine"]
        if images:
            return images[0]
        if config.image:
            return config.image
    raise FleetError("k8s.reader_image= is empty: name an image with a shell, by which the volume is read")


def parse_part(log: bytes, path: str, offset: int) -> Part | None:
    """What the pod printed, checked against its last line; None when that says that there is no such file.

    Raises FleetError when the line is absent, or when bytes are: they were cut off, and nothing of it is taken.
    """
    body, _, last = log.removesuffix(b"\n").rpartition(b"\n")
    trailer = TRAILER.fullmatch(last)
    if trailer is None:
        raise FleetError(f"{path} was not read: the reader pod's log has no end ({len(log)} bytes of it came)")
    if trailer[1] is None:
        return None
    size, at, digest = int(trailer[1]), int(trailer[2]), trailer[3].decode()
    if at != offset or hashlib.sha256(body).hexdigest() != digest:
        raise FleetError(f"{path} was not read: the bytes from {offset} on came incomplete ({len(body)} of {size})")
    return body, size


def why_waiting(pod: Document) -> str:
    """Why a pod does not run: its containers' reasons, its conditions' messages; for people."""
    status = pod.get("status") or {}
    said = [str(status.get("reason") or ""), str(status.get("message") or "")]
    for seen in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state = seen.get("state") or {}
        for kind in ("waiting", "terminated"):
            told = state.get(kind) or {}
            said += [str(told.get("reason") or ""), str(told.get("message") or "")]
            if "exitCode" in told:
                said.append(f"exit code {told['exitCode']}")
    conditions = status.get("conditions") or []
    said += [str(c.get("message") or "") for c in conditions if c.get("status") == "False"]
    words = list(dict.fromkeys(" ".join(word.split())[:200] for word in said if word))
    return "; ".join(words[:4]) or "no reason given"
