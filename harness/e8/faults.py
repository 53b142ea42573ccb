"""The ``fault=`` schedule of a ladder: what is to go wrong on the embedded tier, at which rung, and doing it.

``freeze worker 2 at c4; change stub at c8 to 10/1/64/0.5; leak store by 1``: parts are separated by ``;``. A rung's
fault happens when that rung is measured, not at its repeats; what it did to the stub stays so for the rest of the
ladder. Workers are counted from 1, as the lines about a rung count them.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from harness.e8.http import parse_base
from harness.e8.metrics import read_metrics
from harness.e8.record import rung_name
from harness.e8.tier.handle import Tier
from harness.e8.tier.settings import RANGES, Profile
from harness.errors import FaultError, FleetError, SettingsError
from harness.files import utc_stamp
from harness.processes import Identity, identify, send

# N counts workers or connections, cK is a rung, T seconds, MS milliseconds; the grammar below is made from these lines
FORMS = {
    "freeze-worker": "freeze worker N at cK [for Ts]",
    "kill-worker": "kill worker N at cK",
    "kill-stub": "kill stub at cK",
    "change-stub": "change stub at cK to TTFT/DELAY/TOKENS/RATE",
    "burn-generator": "burn generator at cK by MS ms",
    "leak-store": "leak store by N",
}
KNOWN = "; ".join(FORMS.values())
KILL_AFTER_S = 1.0  # into the measured part: turns are then in flight
MOST_BURN_MS = 10_000.0
FIRST_RUNG = rung_name(1)

_NUMBER = r"\d{1,5}(?:\.\d{1,3})?"
_WORDS = {
    "N": r"(?P<number>\d{1,5})",
    "cK": r"c(?P<c>[1-9]\d{0,5})",
    "Ts": rf"(?P<for_s>{_NUMBER})s",
    "MS": rf"(?P<burn_ms>{_NUMBER})",
    "TTFT/DELAY/TOKENS/RATE": r"(?P<profile>\S+)",
}
_MOST = {"freeze-worker": "workers", "kill-worker": "workers", "leak-store": "leak_connections"}

Log = Callable[[dict[str, Any]], object]


def _pattern(form: str) -> re.Pattern[str]:
    fixed, _, optional = form.partition(" [")
    words = r"\s+".join(_WORDS.get(word, word) for word in fixed.split())
    more = r"\s+".join(_WORDS.get(word, word) for word in optional.rstrip("]").split())
    return re.compile(rf"{words}(?:\s+{more})?" if more else words)


_PATTERNS = {verb: _pattern(form) for verb, form in FORMS.items()}


@dataclass(frozen=True)
class Fault:
    """One thing that is to go wrong. ``rung`` is None for what holds from the tier's start."""

    verb: str
    text: str
    rung: str | None = None
    number: int = 0
    for_s: float | None = None
    burn_ms: float = 0.0
    profile: str = ""

    @property
    def part(self) -> str:
        """What it is done to."""
        part = self.verb.rpartition("-")[2]
        return f"{part} {self.number}" if part == "worker" else part


@dataclass(frozen=True)
class Faults:
    """All faults of one ladder; false when there is none."""

    faults: tuple[Fault, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.faults)

    @property
    def leak_connections(self) -> int:
        """Store connections that every turn is to leave open, for ``TierSettings``."""
        return sum(fault.number for fault in self.faults if fault.verb == "leak-store")

    def burn_ms(self, rung: str) -> float:
        """CPU that the generator is to waste before each turn of this rung, for ``RungPlan``."""
        return sum(fault.burn_ms for fault in self.faults if fault.rung == rung)

    @contextmanager
    def during(self, rung: str, tier: Tier, log: Log) -> Iterator[Callable[[], None]]:
        """While the block measures ``rung``, make its faults happen and log each as at, rung, fault and did.

        What is done to the stub is done before the block; what it is given is to be called when the warm-up is over,
        ``run_rung``'s ``ready``: workers are frozen or killed from then on. At the end of the block, however it comes,
        no worker is frozen any more and no thread is left. Raises what ``log`` raises.
        """
        due = [fault for fault in self.faults if fault.rung == rung or (fault.rung is None and rung == FIRST_RUNG)]
        with ThreadPoolExecutor(max_workers=len(due) + 1, thread_name_prefix="fault") as pool:
            injection = _Injection(due, rung, tier, log, pool)
            injection.before()
            try:
                yield injection.ready
            finally:
                injection.end()
        injection.check()


