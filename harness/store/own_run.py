"""Whether evidence that calls itself a run of this harness is that run: its name, its plan, its schedule, its limits.

A list of digests proves that nothing was changed since it was written. It does not prove whose evidence it is, nor
that a report was measured by the plan beside it: ``run.json`` was written before anything was started, and says both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError, PlanError
from harness.files import sha256_text
from harness.runs import RUN_JSON
from harness.store import readers

REQUIRED = ("plan.yaml", "shares.tsv", "engines.tsv", "run.env", "sortie.log", "load.json", "pins.json")
NO_SCHEDULE = sha256_text("")
DEFAULT_FLOOR_PCT = 99


@dataclass(frozen=True)
class OwnRun:
    """What run.json says: the document, its settings, and the limits in them. Empty for evidence from elsewhere.

    ``plan_is_known``: it names the digest of its plan, so plan.yaml is ours and must be readable.
    """

    about: Mapping[str, Any]
    settings: Mapping[str, Any]

    @property
    def plan_is_known(self) -> bool:
        """True where run.json holds the digest of its plan or schedule."""
        return "plan_sha256" in self.about or "schedule_sha256" in self.about

    @property
    def floor_pct(self) -> int:
        """Percent of the planned count below which a survivor fails.

        Raises EvidenceError unless it is 1 to 100, and where it is not the default and no plan is named that it is of.
        """
        stated = self.settings.get("floor_pct", None if self.plan_is_known else DEFAULT_FLOOR_PCT)
        percent = readers.whole(stated)
        if not self.plan_is_known and percent != DEFAULT_FLOOR_PCT:
            raise EvidenceError(
                f"{RUN_JSON} says floor_pct={_said(stated)} and not of which plan (plan_sha256), so it is not one that "
                "this harness wrote; put back the one that it did"
            )
        if percent is None or not 1 <= percent <= 100:
            raise EvidenceError(f"{RUN_JSON}: floor_pct must be a whole number from 1 to 100, is {_said(stated)}")
        return percent

    @property
    def max_send_delay_ms(self) -> float | None:
        """Limit of the engines' own lateness; None: the run has none. Raises EvidenceError when it is no limit."""
        stated = self.settings.get("engine.max_send_delay_ms")
        limit = readers.finite(stated)
        if stated is not None and (limit is None or limit <= 0):
            raise EvidenceError(f"{RUN_JSON}: engine.max_send_delay_ms must be a number above 0, is {_said(stated)}")
        return limit


def read_own(evidence: Path, *, run: str, digests: Mapping[str, str]) -> OwnRun:
    """Read run.json, where the evidence holds one, and hold the evidence against it.

    ``run`` is the run whose tables are made; ``digests`` maps the names of the evidence's files to their SHA-256.
    Raises EvidenceError when the evidence is another run's, or its plan, share table, schedule, number of backends or
    duration is not the one it was made with.
    """
    if RUN_JSON not in digests:
        return OwnRun({}, {})
    about = readers.read_document(evidence / RUN_JSON)
    settings = about.get("settings", {}) if isinstance(about, dict) else None
    if not isinstance(settings, dict):
        raise EvidenceError(f"{RUN_JSON} is not the description of a run")
    own = OwnRun(about, settings)
    if own.plan_is_known and (absent := [name for name in REQUIRED if name not in digests]):
        raise EvidenceError(f"{absent[0]} is not in the evidence, and every run of this harness has one")
    env = readers.read_env(evidence / "run.env")
    for file, key, named in ((RUN_JSON, "run", about.get("run")), ("run.env", "RUN_TAG", env.get("RUN_TAG"))):
        if named != run:
            raise EvidenceError(
                f"{file} says {key}={_said(named)}, and the run is {run!r}: this is the evidence of another run"
            )
    if own.plan_is_known:
        _hold_plan(own, evidence, digests)
        _hold_schedule(own, digests)
        _hold_env(own, env)
    return own


def _hold_plan(own: OwnRun, evidence: Path, digests: Mapping[str, str]) -> None:
    """The plan is the one of run.json, and the share table, by which targets are graded, is made from it."""
    from harness.plan.sortie_yaml import read_plan

    if digests["plan.yaml"] != own.about.get("plan_sha256"):
        raise EvidenceError(f"plan.yaml is not the plan of this run: its SHA-256 is not plan_sha256 of {RUN_JSON}")
    try:
        plan = read_plan(evidence / "plan.yaml")
    except PlanError as error:
        raise EvidenceError(f"plan.yaml is not a plan that can be read ({readers.one_line(error.message)})") from error
    shares = readers.read_shares(evidence / "shares.tsv")
    planned = [(target.name, target.rate_rps, target.url) for target in plan.targets]
    if [(share.target, share.rate_rps, share.url) for share in shares] != planned:
        raise EvidenceError("shares.tsv is not the share table of plan.yaml: targets, rates or URLs differ")


def _hold_schedule(own: OwnRun, digests: Mapping[str, str]) -> None:
    schedule = own.about.get("schedule_sha256")
    if schedule == NO_SCHEDULE and "schedule.tsv" in digests:
        raise EvidenceError(f"schedule.tsv is in the evidence, and by {RUN_JSON} this run was planned without rolls")
    if schedule != NO_SCHEDULE and "schedule.tsv" not in digests:
        raise EvidenceError(f"schedule.tsv is not in the evidence, and by {RUN_JSON} this run was planned with rolls")
    if schedule != NO_SCHEDULE and digests["schedule.tsv"] != schedule:
        raise EvidenceError(
            f"schedule.tsv is not the schedule of this run: its SHA-256 is not schedule_sha256 of {RUN_JSON}"
        )


def _hold_env(own: OwnRun, env: Mapping[str, str]) -> None:
    """run.env was written at the end from what run.json held at the start."""
    for key, setting in (("BACKENDS", "nodes"), ("DURATION_S", "duration_s")):
        planned, ran = own.settings.get(setting), env.get(key)
        # a duration of 0 stands for the one of the profile
        if planned not in (None, 0) and ran is not None and ran != str(planned):
            raise EvidenceError(f"run.env says {key}={_said(ran)}, and {RUN_JSON} says {setting}={_said(planned)}")


def _said(value: object) -> str:
    """A value for a sentence: short, printable, one line."""
    return "nothing" if value is None else readers.one_line(ascii(value))[:80]
