"""Which runs there are, how far each one got, and the newest verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.files import read_json
from harness.processes import Identity, alive
from harness.runs import RESERVED, RUN_ID, RunFolder
from harness.store.readers import read_env

DAMAGED = "DAMAGED"


@dataclass(frozen=True)
class RunState:
    """One line of ``harness runs``.

    ``state`` is ``created`` (nothing was started), the fleet's own word (``starting``, ``ready``, ``stopped`` …),
    ``loading``, ``load ended``, ``saved``, ``graded``, ``closed`` or ``unreadable``. ``verdict`` is ``DAMAGED`` where
    the newest one is not what was stored; ``reason`` then says which. ``drill`` is the fault that was put in on
    purpose, ``no`` where there was none. None is not known.
    """

    run: str
    kind: str | None
    profile: str | None
    fleet: str | None
    created_at: str | None
    state: str
    verdict: str | None
    drill: str | None
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """The form of ``--json``."""
        return asdict(self)


def list_runs(runs_folder: Path) -> list[RunState]:
    """Every run in the folder, newest first. An absent folder holds none."""
    if not runs_folder.is_dir():
        return []
    folders = [
        RunFolder(entry)
        for entry in runs_folder.iterdir()
        if entry.is_dir() and RUN_ID.fullmatch(entry.name) and entry.name.lower() not in RESERVED
    ]
    return sorted((run_state(folder) for folder in folders), key=lambda s: (s.created_at or "", s.run), reverse=True)


def run_state(folder: RunFolder) -> RunState:
    """How far one run got, read from its files alone."""
    about = _read(folder.run_json) or _adopted(folder)
    verdict = newest_verdict(folder)
    return RunState(
        run=folder.run,
        kind=_text(about, "kind"),
        profile=_text(about, "profile"),
        fleet=_text(about, "fleet"),
        created_at=_text(about, "created_at"),
        state=_state(folder, graded=verdict is not None),
        verdict=_text(verdict, "verdict"),
        drill=drill_of(run_settings(folder)),
        reason=_text(verdict, "reason") or _text(_read(folder.closed), "reason"),
    )


def _adopted(folder: RunFolder) -> dict[str, Any]:
    """What an adopted run says of itself where there is no run.json: its mode and where it ran, all else unknown."""
    try:
        env = read_env(folder.evidence / "run.env")
    except EvidenceError:
        return {}
    return {"profile": env.get("MODE"), "fleet": env.get("CTX")}


def run_settings(folder: RunFolder) -> dict[str, Any] | None:
    """The settings a run was made with, flat; from the evidence, else as they stand. None when they are not known."""
    about = _read(folder.evidence / folder.run_json.name) or _read(folder.run_json)
    settings = (about or {}).get("settings")
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


def _state(folder: RunFolder, *, graded: bool) -> str:
    if graded:
        return "graded"
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
