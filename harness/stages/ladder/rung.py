"""One rung: measured once, its record and its table on disk when it ends. What was cut off is kept beside it."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.e8 import driver, refusals
from harness.e8.metrics import read_metrics
from harness.e8.reading import parse_rung
from harness.e8.readings import total_in_flight
from harness.e8.record import Rung
from harness.e8.target import Target
from harness.e8.turns import read_turns
from harness.errors import EvidenceError, ReportFormatError
from harness.files import LineLog, read_json, utc_stamp, write_json
from harness.fleet.tier import TierPlace
from harness.graph import receipts, rungs
from harness.graph.invocation import Invocation
from harness.graph.stage import stage_task
from harness.progress import ladder_line
from harness.runs import RunFolder
from harness.stages.ladder import document
from harness.store.columns import LADDER
from harness.store.ladder_files import FAULTS_FILE
from harness.store.readers import one_line
from harness.store.rung_file import write_rung
from harness.terminal import LiveLine

IDLE_POLL_S = 0.2
PLAIN_EVERY_S = 5.0
MOST_SAID = 120
PARTS = ("turns.jsonl", "metrics.jsonl", "generator.log")


def tasks(invocation: Invocation) -> Iterator[dict[str, Any]]:
    """``e8:RUN:c8`` for every rung that the live ladder's plan file has, one after another."""
    folder = invocation.live_run
    if folder is None or invocation.kind != LADDER or folder.saved.exists():
        return
    after = "workload"
    for name in rungs.planned(folder).names:
        yield stage_task(invocation, folder, name, Measure(name), after=invocation.before(folder, after))
        after = name


class Measure:
    """The stage of one rung."""

    def __init__(self, name: str) -> None:
        self.name = name

    def reads(self, folder: RunFolder) -> list[Path]:
        """What the target told, and the workload."""
        return [path for path in (folder.target_json, folder.workload_json) if path.exists()]

    def makes(self, folder: RunFolder) -> list[Path]:
        """Record, table, turns, polls and the generator's log; those of tries that were cut off too."""
        return sorted(path for path in folder.live.glob(f"{self.name}.*") if self._is_own(path.name))

    def _is_own(self, file: str) -> bool:
        """Whether the file is this rung's and not a repeat's: ``c8.r2.json`` is no file of c8."""
        return re.match(r"r[0-9]+\.", file.removeprefix(f"{self.name}.")) is None

    def work(self, folder: RunFolder) -> dict[str, Any]:
        """Measure it once, unless a rule refused the target or an earlier rung.

        A record that is there already was written by a command that was killed before it could note so, and is taken.
        Raises FleetError or LoadError: the rung was not measured, and is when the command is given again. Raises
        EvidenceError when it was measured and its files are no longer what they were: nothing is measured twice.
        """
        if (receipt := receipts.read(folder, self.name)) is not None:
            return self._unchanged(folder, receipt)
        if stage := document.stopped_in(folder):
            return {"summary": f"not measured: refused in {stage}", "measured": False}
        rung = self._taken(folder)
        if rung is None:
            place = TierPlace(folder)
            document.check_same_system(place)
            rung = self._measured(folder, place)
        write_rung(folder.live / f"{self.name}.parquet", rung, run=folder.run)
        found = self._judged(folder, rung)
        refused = {"refused": found.refusals[0].sentence} if found.refusals else {}
        why = _commonest_failure(folder.live / f"{self.name}.{PARTS[0]}") if rung.p95_ms is None else None
        return {"summary": _summary(rung, why, refused.get("refused")), "measured": True, **refused}

    def _unchanged(self, folder: RunFolder, receipt: receipts.Receipt) -> dict[str, Any]:
        """What came of it, where everything is as it was then."""
        changed = receipts.changed_outputs(folder, receipt)
        read = receipts.digests(self.reads(folder), folder)
        changed += [name for name, digest in receipt.inputs.items() if read.get(name) != digest]
        if changed:
            raise EvidenceError(
                f"{', '.join(changed)}: not as it was when {self.name} was measured, and a rung is not measured twice; "
                f"put it back, or ./doit teardown:{folder.run} saves what there is"
            )
        return receipt.outcome

    def _taken(self, folder: RunFolder) -> Rung | None:
        """The rung whose record is there already. Raises EvidenceError when it is none, or not of its turns."""
        path = folder.rung_json(self.name)
        if not path.exists():
            return None
        try:
            rung, turns = parse_rung(read_json(path)), read_turns(folder.live / f"{self.name}.{PARTS[0]}")
        except (OSError, ValueError, ReportFormatError) as error:
            raise EvidenceError(f"{path}: was measured and cannot be read ({error})") from error
        if rung.name != self.name or rung.attempts != len(turns):
            raise EvidenceError(f"{path}: is not the record of the {len(turns)} turns beside it")
        return rung

    def _measured(self, folder: RunFolder, place: TierPlace) -> Rung:
        plan, target = place.plan(), place.target()
        document.check_it_answers(folder, target)
        mark = str(read_json(folder.run_json)["token"])
        mean_turn_ms = read_json(folder.workload_json).get("mean_turn_ms")
        c, _, repeat = self.name[1:].partition(".r")
        asked = plan.rung(int(c), int(repeat or 1), mean_turn_ms, cut_tries=self._put_aside(folder))
        line = _Line(folder, plan.arm, self.name, asked.c * asked.turns_per_client)
        _wait_until_idle(target, limit_s=asked.turn_timeout_s)
        try:
            if target.tier is None or not plan.faults:
                return driver.run_rung(target, asked, folder.live, mark=mark, progress=line.show)
            with _fault_log(folder) as log, plan.faults.during(self.name, target.tier, log) as ready:
                return driver.run_rung(target, asked, folder.live, mark=mark, progress=line.show, ready=ready)
        finally:
            line.close()

    def _put_aside(self, folder: RunFolder) -> int:
        """Keep what a try left that was cut off, under names of its own. Returns how many such tries there were."""
        numbers = [int(found[1]) for path in self.makes(folder) if (found := re.search(r"\.cut([0-9]+)\.", path.name))]
        left = [folder.live / f"{self.name}.{part}" for part in PARTS]
        cut = max(numbers, default=0)
        if any(path.exists() for path in left):
            cut += 1
            for path in left:
                if path.exists():
                    path.rename(path.with_name(path.name.replace(self.name, f"{self.name}.cut{cut}", 1)))
        return cut

    def _judged(self, folder: RunFolder, rung: Rung) -> refusals.Found:
        """What stands against going on: facts that only turns make known, and the rules of a rung."""
        ladder = document.ladder(folder)
        if rung.c == 1 and rung.repeat == 1 and (found := refusals.after_first(ladder)).refusals:
            return found
        return refusals.after_rung(ladder, rung)


