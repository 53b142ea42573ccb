"""Run ids and the folder of a run: every path that two rooms share has its name here, and only here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import UsageError

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
CHECKS = "checks"
RESERVED = frozenset({"published", CHECKS})
RUN_JSON = "run.json"
RUNG_NAME = re.compile(r"c[1-9][0-9]{0,5}(\.r[1-9][0-9]{0,3})?")
"""A rung of a ladder, ``c32``, or a repeat of one, ``c32.r2``."""
SUMS = "SHA256SUMS"
SAVED = "SAVED"


def is_run_id(text: str) -> bool:
    """Whether ``text`` may name a run: an id becomes a folder."""
    return RUN_ID.fullmatch(text) is not None and text.lower() not in RESERVED


def check_run_id(text: str) -> str:
    """``text`` when it may name a run. Raises UsageError."""
    if not is_run_id(text):
        raise UsageError(
            f"{text!r} cannot name a run: 1 to 63 of letters, digits, '.', '_' and '-', starting with a letter or digit"
        )
    return text


def run_folders(runs: Path) -> list[RunFolder]:
    """Every run's folder in the runs folder, by name; not what is published, and no link. Nothing inside is read."""
    if not runs.is_dir():
        return []
    found = (entry for entry in sorted(runs.iterdir()) if is_run_id(entry.name) and not entry.is_symlink())
    return [RunFolder(entry) for entry in found if entry.is_dir()]


def new_run_id(profile: str, now: datetime | None = None) -> str:
    """``<profile>-<YYYYMMDDTHHMMSSZ>``."""
    return f"{profile}-{(now or datetime.now(UTC)).strftime('%Y%m%dT%H%M%SZ')}"


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. Attributes are paths; nothing is created by asking for one."""

    root: Path

    @property
    def run(self) -> str:
        """The run's id."""
        return self.root.name

    @property
    def run_json(self) -> Path:
        """What this run is; written first."""
        return self.root / RUN_JSON

    @property
    def intent(self) -> Path:
        """What is being started outside the harness, and its identity once known."""
        return self.root / "intent.json"

    @property
    def closed(self) -> Path:
        """Written when a run ended without a verdict, with the reason."""
        return self.root / "closed.json"

    @property
    def failed(self) -> Path:
        """Which stage could not do its work, and why, until it has done it."""
        return self.root / "failed.json"

    @property
    def adopted(self) -> Path:
        """Where a run that was adopted came from; no other run has one."""
        return self.root / "adopted.json"

    @property
    def live(self) -> Path:
        """What the running parts write. Becomes evidence only by ``save``."""
        return self.root / "live"

    @property
    def evidence(self) -> Path:
        """What the run produced, byte for byte, with SHA256SUMS and, last, SAVED."""
        return self.root / "evidence"

    @property
    def sums(self) -> Path:
        """``sha256  name`` of every saved file."""
        return self.evidence / SUMS

    @property
    def saved(self) -> Path:
        """The mark that all of the evidence is there; written last."""
        return self.evidence / SAVED

    @property
    def tables(self) -> Path:
        """Parquet made from the evidence."""
        return self.root / "tables"

    @property
    def tables_index(self) -> Path:
        """Which tables were made, with rows and digests, or why none could be."""
        return self.tables / "index.json"

    @property
    def verdicts(self) -> Path:
        """One file per grading."""
        return self.root / "verdicts"

    @property
    def stages(self) -> Path:
        """Receipts."""
        return self.root / "stages"

    @property
    def report(self) -> Path:
        """The page for people."""
        return self.root / "report.html"

    # files under live/
    @property
    def plan(self) -> Path:
        """The plan, in sortie's YAML."""
        return self.live / "plan.yaml"

    @property
    def shares(self) -> Path:
        """``name TAB rate_rps per node TAB url``, plan order."""
        return self.live / "shares.tsv"

    @property
    def schedule(self) -> Path:
        """Planned rolls: ``at_s TAB kind TAB name``; absent when the run has no churn."""
        return self.live / "schedule.tsv"

    @property
    def pins(self) -> Path:
        """Versions and digests in use."""
        return self.live / "pins.json"

    @property
    def engines(self) -> Path:
        """``ip TAB node TAB name``, sorted."""
        return self.live / "engines.tsv"

    @property
    def run_env(self) -> Path:
        """``KEY=value`` lines."""
        return self.live / "run.env"

    @property
    def fleet_json(self) -> Path:
        """What the fleet is and how it stands; rewritten by its supervisor."""
        return self.live / "fleet.json"

    @property
    def rungs_json(self) -> Path:
        """Which rungs a ladder has, as far as they are planned."""
        return self.live / "rungs.json"

    @property
    def tier_json(self) -> Path:
        """What the embedded tier is and how it stands; rewritten by its launcher."""
        return self.live / "tier.json"

    @property
    def target_json(self) -> Path:
        """What a ladder's target told of itself before the first rung."""
        return self.live / "target.json"

    @property
    def workload_json(self) -> Path:
        """What was prepared for a turn to run, and measured of it."""
        return self.live / "workload.json"

    def rung_json(self, rung: str) -> Path:
        """The record of one rung; while it is not there, the rung was not measured."""
        return self.live / f"{rung}.json"

    @property
    def load_json(self) -> Path:
        """The claim of the one load of this run; created by the driver, exclusively, before the first dispatch."""
        return self.live / "load.json"

    @property
    def progress_json(self) -> Path:
        """The newest counts, for looking only."""
        return self.live / "progress.json"

    @property
    def report_json(self) -> Path:
        """The driver's report."""
        return self.live / "report.json"

    @property
    def stream(self) -> Path:
        """The results stream."""
        return self.live / "results.jsonl"

    @property
    def driver_log(self) -> Path:
        """The driver's log."""
        return self.live / "sortie.log"

    @property
    def churn_log(self) -> Path:
        """What was rolled, and when."""
        return self.live / "churn.log"
