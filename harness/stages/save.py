"""Save: evidence byte for byte, with SHA256SUMS and, last, SAVED. What is saved is never written over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import __version__
from harness.errors import EvidenceError, LoadError
from harness.files import copy_whole, read_json, sha256_file, utc_stamp, write_atomic, write_json
from harness.graph import receipts
from harness.graph.invocation import run_settings
from harness.runs import SAVED, SUMS, RunFolder
from harness.stages.places import place_of
from harness.store.columns import LADDER, SOAK
from harness.store.kinds import LADDER_FILE, kind_of_run

PRUNE_BYTES = 1 << 20  # live logs above this size go once their evidence is proved


def reads(folder: RunFolder) -> list[Path]:
    """Nothing that is held by digest: what is saved stands on its own, whatever becomes of the live files."""
    return []


def makes(folder: RunFolder) -> list[Path]:
    """The list of digests and the mark that all of it is there."""
    return [folder.sums, folder.saved]


def work(folder: RunFolder) -> dict[str, Any]:
    """Copy, sum, mark. A second call proves what is there and writes nothing. Raises EvidenceError or LoadError."""
    _check_receipt(folder)
    if not folder.saved.exists():
        place = place_of(folder)
        state = place.load_state()
        if state.state != "ended":
            names = collect(folder)
            raise LoadError(
                f"there is no report to save ({state.detail or state.state}); what there is, {len(names)} files, "
                f"stands in {folder.evidence}"
            )
        if kind_of_run(folder) == LADDER:
            place.stop(cancel_load=False)  # its tier still waits for another rung
        collect(folder)
        for torn in folder.evidence.glob(".*.tmp"):  # a copy that was killed half-way
            torn.unlink()
        if kind_of_run(folder) == SOAK:
            _times(folder.evidence)
        write_atomic(folder.sums, _sums(folder.evidence))
        write_atomic(folder.saved, utc_stamp() + "\n")
    sums = verify(folder.evidence)
    _prune(folder, sums)
    size = sum((folder.evidence / name).stat().st_size for name in sums)
    return {
        "summary": f"{len(sums)} files, {size / 1e6:.1f} MB in {folder.evidence}",
        "files": len(sums),
        "bytes": size,
    }


def _check_receipt(folder: RunFolder) -> None:
    receipt = receipts.read(folder, "save")
    changed = receipts.changed_outputs(folder, receipt) if receipt else []
    if changed:
        raise EvidenceError(f"{', '.join(changed)}: not as it was saved, so the evidence proves nothing")


def collect(folder: RunFolder) -> list[str]:
    """Copy what the run has so far into evidence/; whole files only, an earlier good copy stays. Returns the names."""
    folder.evidence.mkdir(parents=True, exist_ok=True)
    if folder.saved.exists():
        return sorted(verify(folder.evidence))
    names = place_of(folder).collect(folder.evidence)
    copy_whole(folder.run_json, folder.evidence / "run.json")
    if kind_of_run(folder) == LADDER:
        from harness.stages.ladder import document

        write_json(folder.evidence / LADDER_FILE, document.ladder_document(folder))
        return sorted({*names, "run.json", LADDER_FILE})
    write_atomic(folder.evidence / "run.env", _run_env(folder))
    return sorted({*names, "run.json", "run.env"})


def _run_env(folder: RunFolder) -> str:
    """``KEY=value`` lines under the names that readers of run directories know."""
    settings = run_settings(folder)
    plan_duration = 0
    t_load = ""
    if folder.load_json.exists():
        load = read_json(folder.load_json)
        plan_duration, t_load = int(load["duration_s"]), str(int(load["start_unix_ns"]) // 1_000_000_000)
    values = {
        "RUN_TAG": folder.run,
        "MODE": settings.profile,
        "LABEL": "harness",
        "CTX": settings.fleet,
        "BACKENDS": settings.nodes,
        "DURATION_S": plan_duration,
        "REPORT_FILE": "report.json",
        "STREAM_FILE": "results.jsonl",
        "STATSD": "",
        "HARNESS_VERSION": __version__,
        "VERIFIED": "pins",
        "T_LOAD": t_load,
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


def _times(evidence: Path) -> None:
    from harness.sortie.times import times_tsv

    write_atomic(evidence / "times.tsv", times_tsv(read_json(evidence / "report.json")["executions"]))


def _sums(evidence: Path) -> str:
    names = sorted(path.name for path in evidence.iterdir() if path.is_file() and path.name not in (SUMS, SAVED))
    return "".join(f"{sha256_file(evidence / name)}  {name}\n" for name in names if not name.startswith("."))


def verify(evidence: Path) -> dict[str, str]:
    """Name → SHA-256 of the saved files, each one read and compared. Raises EvidenceError naming what differs."""
    from harness.store.sums import verify_sums

    sums = verify_sums(evidence)
    if not sums:
        raise EvidenceError(f"{evidence}: has no {SUMS}, so it proves nothing")
    return sums


def _prune(folder: RunFolder, sums: dict[str, str]) -> None:
    for name in sums:
        copy = folder.live / name
        if copy.suffix in (".log", ".jsonl") and copy.is_file() and copy.stat().st_size > PRUNE_BYTES:
            copy.unlink()
