"""The schedule of a cluster's churn, as data that people edit: what is done when, and to which objects.

A file is refused whole before anything is done. What it plans is also rows of ``schedule.tsv``, so that the gate pairs
them with churn.log as it does for any fleet.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.errors import PlanError
from harness.fleet.kubernetes.churn.calls import ROLLED_KINDS, Thing
from harness.fleet.kubernetes.config import DIGEST, LABEL
from harness.plan.model import Roll

ROLL, TOGETHER, NEW_ACCOUNT, UDS_CSI, NO_ROLLS, SHRINK = (
    "roll", "roll-together", "new-service-account", "uds-csi", "no-rolls", "shrink",
)  # fmt: skip
NEEDS: dict[str, frozenset[str]] = {
    ROLL: frozenset({"what"}),
    TOGETHER: frozenset({"what"}),
    NEW_ACCOUNT: frozenset({"name"}),
    UDS_CSI: frozenset({"what", "victim"}),
    NO_ROLLS: frozenset({"until_s"}),
    SHRINK: frozenset({"what", "for_s"}),
}
"""What is done → the keys that its step must have, beside at_s and do."""
MAY: dict[str, frozenset[str]] = {
    ROLL: frozenset({"rss_sample"}),
    TOGETHER: frozenset({"rss_sample"}),
    NEW_ACCOUNT: frozenset({"image", "for_s", "labels", "annotations"}),
}
ROLLS = frozenset({ROLL, TOGETHER, UDS_CSI})
SETTLED, LOAD = "settled", "load"
LONGEST_S = 10**7
PROBE_S = 20
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Step:
    """One entry. Times are whole seconds after T0; ``things`` are what ``what`` names, then ``victim`` apart.

    ``rss_samples`` are those of ``things`` that a memory sample is queued for.
    """

    at_s: int
    do: str
    things: tuple[Thing, ...] = ()
    names: tuple[str, ...] = ()
    victim: Thing | None = None
    until_s: int = 0
    for_s: int = 0
    name: str = ""
    image: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    rss_samples: tuple[Thing, ...] = ()
    skip: bool = False


@dataclass(frozen=True)
class Schedule:
    """A schedule file: its steps in the order of time, those of one second in the order of the file.

    ``settles``: its T0 is the load's start and the time to settle; else the load's start itself. ``workloads`` are the
    Deployments whose state the pre-flight reads before the first roll; ``noted`` those that it only tells the replicas
    of.
    """

    source: str
    duration_s: int | None
    settles: bool
    steps: tuple[Step, ...]
    workloads: tuple[Thing, ...]
    noted: tuple[Thing, ...]

    @property
    def done(self) -> tuple[Step, ...]:
        """The steps that are not skipped."""
        return tuple(step for step in self.steps if not step.skip)

    @property
    def end_s(self) -> int:
        """When the last step begins to be over, in seconds after T0."""
        return max((max(step.at_s + step.for_s, step.until_s) for step in self.done), default=0)

    def offset_s(self, settle_s: float) -> float:
        """T0 in seconds after the load's start."""
        return settle_s if self.settles else 0.0

    def rolls(self, offset_s: float) -> tuple[Roll, ...]:
        """The rows of schedule.tsv; ``offset_s`` is T0 in seconds after the load's start."""
        rows = []
        for step in self.done:
            if step.do in ROLLS:
                rows += [Roll(step.at_s + offset_s, thing.kind, thing.name) for thing in step.things]
            elif step.do == NEW_ACCOUNT:
                rows.append(Roll(step.at_s + offset_s, "newsa", step.name))
        return tuple(rows)


def shipped(profile: str) -> Path | None:
    """The schedule that ships for a profile, or None where that profile has none on a cluster."""
    path = FOLDER / f"{profile}.toml"
    return path if path.is_file() else None


