"""What a ladder's record says, and what follows from its plan, its settings and the files of its rungs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from harness.e8.ladder import AUTO
from harness.e8.readings import Polled, Reading, total_in_flight
from harness.e8.record import EMBEDDED, Ladder, Rung, rung_name
from harness.store.kinds import LADDER_FILE
from harness.store.ladder_files import FAULTS_FILE, PINS_FILE, POLLS, RUNGS_FILE, TIER_FILE, TURNS, Json, LadderFiles
from harness.store.readers import one_line, text

TIER_SIZES = {"workers": "workers", "turns_per_worker": "turns_per_worker", "sandboxes": "pool", "lease_cap": "cap"}
"""Setting of the embedded tier → what a ladder says of it; 0 is left to the harness."""
AT_RUNG = " at c"


def asked_for(ladder: Ladder, plan: Json | None, settings: Json) -> Iterator[str]:
    """The ladder that was asked for is the one that was planned, and its tier the one that was started."""
    for key in ("ladder", "fault", "e8.profile"):
        if not isinstance(settings.get(key), str):
            yield f"run.json says {key} {_said(settings.get(key))}, and a harness writes what was asked for, or ''"
    asked, named = _words((plan or {}).get("ladder")), _words(settings.get("ladder"))
    if named and named != asked:
        yield f"run.json says ladder {_said(named)}, and {RUNGS_FILE} {_said(asked)}"
    names = [rung_name(int(word)) for word in asked.split() if word.isascii() and word.isdecimal() and len(word) < 7]
    if asked.partition(" ")[0] != AUTO and names != list(ladder.planned or ()):
        yield f"{RUNGS_FILE} says ladder {_said(asked)}, and {LADDER_FILE} plans {_said(list(ladder.planned or ()))}"
    if ladder.measured != EMBEDDED:
        return
    profile = _words(settings.get("e8.profile"))
    if profile and ladder.profile is not None and list(vars(ladder.profile).values()) != _numbers(profile):
        yield f"run.json says e8.profile {_said(profile)}, and {LADDER_FILE} has another one of the stub"
    for key, name in TIER_SIZES.items():
        size, recorded = settings.get(f"e8.{key}"), getattr(ladder, name)
        if size and recorded is not None and size != recorded:
            yield f"run.json says e8.{key} {_said(size)}, and {LADDER_FILE} has {name} {recorded}"


def faults(ladder: Ladder, injected: frozenset[str], settings: Json) -> Iterator[str]:
    """What was to go wrong, and what did."""
    asked = {part for part in map(_words, _words(settings.get("fault")).split(";")) if part}
    if strange := sorted(injected - asked):
        yield f"{FAULTS_FILE} says that {_said(strange[0])} was done, and run.json says fault {_said(sorted(asked))}"
    measured = {rung.name for rung in ladder.rungs}
    for fault in sorted(asked - injected):
        _, at_rung, rest = fault.partition(AT_RUNG)
        rung = f"c{rest.partition(' ')[0]}" if at_rung else rung_name(1)
        if rung in measured:
            yield f"run.json says fault {_said(fault)}, and {FAULTS_FILE} does not say that it was injected at {rung}"


def left(ladder: Ladder, files: LadderFiles) -> Iterator[str]:
    """Every harness leaves these files, and no files of rungs but of those that were planned."""
    if ladder.rungs:
        always = (PINS_FILE, *([TIER_FILE] if ladder.measured == EMBEDDED else []))
        for name in always:
            if name not in files.names:
                yield f"there is no {name}, which a harness leaves beside every ladder that it measures"
        yield from _system(ladder, files)
    planned = {*(ladder.planned or ()), *(rung.name for rung in ladder.rungs)}
    for ending, of_rungs in ((TURNS, files.turns), (POLLS, files.polled)):
        for name in sorted(of_rungs.keys() - planned):
            yield f"{name}.{ending} is there, and {LADDER_FILE} neither has nor plans a rung {name}"
    for name in sorted(files.cut.keys() - planned):
        yield f"tries of a rung {name} are there that were cut off, and {LADDER_FILE} neither has nor plans it"
    for rung in ladder.rungs:
        if rung.cut_tries is not None and files.cut.get(rung.name, set()) != set(range(1, rung.cut_tries + 1)):
            yield (
                f"{rung.name} says cut_tries {rung.cut_tries}, and the files are there of "
                f"{len(files.cut.get(rung.name, ()))} tries that were cut off"
            )


def _system(ladder: Ladder, files: LadderFiles) -> Iterator[str]:
    """What was measured is what was pinned and started; that no rung differs from another is a rule's."""
    told = ladder.rungs[-1].system or {}
    pins = (files.pins or {}).get("pins")
    if files.pins is not None and "pins" in told and told["pins"] != json.dumps(pins, sort_keys=True):
        yield f"{PINS_FILE} says pins {_said(pins)}, and {LADDER_FILE} that {_said(told['pins'])} was measured"
    started = {"measured": ladder.measured, "boot_id": told.get("boot id")}
    for name, recorded in started.items() if files.tier is not None and ladder.measured == EMBEDDED else ():
        if (said := (files.tier or {}).get(name)) != recorded:
            yield f"{TIER_FILE} says {name} {_said(said)}, and {LADDER_FILE} {_said(recorded)}"


