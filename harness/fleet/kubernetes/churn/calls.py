"""What the churn and the watchdog ask of a cluster, and how they wait: seven calls, each with a deadline of its own.

A call that is waited for by a task that is told to stop is not torn: it goes on, is given a moment to finish, and is
then abandoned. What was abandoned may have been applied all the same, and is treated so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from harness.errors import ClusterError

Document = dict[str, Any]
"""An object of the API in its JSON form."""
T = TypeVar("T")
LONGEST_SLEEP_S = 30.0
KINDS = {
    "daemonset": "DaemonSet",
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "pod": "Pod",
    "serviceaccount": "ServiceAccount",
}
"""Kind as it is written in schedules and logs → kind of the API."""
ROLLED_KINDS = ("daemonset", "deployment", "statefulset")


@dataclass(frozen=True, order=True)
class Thing:
    """One object in a namespace. Its text is ``namespace/kind/name``, the kind a key of ``KINDS``."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> Thing:
        """Inverse of ``str``. Raises ValueError."""
        parts = text.split("/")
        if len(parts) != 3 or not all(parts) or parts[1] not in KINDS or text != "".join(text.split()):
            raise ValueError(f"{text!r} is not NAMESPACE/KIND/NAME, with a kind of {', '.join(KINDS)}")
        return cls(*parts)


class ClusterCalls(Protocol):
    """The calls. All raise ClusterError, NotFoundError and ConflictError among them.

    A change that raises UnreachableError may have been applied.
    """

    async def restart(self, thing: Thing) -> None:
        """Begin a rollout of its pods; nothing waits for its end."""

    async def scale(self, thing: Thing, replicas: int) -> None:
        """Ask for so many replicas."""

    async def read(self, thing: Thing) -> Document:
        """The object."""

    async def select(self, kind: str, namespace: str | None, *, labels: str = "", fields: str = "") -> list[Document]:
        """The objects of a kind of the API, ``Pod`` or ``CSINode``; an answer without items raises."""

    async def create(self, thing: Thing, document: Document) -> None:
        """Create the object."""

    async def delete(self, thing: Thing, *, uid: str | None = None) -> None:
        """Ask for its end, with ``uid`` for that very object's; one that is not there is as good as deleted."""

    async def memory(self, namespace: str, labels: str) -> Mapping[str, int]:
        """Working set of each pod's containers together, in bytes, as far as the cluster measures it."""

    def hurried(self) -> ClusterCalls:
        """The same calls, one attempt of at most about a second each: what is undone after a signal."""

    def break_off(self) -> None:
        """Let no call of this object be tried again."""


class Clock:
    """The time of day in Unix seconds, and sleep until a moment of it, also over a machine's own sleep.

    ``now`` is injected where time is to be another: the event loop's timers have to keep to it.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now

    async def until(self, unix_s: float) -> None:
        """Return once the moment is there; at once when it is over."""
        while (left_s := unix_s - self.now()) > 0:
            await asyncio.sleep(min(left_s, LONGEST_SLEEP_S))

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""
        await self.until(self.now() + seconds)


class InFlight:
    """Calls that were begun and have not ended, each with its name: what a stop has to wait for."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.Task[Any], str] = {}

    async def of(self, what: str, call: Coroutine[Any, Any, T]) -> T:
        """The outcome of ``call``, which goes on when the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(call)
        self._calls[task] = what
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._calls.pop(task, None)
        if not task.cancelled():
            task.exception()  # seen: nobody may be left to ask

    async def finish(self, limit_s: float) -> list[str]:
        """Wait at most ``limit_s`` for all of them. The names of those that were abandoned."""
        if self._calls:
            await asyncio.wait(list(self._calls), timeout=limit_s)
        left = dict(self._calls)
        for task in left:
            task.cancel()
        return list(left.values())


class Kept:
    """``ClusterCalls`` that pass every call through ``InFlight``."""

    def __init__(self, calls: ClusterCalls, flying: InFlight) -> None:
        self._calls = calls
        self._flying = flying

    async def restart(self, thing: Thing) -> None:
        """See ``ClusterCalls``."""
        await self._flying.of(f"restart {thing}", self._calls.restart(thing))

    async def scale(self, thing: Thing, replicas: int) -> None:
        """See ``ClusterCalls``."""
        await self._flying.of(f"scale {thing} to {replicas}", self._calls.scale(thing, replicas))

    async def read(self, thing: Thing) -> Document:
        """See ``ClusterCalls``."""
        return await self._flying.of(f"read {thing}", self._calls.read(thing))

    async def select(self, kind: str, namespace: str | None, *, labels: str = "", fields: str = "") -> list[Document]:
        """See ``ClusterCalls``."""
        call = self._calls.select(kind, namespace, labels=labels, fields=fields)
        return await self._flying.of(f"list {kind} {namespace or ''}".rstrip(), call)

    async def create(self, thing: Thing, document: Document) -> None:
        """See ``ClusterCalls``."""
        await self._flying.of(f"create {thing}", self._calls.create(thing, document))

    async def delete(self, thing: Thing, *, uid: str | None = None) -> None:
        """See ``ClusterCalls``."""
        await self._flying.of(f"delete {thing}", self._calls.delete(thing, uid=uid))

    async def memory(self, namespace: str, labels: str) -> Mapping[str, int]:
        """See ``ClusterCalls``."""
        return await self._flying.of(f"memory of {namespace}", self._calls.memory(namespace, labels))

    def hurried(self) -> ClusterCalls:
        """See ``ClusterCalls``; these are not kept: a stop waits for them by itself."""
        return self._calls.hurried()

    def break_off(self) -> None:
        """See ``ClusterCalls``."""
        self._calls.break_off()


def part(document: object, *keys: str) -> Any:
    """What stands under the keys, one inside the other; None where one of them is absent."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def count(document: object, *keys: str) -> int:
    """The whole number under the keys, 0 where it is absent: the API leaves zeros out."""
    value = part(document, *keys)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def objects(document: object, *keys: str) -> list[Document]:
    """The objects of the list under the keys; empty where there is none."""
    value = part(document, *keys)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def name_of(document: Document) -> str:
    """The object's name."""
    return str(part(document, "metadata", "name") or "?")


def uid_of(document: Document) -> str:
    """The object's uid."""
    return str(part(document, "metadata", "uid") or "")


def is_ready(pod: Document) -> bool:
    """Whether a pod's Ready condition holds and it is not on its way out."""
    if part(pod, "metadata", "deletionTimestamp"):
        return False
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in _conditions(pod))


def _conditions(pod: Document) -> list[Document]:
    return objects(pod, "status", "conditions")


def selector_of(document: Document) -> str:
    """The label selector of a Deployment or DaemonSet, as text. Raises ClusterError for one that is not of labels."""
    labels = part(document, "spec", "selector", "matchLabels")
    if not isinstance(labels, dict) or not labels or part(document, "spec", "selector", "matchExpressions"):
        raise ClusterError(f"{name_of(document)} does not select its pods by labels alone, so they cannot be listed")
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
