"""The cluster's API: the one wrapper over the official client, and the only place that knows it.

Objects are plain dicts in the JSON form of the API, as it sent them: typed models would refuse what another release of
Kubernetes answers, and lose what they do not know. Every call has a deadline. What a server does for a while only
(refused, reset, timed out, cut, 429, 5xx) is tried again until ``patience_s`` is over; a 401 makes the credentials be
read anew, once a call. Whatever the harness could not see for more than 5 s is told to ``on_blind``.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import (
    ClusterError,
    ConflictError,
    CredentialsError,
    ForbiddenError,
    InvalidObjectError,
    NotFoundError,
    UnreachableError,
)
from harness.files import LineLog, utc_stamp
from harness.fleet.kubernetes import session
from harness.fleet.kubernetes.config import ClusterConfig
from harness.fleet.kubernetes.session import KINDS, Refused, Session, Unanswered

Document = dict[str, Any]
OnBlind = Callable[[float, float, str], None]
"""Called with the first and the last moment (Unix seconds) of a gap in what was seen, and its reason."""
T = TypeVar("T")

DEADLINE_S = 20.0
PATIENCE_S = 300.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.2, 5.0
BLIND_S = 5.0
SLICE_S = 5
POLL_S = 0.5
REQUEST_MARK = "harness/request"
"""Annotation of what was created here: tells an object that a lost answer left behind from somebody else's."""
FOR_A_WHILE = frozenset({408, 429, 500, 502, 503, 504})
ERRORS: Mapping[int, type[ClusterError]] = {
    401: CredentialsError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    422: InvalidObjectError,
}


