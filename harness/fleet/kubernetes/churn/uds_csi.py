"""The CSI plugin rolled while a pod on one node needs it: the pod is deleted in the moment the node has no plugin.

A window that was missed, a pod that does not come back and a volume that failed to mount are findings, logged FAILED;
the schedule goes on. A step that could not even begin ends it. Nothing is tried a second time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from harness.errors import ClusterError
from harness.fleet.kubernetes.churn.calls import (
    Document,
    Thing,
    count,
    is_ready,
    name_of,
    objects,
    part,
    selector_of,
    uid_of,
)
from harness.fleet.kubernetes.churn.ground import Ground, StepFailedError
from harness.fleet.kubernetes.churn.schedule import Step

POLL_S = 0.5
LIMIT_S = 270.0
AFTER_S = 30.0
UNSEEN, UP, DOWN, BACK = "unseen", "up", "down", "back"


class PluginWindow:
    """How the plugin of one node stands, from what was seen of its pods; the newest of each pod counts."""

    def __init__(self, old_uid: str) -> None:
        self._old = old_uid
        self._pods: dict[str, Document | None] = {}

    def see(self, pod: Document) -> None:
        """Take in a pod as it is now."""
        self._pods[uid_of(pod)] = pod

    def see_all(self, pods: Iterable[Document]) -> None:
        """Take in all pods of the plugin on the node; one that is not among them is gone."""
        listed = list(pods)
        for uid in {self._old, *self._pods} - {uid_of(pod) for pod in listed}:
            self._pods[uid] = None
        for pod in listed:
            self.see(pod)

    @property
    def state(self) -> str:
        """``unseen`` while nothing is known of the old pod, ``up`` while it stays, ``down`` when it goes or is gone and
        no other is Ready, ``back`` when another is.
        """
        if any(is_ready(pod) for uid, pod in self._pods.items() if uid != self._old and pod is not None):
            return BACK
        if self._old not in self._pods:
            return UNSEEN
        old = self._pods[self._old]
        return DOWN if old is None or part(old, "metadata", "deletionTimestamp") else UP


@dataclass
class _Tally:
    """What the last line says; ``?`` stands for what is not known."""

    window: str = "missed"
    rollout_s: str = "?"
    terminated_s: str = "?"
    replacement: str = "?"
    ready_s: str = "?"
    csinode: str = "?"
    during: str = "?"
    after: str = "?"
    bad: list[str] = field(default_factory=list)

    def text(self) -> str:
        return (
            f"window={self.window} rollout={self.rollout_s}s terminated={self.terminated_s}s "
            f"replacement={self.replacement} ready={self.ready_s}s csinode={self.csinode} "
            f"failedmount_during={self.during} failedmount_after={self.after}"
        )


@dataclass(frozen=True)
class _Scene:
    """Who is who before the roll."""

    plugin: Thing
    labels: str
    old_uid: str
    victim: Document
    victim_labels: str
    earlier: frozenset[str]
    node: str
    driver: str


async def uds_csi(ground: Ground, step: Step) -> None:
    """Do the step. Raises StepFailedError when it could not begin, or the roll failed."""
    try:
        scene = await _scene(ground, step)
        ground.say(
            f"UDSCSI begin {scene.plugin} victim={ground.namespace}/{name_of(scene.victim)}@{scene.node} "
            f"{ground.at(step.at_s)}"
        )
        begun_s = ground.clock.now()
        await ground.calls.restart(scene.plugin)
    except ClusterError as error:
        ground.say(f"FAILED {step.things[0]} {ground.at(step.at_s)} : {error}")
        raise StepFailedError(f"the uds-csi step could not run: {error}") from error
    tally = _Tally()
    deadline_s = begun_s + LIMIT_S
    deleted_s = await _hit_window(ground, scene, tally, deadline_s)
    await _wait_back(ground, scene, tally, begun_s, deleted_s, deadline_s)
    ended_s = ground.clock.now()
    tally.csinode = await _registered(ground, scene, tally)
    tally.during = await _failed_mounts(ground, scene, begun_s)
    await ground.clock.sleep(AFTER_S)
    tally.after = await _failed_mounts(ground, scene, ended_s)
    if tally.window == "missed":
        tally.bad.append("window")
    if tally.after != "0":
        tally.bad.append("failedmount_after")
    said = f"victim={scene.victim['metadata']['namespace']}/{name_of(scene.victim)}@{scene.node} {tally.text()}"
    took = f"{ground.at(step.at_s)} took_ms={round((ended_s - begun_s) * 1000)}"
    if tally.bad:
        ground.say(f"FAILED {scene.plugin} {said} {took} bad={','.join(tally.bad)}")
    else:
        ground.say(f"ROLLED {scene.plugin} {said} {took}")


async def _scene(ground: Ground, step: Step) -> _Scene:
    plugin, owner = step.things[0], step.victim
    assert owner is not None  # noqa: S101 - the schedule's reader gave one
    victim_labels = selector_of(await ground.calls.read(owner))
    pods = sorted(await ground.calls.select("Pod", owner.namespace, labels=victim_labels), key=name_of)
    ready = [pod for pod in pods if is_ready(pod)]
    if not ready:
        raise ClusterError(f"{owner} has no Ready pod to delete")
    victim = ready[0]
    node = str(part(victim, "spec", "nodeName") or "")
    named = (part(volume, "csi", "driver") for volume in objects(victim, "spec", "volumes"))
    drivers = [str(driver) for driver in named if driver]
    if not drivers:
        raise ClusterError(f"pod {name_of(victim)} has no volume of a CSI plugin, so that it does not need one")
    labels = selector_of(await ground.calls.read(plugin))
    plugins = await _on_node(ground, plugin, labels, node)
    old = [pod for pod in plugins if is_ready(pod)]
    if len(old) != 1:
        raise ClusterError(f"node {node} has {len(old)} Ready pods of {plugin}, and one is wanted")
    earlier = frozenset(uid_of(pod) for pod in pods)
    return _Scene(plugin, labels, uid_of(old[0]), victim, victim_labels, earlier, node, drivers[0])


async def _on_node(ground: Ground, plugin: Thing, labels: str, node: str) -> list[Document]:
    return await ground.calls.select("Pod", plugin.namespace, labels=labels, fields=f"spec.nodeName={node}")


async def _hit_window(ground: Ground, scene: _Scene, tally: _Tally, deadline_s: float) -> float | None:
    """Delete the victim once its node has no plugin. When it was deleted; None: the window was missed."""
    window = PluginWindow(scene.old_uid)

    async def look() -> str:
        window.see_all(await _on_node(ground, scene.plugin, scene.labels, scene.node))
        return window.state

    deleted_s = None
    try:
        while (state := await look()) in (UNSEEN, UP) and ground.clock.now() < deadline_s:
            await ground.clock.sleep(POLL_S)
        if state == DOWN:
            deleted_s = ground.clock.now()
            thing = Thing(str(part(scene.victim, "metadata", "namespace")), "pod", name_of(scene.victim))
            await ground.calls.delete(thing, uid=uid_of(scene.victim))
            tally.window = "down" if await look() == DOWN else "late"
        why = {"down": "no plugin before and after the delete", "late": "the plugin was back when the pod was deleted"}
        ground.say(
            f"UDSCSI window={tally.window} on {scene.node}: "
            f"{why.get(tally.window, f'the plugin was never seen down (it is {state}), no pod was deleted')}"
        )
    except ClusterError as error:
        tally.window = "missed" if deleted_s is None else "late"
        tally.bad.append("calls")
        ground.say(f"UDSCSI window={tally.window} on {scene.node}: {error}")
    return deleted_s


async def _wait_back(
    ground: Ground, scene: _Scene, tally: _Tally, begun_s: float, deleted_s: float | None, deadline_s: float
) -> None:
    """Wait until the plugin is rolled everywhere and the victim's successor is Ready; what is not is bad."""
    namespace = str(part(scene.victim, "metadata", "namespace"))
    wanted = {"rollout"} if deleted_s is None else {"rollout", "terminated", "ready"}
    if deleted_s is None:
        tally.terminated_s = tally.replacement = tally.ready_s = "-"
    while wanted and ground.clock.now() < deadline_s:
        try:
            if "rollout" in wanted and rolled_out(await ground.calls.read(scene.plugin)):
                tally.rollout_s = _since(ground, begun_s)
                wanted.discard("rollout")
            if deleted_s is not None and wanted & {"terminated", "ready"}:
                pods = await ground.calls.select("Pod", namespace, labels=scene.victim_labels)
                _see_victim(ground, scene, tally, pods, deleted_s, wanted)
        except ClusterError as error:
            tally.bad.append("calls")
            ground.say(f"UDSCSI cannot see how it goes on: {error}")
            break
        if wanted:
            await ground.clock.sleep(POLL_S)
    tally.bad += sorted(wanted)


