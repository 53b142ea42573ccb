"""Documents → ladders: our own ``ladder.json``, and a JSON array of rung records as other recorders leave it.

What a field cannot hold is refused with the rung and the field: a ladder that was damaged is not one with gaps. The
facts about the target are the exception. A lease cap that is no number is a finding about that target, so it is kept in
``unusable`` for the rule that says so.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from harness.e8.record import PROFILE_KEYS, RUNG_KEYS, SCHEMA, Ladder, Profile, Rung, RungWorker
from harness.e8.turns import ENDS
from harness.errors import ReportFormatError
from harness.runs import RUNG_NAME
from harness.store.readers import finite, one_line, text, whole

KIND = "e8"
MAX_RUNGS = 10_000
MAX_WORKERS = 10_000
PLAIN_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")
NOT_A_NUMBER = "NaN in the record"
SMALL_COUNT = re.compile(r"[0-9]{1,6}")
SIGNED = frozenset({"store_connections_delta", "descriptors_delta"})
LEAST, MOST = 1e-9, 1e15  # no clock, counter or gauge tells less or more of anything that is here, 0 apart
MOST_OF_ANY = 10**9
"""No rung has more turns, sandboxes, leases … than that; bytes apart."""
BOUNDS: Mapping[str, tuple[float, float]] = {
    "success_rate": (0, 1),
    "host_rest_pct": (0, 110),  # ticks of CPU time are told late by a little
    "degrade_x": (1, MOST),
}
"""Fields that hold a share, or are bounded by what they mean."""
BESIDE = frozenset({"schema", "run", "kind", "source", "rungs"})
SOURCE = ("title", "where", "said")
LADDER_FIELDS = frozenset(f.name for f in dataclasses.fields(Ladder)) - {
    "rungs",
    "unusable",
    *(f"source_{key}" for key in SOURCE),
}
"""What a document of a ladder may say of the whole."""
FACTS = frozenset({"arm", "cap", "pool", "workers", "turns_per_worker", "profile", "basis"})
"""Facts about the target: one that cannot be used is a finding."""

Problem = Callable[[str], ReportFormatError]


def parse_ladder(document: object) -> Ladder:
    """A ladder from parsed JSON. Raises ReportFormatError, a sentence that names the rung and the field at fault."""
    if isinstance(document, list):
        if not document:
            raise _problem("it holds no rung")
        return _foreign(document)
    if not isinstance(document, dict):
        raise _problem("it is neither a ladder nor a JSON array of rung records")
    if document.get("schema") != SCHEMA or document["schema"] is True or not isinstance(document.get("rungs"), list):
        raise _problem(f'it is no ladder: it needs "schema": {SCHEMA} and "rungs", a list of rung records')
    if strange := sorted(document.keys() - LADDER_FIELDS - BESIDE):
        raise _problem(f"it has {_said(strange[0])}, which is no field of a ladder")
    source = document.get("source") or {}
    if not isinstance(source, dict) or not all(key in SOURCE and isinstance(source[key], str) for key in source):
        raise _problem(f'it has a "source" that is not of texts: {", ".join(SOURCE)}')
    facts, unusable = _facts(document)
    rungs = _rungs(document["rungs"])
    _hold_repeats(rungs)
    if "pool" not in unusable:
        facts.setdefault("pool", _first_pool(rungs))
    for name, value in _of_all(rungs).items():
        facts.setdefault(name, value)
        if value not in (None, facts[name]):
            raise _problem(f"it says {name} {facts[name]}, and its rungs say {value}; save one ladder a file")
    told: dict[str, Any] = {f"source_{key}": text(source.get(key)) for key in SOURCE}
    return Ladder(**facts, **told, unusable=unusable, rungs=rungs)


def _foreign(records: list[Any]) -> Ladder:
    """What each rung says of the whole must be the same on all of them; a c that comes again is a repeat."""
    seen: dict[int, int] = {}
    rungs = []
    for rung in _rungs(records):
        seen[rung.c] = seen.get(rung.c, 0) + 1
        rungs.append(dataclasses.replace(rung, repeat=seen[rung.c]))
    return Ladder(**_of_all(rungs), pool=_first_pool(rungs), rungs=tuple(rungs))


def _first_pool(rungs: Iterable[Rung]) -> int | None:
    """Sandboxes as the first rung that saw them tells; that all rungs saw as many is a rule's."""
    return next((rung.pool for rung in rungs if rung.pool is not None), None)


def _of_all(rungs: Iterable[Rung]) -> dict[str, Any]:
    """The ladder's facts that recorders write into every rung. Raises ReportFormatError where two rungs differ."""
    common = {}
    for fact, name in {"arm": "arm", "basis": "duty_basis", "lag_resolution_ms": "lag_resolution_ms"}.items():
        said = {value for rung in rungs if (value := getattr(rung, name)) is not None}
        if len(said) > 1:
            told = " and ".join(sorted(map(str, said)))
            raise _problem(f"it holds rungs of two ladders: {name} is {told}; save one ladder a file")
        common[fact] = next(iter(said), None)
    return common


