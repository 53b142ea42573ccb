"""Runs that another load generator made: which formats can be graded, and how a directory of one is read.

Such a directory holds the plan (``run.env``, ``shares.tsv``, ``engines.tsv``) and one result file per target and node,
``<target>@<node>.json``. In the evidence, ``adopted.json`` says which format that is; without it, evidence is sortie's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from harness.errors import EvidenceError
from harness.sortie.names import PARTS
from harness.store import readers
from harness.store.formats import k6, nighthawk
from harness.store.formats.cells import PLAN_FILES, CellFile, Plan, Reading, cell_files, executions, read_plan
from harness.store.formats.content import parse, refuse, tool_of
from harness.store.formats.one_load import hold_together
from harness.store.source import Source

__all__ = ["ENGINES", "FORMATS", "MARKER", "check", "guess", "marker", "read", "refuse"]

MARKER = "adopted.json"
SCHEMA = 1
ENGINES = ("upstream", "sortie")  # nighthawk as it is published, or the fork that sortie drives, which counts more
# Format → the endings of its result files, and its reader.
FORMATS: dict[str, tuple[tuple[str, ...], Callable[[list[CellFile], Plan, str], Reading]]] = {
    "nighthawk": (nighthawk.SUFFIXES, nighthawk.read),
    "k6": (k6.SUFFIXES, k6.read),
}
# What is said of an execution as a whole is said by a driver above the nodes, and here there is none.
NO_DRIVER = {"driver.elapsed": False, "driver.pass": False, "driver.thresholds": False}


def marker(format_name: str, engine: str = "upstream") -> dict[str, int | str]:
    """What ``adopted.json`` holds: no time and no path, so that the same run always gives the same evidence."""
    if format_name not in FORMATS or engine not in ENGINES:
        raise ValueError(f"no such format or engine: {format_name}, {engine}")
    return {"schema": SCHEMA, "format": format_name, "engine": engine}


def read(evidence: Path, *, scenario: str) -> Source:
    """The executions of evidence with ``adopted.json``, labelled ``<scenario>/<target>``. Raises EvidenceError."""
    about = readers.read_document(evidence / MARKER)
    known = [marker(name, engine) for name in FORMATS for engine in ENGINES]
    if about not in known:
        raise EvidenceError(f"{MARKER} does not name a format that is read here; adopt the run again")
    return _read(evidence, str(about["format"]), str(about["engine"]), scenario)


def check(folder: Path, format_name: str, engine: str = "upstream") -> None:
    """Read a whole directory as a run of a format, and keep nothing. Raises EvidenceError in one sentence.

    For a name that is no format the sentence says why, or which there are.
    """
    if format_name not in FORMATS:
        raise EvidenceError(
            refuse(format_name) or f"there is no format {format_name!r}; there are {', '.join(FORMATS)}"
        )
    _read(folder, format_name, engine, "mesh")


def guess(folder: Path) -> tuple[str, str | None] | None:
    """A file in ``folder`` that is named like a result file, and the format it is in, None where that is none of ours.

    None where no file has such a name. Raises EvidenceError as harness.store.formats.cells.cell_files does.
    """
    files = cell_files(folder, sorted({suffix for suffixes, _ in FORMATS.values() for suffix in suffixes}))
    for file in files:
        with suppress(EvidenceError, ValueError):
            if tool := tool_of(parse(file.path, readers.read_text(file.path))):
                return file.name, tool
    return (files[0].name, None) if files else None


def _no_files(folder: Path, format_name: str, suffixes: tuple[str, ...]) -> EvidenceError:
    name, tool = guess(folder) or (None, None)
    if tool and tool != format_name:
        return EvidenceError(f"no result file of {format_name} is there; {name} is output of {tool}: --format {tool}")
    wanted = " or ".join(f"<target>@<node>{suffix}" for suffix in suffixes)
    return EvidenceError(f"no result file is there; save one per target and node as {wanted}")


def _without_untold_parts(counted: Mapping[str, bool]) -> dict[str, bool]:
    """Of a part that is not told nothing is said: neither that it was 0, nor that its whole was left uncounted."""
    return {name: told for name, told in counted.items() if told or name not in PARTS}


def _read(folder: Path, format_name: str, engine: str, scenario: str) -> Source:
    suffixes, read_files = FORMATS[format_name]
    plan = read_plan(folder)
    files = cell_files(folder, suffixes)
    if not files:
        raise _no_files(folder, format_name, suffixes)
    reading = read_files(files, plan, engine)
    made = executions(plan, reading.cells, scenario)
    hold_together(reading.cells, plan.duration_ms)
    return Source(
        file=MARKER,
        kind=format_name,
        executions=made,
        skipped_lines=0,
        passed=None,
        files=frozenset({*PLAN_FILES, *(file.path.name for file in files)}),
        capabilities={**_without_untold_parts(reading.capabilities), **NO_DRIVER},
    )