# --- what was polled

Pick = Callable[[Reading], float | None]


def _worst_lag(reading: Reading) -> float | None:
    return max((each.loop_lag_p99_ms for each in reading.workers if each.loop_lag_p99_ms is not None), default=None)


HIGHEST: Mapping[str, Pick] = {
    "lag_p99_worst_ms": _worst_lag,
    "lease_saturation": lambda reading: reading.lease_saturation,
    "in_flight_max": total_in_flight,
    "file_op_p95_ms": lambda reading: reading.file_op_p95_ms,
}
"""Fields of a rung that are the highest that was polled."""


def polls(ladder: Ladder, files: LadderFiles) -> Iterator[str]:
    """What a rung's record says of its workers and sandboxes follows from what was polled while it ran."""
    for rung in ladder.rungs:
        if (polled := files.polled.get(rung.name)) is None:
            yield f"{LADDER_FILE} has a rung {rung.name}, and there is no {rung.name}.{POLLS}"
            continue
        for what in _polled(rung, polled):
            yield f"{rung.name}.{POLLS} {what}"


def _polled(rung: Rung, polled: Polled) -> Iterator[str]:
    for name, pick in HIGHEST.items():
        recorded, highest = getattr(rung, name), polled.maximum(pick)
        while_it_ran = Polled(readings=polled.readings).maximum(pick)  # some are of that time alone
        if recorded not in (highest, while_it_ran) and not (recorded is None and name in rung.why_unknown):
            yield f"comes to {name} {_said(highest)}, and its record says {_said(recorded)}"
    pools = [each.pool_size for each in (*polled.readings, *polled.tail) if each.pool_size is not None]
    if pools and rung.pool is not None and not min(pools) <= rung.pool <= max(pools):
        yield f"tells of {min(pools):g} to {max(pools):g} sandboxes, and its record says {rung.pool}"
    for number, worker in enumerate(rung.workers, start=1):
        lag_ms = polled.worker_maximum(worker.pid, lambda each: each.loop_lag_p99_ms)
        if worker.lag_p99_ms != lag_ms:
            yield f"comes to lag_p99_ms {_said(lag_ms)} of worker {number}, and its record says {worker.lag_p99_ms}"


def _words(value: object) -> str:
    return " ".join((text(value) or "").split())


def _numbers(profile: str) -> list[float] | None:
    try:
        return [float(part) for part in profile.split("/")]
    except ValueError:
        return None


def _said(value: object) -> str:
    return "nothing" if value is None else one_line(ascii(value))[:80]
