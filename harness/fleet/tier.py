"""Where a ladder is climbed, as the stages see it: the embedded tier on this machine, or somebody's deployment.

The generator is a child of the command that measures a rung and ends with it, so nothing but the tier outlives a
killed harness; the tier then waits for the next rung, until its own lifetime is over.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from harness import __version__
from harness.e8.metrics import read_metrics, read_profile
from harness.e8.plan import LadderPlan, plan_ladder
from harness.e8.readings import Reading
from harness.e8.target import Target, embedded
from harness.e8.tier import handle
from harness.errors import FleetError, PinError
from harness.files import copy_whole, read_json, sha256_file, sha256_text
from harness.fleet.base import Check, LoadState, Readiness
from harness.graph.invocation import run_settings
from harness.graph.receipts import PROJECT
from harness.processes import end, find_marked
from harness.runs import RunFolder
from harness.store.ladder_files import FAULTS_FILE, PINS_FILE, RUNGS_FILE, TARGET_FILE, TIER_FILE, WORKLOAD_FILE

VERSION_LIMIT_S = 15.0
SWEEP_GRACE_S = 5.0
DISK_MARGIN_BYTES = 256 << 20
TURN_BYTES = 4096  # a line of a turn and its share of the polls, twice
FILES_PER_TURN = 12  # of the supervisor and of the workers, both ends of every connection
FILES_MARGIN = 200

EVIDENCE = (
    RUNGS_FILE, PINS_FILE, TARGET_FILE, WORKLOAD_FILE, TIER_FILE, "tier.log", FAULTS_FILE,
    "c[1-9]*.json", "c[1-9]*.jsonl", "c[1-9]*.log", "c[1-9]*.parquet",
)  # fmt: skip
"""Every name or pattern under live/ that is evidence; those that a run does not have are simply absent."""


class TierPlace:
    """``harness.fleet.base.Place`` of one ladder."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = RunFolder(folder.root.resolve())

    def plan(self) -> LadderPlan:
        """What the ladder is to be. Raises EvidenceError when run.json does not say."""
        return plan_ladder(run_settings(self.folder))

    def target(self) -> Target:
        """What turns are sent to. Raises FleetError when the embedded tier does not run."""
        plan, pins = self.plan(), self._pinned()
        if plan.tier is not None:
            return embedded(handle.Tier(self.folder.tier_json), pins=pins)
        return plan.deployment(pins)

    def _pinned(self) -> dict[str, str]:
        return dict(read_json(self.folder.pins)["pins"])

    def pins(self) -> dict[str, str]:
        """Versions of what measures, and of what the sandboxes run. Raises PinError when something is absent."""
        code = sorted((PROJECT / "harness" / "e8").rglob("*.py"))
        digests = "".join(f"{sha256_file(path)}  {path.relative_to(PROJECT)}\n" for path in code)
        return {
            "bash": _version("bash"),
            "e8": f"sha256:{sha256_text(digests)}",
            "git": _version("git"),
            "harness": __version__,
            "python": platform.python_version(),
        }

    def preflight(self) -> list[Check]:
        """All checks; every one runs, none starts anything."""
        looks: dict[str, Callable[[], tuple[bool, str]]] = {
            "disk": self._disk,
            "files": self._files,
            "leftovers": self._leftovers,
        }
        if self.plan().tier is None:
            looks |= {"admin listener": self._admin, "stub": self._stub, "workers": self._workers}
        return [Check(name, *look()) for name, look in looks.items()]

    def start(self) -> list[Readiness]:
        """Start the embedded tier and wait until it takes turns; of a deployment nothing is started.

        Raises FleetError.
        """
        plan = self.plan()
        if plan.tier is not None:
            tier = handle.start(plan.tier, state=self.folder.tier_json, mark=self._mark())
            reading = read_metrics(embedded(tier).admin)
            return [
                Readiness("workers", _healthy(reading), plan.tier.workers),
                Readiness("sandboxes", len(tier.identities("sandbox")), plan.tier.sandboxes),
            ]
        reading = read_metrics(self.target().admin)
        return [Readiness("workers", _healthy(reading), len(reading.workers))]

    def is_up(self) -> bool:
        """True while the embedded tier stands; a deployment is not ours to look after."""
        with suppress(FleetError):
            handle.Tier(self.folder.tier_json)
            return True
        return False

    def load_state(self) -> LoadState:
        """Nothing of a ladder's load outlives the command that measures it: what there is can be saved."""
        return LoadState("ended" if self.folder.rungs_json.exists() else "not_started")

    def collect(self, target: Path) -> list[str]:
        """Copy every evidence file into ``target``, whole or not at all. Returns the names."""
        names = sorted({path.name for pattern in EVIDENCE for path in self.folder.live.glob(pattern)})
        for name in names:
            copy_whole(self.folder.live / name, target / name)
        return names

    def stop(self, *, cancel_load: bool) -> None:
        """End the embedded tier."""
        handle.sweep(self.folder.tier_json)

    def sweep(self) -> list[str]:
        """End what a dead command left behind, by its mark. Returns a line for each thing ended."""
        handle.sweep(self.folder.tier_json)
        left = sorted(process for process in find_marked(self._mark()) if process.pid != os.getpid())
        end(left, grace_s=SWEEP_GRACE_S)
        return [f"ended pid {process.pid}" for process in left]

    def _mark(self) -> str:
        return str(read_json(self.folder.run_json)["token"])

    # checks

    def _disk(self) -> tuple[bool, str]:
        plan = self.plan()
        turns = plan.settings.e8.turns_per_rung * sum(plan.rungs or (2 * plan.top,))
        free, need = shutil.disk_usage(self.folder.root).free, DISK_MARGIN_BYTES + turns * TURN_BYTES
        return free >= need, f"{free / 1e9:.1f} GB free, {need / 1e9:.1f} needed"

    def _files(self) -> tuple[bool, str]:
        plan = self.plan()
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        need = FILES_MARGIN + plan.top * (FILES_PER_TURN if plan.tier else 1)
        return (
            limit == resource.RLIM_INFINITY or limit >= need,
            f"{limit} open files allowed, {need} needed at c={plan.top}",
        )

    def _leftovers(self) -> tuple[bool, str]:
        left = [process.pid for process in find_marked(self._mark())]
        up = self.is_up()
        return (
            up or not left,
            "the tier of this run stands" if up else f"{len(left)} processes of an earlier try {left}",
        )

    def _admin(self) -> tuple[bool, str]:
        reading = read_metrics(self.target().admin)
        return reading.problem is None, reading.problem or f"{len(reading.workers)} workers told at e8.metrics"

    def _stub(self) -> tuple[bool, str]:
        stub = self.target().stub
        profile = read_profile(stub)
        seen = "its /profile answers" if profile is not None else f"{stub.url}/profile gives no profile (e8.stub)"
        return profile is not None, seen

    def _workers(self) -> tuple[bool, str]:
        """What was declared must be what is told."""
        own, told = self.plan().settings.e8, read_metrics(self.target().admin).environment
        wrong = [
            f"{key}={wanted} and the target tells {told.get(variable) or 'nothing of it'}"
            for key, wanted, variable in (
                ("e8.workers", own.workers, "SH_WORKERS"),
                ("e8.turns_per_worker", own.turns_per_worker, "SH_TURNS_PER_WORKER"),
            )
            if wanted and told.get(variable) != str(wanted)
        ]
        return not wrong, "; ".join(wrong) or "as declared"


def _healthy(reading: Reading) -> int:
    return sum(worker.healthy is True for worker in reading.workers)


def _version(program: str) -> str:
    """What a program says of its version, its first number with dots. Raises PinError when it is not there."""
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_LIMIT_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise PinError(f"{program} does not run ({error}): the sandboxes need it, install it") from error
    return next((word for word in said.split() if word[:1].isdigit()), said.strip()[:40])