def _see_victim(
    ground: Ground, scene: _Scene, tally: _Tally, pods: list[Document], deleted_s: float, wanted: set[str]
) -> None:
    if "terminated" in wanted and uid_of(scene.victim) not in {uid_of(pod) for pod in pods}:
        tally.terminated_s = _since(ground, deleted_s)
        wanted.discard("terminated")
    fresh = [pod for pod in sorted(pods, key=name_of) if uid_of(pod) not in scene.earlier]
    if fresh and tally.replacement == "?":
        tally.replacement = name_of(fresh[0])
    if "ready" in wanted and any(is_ready(pod) for pod in fresh):
        tally.ready_s = _since(ground, deleted_s)
        wanted.discard("ready")


def rolled_out(document: Document) -> bool:
    """Whether every pod of a DaemonSet is of its newest template, and ready."""
    desired = count(document, "status", "desiredNumberScheduled")
    return (
        desired > 0
        and count(document, "status", "observedGeneration") >= count(document, "metadata", "generation")
        and count(document, "status", "updatedNumberScheduled") == desired
        and count(document, "status", "numberReady") == desired
    )


async def _registered(ground: Ground, scene: _Scene, tally: _Tally) -> str:
    """``k/n``: nodes on which the plugin's driver is registered, of those that are to have it."""
    try:
        nodes = await ground.calls.select("CSINode", None)
        wanted = count(await ground.calls.read(scene.plugin), "status", "desiredNumberScheduled")
    except ClusterError as error:
        ground.say(f"UDSCSI cannot list where the plugin is registered: {error}")
        tally.bad.append("csinode")
        return "?"
    there = [{driver.get("name") for driver in objects(node, "spec", "drivers")} for node in nodes]
    found = sum(scene.driver in names for names in there)
    if found != wanted:
        tally.bad.append("csinode")
    return f"{found}/{wanted}"


async def _failed_mounts(ground: Ground, scene: _Scene, since_s: float) -> str:
    """FailedMount events of the victim's namespace since a moment, as text; ``?`` where they cannot be listed."""
    try:
        events = await ground.calls.select(
            "Event", str(part(scene.victim, "metadata", "namespace")), fields="reason=FailedMount"
        )
    except ClusterError as error:
        ground.say(f"UDSCSI cannot list events: {error}")
        return "?"
    since_s = math.floor(since_s)  # events carry whole seconds
    return str(sum(1 for event in events if _last_s(event, ground.clock.now) >= since_s))


def _last_s(event: Document, now: Callable[[], float]) -> float:
    """When an event happened last; one that does not say so happened now: it is not to be overlooked."""
    keys = (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",), ("metadata", "creationTimestamp"))
    for path in keys:
        text = part(event, *path)
        if isinstance(text, str):
            try:
                return datetime.fromisoformat(text).timestamp()
            except ValueError:
                continue
    return now()


def _since(ground: Ground, moment_s: float) -> str:
    return f"{ground.clock.now() - moment_s:g}"
