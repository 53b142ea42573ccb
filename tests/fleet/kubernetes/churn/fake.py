"""A fake cluster on a fake clock: an event loop whose time passes only where somebody waits, and objects in memory.

Nothing here is Kubernetes. It keeps what the churn reads and changes, tells each call with its second, and can be told
to fail, to hang, or to be looked at in the middle of a call.
"""

from __future__ import annotations

import asyncio
import copy
import json
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from harness.errors import ClusterError, ConflictError, NotFoundError, UnreachableError
from harness.files import utc_stamp
from harness.fleet.kubernetes.churn.calls import ClusterCalls, Document, Thing, name_of, uid_of

T = TypeVar("T")
T0_UNIX_S = 1_800_000_000.0
NODES = ("node-a", "node-b")
FOR_EVER_S = 1e6
DRIVER = "uds.csi.example"


class _TravellingSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]  # the platform's own
    """Waits by moving the clock."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will come")
        self.now_s += max(timeout, 0.0)
        return super().select(0)


class TravellingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is the fake clock's, 0 at first."""

    def __init__(self) -> None:
        self._travelling = _TravellingSelector()
        super().__init__(self._travelling)

    def time(self) -> float:
        return self._travelling.now_s


def travel(make: Callable[[TravellingLoop], Coroutine[Any, Any, T]]) -> T:
    """Run what ``make`` makes on a loop of its own, to its end."""
    loop = TravellingLoop()
    try:
        return loop.run_until_complete(make(loop))
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


