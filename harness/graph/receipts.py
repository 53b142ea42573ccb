"""Receipts: what a stage read, made and found, written last and atomically. A stage without one has not happened.

The receipt is at once the task's target and doit's memory of it (see ``backend``), so there is one truth on disk and
a SIGKILL at any moment leaves each stage either done or not done.
"""

from __future__ import annotations

import getpass
import platform
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from harness import __version__
from harness.files import read_json, sha256_file, utc_stamp, write_json
from harness.runs import RUN_ID, RUNG_NAME, RunFolder
from harness.store.columns import LADDER, SOAK

DERIVED = ("tables", "gate", "report")
STAGES_OF: Mapping[str, tuple[str, ...]] = {
    SOAK: ("plan", "pins", "preflight", "engines", "load", "save", *DERIVED),
    LADDER: ("plan", "pins", "preflight", "workload", "next-rung", "save", *DERIVED),
}
"""Kind of run → its stages, in order. A ladder's rungs are stages too, under their own names."""
_PLACE: Mapping[str, int] = {
    "plan": 0, "pins": 10, "preflight": 20, "engines": 30, "workload": 30, "load": 40, "next-rung": 45,
    "save": 50, "tables": 60, "gate": 70, "report": 80,
}  # fmt: skip
_PLACE_OF_RUNGS = 40
STAGES = tuple(_PLACE)
LIVE_STAGES = tuple(stage for stage in STAGES if _PLACE[stage] < _PLACE["save"])
PROJECT = Path(__file__).resolve().parents[2]
SCHEMA = 1


@dataclass(frozen=True)
class Receipt:
    """A receipt as read back. ``inputs`` and ``outputs`` map names (see ``name_of``) to SHA-256 in hex."""

    stage: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    outcome: dict[str, Any]
    ended_at: str


def path_of(folder: RunFolder, stage: str) -> Path:
    """``stages/<nn>-<stage>.json``."""
    return folder.stages / f"{_PLACE.get(stage, _PLACE_OF_RUNGS):02d}-{stage}.json"


def is_rung(stage: str) -> bool:
    """Whether the stage is a rung of a ladder."""
    return RUNG_NAME.fullmatch(stage) is not None


def is_live(stage: str) -> bool:
    """Whether the stage comes before ``save``: of a run that is saved it is over."""
    return is_rung(stage) or stage in LIVE_STAGES


def task_of(run: str, stage: str) -> str:
    """The name of a stage's task: ``gate:RUN``, and ``e8:RUN:c8`` of a rung."""
    return f"{LADDER}:{run}:{stage}" if is_rung(stage) else f"{stage}:{run}"


def parse_task(task: str) -> tuple[str, str] | None:
    """Inverse of ``task_of``: run and stage; None for a task that is no stage of a run."""
    stage, _, run = task.partition(":")
    if stage == LADDER:
        run, _, stage = run.partition(":")
        known = is_rung(stage)
    else:
        known = stage in STAGES
    return (run, stage) if known and RUN_ID.fullmatch(run) else None


def done(folder: RunFolder) -> list[str]:
    """Every stage that has a receipt, in the order in which stages come; rungs by their number."""
    found = (path.stem.partition("-")[2] for path in folder.stages.glob("[0-9][0-9]-*.json"))
    return sorted((stage for stage in found if is_rung(stage) or stage in STAGES), key=_order)


def _order(stage: str) -> tuple[int, int, int]:
    if not is_rung(stage):
        return _PLACE[stage], 0, 0
    c, _, repeat = stage[1:].partition(".r")
    return _PLACE_OF_RUNGS, int(c), int(repeat or 1)


def name_of(path: Path, folder: RunFolder) -> str:
    """A name for ``path`` that still holds when the run's folder or the project moves."""
    absolute = path.absolute()
    for prefix, root in (("run", folder.root.absolute()), ("project", PROJECT)):
        if absolute.is_relative_to(root):
            return f"{prefix}:{absolute.relative_to(root)}"
    return str(absolute)


def locate(name: str, folder: RunFolder) -> Path:
    """Inverse of ``name_of``."""
    prefix, colon, rest = name.partition(":")
    if colon and prefix in ("run", "project"):
        return (folder.root.absolute() if prefix == "run" else PROJECT) / rest
    return Path(name)


def digests(paths: Iterable[Path], folder: RunFolder) -> dict[str, str]:
    """Name → SHA-256 of every path that is a file."""
    return {name_of(path, folder): sha256_file(path) for path in paths if path.is_file()}


def write(
    folder: RunFolder,
    stage: str,
    *,
    inputs: dict[str, str],
    outputs: dict[str, str],
    outcome: dict[str, Any],
    started_at: str,
) -> None:
    """Write the receipt. Raises OSError; the stage has then not happened."""
    folder.stages.mkdir(parents=True, exist_ok=True)
    document = {
        "schema": SCHEMA,
        "run": folder.run,
        "stage": stage,
        "started_at": started_at,
        "ended_at": utc_stamp(),
        "who": f"{_user()}@{socket.gethostname()}",
        "tools": {"harness": __version__, "python": platform.python_version(), "doit": metadata.version("doit")},
        "inputs": inputs,
        "outputs": outputs,
        "outcome": outcome,
    }
    write_json(path_of(folder, stage), document)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def read(folder: RunFolder, stage: str) -> Receipt | None:
    """The receipt, or None when there is none that can be read: a damaged receipt is no receipt."""
    try:
        document = read_json(path_of(folder, stage))
        receipt = Receipt(
            document["stage"], document["inputs"], document["outputs"], document["outcome"], document["ended_at"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    fields = (receipt.inputs, receipt.outputs, receipt.outcome)
    whole = all(isinstance(field, dict) for field in fields) and receipt.stage == stage
    return receipt if whole and document.get("run") == folder.run else None


def remove(folder: RunFolder, stage: str) -> None:
    """Forget that the stage happened."""
    path_of(folder, stage).unlink(missing_ok=True)


def changed_outputs(folder: RunFolder, receipt: Receipt) -> list[str]:
    """Names of outputs that are gone or no longer what the stage made."""
    changed = []
    for name, digest in sorted(receipt.outputs.items()):
        path = locate(name, folder)
        if not path.is_file() or sha256_file(path) != digest:
            changed.append(name)
    return changed
