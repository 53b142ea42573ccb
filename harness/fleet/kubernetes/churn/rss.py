"""Memory of rolled pods at one age, so that samples of one soak compare: proxy-rss.tsv.

Nothing grades it, and a figure that is not there is ``?`` with the reason in the log, never 0.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from harness.errors import ClusterError
from harness.files import LineLog, utc_stamp
from harness.fleet.kubernetes.churn.calls import Document, Thing, name_of, part, selector_of
from harness.fleet.kubernetes.churn.ground import Ground
from harness.fleet.kubernetes.churn.schedule import Step

WAIT_S, AGE_S = 1680.0, 1800.0
SAME_AGE_S = 60.0
FILE = "proxy-rss.tsv"
COLUMNS = ("at", "roll_at_s", "object", "pod", "node", "age_s", "working_set_bytes", "age_matched")


async def sample(ground: Ground, step: Step, thing: Thing, path: Path) -> None:
    """Wait, then write one row for each pod of ``thing`` as it reaches the age. Never raises ClusterError."""
    ground.say(f"RSS SAMPLE queued {thing} {ground.at(step.at_s)} age={AGE_S:g}s")
    await ground.clock.sleep(WAIT_S)
    try:
        labels = selector_of(await ground.calls.read(thing))
        pods = await ground.calls.select("Pod", thing.namespace, labels=labels)
    except ClusterError as error:
        ground.say(f"RSS SAMPLE failed {thing} : {error}")
        return
    known = total = 0
    for due_s, group in sorted(_by_due(pods).items()):
        await ground.clock.until(due_s)
        try:
            sizes = await ground.calls.memory(thing.namespace, labels)
        except ClusterError as error:
            ground.say(f"RSS SAMPLE unknown {thing} : {error}")
            sizes = {}
        now_s = ground.clock.now()
        for pod in group:
            total += 1
            known += name_of(pod) in sizes
            _write(path, ground, step, thing, pod, now_s, sizes.get(name_of(pod)))
    ground.say(f"RSS SAMPLE done {thing} {ground.at(step.at_s)} pods={known}/{total}")


def _by_due(pods: list[Document]) -> dict[float, list[Document]]:
    """Pods by the whole second at which they are old enough; one without a start is due at once."""
    due: dict[float, list[Document]] = {}
    for pod in sorted(pods, key=name_of):
        born_s = _born(pod)
        due.setdefault(0.0 if born_s is None else born_s + AGE_S, []).append(pod)
    return due


def _born(pod: Document) -> float | None:
    text = part(pod, "status", "startTime") or part(pod, "metadata", "creationTimestamp")
    try:
        return datetime.fromisoformat(str(text)).timestamp() if str(text).endswith("Z") else None
    except ValueError:
        return None


def _write(path: Path, ground: Ground, step: Step, thing: Thing, pod: Document, now_s: float, size: int | None) -> None:
    born_s = _born(pod)
    age_s = None if born_s is None else round(now_s - born_s)
    matched = age_s is not None and abs(age_s - AGE_S) <= SAME_AGE_S
    values = (
        utc_stamp(now_s), f"{step.at_s + ground.offset_s:g}", thing, name_of(pod), part(pod, "spec", "nodeName") or "?",
        "?" if age_s is None else age_s, "?" if size is None else size, "yes" if matched else "no",
    )  # fmt: skip
    fresh = not path.exists()
    log = LineLog(path)
    try:
        if fresh:
            log.write("\t".join(COLUMNS))
        log.write("\t".join(str(value) for value in values))
    finally:
        log.close()