def parse(text: str, *, ladder: tuple[int, ...] | None, workers: int | None = None) -> Faults:
    """The faults of a schedule. Raises FaultError with one sentence that names the part at fault.

    ``ladder`` is the rungs of a given ladder, None where they are not known beforehand; ``workers`` likewise.
    """
    parts = [" ".join(part.split()) for part in text.split(";")]
    faults = [_parse_part(part, ladder, workers) for part in parts if part]
    seen: dict[tuple[str, str | None], Fault] = {}
    for fault in faults:
        other = seen.setdefault((fault.part, fault.rung), fault)
        if other is not fault:
            raise FaultError(
                f"faults {other.text!r} and {fault.text!r} befall one part at one rung; leave one of them out"
            )
    return Faults(tuple(faults))


def _parse_part(part: str, ladder: tuple[int, ...] | None, workers: int | None) -> Fault:
    matches = ((verb, pattern.fullmatch(part)) for verb, pattern in _PATTERNS.items())
    verb, match = next(((verb, match) for verb, match in matches if match), ("", None))
    if match is None:
        raise FaultError(f"fault {part!r} reads as none of those that are known: {KNOWN}")
    found = match.groupdict()
    c = int(found["c"]) if "c" in found else None
    if c is not None and ladder is not None and c not in ladder:
        rungs = f"only {' '.join(map(str, ladder))}" if ladder else "none here"
        raise FaultError(f"fault {part!r} is at a rung of c={c}, and of rungs there are {rungs}")
    fault = Fault(
        verb,
        part,
        rung=None if c is None else rung_name(c),
        number=int(found.get("number") or 0),
        for_s=float(found["for_s"]) if found.get("for_s") else None,
        burn_ms=float(found.get("burn_ms") or 0),
        profile=found.get("profile") or "",
    )
    _check_values(fault, workers)
    return fault


def _check_values(fault: Fault, workers: int | None) -> None:
    if verb_range := _MOST.get(fault.verb):
        most = int(workers if verb_range == "workers" and workers is not None else RANGES[verb_range][1])
        if not 1 <= fault.number <= most:
            raise FaultError(f"fault {fault.text!r} has the number {fault.number}; give one from 1 to {most}")
    if fault.for_s == 0:
        raise FaultError(f"fault {fault.text!r} lasts no time at all; leave 'for' out to the end of the rung")
    if fault.verb == "burn-generator" and not 0 < fault.burn_ms <= MOST_BURN_MS:
        raise FaultError(f"fault {fault.text!r} burns {fault.burn_ms:g} ms; give more than 0, at most {MOST_BURN_MS:g}")
    if fault.profile:
        try:
            Profile.from_text(fault.profile)
        except SettingsError as error:
            raise FaultError(f"fault {fault.text!r}: {error}") from error


