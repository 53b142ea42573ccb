"""The ``fault=`` schedule: what a user may ask to go wrong, when, and for how long.

``kill-engine node-b at 20s; freeze engine node-c at 10s for 15s; slow svc-3 300ms at 20s``: parts are separated by
``;``, times count from the start of the load.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import FaultError

# NODE and TARGET are names, T and D seconds, N milliseconds; the grammar below is made from these lines
FORMS = {
    "kill-engine": "kill-engine NODE at Ts",
    "freeze-engine": "freeze engine NODE at Ts for Ds",
    "freeze-proxy": "freeze proxy NODE at Ts for Ds",
    "stop-target": "stop target TARGET at Ts for Ds",
    "slow": "slow TARGET Nms at Ts [for Ds]",
    "crash-proxy": "crash-proxy NODE at Ts",
    "starve-engine": "starve engine NODE at Ts for Ds",
    "kill-churn": "kill-churn at Ts",
    "kill-driver": "kill-driver at Ts",
    "stop-driver": "stop-driver at Ts",
    "kill-supervisor": "kill-supervisor at Ts",
}
KNOWN = "; ".join(FORMS.values())

_SECONDS = r"\d{1,6}(?:\.\d{1,3})?"
_WORDS = {
    "NODE": r"(?P<node>\S+)",
    "TARGET": r"(?P<target>\S+)",
    "Nms": r"(?P<delay_ms>\d{1,6})ms",
    "Ts": rf"(?P<at_s>{_SECONDS})s",
    "Ds": rf"(?P<for_s>{_SECONDS})s",
}


def _pattern(form: str) -> re.Pattern[str]:
    fixed, _, optional = form.partition(" [")
    pattern = r"\s+".join(_WORDS.get(word, re.escape(word)) for word in fixed.split())
    if optional:
        pattern += r"(?:\s+" + r"\s+".join(_WORDS.get(word, word) for word in optional.rstrip("]").split()) + ")?"
    return re.compile(pattern)


_PATTERNS = {verb: _pattern(form) for verb, form in FORMS.items()}


@dataclass(frozen=True)
class Fault:
    """One thing that is to go wrong. ``name`` is the node or target, empty for parts that there is one of."""

    verb: str
    name: str
    at_s: float
    for_s: float | None
    delay_ms: int | None
    text: str

    @property
    def ends_s(self) -> float:
        """Seconds after the load's start when it is over; the same as ``at_s`` for what only happens."""
        return self.at_s + (self.for_s or 0.0)


def parse(text: str, nodes: Sequence[str], targets: Sequence[str], duration_s: float) -> list[Fault]:
    """The faults of a schedule, by time. Raises FaultError with one sentence that names the part at fault."""
    parts = [" ".join(part.split()) for part in text.split(";")]
    faults = [_parse_part(part, nodes, targets, duration_s) for part in parts if part]
    faults.sort(key=lambda fault: fault.at_s)
    _refuse_overlaps(faults)
    return faults


def _parse_part(part: str, nodes: Sequence[str], targets: Sequence[str], duration_s: float) -> Fault:
    matches = ((verb, pattern.fullmatch(part)) for verb, pattern in _PATTERNS.items())
    verb, match = next(((verb, match) for verb, match in matches if match), ("", None))
    if match is None:
        raise FaultError(_misshapen(part))
    found = match.groupdict()
    _check_name(part, "node", found.get("node"), nodes)
    _check_name(part, "target", found.get("target"), targets)
    at_s = float(found["at_s"])
    for_s = float(found["for_s"]) if found.get("for_s") else None
    if at_s >= duration_s:
        raise FaultError(f"fault {part!r} begins at {at_s:g} s, but the load lasts only {duration_s:g} s")
    if for_s == 0:
        raise FaultError(f"fault {part!r} lasts no time at all")
    delay_ms = int(found["delay_ms"]) if found.get("delay_ms") else None
    return Fault(verb, found.get("node") or found.get("target") or "", at_s, for_s, delay_ms, part)


def _misshapen(part: str) -> str:
    for form in FORMS.values():
        start = form.split(" NODE")[0].split(" TARGET")[0].split(" at ")[0]
        if part == start or part.startswith(start + " "):
            return f"fault {part!r} does not read as {form!r}"
    return f"fault {part!r} is none that is known: {KNOWN}"


def _check_name(part: str, kind: str, name: str | None, known: Sequence[str]) -> None:
    if name is not None and name not in known:
        raise FaultError(f"fault {part!r} names the {kind} {name!r}, but there are only {', '.join(known)}")


def _refuse_overlaps(faults: list[Fault]) -> None:
    """Two spells on one part would end each other early."""
    ends: dict[tuple[str, str], Fault] = {}
    for fault in faults:
        if fault.for_s is None:
            continue
        key = (fault.verb.rpartition("-")[2], fault.name)
        earlier = ends.get(key)
        if earlier and fault.at_s < earlier.ends_s:
            raise FaultError(f"fault {fault.text!r} begins before {earlier.text!r} is over")
        ends[key] = fault
