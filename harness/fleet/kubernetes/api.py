"""The cluster's API: the one wrapper over the official client, which nothing else of the harness imports.

Objects are plain dicts in the JSON form of the API, as it sent them: typed models would refuse what another release of
Kubernetes answers, and lose what they do not know. How one call is made, and what is tried again, stands in ``calls``;
single requests and the traps of the client in ``session``.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Generator

from harness.errors import ConflictError, NotFoundError
from harness.files import utc_stamp
from harness.fleet.kubernetes.answers import (
    Document,
    Refused,
    Unanswered,
    annotations,
    as_count,
    as_document,
    as_items,
    metadata,
    take_event,
    uid,
)
from harness.fleet.kubernetes.calls import FIRST_WAIT_S, FOR_A_WHILE, LONGEST_WAIT_S, Calls
from harness.fleet.kubernetes.session import KINDS, Session

SLICE_S = 5
WATCH_MARGIN_S = 5.0
POLL_S = 0.5
REQUEST_MARK = "harness/request"
"""Annotation of what was created here: tells an object that a lost answer left behind from somebody else's."""


class Api(Calls):
    """The API of one cluster. May be used from several threads.

    Every method takes ``patience_s``, how long a fault that may pass is waited out (0: one attempt), and raises
    UnreachableError after it, CredentialsError, ForbiddenError, NotFoundError, ConflictError, InvalidObjectError, or
    ClusterError with ``status`` for any other refusal. ``kind`` is a key of ``session.KINDS``. ``namespace`` is None
    for kinds that have none, and in ``select`` for all namespaces. ``Api(config, …)`` takes what ``Calls`` takes.
    """

    # --- objects

    def get(self, kind: str, name: str, namespace: str | None = None, *, patience_s: float | None = None) -> Document:
        """The object. Raises NotFoundError."""

        def ask(use: Session, limit_s: float) -> Document:
            return as_document(use.request(kind, "read", namespace, limit_s, name=name))

        return self._call(f"get {_what(kind, name, namespace)}", ask, patience_s)

    def find(
        self, kind: str, name: str, namespace: str | None = None, *, patience_s: float | None = None
    ) -> Document | None:
        """The object, or None when there is none."""
        try:
            return self.get(kind, name, namespace, patience_s=patience_s)
        except NotFoundError:
            return None

    def select(
        self,
        kind: str,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        patience_s: float | None = None,
    ) -> list[Document]:
        """The objects that ``labels`` and ``fields`` select. An answer without a list of items is no answer."""

        def ask(use: Session, limit_s: float) -> list[Document]:
            return as_items(as_document(use.request(kind, "list", namespace, limit_s, **_selectors(labels, fields))))

        return self._call(f"list {_what(kind, '', namespace)}", ask, patience_s)

    def create(
        self, kind: str, document: Document, namespace: str | None = None, *, patience_s: float | None = None
    ) -> Document:
        """Create the object, at most once, also when an answer was lost. Raises ConflictError when it was there."""
        meta = metadata(document)
        mark = secrets.token_hex(8)
        body = {**document, "metadata": {**meta, "annotations": {**annotations(document), REQUEST_MARK: mark}}}
        name = str(meta["name"])

        def ask(use: Session, limit_s: float) -> Document:
            return as_document(use.request(kind, "create", namespace, limit_s, body=body))

        try:
            return self._call(f"create {_what(kind, name, namespace)}", ask, patience_s)
        except ConflictError:
            found = self.find(kind, name, namespace, patience_s=patience_s)
            if found is not None and annotations(found).get(REQUEST_MARK) == mark:
                return found
            raise

    def patch(
        self,
        kind: str,
        name: str,
        patch: Document,
        namespace: str | None = None,
        *,
        patience_s: float | None = None,
    ) -> Document:
        """Merge ``patch`` into the object; what it became. Raises NotFoundError."""

        def ask(use: Session, limit_s: float) -> Document:
            return as_document(use.request(kind, "patch", namespace, limit_s, name=name, body=patch))

        return self._call(f"patch {_what(kind, name, namespace)}", ask, patience_s)

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

        def ask(use: Session, limit_s: float) -> bool:
            use.request(kind, "delete", namespace, limit_s, name=name, body=options)
            return True

        try:
            return self._call(f"delete {_what(kind, name, namespace)}", ask, patience_s)
        except NotFoundError:
            return False

    def wait_gone(
        self, kind: str, name: str, namespace: str | None = None, *, limit_s: float, uid: str | None = None
    ) -> bool:
        """Wait until the object (with ``uid``: that very one) is gone, at most ``limit_s``; whether it is.

        Raises UnreachableError when the API could not be asked until then.
        """
        deadline = time.monotonic() + limit_s
        while True:
            patience_s = min(self.patience_s, max(0.0, deadline - time.monotonic()))
            found = self.find(kind, name, namespace, patience_s=patience_s)
            if found is None or (uid is not None and metadata(found).get("uid") != uid):
                return True
            if time.monotonic() >= deadline:
                return False
            self._sleep(POLL_S)

    # --- what some kinds can do

    def restart(self, kind: str, name: str, namespace: str, *, patience_s: float | None = None) -> Document:
        """Roll the pods of a Deployment, DaemonSet or StatefulSet, as ``kubectl rollout restart`` does."""
        stamp = {"kubectl.kubernetes.io/restartedAt": utc_stamp()}
        patch = {"spec": {"template": {"metadata": {"annotations": stamp}}}}
        return self.patch(kind, name, patch, namespace, patience_s=patience_s)

    def replicas(self, kind: str, name: str, namespace: str, *, patience_s: float | None = None) -> int:
        """How many replicas the object asks for, by its scale. Raises NotFoundError."""

        def ask(use: Session, limit_s: float) -> int:
            scale = as_document(use.request(kind, "read", namespace, limit_s, part="_scale", name=name))
            spec = scale.get("spec")
            if not isinstance(spec, dict):
                raise Unanswered("the scale has no spec")
            return as_count(spec.get("replicas", 0), "spec.replicas")  # the API leaves a 0 out

        return self._call(f"read the scale of {_what(kind, name, namespace)}", ask, patience_s)

    def scale(self, kind: str, name: str, namespace: str, replicas: int, *, patience_s: float | None = None) -> None:
        """Ask for ``replicas`` of the object. May have happened also when this raises."""
        body = {"spec": {"replicas": replicas}}

        def ask(use: Session, limit_s: float) -> None:
            use.request(kind, "patch", namespace, limit_s, part="_scale", name=name, body=body)

        self._call(f"scale {_what(kind, name, namespace)} to {replicas}", ask, patience_s)

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
        """What the node still has of a container's log, byte for byte: never followed, read whole or not at all.

        A node keeps only the newest part of a long log (10 MiB as a rule), so its start may be missing: whoever
        passes a file through a log has to check its length.
        """
        options = {"container": container, "previous": previous or None, "tail_lines": tail_lines}
        given = {key: value for key, value in options.items() if value is not None}

        def ask(use: Session, limit_s: float) -> bytes:
            return use.request("Pod", "read", namespace, limit_s, part="_log", name=name, **given)

        return self._call(f"read the log of {_what('Pod', name, namespace)}", ask, patience_s, deadline_s)

    def watch_pods(
        self, namespace: str, *, labels: str = "", slice_s: int = SLICE_S, patience_s: float | None = None
    ) -> Generator[dict[str, Document], None, None]:
        """All pods by uid, first as listed, then anew after every change, and at least every ``slice_s`` seconds.

        It never ends by itself: break the loop. A watch that breaks or has lost its place (410) is made anew from a
        list; of what changed in between only the outcome is seen, and a gap is told. Raises as every method.
        """
        what = f"watch {_what('Pod', '', namespace)}"
        wait_s, seen_at, why = FIRST_WAIT_S, 0.0, ""
        while True:
            pods, version = self._listed_pods(namespace, labels, patience_s)
            self._tell(seen_at, f"{what}: {why}")
            seen_at = time.time()
            yield dict(pods)
            try:
                while True:
                    options = {"watch": True, "resource_version": version, "timeout_seconds": slice_s}
                    events = self._client().lines(
                        "Pod", namespace, slice_s + WATCH_MARGIN_S, **options, **_selectors(labels, "")
                    )
                    for event in events:
                        version = take_event(event, pods)
                        wait_s, seen_at = FIRST_WAIT_S, time.time()
                        yield dict(pods)
                    wait_s, seen_at = FIRST_WAIT_S, time.time()
                    yield dict(pods)
            except Unanswered as error:
                why = error.why
            except Refused as error:
                why = error.why
                if error.status == 401:
                    self._forget(None)
                elif error.status not in FOR_A_WHILE:
                    raise self._error(what, error) from error
            self._sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _listed_pods(self, namespace: str, labels: str, patience_s: float | None) -> tuple[dict[str, Document], str]:
        def ask(use: Session, limit_s: float) -> tuple[dict[str, Document], str]:
            found = as_document(use.request("Pod", "list", namespace, limit_s, **_selectors(labels, "")))
            version = metadata(found).get("resourceVersion")
            if not version:
                raise Unanswered("the list of pods has no resource version")
            return {uid(pod): pod for pod in as_items(found)}, str(version)

        return self._call(f"list {_what('Pod', '', namespace)}", ask, patience_s)

    # --- the API itself

    def ready(self, *, deadline_s: float = 15.0, patience_s: float = 0.0) -> str:
        """What ``/readyz`` answers, ``ok`` as a rule. Raises UnreachableError."""

        def ask(use: Session, limit_s: float) -> str:
            return use.path("/readyz", limit_s).decode(errors="replace").strip()

        return self._call("get /readyz", ask, patience_s, deadline_s)

    def version(self, *, patience_s: float | None = None) -> str:
        """The release of the API server, like ``v1.34.2``."""

        def ask(use: Session, limit_s: float) -> str:
            return str(as_document(use.path("/version", limit_s)).get("gitVersion", ""))

        return self._call("get /version", ask, patience_s)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    given = {"label_selector": labels, "field_selector": fields}
    return {key: value for key, value in given.items() if value}


def _what(kind: str, name: str, namespace: str | None) -> str:
    if kind not in KINDS:
        raise ValueError(f"{kind} is none of the kinds that the harness knows")
    return " ".join(filter(None, [kind, f"{namespace}/{name}" if namespace and name else name or namespace]))