class _Line:
    """The live line, and the same in ``progress.json`` for those who look from elsewhere."""

    def __init__(self, folder: RunFolder, arm: str, name: str, planned_turns: int) -> None:
        planned = rungs.planned(folder)
        self.path = folder.progress_json
        self.began_s = time.monotonic()
        self.live = LiveLine(name, plain_every_s=PLAIN_EVERY_S)
        self.about = {
            "kind": "e8",
            "arm": arm,
            "rung": name,
            "c": int(name[1:].partition(".")[0]),
            "planned_turns": planned_turns,
            "rungs_done": document.measured(folder),
            "rungs_planned": list(planned.names),
            "complete": planned.complete,
        }
        self.show(0, 0)

    def show(self, attempts: int, ok: int) -> None:
        """Show how far the rung is."""
        elapsed_s = round(time.monotonic() - self.began_s, 1)
        state = self.about | {"attempts": attempts, "ok": ok, "elapsed_s": elapsed_s, "at": utc_stamp()}
        write_json(self.path, state)
        self.live.show(ladder_line(state))

    def close(self) -> None:
        """Leave the terminal."""
        self.live.close()


@contextmanager
def _fault_log(folder: RunFolder) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Takes what a fault did, a line each."""
    file = LineLog(folder.live / FAULTS_FILE)
    try:
        yield lambda entry: file.write(json.dumps(entry))
    finally:
        file.close()


def _wait_until_idle(target: Target, *, limit_s: float) -> None:
    """Wait until no turn of an earlier try is in flight; one that hangs is waited for no longer than its deadline."""
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s and total_in_flight(read_metrics(target.admin)):
        time.sleep(IDLE_POLL_S)


def _commonest_failure(turns: Path) -> str | None:
    """What most of the turns that failed say of it, with their number; None where none did."""
    said = Counter(turn.error or turn.code for turn in read_turns(turns) if not turn.ok).most_common(1)
    return next((f"{count} × {one_line(text)[:MOST_SAID]}" for text, count in said), None)


def _summary(rung: Rung, why: str | None, refused: str | None) -> str:
    nothing = f"no success ({why})" if why else "no success"
    p95 = nothing if rung.p95_ms is None else f"p95 {rung.p95_ms:.0f} ms"
    told = f"{rung.ok}/{rung.attempts} ok, {rung.throughput_tps:.1f} turns/s, {p95}"
    return f"{told}; refused: {refused}" if refused else told
