"""Schedule files: what is rolled during a load, as data that people edit, resolved to a concrete list of rolls."""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import dataclass
from pathlib import Path

from harness.errors import PlanError
from harness.plan.model import Roll

KINDS = ("proxy", "target")
NEXT = "next"
PROFILES = Path(__file__).parent.parent / "profiles"
RESTART_MARGIN_S = 2.0  # beyond parent_shutdown_s: two epochs of one proxy must not overlap a third


@dataclass(frozen=True)
class Schedule:
    """A schedule file as written: its rolls, names not yet resolved, and the length of the load it is written for.

    ``duration_s`` None: its times are taken as they stand, whatever the load's length.
    """

    source: str
    duration_s: int | None
    rolls: tuple[Roll, ...]


def profile_file(profile: str) -> Path:
    """The schedule file of a profile that ships with the project."""
    return PROFILES / f"{profile}.toml"


def read_schedule(path: Path) -> Schedule:
    """Parse a schedule file. Raises PlanError with the file's name and the roll at fault."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: the schedule cannot be read ({getattr(error, 'strerror', None) or error})") from error
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{path}: the schedule is not TOML ({' '.join(str(error).split())[:200]})") from error
    unknown = sorted(set(document) - {"duration_s", "roll"})
    if unknown:
        raise PlanError(f"{path}: unknown keys {', '.join(unknown)}; a schedule holds duration_s and [[roll]]")
    duration_s = document.get("duration_s")
    if duration_s is not None and (not isinstance(duration_s, int) or isinstance(duration_s, bool) or duration_s < 1):
        raise PlanError(f"{path}: duration_s must be a positive whole number")
    entries = document.get("roll", [])
    if not isinstance(entries, list):
        raise PlanError(f"{path}: rolls are written as [[roll]]")
    rolls = tuple(_roll(entry, f"{path}: roll {number}") for number, entry in enumerate(entries, start=1))
    return Schedule(str(path), duration_s, rolls)


def _roll(entry: object, where: str) -> Roll:
    if not isinstance(entry, dict) or set(entry) != {"at_s", "kind", "name"}:
        raise PlanError(f"{where}: wants at_s, kind and name, and nothing else")
    at_s, kind, name = entry["at_s"], entry["kind"], entry["name"]
    if not isinstance(at_s, int | float) or isinstance(at_s, bool) or not 0 <= at_s < 1e7:
        raise PlanError(f"{where}: at_s must be seconds after the load's start")
    if kind not in KINDS:
        raise PlanError(f"{where}: kind must be one of {', '.join(KINDS)}")
    if not isinstance(name, str):
        raise PlanError(f"{where}: name must be text")
    return Roll(float(at_s), kind, name)


def resolve(
    schedule: Schedule,
    *,
    duration_s: int,
    nodes: list[str],
    targets: list[str],
    parent_shutdown_s: float,
    scaled: bool = False,
) -> tuple[Roll, ...]:
    """Concrete rolls, in time order (stable), as seconds after the load's start.

    A profile's own schedule shrinks and grows with the load (``scaled``); a file of the user's is taken literally.
    Raises PlanError for a file written for another length, for a name that is not there, and for two hot restarts
    of one proxy that are closer together than the time its old process takes to go.
    """
    written_for_s = schedule.duration_s or duration_s
    if written_for_s != duration_s and not scaled:
        raise PlanError(
            f"{schedule.source}: is written for a load of {written_for_s} s, this one lasts {duration_s} s; "
            f"give duration_s={written_for_s}, or take duration_s out of the file to use its times as they stand"
        )
    scale = duration_s / written_for_s
    turns = {"proxy": itertools.cycle(nodes), "target": itertools.cycle(targets)}
    known = {"proxy": nodes, "target": targets}
    rolls = []
    for roll in sorted(schedule.rolls, key=lambda roll: roll.at_s):
        name = next(turns[roll.kind]) if roll.name == NEXT else roll.name
        if name not in known[roll.kind]:
            raise PlanError(
                f"{schedule.source}: rolls {roll.kind} {name!r}, which is none of {', '.join(known[roll.kind])}"
            )
        rolls.append(Roll(round(roll.at_s * scale, 3), roll.kind, name))
    if any(roll.at_s >= duration_s for roll in rolls):
        raise PlanError(f"{schedule.source}: a roll starts after the load's end at {duration_s} s")
    _check_distance(rolls, schedule.source, parent_shutdown_s + RESTART_MARGIN_S)
    return tuple(rolls)


def _check_distance(rolls: list[Roll], source: str, least_s: float) -> None:
    last: dict[str, float] = {}
    for roll in rolls:
        if roll.kind != "proxy":
            continue
        if roll.name in last and roll.at_s - last[roll.name] < least_s:
            raise PlanError(
                f"{source}: restarts the proxy of {roll.name} twice within {roll.at_s - last[roll.name]:g} s, "
                f"its old process needs {least_s:g} s to go; a longer load, more nodes or churn=off avoids that"
            )
        last[roll.name] = roll.at_s


def schedule_tsv(rolls: tuple[Roll, ...]) -> str:
    """``at_s TAB kind TAB name`` lines."""
    return "".join(f"{roll.at_s:g}\t{roll.kind}\t{roll.name}\n" for roll in rolls)


def read_schedule_tsv(path: Path) -> tuple[Roll, ...]:
    """Inverse of ``schedule_tsv``. Raises PlanError."""
    rolls = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        fields = line.split("\t")
        try:
            at_s, kind, name = fields
            rolls.append(Roll(float(at_s), kind, name))
        except ValueError as error:
            raise PlanError(f"{path}:{number}: is not 'at_s TAB kind TAB name'") from error
    return tuple(rolls)
