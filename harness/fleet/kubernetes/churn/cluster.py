"""The calls of the churn and the watchdog over the wrapper of the API: each in a thread that nothing waits for.

A thread of a call that was abandoned is a daemon: it cannot keep the process, and it is not tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote

from harness.errors import ClusterError
from harness.fleet.kubernetes import session
from harness.fleet.kubernetes.answers import Refused, Unanswered
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.calls import DEADLINE_S, PATIENCE_S, OnBlind
from harness.fleet.kubernetes.churn.calls import KINDS, ClusterCalls, Document, Thing, name_of, objects, part
from harness.fleet.kubernetes.config import ClusterConfig

T = TypeVar("T")
HURRY_S = 1.0
METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?labelSelector={labels}"
BYTES = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "k": 10**3, "M": 10**6, "G": 10**9}


class Broken(Exception):  # noqa: N818 - ends a thread that nobody listens to any more
    """Raised between two attempts of a call that is not to be tried again."""


class Cluster:
    """``ClusterCalls`` of a run's cluster."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        deadline_s: float = DEADLINE_S,
        patience_s: float = PATIENCE_S,
        on_blind: OnBlind | None = None,
    ) -> None:
        self._config = config
        self._deadline_s = deadline_s
        self._broken = threading.Event()
        self._api = Api(config, deadline_s=deadline_s, patience_s=patience_s, on_blind=on_blind, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        if self._broken.wait(seconds):
            raise Broken

    async def restart(self, thing: Thing) -> None:
        """See ``ClusterCalls``."""
        await in_thread(lambda: self._api.restart(KINDS[thing.kind], thing.name, thing.namespace))

    async def scale(self, thing: Thing, replicas: int) -> None:
        """See ``ClusterCalls``."""
        await in_thread(lambda: self._api.scale(KINDS[thing.kind], thing.name, thing.namespace, replicas))

    async def read(self, thing: Thing) -> Document:
        """See ``ClusterCalls``."""
        return await in_thread(lambda: self._api.get(KINDS[thing.kind], thing.name, thing.namespace))

    async def select(self, kind: str, namespace: str | None, *, labels: str = "", fields: str = "") -> list[Document]:
        """See ``ClusterCalls``."""
        return await in_thread(lambda: self._api.select(kind, namespace, labels=labels, fields=fields))

    async def create(self, thing: Thing, document: Document) -> None:
        """See ``ClusterCalls``."""
        await in_thread(lambda: self._api.create(KINDS[thing.kind], document, thing.namespace))

    async def delete(self, thing: Thing, *, uid: str | None = None) -> None:
        """See ``ClusterCalls``."""
        await in_thread(lambda: self._api.delete(KINDS[thing.kind], thing.name, thing.namespace, uid=uid))

    async def memory(self, namespace: str, labels: str) -> Mapping[str, int]:
        """See ``ClusterCalls``; of the metrics API, which a cluster need not have."""
        path = METRICS.format(namespace=namespace, labels=quote(labels, safe=""))
        return await in_thread(lambda: _memory(self._config, path, self._deadline_s))

    def hurried(self) -> ClusterCalls:
        """See ``ClusterCalls``."""
        return Cluster(self._config, deadline_s=HURRY_S, patience_s=0.0)

    def break_off(self) -> None:
        """See ``ClusterCalls``."""
        self._broken.set()


async def in_thread(call: Callable[[], T]) -> T:
    """The outcome of ``call``, made in a daemon thread; when the caller is cancelled, nobody waits for it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]  # a call that returned gave a T

    def tell(value: T | None, error: BaseException | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, value, error)

    def work() -> None:
        try:
            value = call()
        except Broken:
            tell(None, ClusterError("the call was broken off"))
        except BaseException as error:  # noqa: BLE001 - raised in the task that waits
            tell(None, error)
        else:
            tell(value, None)

    threading.Thread(target=work, name="call", daemon=True).start()
    return await future


def _memory(config: ClusterConfig, path: str, deadline_s: float) -> dict[str, int]:
    try:
        document = json.loads(session.connect(config).path(path, deadline_s))
    except (Refused, Unanswered) as error:
        raise ClusterError(f"the metrics API says nothing of memory: {error.why}") from error
    except (ValueError, RecursionError) as error:
        raise ClusterError("the metrics API answered no JSON") from error
    found = {}
    for pod in objects(document, "items"):
        sizes = [_bytes(part(container, "usage", "memory")) for container in objects(pod, "containers")]
        known = [size for size in sizes if size is not None]
        if known and len(known) == len(sizes):
            found[name_of(pod)] = sum(known)
    return found


def _bytes(quantity: object) -> int | None:
    """A quantity of the API in bytes; None for what is none."""
    text = quantity if isinstance(quantity, str) else ""
    digits = text.rstrip("KMGik")
    scale = BYTES.get(text[len(digits) :])
    return int(digits) * scale if digits.isascii() and digits.isdigit() and scale else None