def _hold_repeats(rungs: Iterable[Rung]) -> None:
    seen: set[str] = set()
    for rung in rungs:
        if rung.name in seen:
            raise _problem(f"it holds rung {rung.name} twice")
        seen.add(rung.name)


def _rungs(records: list[Any]) -> tuple[Rung, ...]:
    if len(records) > MAX_RUNGS:
        raise _problem(f"it holds {len(records):,} rungs, and no ladder has more than {MAX_RUNGS:,}")
    return tuple(parse_rung(record, number) for number, record in enumerate(records, start=1))


def parse_rung(record: object, number: int = 1) -> Rung:
    """One rung, the ``number``-th of its ladder. Raises ReportFormatError."""

    def problem(what: str) -> ReportFormatError:
        return _problem(f"rung {number}: {what}")

    if not isinstance(record, dict):
        raise problem("is no JSON object")
    why = {key: _text(value, key, problem) or "" for key, value in _object(record, "why_unknown", problem).items()}
    values: dict[str, Any] = {}
    for each in dataclasses.fields(Rung):
        key = RUNG_KEYS.get(each.name, each.name)
        if each.name in ("workers", "why_unknown") or key not in record:
            continue
        if record[key] in ("NaN", "nan"):
            why.setdefault(each.name, NOT_A_NUMBER)
        values[each.name] = _value(record[key], str(each.type), key, problem, signed=each.name in SIGNED)
    if not 1 <= (values.get("c") or 0) < 1_000_000:
        raise problem(f"c is {_said(record.get('c'))}, and must be a whole number of clients from 1")
    if values.get("repeat") is None:
        values["repeat"] = 1
    if not 1 <= values["repeat"] < 10_000:
        raise problem("repeat must be a whole number from 1")
    rung = Rung(**values, workers=_workers(record, problem), why_unknown=why)
    if rung.ended not in (None, *ENDS):
        raise problem(f"ended is {_said(rung.ended)}, and a rung ends by {', '.join(ENDS)}")
    if rung.attempts is not None and rung.ok is not None and rung.ok > rung.attempts:
        raise problem(f"ok_n is {rung.ok} of {rung.attempts} attempts")
    if rung.rate is None and rung.attempts != 0:
        raise problem("says neither attempts and ok_n nor success_rate, so nobody knows whether its turns succeeded")
    return rung


def _value(value: Any, kind: str, key: str, problem: Problem, *, signed: bool) -> Any:
    """A value of a rung's field, whose type is ``kind`` as its dataclass has it."""
    if value is None:
        return None
    if kind.startswith("Mapping[str, str]"):
        return {name: _text(entry, key, problem) or "" for name, entry in _mapping(value, key, problem).items()} or None
    if kind.startswith("Mapping[str, int]"):
        return _counts(value, key, problem) or None
    if kind.startswith("str"):
        return _text(value, key, problem)
    if kind.startswith("bool"):
        if not isinstance(value, bool):
            raise problem(f"{key} is {_said(value)}, and must be true, false or null")
        return value
    number = _number(value, key, problem, signed=signed)
    if number is None or not kind.startswith("int"):
        return number
    if not number.is_integer():
        raise problem(f"{key} is {_said(value)}, and must be a whole number")
    if abs(number) > MOST_OF_ANY and not key.endswith("_bytes"):
        raise problem(f"{key} is {_said(value)}, {TOO_MANY}")
    return int(number)


def _number(value: Any, key: str, problem: Problem, *, signed: bool = False) -> float | None:
    """A finite number, also as text; None for NaN."""
    if value in ("NaN", "nan"):
        return None
    known = float(value) if isinstance(value, str) and PLAIN_DECIMAL.fullmatch(value) else finite(value)
    if known is None or (known < 0 and not signed):
        least = "" if signed else " from 0"
        raise problem(f'{key} is {_said(value)}, and must be a number{least}, or "NaN"')
    if not _is_measurable(known):
        raise problem(f"{key} is {_said(value)}, {OUTSIDE}")
    low, high = BOUNDS.get(key, (-MOST, MOST))
    if not low <= known <= high:
        raise problem(f"{key} is {_said(value)}, and must be from {low:g}{'' if high == MOST else f' to {high:g}'}")
    return known


TOO_MANY = f"and no count of a ladder is above {MOST_OF_ANY:,}"
OUTSIDE = f"which no measurement can be: it is 0, or from {LEAST:g} to {MOST:g}"


