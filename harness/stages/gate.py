"""Gate: the tables graded by SQL, the verdict stored beside the earlier ones, and said."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import EvidenceError, StageError
from harness.files import read_json, sha256_file
from harness.runs import RUN_JSON, RunFolder
from harness.store.columns import LADDER, SOAK
from harness.store.kinds import kind_of_run
from harness.store.readers import one_line

if TYPE_CHECKING:
    from harness.e8.verdict import LadderVerdict
    from harness.gate import Verdict

WITNESSES = "SOAK UNPROVEN prober=absent restarts=absent (the verdict is of the load alone)"


def reads(folder: RunFolder) -> list[Path]:
    """The tables' index, and every file of the gate: edit one and only the gate runs again."""
    if kind_of_run(folder) == LADDER:
        from harness.e8 import grade

        return [folder.tables_index, *grade.files()]
    from harness import gate

    return [folder.tables_index, *gate.files()]


def grade_run(folder: RunFolder) -> tuple[Verdict | LadderVerdict, Path]:
    """Grade a run as what it is, a soak or a ladder, and store the verdict; returns it with its file.

    Raises EvidenceError when the run has no tables, StageError where no verdict can be kept: nothing is stored then.
    """
    check_verdicts(folder)
    if kind_of_run(folder) == LADDER:
        from harness.e8.grade import grade_run as grade_ladder
        from harness.store.held import hold_rows

        hold_rows(folder)
        return grade_ladder(folder)
    from harness.gate.saved import grade_run as grade_soak

    return grade_soak(folder)


def refused(folder: RunFolder, reason: str) -> Verdict | LadderVerdict:
    """The verdict of a run without tables, which is not stored."""
    if kind_of_run(folder) == LADDER:
        from harness.e8.grade import refused as refused_ladder

        return refused_ladder(folder.run, reason)
    from harness.gate.verdict import Verdict

    return Verdict.refused(folder.run, reason)


def makes(folder: RunFolder) -> list[Path]:
    """The newest verdict."""
    from harness.gate import store

    return store.stored(folder.verdicts)[-1:]


def work(folder: RunFolder) -> dict[str, Any]:
    """Grade and store."""
    verdict, path = grade_run(folder)
    return {"summary": verdict.word, "verdict": path.name, "word": verdict.word}


def announce(folder: RunFolder) -> int:
    """Print the stored verdict and return its exit code: nothing to do never reads as a pass.

    Raises EvidenceError when the verdict is not there, or not as it was stored.
    """
    from harness.gate import store
    from harness.graph import receipts

    receipt = receipts.read(folder, "gate")
    name = receipt.outcome.get("verdict") if receipt else None
    if not isinstance(name, str) or "/" in name:
        raise EvidenceError(f"was not graded; ./doit gate:{folder.run} grades it", run=folder.run)
    document = store.read(folder.verdicts / name)
    if document.get("run") != folder.run:
        raise EvidenceError(
            f"{name} is a verdict of another run; ./doit gate:{folder.run} grades this one", run=folder.run
        )
    for line in document["lines"]:
        if line.startswith("VERDICT "):
            sys.stdout.writelines(f"{text}\n" for text in beside(folder))
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
    return int(document["exit_code"])


def beside(folder: RunFolder) -> list[str]:
    """What stands before a verdict line: where the page is, what was injected, which witnesses are absent."""
    fault = drill(folder)
    page = [f"REPORT  {folder.report}"] if folder.report.exists() else []
    drills = [f"DRILL  faults were injected on purpose: {fault}"] if fault else []
    return [*page, *_differs(folder), *drills, *([WITNESSES] if kind_of_run(folder) == SOAK else [])]


def _differs(folder: RunFolder) -> list[str]:
    """A note where the description of the run is no longer the one in its evidence, by which it is graded."""
    sealed = folder.evidence / RUN_JSON
    if not (sealed.is_file() and folder.run_json.is_file()) or sha256_file(sealed) == sha256_file(folder.run_json):
        return []
    return [f"NOTE  {folder.run_json} is not what was saved; {sealed} stands, so copy it there"]


def check_verdicts(folder: RunFolder) -> None:
    """Raise StageError where a verdict could not be kept: something else than a folder stands in its place."""
    if folder.verdicts.exists() and not folder.verdicts.is_dir():
        raise StageError(
            f"{folder.verdicts} is no folder, and verdicts are kept in one; move it away and grade again",
            run=folder.run,
        )


def drill(folder: RunFolder) -> str | None:
    """The faults that a run was made with, None when there were none or nothing says so."""
    try:
        fault = read_json(folder.evidence / "run.json")["settings"]["fault"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return one_line(fault) if isinstance(fault, str) and fault else None