def read_schedule(path: Path, *, namespace: str, system_namespace: str, image: str = "") -> Schedule:
    """Parse a schedule file.

    ``{namespace}`` and ``{system_namespace}`` in the names of objects stand for the run's own; ``image`` is that of a
    new ServiceAccount's pod where its step names none. Raises PlanError with the file's name and the step at fault.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: the schedule cannot be read ({getattr(error, 'strerror', None) or error})") from error
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{path}: the schedule is not TOML ({' '.join(str(error).split())[:200]})") from error
    unknown = sorted(set(document) - {"duration_s", "counts_from", "objects", "workloads", "noted", "step"})
    if unknown:
        raise PlanError(
            f"{path}: unknown keys {', '.join(unknown)}; a schedule of a cluster holds duration_s, counts_from, "
            "workloads, noted, [objects] and [[step]]"
        )
    counts_from = document.get("counts_from", SETTLED)
    if counts_from not in (SETTLED, LOAD):
        raise PlanError(f"{path}: counts_from must be {SETTLED} or {LOAD}")
    named = {"namespace": namespace, "system_namespace": system_namespace}
    reader = _Reader(str(path), _objects(document.get("objects", {}), named, str(path)), image)
    entries = document.get("step", [])
    if not isinstance(entries, list) or not entries:
        raise PlanError(f"{path}: holds no step; they are written as [[step]], and churn=off does nothing at all")
    steps = [reader.step(entry, number) for number, entry in enumerate(entries, start=1)]
    steps.sort(key=lambda step: step.at_s)  # stable: steps of one second stay in the order of the file
    duration_s = document.get("duration_s")
    found = Schedule(
        str(path),
        None if duration_s is None else _whole(duration_s, f"{path}: duration_s", least=1),
        counts_from == SETTLED,
        tuple(steps),
        reader.things(document.get("workloads", []), f"{path}: workloads"),
        reader.things(document.get("noted", []), f"{path}: noted"),
    )
    _check_names(found)
    _check_windows(found)
    return found


def check_length(schedule: Schedule, *, duration_s: int, offset_s: float) -> None:
    """Raise PlanError unless the schedule is for a load of ``duration_s`` and over before it."""
    if schedule.duration_s not in (None, duration_s):
        raise PlanError(
            f"{schedule.source}: is written for a load of {schedule.duration_s} s, this one lasts {duration_s} s; "
            f"give duration_s={schedule.duration_s}, or take duration_s out of a copy and give it as churn=FILE"
        )
    if schedule.end_s + offset_s >= duration_s:
        raise PlanError(
            f"{schedule.source}: its last step ends {schedule.end_s + offset_s:g} s after the load's start, and the "
            f"load lasts {duration_s} s"
        )


@dataclass(frozen=True)
class _Reader:
    source: str
    objects: dict[str, Thing]
    image: str

    def step(self, entry: object, number: int) -> Step:
        """One [[step]]. Raises PlanError."""
        where = f"{self.source}: step {number}"
        if not isinstance(entry, dict) or entry.get("do") not in NEEDS:
            raise PlanError(f"{where}: do must be one of {', '.join(NEEDS)}")
        do = str(entry["do"])
        needed = NEEDS[do] | {"at_s", "do"}
        unknown = sorted(set(entry) - needed - MAY.get(do, frozenset()) - {"skip"})
        if unknown or not needed <= set(entry):
            wanted = ", ".join(sorted(needed))
            raise PlanError(f"{where}: {do} wants {wanted}" + (f", and not {', '.join(unknown)}" if unknown else ""))
        step = Step(_whole(entry["at_s"], f"{where}: at_s"), do, skip=_flag(entry, "skip", where))
        return replace(step, **getattr(self, f"_{do.replace('-', '_')}")(entry, step, where))

    def _roll(self, entry: dict[str, Any], step: Step, where: str) -> dict[str, Any]:
        things = (self.thing(entry["what"], f"{where}: what"),)
        return {"things": things, "rss_samples": things if _flag(entry, "rss_sample", where) else ()}

    def _roll_together(self, entry: dict[str, Any], step: Step, where: str) -> dict[str, Any]:
        things = self.things(entry["what"], f"{where}: what")
        if len(things) < 2 or len(set(things)) < len(things):
            raise PlanError(f"{where}: what must name two or more objects, each once")
        sampled = entry.get("rss_sample", [])
        samples = self.things(sampled, f"{where}: rss_sample")
        if not set(samples) <= set(things):
            raise PlanError(f"{where}: rss_sample names what is not rolled")
        return {"things": things, "rss_samples": samples}

    def _new_service_account(self, entry: dict[str, Any], step: Step, where: str) -> dict[str, Any]:
        name, image = entry["name"], entry.get("image", self.image)
        if not isinstance(name, str) or not LABEL.fullmatch(name):
            raise PlanError(f"{where}: name must be one that an object may have")
        if not step.skip and (not isinstance(image, str) or not DIGEST.fullmatch(image.rpartition("@")[2])):
            raise PlanError(
                f"{where}: the pod of the new ServiceAccount needs an image with python3, by digest: image in the "
                "step, or k8s.image=; or skip = true"
            )
        for_s = _whole(entry.get("for_s", PROBE_S), f"{where}: for_s", least=1, most=600)
        texts = {key: _texts(entry.get(key, {}), f"{where}: {key}") for key in ("labels", "annotations")}
        return {"name": name, "image": image, "for_s": for_s, **texts}

    def _uds_csi(self, entry: dict[str, Any], step: Step, where: str) -> dict[str, Any]:
        thing, victim = (self.thing(entry[key], f"{where}: {key}") for key in ("what", "victim"))
        if thing.kind != "daemonset":
            raise PlanError(f"{where}: what must be a DaemonSet: the plugin has one pod on every node")
        return {"things": (thing,), "victim": victim}

    def _no_rolls(self, entry: dict[str, Any], step: Step, where: str) -> dict[str, Any]:
        return {"until_s": _whole(entry["until_s"], f"{where}: until_s", least=step.at_s + 1)}

    def _shrink(self, entry: dict[str, Any], step: Step, where: str) -> dict[str, Any]:
        thing = self.thing(entry["what"], f"{where}: what")
        if thing.kind == "daemonset":
            raise PlanError(f"{where}: what must be a Deployment or a StatefulSet: a DaemonSet has no count")
        return {"things": (thing,), "for_s": _whole(entry["for_s"], f"{where}: for_s", least=1)}

    def thing(self, name: object, where: str) -> Thing:
        """The object of a name in [objects]. Raises PlanError."""
        if not isinstance(name, str) or name not in self.objects:
            raise PlanError(f"{where}: {name!r} is none of [objects]: {', '.join(self.objects) or 'there is none'}")
        return self.objects[name]

    def things(self, names: object, where: str) -> tuple[Thing, ...]:
        """The objects of a list of names. Raises PlanError."""
        if not isinstance(names, list):
            raise PlanError(f"{where} must be a list of names of [objects]")
        return tuple(self.thing(name, where) for name in names)


def _objects(table: object, named: dict[str, str], source: str) -> dict[str, Thing]:
    if not isinstance(table, dict):
        raise PlanError(f"{source}: [objects] must be a table of name = NAMESPACE/KIND/NAME")
    found: dict[str, Thing] = {}
    for name, text in table.items():
        written = text if isinstance(text, str) else ""
        for key, value in named.items():
            written = written.replace(f"{{{key}}}", value)
        try:
            thing = Thing.parse(written)
        except ValueError as error:
            raise PlanError(f"{source}: object {name}: {error}") from error
        if thing.kind not in ROLLED_KINDS:
            raise PlanError(f"{source}: object {name}: kind must be one of {', '.join(ROLLED_KINDS)}")
        found[name] = thing
    return found


def _check_names(schedule: Schedule) -> None:
    """The log is paired with the plan by kind and name: two objects that share both could not be told apart."""
    seen: dict[tuple[str, str], Thing] = {}
    for step in schedule.steps:
        for thing in step.things:
            other = seen.setdefault((thing.kind, thing.name), thing)
            if other != thing:
                raise PlanError(f"{schedule.source}: {other} and {thing} cannot be told apart by kind and name")
    names = [step.name for step in schedule.done if step.do == NEW_ACCOUNT]
    if len(set(names)) < len(names):
        raise PlanError(f"{schedule.source}: each new ServiceAccount needs a name of its own")


def _check_windows(schedule: Schedule) -> None:
    for window in (step for step in schedule.done if step.do == NO_ROLLS):
        inside = [
            step.at_s
            for step in schedule.done
            if step.do in ROLLS | {NEW_ACCOUNT} and window.at_s < step.at_s < window.until_s
        ]
        if inside:
            raise PlanError(
                f"{schedule.source}: something is rolled at {inside[0]} s, and from {window.at_s} s until "
                f"{window.until_s} s nothing is to be"
            )


def _whole(value: object, where: str, *, least: int = 0, most: int = LONGEST_S) -> int:
    """A whole number of seconds. Raises PlanError for a fraction, a text with a unit, and what is out of bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PlanError(f"{where} must be whole seconds from {least} to {most}, without a unit, is {value!r}")
    return value


def _texts(value: object, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise PlanError(f"{where} must be a table of texts")
    return dict(value)


def _flag(entry: dict[str, Any], key: str, where: str) -> bool:
    value = entry.get(key, False)
    if not isinstance(value, bool):
        raise PlanError(f"{where}: {key} must be true or false")
    return value