@dataclass
class _Injection:
    """The faults of one rung while it is measured."""

    due: list[Fault]
    rung: str
    tier: Tier
    log: Log
    pool: ThreadPoolExecutor
    _over: threading.Event = field(default_factory=threading.Event)
    _ready: bool = False
    _later: list[Future[None]] = field(default_factory=list)
    _frozen: dict[Fault, Identity] = field(default_factory=dict)
    _logging: threading.Lock = field(default_factory=threading.Lock)

    def before(self) -> None:
        """What has to be so before the rung begins."""
        does: Mapping[str, Callable[[Fault], str]] = {
            "kill-stub": self._kill_stub,
            "change-stub": self._change_stub,
            "burn-generator": lambda fault: f"the generator burns {fault.burn_ms:g} ms before each turn",
            "leak-store": lambda fault: f"each turn leaves {fault.number} store connections open, from the start",
        }
        for fault in self.due:
            if fault.verb in does:
                self._do(fault, does[fault.verb])
            elif fault.verb == "freeze-worker":
                self._unfreeze_leftover(fault)

    def ready(self) -> None:
        """The warm-up is over."""
        self._ready = True
        for fault in self.due:
            if fault.verb == "freeze-worker":
                self._do(fault, self._freeze)
            elif fault.verb == "kill-worker":
                self._later.append(self.pool.submit(self._do_later, fault, KILL_AFTER_S, self._kill_worker))

    def end(self) -> None:
        """The rung is over."""
        self._over.set()
        for worker in list(self._frozen.values()):  # a thread may let one go meanwhile
            send(worker, signal.SIGCONT)
        for fault, worker in list(self._frozen.items()):
            if self._frozen.pop(fault, None):
                self._note(fault, f"SIGCONT sent to pid {worker.pid} at the end of the rung")
        if not self._ready:
            for fault in self.due:
                if fault.part.startswith("worker"):
                    self._note(fault, "nothing: the rung ended before its measured part began")

    def check(self) -> None:
        """Raise what went wrong in a thread."""
        for each in self._later:
            each.result()

    def _do(self, fault: Fault, does: Callable[[Fault], str]) -> None:
        try:
            did = does(fault)
        except FleetError as error:
            did = f"failed: {error}"
        self._note(fault, did)

    def _do_later(self, fault: Fault, after_s: float, does: Callable[[Fault], str]) -> None:
        if self._over.wait(after_s):
            self._note(fault, "nothing: the rung was over before")
        else:
            self._do(fault, does)

    def _note(self, fault: Fault, did: str) -> None:
        with self._logging:
            self.log({"at": utc_stamp(), "rung": self.rung, "fault": fault.text, "did": did})

    # one function for each fault; each says what it did

    def _kill_stub(self, fault: Fault) -> str:
        running = self.tier.identities("stub")
        if not running or not send(running[0], signal.SIGKILL):
            raise FleetError("no stub runs")
        return f"SIGKILL sent to pid {running[0].pid}"

    def _change_stub(self, fault: Fault) -> str:
        self.tier.change_stub(profile=fault.profile)
        running = self.tier.identities("stub")
        if not running:
            raise FleetError("another stub was put on the same port, and it does not run")
        return f"another stub on the same port, pid {running[0].pid}"

    def _kill_worker(self, fault: Fault) -> str:
        worker = self._worker(fault)
        if not send(worker, signal.SIGKILL):
            raise FleetError(f"{fault.part} does not run")
        return f"SIGKILL sent to pid {worker.pid}"

    def _freeze(self, fault: Fault) -> str:
        worker = self._frozen[fault] = self._worker(fault)
        if not send(worker, signal.SIGSTOP):
            del self._frozen[fault]
            raise FleetError(f"{fault.part} does not run")
        if fault.for_s is not None:
            self._later.append(self.pool.submit(self._thaw, fault, worker, fault.for_s))
        return f"SIGSTOP sent to pid {worker.pid}"

    def _thaw(self, fault: Fault, worker: Identity, after_s: float) -> None:
        began_s = time.monotonic()
        if self._over.wait(after_s):
            return
        send(worker, signal.SIGCONT)
        if self._frozen.pop(fault, None):
            self._note(fault, f"SIGCONT sent to pid {worker.pid} after {time.monotonic() - began_s:.1f} s")

    def _unfreeze_leftover(self, fault: Fault) -> None:
        """A try of this rung that was killed with its harness could not let the worker go."""
        try:
            send(self._worker(fault), signal.SIGCONT)
        except FleetError:
            return  # said when it is to be frozen

    def _worker(self, fault: Fault) -> Identity:
        reading = read_metrics(parse_base(self.tier.urls["metrics"], "e8.metrics"))
        pid = reading.pids[fault.number - 1] if fault.number <= len(reading.pids) else None
        worker = identify(pid) if pid else None
        if worker is None:
            raise FleetError(f"{fault.part} does not run; the tier has {len(reading.pids)}")
        return worker
