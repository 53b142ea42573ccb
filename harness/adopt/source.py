"""What may be adopted: a run directory that somebody saved, or the evidence of a run of this harness."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.adopt import hints
from harness.errors import EvidenceError, UsageError
from harness.files import sha256_text
from harness.runs import RUN_JSON, SAVED, SUMS, is_run_id
from harness.store import formats, readers
from harness.store.columns import LADDER
from harness.store.formats.cells import PLAN_FILES
from harness.store.sums import shown

SORTIE = "sortie"
NIGHTHAWK = "nighthawk"  # the one format of which there are two engines
SORTIE_PLAN = ("run.env", "shares.tsv")
REPORT, STREAM = "report.json", "results.jsonl"

Mark = Mapping[str, int | str]


def find_evidence(given: Path) -> Path:
    """The folder of the files: ``given`` itself, or its ``evidence/`` when it is the folder of a run of ours."""
    try:
        folder = given.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise EvidenceError(f"there is no such folder ({getattr(error, 'strerror', None) or error})") from error
    if not folder.is_dir():
        raise EvidenceError(
            f"it is no folder; give the folder that holds the run's files, or, of a file of rungs, --format {LADDER}"
        )
    if (folder / "run.env").exists():
        return folder
    if (folder / "evidence").is_dir():
        return folder / "evidence"
    if (folder / RUN_JSON).exists():
        raise EvidenceError("this run was never saved, so there is no evidence yet")
    raise EvidenceError(hints.no_run_env(given, folder))


def check_source(evidence: Path, files: Iterable[str], runs: Path, mark: Mark | None) -> dict[str, str]:
    """Raise EvidenceError unless the folder can be a run; returns what ``run.env`` says.

    ``files``: paths of all files in it. Whether its report can be graded is not asked: damaged evidence is evidence.
    Raises UsageError when ``runs`` is a folder in it.
    """
    present = set(files)
    if Path(os.path.realpath(runs)).is_relative_to(evidence):
        raise UsageError(f"{runs} lies inside the folder that is adopted; --runs names one outside")
    for name in sorted(present):
        if "\n" in name or readers.text(name) != name:
            raise EvidenceError(f"{shown(name)} has a name that no list of digests can hold; rename it")
    for name in SORTIE_PLAN if mark is None else PLAN_FILES:
        if name not in present:
            raise EvidenceError(hints.no_plan(name, present))
    if RUN_JSON in present and SAVED not in present:
        raise EvidenceError(f"it has no {SAVED}, so this run was never saved whole")
    if RUN_JSON in present and SUMS not in present:
        raise EvidenceError(f"{SUMS} is not there, so nothing says that the evidence is what was saved")
    if mark is not None:
        # a wrong --format would take the run's id and keep the right one out
        if REPORT in present:
            raise EvidenceError(f"it has a {REPORT}, which is sortie's; leave --format out, or take that file away")
        formats.check(evidence, str(mark["format"]), str(mark["engine"]))
    elif not present & {REPORT, STREAM}:
        hint = hints.other_format(evidence)
        raise EvidenceError(f"it has neither {REPORT} nor {STREAM}, so nothing says what was measured{hint}")
    env = readers.read_env(evidence / "run.env")
    readers.positive(env, "BACKENDS", "run.env")
    return env


def check_words(format_name: str, engine: str | None) -> None:
    """Raise UsageError for a format or engine that there is not, and for an engine where the format has but one."""
    if format_name not in (known := (SORTIE, *formats.FORMATS, LADDER)) and not formats.refuse(format_name):
        raise UsageError(f"there is no format {format_name!r}; there are {', '.join(known)}")
    if engine is not None and engine not in formats.ENGINES:
        raise UsageError(f"there is no engine {engine!r}; there are {', '.join(formats.ENGINES)}")
    if engine is not None and format_name != NIGHTHAWK:
        raise UsageError(f"--engine says whose nighthawk it was and goes with --format {NIGHTHAWK} only; leave it out")


def mark_of(evidence: Path, files: Iterable[str], format_name: str, engine: str | None) -> Mark | None:
    """What ``adopted.json`` in the evidence says or is to say; None for a run of sortie's, which has none.

    ``engine`` None is that of the format, nighthawk's as it is published. Raises EvidenceError for a format that hides
    failures, and where the file is there and says something else; UsageError as ``check_words`` does.
    """
    check_words(format_name, engine)
    if reason := formats.refuse(format_name):
        raise EvidenceError(reason)
    wanted = None if format_name == SORTIE else formats.marker(format_name, engine or formats.ENGINES[0])
    if formats.MARKER not in files:
        return wanted
    there = readers.read_document(evidence / formats.MARKER)
    known = [formats.marker(name, by) for name in formats.FORMATS for by in formats.ENGINES]
    found = next((mark for mark in known if mark == there and wanted in (None, mark)), None)
    if found is None and there in known:
        raise EvidenceError(f"{formats.MARKER} names another format or engine; leave --format and --engine out")
    if found is None:
        raise EvidenceError(f"{formats.MARKER} is there and names no format that is read here; take it away")
    return found


def run_id(evidence: Path, env: Mapping[str, str]) -> str:
    """The name of the run: of ours the one in ``run.json``, else RUN_TAG where it is a safe name, else by content.

    By content it is of the list of digests, so the same files have the same name. Raises EvidenceError for evidence of
    ours without a name.
    """
    if (evidence / RUN_JSON).exists():
        about = readers.read_document(evidence / RUN_JSON)
        name = about.get("run") if isinstance(about, dict) else None
        if not isinstance(name, str) or not is_run_id(name):
            raise EvidenceError(f"{RUN_JSON} names no run")
        return name
    if is_run_id(tag := env.get("RUN_TAG", "")):
        return tag
    return f"adopted-{sha256_text(readers.read_text(evidence / SUMS))[:16]}"