class Api:
    """The API of one cluster. May be used from several threads.

    Every method takes ``patience_s``, how long a fault that may pass is waited out (0: one attempt), and raises
    UnreachableError after it, CredentialsError, ForbiddenError, NotFoundError, ConflictError, InvalidObjectError, or
    ClusterError with ``status`` for any other refusal. ``kind`` is a key of ``session.KINDS``. ``namespace`` is None
    for kinds that have none, and in ``list`` for all namespaces. ``sleep`` waits between two attempts; it may raise to
    break a call off.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        deadline_s: float = DEADLINE_S,
        patience_s: float = PATIENCE_S,
        on_blind: OnBlind | None = None,
        sleep: Callable[[float], None] = time.sleep,
        connect: Callable[[ClusterConfig], Session] = session.connect,
    ) -> None:
        self.config = config
        self.deadline_s = deadline_s
        self.patience_s = patience_s
        self._on_blind = on_blind
        self._sleep = sleep
        self._connect = connect
        self._lock = threading.Lock()
        self._session: Session | None = None

    # --- objects

    def get(self, kind: str, name: str, namespace: str | None = None, *, patience_s: float | None = None) -> Document:
        """The object. Raises NotFoundError."""

        def ask(use: Session, deadline_s: float) -> Document:
            return _document(use.object(kind, "read", namespace, deadline_s, name=name))

        return self._call(f"get {_what(kind, name, namespace)}", ask, patience_s)

    def find(
        self, kind: str, name: str, namespace: str | None = None, *, patience_s: float | None = None
    ) -> Document | None:
        """The object, or None when there is none."""
        try:
            return self.get(kind, name, namespace, patience_s=patience_s)
        except NotFoundError:
            return None

    def list(
        self,
        kind: str,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        patience_s: float | None = None,
    ) -> list[Document]:
        """The objects that ``labels`` and ``fields`` select. An answer without a list of items is no answer."""

        def ask(use: Session, deadline_s: float) -> list[Document]:
            selected = _selectors(labels, fields)
            return _items(_document(use.object(kind, "list", namespace, deadline_s, **selected)))

        return self._call(f"list {_what(kind, '', namespace)}", ask, patience_s)

    def create(self, kind: str, document: Document, namespace: str | None = None) -> Document:
        """Create the object, at most once, also when an answer was lost. Raises ConflictError when it was there."""
        metadata = document["metadata"]
        mark = secrets.token_hex(8)
        annotations = {**metadata.get("annotations", {}), REQUEST_MARK: mark}
        body = {**document, "metadata": {**metadata, "annotations": annotations}}
        name = str(metadata["name"])

        def ask(use: Session, deadline_s: float) -> Document:
            return _document(use.object(kind, "create", namespace, deadline_s, body=body))

        try:
            return self._call(f"create {_what(kind, name, namespace)}", ask, None)
        except ConflictError:
            found = self.find(kind, name, namespace)
            if found is not None and _annotations(found).get(REQUEST_MARK) == mark:
                return found
            raise

    def patch(self, kind: str, name: str, patch: Document, namespace: str | None = None) -> Document:
        """Merge ``patch`` into the object; what it became. Raises NotFoundError."""

        def ask(use: Session, deadline_s: float) -> Document:
            return _document(use.object(kind, "patch", namespace, deadline_s, name=name, body=patch))

        return self._call(f"patch {_what(kind, name, namespace)}", ask, None)

    def delete(
        self,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        grace_s: int | None = None,
        uid: str | None = None,
        propagation: str = "Background",
        patience_s: float | None = None,
    ) -> bool:
        """Ask for the object's end; False when it is not there. It may stay for a while: see ``wait_gone``.

        With ``uid`` only that very object is deleted; ConflictError when another bears the name now.
        """
        options: Document = {"propagationPolicy": propagation}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid is not None:
            options["preconditions"] = {"uid": uid}

        def ask(use: Session, deadline_s: float) -> bool:
            use.object(kind, "delete", namespace, deadline_s, name=name, body=options)
            return True

        try:
            return self._call(f"delete {_what(kind, name, namespace)}", ask, patience_s)
        except NotFoundError:
            return False

    def wait_gone(
        self, kind: str, name: str, namespace: str | None = None, *, limit_s: float, uid: str | None = None
    ) -> bool:
        """Wait until the object (with ``uid``: that very one) is gone, at most ``limit_s``; whether it is."""
        deadline = time.monotonic() + limit_s
        while True:
            left = deadline - time.monotonic()
            found = self.find(kind, name, namespace, patience_s=max(0.0, min(self.patience_s, left)))
            if found is None or (uid is not None and found.get("metadata", {}).get("uid") != uid):
                return True
            if time.monotonic() >= deadline:
                return False
            self._sleep(POLL_S)

    # --- what some kinds can do

    def restart(self, kind: str, name: str, namespace: str) -> Document:
        """Roll the pods of a Deployment, DaemonSet or StatefulSet, as ``kubectl rollout restart`` does."""
        stamp = {"kubectl.kubernetes.io/restartedAt": utc_stamp()}
        return self.patch(kind, name, {"spec": {"template": {"metadata": {"annotations": stamp}}}}, namespace)

    def replicas(self, kind: str, name: str, namespace: str) -> int:
        """How many replicas the object asks for, by its scale. Raises NotFoundError."""

        def ask(use: Session, deadline_s: float) -> int:
            scale = _document(use.object(kind, "read", namespace, deadline_s, part="_scale", name=name))
            return _whole(scale.get("spec", {}).get("replicas", 0), "spec.replicas")  # 0 is left out

        return self._call(f"read the scale of {_what(kind, name, namespace)}", ask, None)

    def scale(self, kind: str, name: str, namespace: str, replicas: int) -> None:
        """Ask for ``replicas`` of the object. May have happened also when this raises."""
        body = {"spec": {"replicas": replicas}}

        def ask(use: Session, deadline_s: float) -> None:
            use.object(kind, "patch", namespace, deadline_s, part="_scale", name=name, body=body)

        self._call(f"scale {_what(kind, name, namespace)} to {replicas}", ask, None)

    def pod_log(
        self,
        name: str,
        namespace: str,
        *,
        container: str | None = None,
        previous: bool = False,
        tail_lines: int | None = None,
        deadline_s: float | None = None,
        patience_s: float | None = None,
    ) -> bytes:
        """What the node still has of a container's log, byte for byte: never followed, read once or not at all.

        A node keeps only the newest part of a long log (10 MiB as a rule), so its start may be missing: whoever
        passes a file through a log has to check its length.
        """
        options = {"container": container, "previous": previous or None, "tail_lines": tail_lines}
        given = {key: value for key, value in options.items() if value is not None}

        def ask(use: Session, limit_s: float) -> bytes:
            return use.object("Pod", "read", namespace, limit_s, part="_log", name=name, **given)

        return self._call(f"read the log of {_what('Pod', name, namespace)}", ask, patience_s, deadline_s)

    def watch_pods(
        self, namespace: str, *, labels: str = "", slice_s: int = SLICE_S, patience_s: float | None = None
    ) -> Iterator[dict[str, Document]]:
        """All pods by uid, first as listed, then anew after every change, and at least every ``slice_s`` seconds.

        It never ends by itself; close the generator or break the loop. A watch that breaks or has lost its place
        (410) is made anew from a list; what changed between the two is seen in its result only, and a gap is told.
        """
        while True:
            pods, version = self._listed_pods(namespace, labels, patience_s)
            yield dict(pods)
            since = time.time()
            try:
                while version:
                    asked = {"watch": True, "resource_version": version, "timeout_seconds": max(1, slice_s)}
                    for event in self._client().lines(
                        "Pod", namespace, slice_s + self.deadline_s, **asked, **_selectors(labels, "")
                    ):
                        version = _apply(event, pods)
                        since = time.time()
                        yield dict(pods)
                    since = time.time()
                    yield dict(pods)
            except Unanswered as error:
                self._tell(since, f"watch {_what('Pod', '', namespace)}: {error.why}")
            except Refused as error:
                if error.status == 401:
                    self._forget(None)
                elif error.status != 410 and error.status not in FOR_A_WHILE:
                    raise self._error(f"watch {_what('Pod', '', namespace)}", error) from error

    def _listed_pods(self, namespace: str, labels: str, patience_s: float | None) -> tuple[dict[str, Document], str]:
        def ask(use: Session, deadline_s: float) -> tuple[dict[str, Document], str]:
            found = _document(use.object("Pod", "list", namespace, deadline_s, **_selectors(labels, "")))
            pods = {str(pod.get("metadata", {}).get("uid")): pod for pod in _items(found)}
            return pods, str(found.get("metadata", {}).get("resourceVersion", ""))

        return self._call(f"list {_what('Pod', '', namespace)}", ask, patience_s)

    # --- the API itself

    def ready(self, *, patience_s: float = 0.0, deadline_s: float = 15.0) -> str:
        """What ``/readyz`` answers, ``ok`` as a rule. Raises UnreachableError."""

        def ask(use: Session, limit_s: float) -> str:
            return use.path("/readyz", limit_s).decode(errors="replace").strip()

        return self._call("get /readyz", ask, patience_s, deadline_s)

    def version(self, *, patience_s: float | None = None) -> str:
        """The release of the API server, like ``v1.34.2``."""

        def ask(use: Session, deadline_s: float) -> str:
            return str(_document(use.path("/version", deadline_s)).get("gitVersion", ""))

        return self._call("get /version", ask, patience_s)

    # --- one call

    def _call(
        self,
        what: str,
        ask: Callable[[Session, float], T],
        patience_s: float | None,
        deadline_s: float | None = None,
    ) -> T:
        """Ask until there is an answer, a refusal that will not pass, or no patience left."""
        patience = self.patience_s if patience_s is None else patience_s
        wait_s, gap_from, failed_at, renewed = FIRST_WAIT_S, 0.0, 0.0, False
        why = ""
        while True:
            asked_at = time.time()
            use: Session | None = None
            after_s = 0.0
            try:
                use = self._client()
                answer = ask(use, self.deadline_s if deadline_s is None else deadline_s)
            except Unanswered as error:
                why = error.why
            except Refused as error:
                if error.status == 401 and not renewed:
                    renewed = True
                    self._forget(use)
                    continue
                if error.status not in FOR_A_WHILE:
                    self._tell(gap_from, f"{what}: {why}")
                    raise self._error(what, error) from error
                why, after_s = error.why, error.retry_after_s
            else:
                self._tell(gap_from, f"{what}: {why}")
                return answer
            if not gap_from:
                gap_from, failed_at = asked_at, time.monotonic()
            left_s = patience - (time.monotonic() - failed_at)
            if left_s <= 0:
                self._tell(gap_from, f"{what}: {why}")
                raise UnreachableError(
                    f"{what}: no usable answer from context {self.config.context} within {patience:g} s ({why}); "
                    "look whether its API server can be reached, then go on with the same command"
                )
            self._sleep(min(max(wait_s, after_s), left_s))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _client(self) -> Session:
        with self._lock:
            if self._session is None:
                self._session = self._connect(self.config)
            return self._session

    def _forget(self, used: Session | None) -> None:
        """Let the next call read the credentials anew, unless another thread has done so already."""
        with self._lock:
            if used is None or self._session is used:
                self._session = None

    def _tell(self, gap_from: float, why: str) -> None:
        now = time.time()
        if gap_from and now - gap_from > BLIND_S and self._on_blind is not None:
            self._on_blind(gap_from, now, why)

    def _error(self, what: str, refused: Refused) -> ClusterError:
        advice = {
            401: "; renew the credentials of the kubeconfig",
            403: "; docs/cluster.md holds the Role that the harness needs",
        }
        kind = ERRORS.get(refused.status, ClusterError)
        error = kind(f"{what}: {refused.why} (context {self.config.context}){advice.get(refused.status, '')}")
        error.status = refused.status
        return error


def blind_log(path: Path) -> OnBlind:
    """An ``on_blind`` that appends to ``path``, one JSON object per gap: ``from``, ``to`` (UTC), ``seconds``, ``why``.

    Raises OSError when the file cannot be opened.
    """
    log, lock = LineLog(path), threading.Lock()

    def write(start: float, end: float, why: str) -> None:
        gap = {"from": utc_stamp(start), "to": utc_stamp(end), "seconds": round(end - start, 3), "why": why}
        with lock:
            log.write(json.dumps(gap, ensure_ascii=False))

    return write


def _apply(event: Document, pods: dict[str, Document]) -> str:
    """Take one event of a watch into ``pods``; its resource version. Raises Refused for an error sent as an event."""
    kind, pod = event.get("type"), event.get("object")
    if not isinstance(pod, dict):
        raise Unanswered("a line of the watch holds no object")
    if kind == "ERROR":
        code = pod.get("code")
        raise Refused(code if isinstance(code, int) else 500, str(pod.get("message", "")), 0.0)
    metadata = pod.get("metadata", {})
    if kind == "DELETED":
        pods.pop(str(metadata.get("uid")), None)
    elif kind in ("ADDED", "MODIFIED"):
        pods[str(metadata.get("uid"))] = pod
    return str(metadata.get("resourceVersion", ""))


def _document(body: bytes) -> Document:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unanswered(f"the answer is no JSON ({error})") from error
    if not isinstance(document, dict):
        raise Unanswered("the answer is no object")
    return document


def _items(document: Document) -> list[Document]:
    items = document.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Unanswered("the answer holds no list of items")
    return items


def _whole(value: object, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unanswered(f"{key} is no whole number")
    return value


def _annotations(document: Document) -> Document:
    return document.get("metadata", {}).get("annotations") or {}


def _selectors(labels: str, fields: str) -> dict[str, str]:
    given = {"label_selector": labels, "field_selector": fields}
    return {key: value for key, value in given.items() if value}


def _what(kind: str, name: str, namespace: str | None) -> str:
    if kind not in KINDS:
        raise ValueError(f"{kind} is none of the kinds that the harness knows")
    return " ".join(filter(None, [kind, f"{namespace}/{name}" if namespace and name else name or namespace]))
