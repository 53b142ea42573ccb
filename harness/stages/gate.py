"""Gate: the tables graded by SQL, the verdict stored beside the earlier ones, and said."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.files import read_json, sha256_file
from harness.graph import receipts
from harness.runs import RunFolder
from harness.stages.tables import INDEX

WITNESSES = "SOAK UNPROVEN prober=absent restarts=absent (the verdict below is of the load alone)"


def reads(folder: RunFolder) -> list[Path]:
    """The tables' index, and every file of the gate: edit one and only the gate runs again."""
    from harness import gate

    return [folder.tables / INDEX, *gate.files()]


def makes(folder: RunFolder) -> list[Path]:
    """The newest verdict."""
    return sorted(folder.verdicts.glob("*.json"))[-1:] if folder.verdicts.is_dir() else []


def work(folder: RunFolder) -> dict[str, Any]:
    """Grade and store."""
    from harness import gate
    from harness.gate import store

    index = read_json(folder.tables / INDEX)
    verdict = gate.Verdict.refused(folder.run, index["refused"]) if index["refused"] else gate.grade(folder.tables)
    path = store.append(folder.verdicts, verdict, sha256_file(folder.tables / INDEX))
    return {"summary": verdict.word, "verdict": path.name, "word": verdict.word}


def announce(folder: RunFolder) -> int:
    """Print the stored verdict and return its exit code: nothing to do never reads as a pass."""
    receipt = receipts.read(folder, "gate")
    if receipt is None:
        raise EvidenceError("was not graded", run=folder.run)
    document = read_json(folder.verdicts / receipt.outcome["verdict"])
    for line in document["lines"]:
        if line.startswith("VERDICT "):
            sys.stdout.write(f"REPORT  {folder.report}\n{WITNESSES}\n" if folder.report.exists() else f"{WITNESSES}\n")
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
    return int(document["exit_code"])