class FakeCluster:
    """``ClusterCalls``. Every call takes ``latency_s``, half before and half after it is applied.

    ``calls`` holds (second after T0, text). ``failing`` maps the beginning of a call's text to the error that it
    raises, ``failures_left`` times in all; ``applied`` says whether it was applied all the same. What begins as in
    ``hanging`` never ends, after it was applied. ``watch`` is called with a call's number and text twice: before and
    after it is applied.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, latency_s: float = 0.0) -> None:
        self.loop = loop
        self.latency_s = latency_s
        self.calls: list[tuple[float, str]] = []
        self.failing: dict[str, ClusterError] = {}
        self.failures_left = 10**6
        self.applied = False
        self.hanging: tuple[str, ...] = ()
        self.watch: Callable[[int, str], None] = lambda number, text: None
        self.objects: dict[Thing, Document] = {}
        self.restarted_s: dict[Thing, float] = {}
        self.victims: dict[str, list[Document]] = {}
        self.events: list[Document] = []
        self.tally: dict[str, int] = {"200": 90}
        self.window_s = (1.8, 5.8, 9.8)  # after the roll: the old plugin goes, is gone, and the new one is Ready
        self.broken_off = False

    @property
    def now_s(self) -> float:
        """Seconds after T0."""
        return self.loop.time()

    def put(self, text: str, *, replicas: int = 2) -> Document:
        """Add an object, ready."""
        thing = Thing.parse(text)
        status = {
            "replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas,
            "readyReplicas": replicas, "observedGeneration": 1, "desiredNumberScheduled": len(NODES),
            "updatedNumberScheduled": len(NODES), "numberReady": len(NODES),
        }  # fmt: skip
        self.objects[thing] = {
            "metadata": {"name": thing.name, "namespace": thing.namespace, "uid": f"uid-{thing.name}", "generation": 1},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": thing.name}}},
            "status": status,
        }
        return self.objects[thing]

    def put_victim(self, name: str) -> None:
        """Add the pod of a Deployment that mounts a volume of the CSI plugin."""
        pod = self._pod(f"{name}-1", NODES[0], ready=True)
        pod["spec"]["volumes"] = [{"name": "socket", "csi": {"driver": DRIVER}}]
        self.victims[name] = [pod]

    # --- ClusterCalls

    async def restart(self, thing: Thing) -> None:
        await self._call(f"restart {thing}", lambda: self._restart(thing))

    async def scale(self, thing: Thing, replicas: int) -> None:
        await self._call(f"scale {thing} {replicas}", lambda: self._scale(thing, replicas))

    async def read(self, thing: Thing) -> Document:
        return await self._call(f"read {thing}", lambda: self._read(thing))

    async def select(self, kind: str, namespace: str | None, *, labels: str = "", fields: str = "") -> list[Document]:
        return await self._call(f"list {kind} {namespace} {labels} {fields}".rstrip(), lambda: self._list(kind, labels))

    async def create(self, thing: Thing, document: Document) -> None:
        await self._call(f"create {thing}", lambda: self._create(thing, document))

    async def delete(self, thing: Thing, *, uid: str | None = None) -> None:
        await self._call(f"delete {thing}", lambda: self._delete(thing))

    async def memory(self, namespace: str, labels: str) -> Mapping[str, int]:
        return await self._call(
            f"memory {namespace} {labels}", lambda: {name_of(pod): 50 << 20 for pod in self._list("Pod", labels)}
        )

    def hurried(self) -> ClusterCalls:
        return self

    def break_off(self) -> None:
        self.broken_off = True

    # --- how a call goes

    async def _call(self, text: str, apply: Callable[[], T]) -> T:
        number = len(self.calls)
        self.calls.append((round(self.now_s, 3), text))
        self.watch(number, text)
        if self.latency_s:
            await asyncio.sleep(self.latency_s / 2)
        error = next((error for start, error in self.failing.items() if text.startswith(start)), None)
        if error is not None:
            self.failures_left -= 1
            error = error if self.failures_left >= 0 else None
        if error is not None and not self.applied:
            raise error
        found = apply()
        self.watch(number, f"{text} applied")
        if text.startswith(self.hanging) and self.hanging:
            await asyncio.sleep(FOR_EVER_S)
        if error is not None:
            raise error
        if self.latency_s:
            await asyncio.sleep(self.latency_s / 2)
        return found

    # --- what it does

    def _restart(self, thing: Thing) -> None:
        self._read(thing)
        self.restarted_s[thing] = self.now_s

    def _scale(self, thing: Thing, replicas: int) -> None:
        self._known(thing)["spec"]["replicas"] = replicas

    def _known(self, thing: Thing) -> Document:
        if thing not in self.objects:
            raise NotFoundError(f"{thing} is not there")
        return self.objects[thing]

    def _read(self, thing: Thing) -> Document:
        found = copy.deepcopy(self._known(thing))
        since_s = self.now_s - self.restarted_s.get(thing, -FOR_EVER_S)
        if thing.kind == "daemonset" and since_s < self.window_s[2] + 1:
            found["status"]["numberReady"] = len(NODES) - 1
        if thing.kind == "pod":
            self._probe_goes_on(found)
        return found

    def _probe_goes_on(self, pod: Document) -> None:
        """The pod of a new ServiceAccount: Ready after 2.5 s, and over when it has asked for as long as it was told."""
        age_s = self.now_s - pod["born_s"]
        wanted = json.loads(pod["spec"]["containers"][0]["command"][3])
        pod["spec"]["nodeName"] = NODES[1]
        if age_s < 2.5:
            pod["status"] = {"phase": "Pending"}
        elif age_s < 2.5 + wanted["for_s"]:
            pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        else:
            told = json.dumps(dict.fromkeys(wanted["urls"], self.tally)) if self.tally else ""
            end = {"exitCode": 0, "message": told}
            pod["status"] = {
                "phase": "Succeeded",
                "containerStatuses": [{"name": "probe", "state": {"terminated": end}}],
            }

    def _list(self, kind: str, labels: str) -> list[Document]:
        if kind == "CSINode":
            return [{"metadata": {"name": node}, "spec": {"drivers": [{"name": DRIVER}]}} for node in NODES]
        if kind == "Event":
            return self.events
        app = labels.removeprefix("app=")
        if app in self.victims:
            return self._victim_pods(app)
        thing = next((thing for thing in self.objects if thing.name == app), None)
        if app.endswith("uds-csi") and thing is not None:
            return self._plugin_pods(self.now_s - self.restarted_s.get(thing, -FOR_EVER_S))
        return [
            self._pod(f"{app}-{node}", node, ready=True, born_s=self.restarted_s.get(thing, 0.0) if thing else 0.0)
            for node in NODES
        ]

    def _pod(self, name: str, node: str, *, ready: bool, goes: bool = False, born_s: float = 0.0) -> Document:
        meta: Document = {"name": name, "namespace": "aether-test", "uid": f"uid-{name}"}
        if goes:
            meta["deletionTimestamp"] = "2027-01-15T08:00:00Z"
        return {
            "metadata": meta,
            "spec": {"nodeName": node},
            "status": {
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
                "startTime": utc_stamp(T0_UNIX_S + born_s),
            },
        }

    def _plugin_pods(self, since_s: float) -> list[Document]:
        goes_s, gone_s, back_s = self.window_s
        old = self._pod("plugin-old", NODES[0], ready=True, goes=goes_s <= since_s < FOR_EVER_S / 2)
        if since_s < gone_s or since_s >= FOR_EVER_S / 2:
            return [old]
        pod = self._pod(f"plugin-{self.window_s}", NODES[0], ready=since_s >= back_s)
        if since_s > 300:  # the next roll finds it as the old one
            pod["metadata"]["uid"] = "uid-plugin-old"
        return [pod]

    def _victim_pods(self, app: str) -> list[Document]:
        pods = []
        for pod in self.victims[app]:
            gone_s = pod.get("deleted_s", FOR_EVER_S)
            if self.now_s < gone_s + 5:
                pods.append(pod)
            if self.now_s >= gone_s + 1:
                fresh = self._pod(f"{app}-2", NODES[0], ready=self.now_s >= gone_s + 12)
                pods.append(fresh)
        return pods

    def _create(self, thing: Thing, document: Document) -> None:
        if thing in self.objects:
            raise ConflictError(f"{thing} is there already")
        self.objects[thing] = copy.deepcopy(document) | {"born_s": self.now_s}

    def _delete(self, thing: Thing) -> None:
        for pods in self.victims.values():
            for pod in pods:
                if name_of(pod) == thing.name and uid_of(pod):
                    pod["deleted_s"] = self.now_s
        self.objects.pop(thing, None)


def unreachable(text: str = "nobody answers") -> UnreachableError:
    """An error after which a change may have been applied."""
    return UnreachableError(text)
