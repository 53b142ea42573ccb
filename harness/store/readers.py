"""Readers of evidence files: text in, plain values out. What is not what its name says raises EvidenceError."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError, ReportFormatError

INT64_MAX = 2**63 - 1
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DIGITS = re.compile(r"[0-9]{1,9}")
POSITIVE = re.compile(r"[1-9][0-9]{0,8}")


def read_text(path: Path) -> str:
    """The file as UTF-8. Raises EvidenceError naming it."""
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise EvidenceError(f"{path.name} cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise EvidenceError(f"{path.name} is not UTF-8 text (byte {error.start})") from error


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not blank. Only a newline ends a line, never the other separators of Unicode."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def read_env(path: Path) -> dict[str, str]:
    """``KEY=value`` lines; nothing in a value is expanded. A key with two values is refused: one of them is wrong."""
    values: dict[str, str] = {}
    for number, line in lines_of(read_text(path)):
        key, equals, value = line.rstrip("\r").partition("=")
        if not equals or not KEY.fullmatch(key):
            raise EvidenceError(f"{path.name}:{number} is not KEY=value")
        if values.setdefault(key, value) != value:
            raise EvidenceError(f"{path.name}:{number} gives {key} a second value")
    return values


def positive(values: dict[str, str], key: str, source: str) -> int:
    """A positive whole number without leading zero. Raises EvidenceError."""
    if key not in values:
        raise EvidenceError(f"{source} has no {key}; add {key}=, a positive whole number")
    if not POSITIVE.fullmatch(values[key]):
        raise EvidenceError(f"{source}: {key} must be a positive whole number, is {values[key][:80]!r}")
    return int(values[key])


@dataclass(frozen=True)
class Share:
    """A row of the share table: what one node sends to a target."""

    target: str
    rate_rps: int
    url: str | None


def read_shares(path: Path) -> list[Share]:
    """``name TAB rate_rps[ TAB url]`` lines. An empty table and a target listed twice are refused."""
    shares: dict[str, Share] = {}
    for number, line in lines_of(read_text(path)):
        fields = line.rstrip("\r").split("\t")
        if len(fields) < 2 or not fields[0] or not DIGITS.fullmatch(fields[1]):
            raise EvidenceError(f"{path.name}:{number} is not 'name TAB requests per second TAB url'")
        if fields[0] in shares:
            raise EvidenceError(f"{path.name}:{number} lists target {fields[0][:80]!r} a second time")
        shares[fields[0]] = Share(fields[0], int(fields[1]), fields[2] if len(fields) > 2 else None)
    if not shares:
        raise EvidenceError(f"{path.name} names no target, so nothing was planned that could pass")
    return list(shares.values())


@dataclass(frozen=True)
class Engine:
    """A row of the engine list."""

    ip: str
    node: str
    name: str | None


def read_engines(path: Path) -> list[Engine]:
    """``ip TAB node[ TAB name]`` lines. An address listed twice is refused: it would belong to two nodes."""
    engines: dict[str, Engine] = {}
    for number, line in lines_of(read_text(path)):
        fields = line.rstrip("\r").split("\t")
        if len(fields) < 2 or not fields[0] or not fields[1]:
            raise EvidenceError(f"{path.name}:{number} is not 'address TAB node TAB engine'")
        if fields[0] in engines:
            raise EvidenceError(f"{path.name}:{number} lists address {fields[0][:80]!r} a second time")
        engines[fields[0]] = Engine(fields[0], fields[1], fields[2] if len(fields) > 2 else None)
    return list(engines.values())


@dataclass(frozen=True)
class PlannedRoll:
    """A row of the schedule."""

    at_s: float
    kind: str
    name: str


def read_schedule(path: Path) -> list[PlannedRoll]:
    """``at_s TAB kind TAB name`` lines."""
    rolls = []
    for number, line in lines_of(read_text(path)):
        fields = line.rstrip("\r").split("\t")
        at_s = finite(_float(fields[0]))
        if len(fields) != 3 or at_s is None or at_s < 0 or not fields[1] or not fields[2]:
            raise EvidenceError(f"{path.name}:{number} is not 'seconds TAB kind TAB name'")
        rolls.append(PlannedRoll(at_s, fields[1], fields[2]))
    return rolls


def parse_json(raw: bytes | str) -> Any:
    """Strict enough for evidence: a key twice in one object is refused. NaN is kept, for whoever reads the value.

    Raises ValueError for anything that is not JSON, RecursionError included.
    """
    try:
        return json.loads(raw, object_pairs_hook=_object)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return value


def read_document(path: Path) -> Any:
    """A whole JSON file. Raises ReportFormatError naming it."""
    try:
        return parse_json(path.read_bytes())
    except OSError as error:
        raise EvidenceError(f"{path.name} cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise ReportFormatError(f"{path.name} is not JSON ({one_line(str(error))[:120]})") from error


def json_lines(path: Path) -> Iterator[Any]:
    """One value per non-blank line, None for a line that is not JSON. Reads as it goes: logs can be large."""
    try:
        with path.open("rb") as file:
            for line in file:
                if line.strip():
                    try:
                        yield parse_json(line)
                    except ValueError:
                        yield None
    except OSError as error:
        raise EvidenceError(f"{path.name} cannot be read ({error.strerror or error})") from error


def whole(value: object) -> int | None:
    """A whole number from 0 to 2^63 - 1 as int (``1350.0`` is whole); None for all else, true and text included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if 0 <= value <= INT64_MAX else None


def finite(value: object) -> float | None:
    """A finite number as float; None for all else, NaN included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def moment(value: object) -> datetime | None:
    """An RFC 3339 time as UTC with microseconds; None when it is none. A time without offset is none."""
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
        return parsed.astimezone(UTC) if parsed.tzinfo else None
    except (ValueError, OverflowError):
        return None


def text(value: object) -> str | None:
    """Text that can be stored as UTF-8 (lone surrogates become ``?``), None for anything that is no text."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def without_port(address: str) -> str:
    """An address without what looks like a port at its end."""
    host, colon, port = address.rpartition(":")
    return host if colon and port.isdecimal() and port.isascii() and host else address


def one_line(value: str) -> str:
    """Control characters and line ends as single spaces, so that no text from a report can make a line of its own."""
    if not value.isprintable():
        value = "".join(character if character.isprintable() else " " for character in value)
    return " ".join(value.split())
