"""Which runs there are, how far each one got, and the newest verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.files import read_json, utc_stamp
from harness.history.climbs import climb_word
from harness.processes import Identity, alive
from harness.runs import RunFolder, run_folders
from harness.store.columns import LADDER
from harness.store.kinds import LADDER_FILE, kind_of_run
from harness.store.readers import moment, read_env

DAMAGED = "DAMAGED"
FIRST_START = re.compile(rb'\b(?:started_at|execution_start)"?:\s*"([0-9TZ:.+-]{20,40})"', re.IGNORECASE)
LOOKED_AT_BYTES = 1 << 18  # of a report: its first execution stands at its beginning
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class RunState:
    """One line of ``harness runs``.

    ``state`` is ``created`` (nothing was started), the fleet's own word (``starting``, ``ready``, ``stopped`` …),
    ``loading``, ``load ended``, ``saved``, ``graded``, ``closed`` or ``unreadable``; of a ladder that is not saved,
    ``created``, ``preparing``, ``climbing c8``, ``left at c8`` or ``closed``. ``arm`` is that of a ladder, ``fleet``
    then what it measures. ``at`` is when it was created, or when its load started where the first is not known.
    ``verdict`` is ``DAMAGED`` where the newest one is not what was stored; ``reason`` then says which. ``drill`` is the
    fault that was put in on purpose, ``no`` where there was none. None is not known.
    """

    run: str
    kind: str | None
    arm: str | None
    profile: str | None
    fleet: str | None
    created_at: str | None
    at: str | None
    state: str
    verdict: str | None
    drill: str | None
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """The form of ``--json``."""
        return asdict(self)


def list_runs(runs_folder: Path) -> list[RunState]:
    """Every run in the folder, newest first by ``at``; those that do not say it come last. An absent folder holds none.

    Files of the runs are read, and no table.
    """
    states = [run_state(folder) for folder in run_folders(runs_folder)]
    return sorted(states, key=newness, reverse=True)


def newness(state: RunState) -> tuple[datetime, str]:
    """By what runs are put in order."""
    return moment(state.at) or NEVER, state.run


def run_state(folder: RunFolder) -> RunState:
    """How far one run got, read from its files alone."""
    env = _env(folder)
    about = described(folder) or {"profile": env.get("MODE"), "fleet": env.get("CTX")}
    verdict = newest_verdict(folder)
    created_at = _text(about, "created_at")
    is_ladder = kind_of_run(folder) == LADDER
    return RunState(
        run=folder.run,
        kind=_text(about, "kind") or (LADDER if is_ladder else None),
        arm=_arm(folder, about, verdict) if is_ladder else None,
        profile=_text(about, "profile"),
        fleet=_text(about, "fleet") or _text(about, "measured") or _text(verdict, "measured"),
        created_at=created_at,
        at=created_at if moment(created_at) else _load_at(folder, env, verdict),
        state=_state(folder, is_ladder, graded=verdict is not None),
        verdict=_text(verdict, "verdict"),
        drill=drill_of(run_settings(folder)),
        reason=_text(verdict, "reason")
        or _text(_read(folder.closed), "reason")
        or _text(_read(folder.failed), "reason"),
    )


def _env(folder: RunFolder) -> Mapping[str, str]:
    """What the evidence says of itself; nothing where it does not say it."""
    try:
        return read_env(folder.evidence / "run.env")
    except EvidenceError:
        return {}


def _load_at(folder: RunFolder, env: Mapping[str, str], verdict: dict[str, Any] | None) -> str | None:
    """When the load started: as run.env has it, else as it was graded, else the first start in what was measured."""
    if re.fullmatch(r"[1-9][0-9]{0,10}", env.get("T_LOAD", ""), re.ASCII):
        return utc_stamp(int(env["T_LOAD"]))
    window = (verdict or {}).get("window")
    if isinstance(window, dict) and moment(dispatched := window.get("dispatched")):
        return str(dispatched)
    measured = [folder.evidence / "report.json", folder.evidence / "results.jsonl"]
    for path in [*measured, *sorted(folder.evidence.glob("*@*"))[:1]]:
        if (found := FIRST_START.search(_head(path))) and moment(text := found[1].decode()):
            return text
    return None


def _head(path: Path) -> bytes:
    if not path.is_file():  # a FIFO would be waited for
        return b""
    try:
        with path.open("rb") as file:
            return file.read(LOOKED_AT_BYTES)
    except OSError:
        return b""


def described(folder: RunFolder) -> dict[str, Any] | None:
    """What a run says it is: from the evidence, else as it stands beside it. None when neither can be read."""
    return _read(folder.evidence / folder.run_json.name) or _read(folder.run_json)


def run_settings(folder: RunFolder) -> dict[str, Any] | None:
    """The settings a run was made with, flat. None when they are not known."""
    settings = (described(folder) or {}).get("settings")
    return settings if isinstance(settings, dict) else None


def drill_of(settings: dict[str, Any] | None) -> str | None:
    """The fault that was put in on purpose, ``no`` where there was none; None when the settings do not say."""
    fault = (settings or {}).get("fault")
    return (fault or "no") if isinstance(fault, str) else None


def newest_verdict(folder: RunFolder) -> dict[str, Any] | None:
    """The last grading's document; None when the run was never graded.

    One that was damaged, planted or is another run's is not believed and not passed over: the document then holds only
    ``verdict`` (``DAMAGED``) and ``reason``.
    """
    from harness.gate.store import latest

    try:
        document = latest(folder.verdicts)
        if document is not None and document.get("run") != folder.run:
            raise EvidenceError("the newest verdict in this folder is of another run; grade again")
    except (EvidenceError, OSError) as error:
        return {"verdict": DAMAGED, "reason": str(error)}
    return document


def _arm(folder: RunFolder, about: dict[str, Any], verdict: dict[str, Any] | None) -> str | None:
    """The arm of a ladder: as it was made, as it was graded, else as its evidence says."""
    found = _text(about, "arm") or _text(verdict, "arm")
    return found or _text(_read(folder.evidence / LADDER_FILE), "arm")


def _state(folder: RunFolder, is_ladder: bool, *, graded: bool) -> str:
    if graded:
        return "graded"
    if is_ladder:
        return climb_word(folder)
    if folder.closed.exists():
        return "closed"
    if folder.saved.exists():
        return "saved"
    load = _read(folder.load_json)
    if load is not None:
        return "loading" if load_is_running(load) else "load ended"
    if fleet := _text(_read(folder.fleet_json), "state"):
        return fleet
    return "created" if folder.run_json.exists() else "unreadable"


def load_is_running(load: dict[str, Any]) -> bool:
    """True while the driver that claimed the load is alive, by pid and start time."""
    try:
        return alive(Identity.from_json(load))
    except (KeyError, TypeError, ValueError):
        return False


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = read_json(path)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _text(value: dict[str, Any] | None, key: str) -> str | None:
    found = (value or {}).get(key)
    return found if isinstance(found, str) and found else None