def _is_measurable(number: float) -> bool:
    return number == 0 or LEAST <= abs(number) <= MOST


def _counts(value: Any, key: str, problem: Problem) -> dict[str, int]:
    """Number of execs → turns that had so many."""
    counts = _mapping(value, key, problem)
    if strange := [name for name in counts if not SMALL_COUNT.fullmatch(name)]:
        raise problem(f"{key} holds turns of {_said(strange[0])} execs, which is no number of them")
    return {name: _count(entry, key, problem) for name, entry in counts.items()}


def _count(value: Any, key: str, problem: Problem) -> int:
    known = whole(value)
    if known is None:
        raise problem(f"{key} holds {_said(value)}, which is no count")
    if not _is_measurable(known):
        raise problem(f"{key} holds {_said(value)}, {OUTSIDE}")
    if known > MOST_OF_ANY:
        raise problem(f"{key} holds {_said(value)}, {TOO_MANY}")
    return known


def _text(value: Any, key: str, problem: Problem) -> str | None:
    known = text(value)
    if value is not None and known is None:
        raise problem(f"{key} is {_said(value)}, and must be text")
    return known


def _mapping(value: Any, key: str, problem: Problem) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise problem(f"{key} is {_said(value)}, and must be an object")
    return {text(name) or "": entry for name, entry in value.items()}


def _object(record: Mapping[str, Any], key: str, problem: Problem) -> dict[str, Any]:
    return {} if record.get(key) is None else _mapping(record[key], key, problem)


def _workers(record: Mapping[str, Any], problem: Problem) -> tuple[RungWorker, ...]:
    """As objects, or as two arrays that have one place for each worker."""
    if (given := record.get("workers")) is not None:
        if not isinstance(given, list) or len(given) > MAX_WORKERS or not all(isinstance(one, dict) for one in given):
            raise problem("workers must be a list of objects")
        kinds = {each.name: str(each.type) for each in dataclasses.fields(RungWorker)}
        return tuple(
            RungWorker(
                **{name: _value(one.get(name), kind, name, problem, signed=False) for name, kind in kinds.items()}
            )
            for one in given
        )
    lags, sizes = (_array(record, key, problem) for key in ("loop_lag_p99", "rss_bytes"))
    if lags and sizes and len(lags) != len(sizes):
        raise problem(f"loop_lag_p99 is of {len(lags)} workers and rss_bytes of {len(sizes)}")
    count = max(len(lags), len(sizes))
    pairs = zip(lags or [None] * count, sizes or [None] * count, strict=True)
    return tuple(RungWorker(lag_p99_ms=lag, rss_bytes=None if size is None else int(size)) for lag, size in pairs)


def _array(record: Mapping[str, Any], key: str, problem: Problem) -> list[float | None]:
    given = record.get(key)
    if given is None:
        return []
    if not isinstance(given, list) or len(given) > MAX_WORKERS:
        raise problem(f"{key} must be a list, one value for each worker")
    return [None if value is None else _number(value, key, problem) for value in given]


def _facts(document: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The ladder's fields but for its rungs, and what stands where a fact should."""
    values: dict[str, Any] = {}
    unusable: dict[str, str] = {}
    for each in dataclasses.fields(Ladder):
        name, value = each.name, document.get(each.name)
        if name not in LADDER_FIELDS or value is None:
            continue
        try:
            values[name] = _fact(name, str(each.type), value)
        except ReportFormatError as error:
            if name not in FACTS:
                raise
            unusable[name] = error.message.removeprefix(f"{name} ")
    return values, unusable


def _fact(name: str, kind: str, value: Any) -> Any:
    if name == "profile":
        return _profile(value)
    if name == "planned":
        if not isinstance(value, list) or not all(isinstance(one, str) and RUNG_NAME.fullmatch(one) for one in value):
            raise _problem("planned must be a list of rung names like c8 or c8.r2")
        return tuple(value)
    return _value(value, kind, name, _problem, signed=False)


def _profile(body: Any) -> Profile:
    if not isinstance(body, dict):
        raise _problem("profile is no JSON object")
    found = {}
    for name, key in PROFILE_KEYS.items():
        if key not in body:
            raise _problem(f"profile has no {key}")
        number = finite(body[key])
        if number is None:
            raise _problem(f"profile has {key} {_said(body[key])}, which is no number")
        most = 1 if name == "tool_call_rate" else MOST
        if not 0 <= number <= most or not _is_measurable(number):
            raise _problem(f"profile has {key} {_said(body[key])}, and must have it from 0 to {most:g}")
        found[name] = number
    return Profile(**found)


def _problem(what: str) -> ReportFormatError:
    return ReportFormatError(what)


def _said(value: object) -> str:
    return "nothing" if value is None else one_line(ascii(value))[:80]
