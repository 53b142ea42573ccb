"""Durations as Go prints and reads them: ``500ms``, ``3.112447ms``, ``1m2.5s``, ``8h30m0s``. In memory: whole ns."""

from __future__ import annotations

import re
from decimal import Decimal

NS_PER_UNIT = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign, the one that is printed
    "μs": 1_000,  # Greek mu, the one that keyboards give
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


def format_duration(duration_ns: int) -> str:
    """The text Go's ``Duration.String`` gives: the largest unit below a second, else hours, minutes and seconds."""
    if duration_ns < 0:
        return "-" + format_duration(-duration_ns)
    if duration_ns == 0:
        return "0s"
    for unit, above in (("ns", "us"), ("µs", "ms"), ("ms", "s")):
        if duration_ns < NS_PER_UNIT[above]:
            return _decimal(duration_ns, NS_PER_UNIT[unit]) + unit
    minutes, rest_ns = divmod(duration_ns, NS_PER_UNIT["m"])
    seconds = _decimal(rest_ns, NS_PER_UNIT["s"]) + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def format_duration_ms(duration_ms: int) -> str:
    """``format_duration`` of whole milliseconds."""
    return format_duration(duration_ms * NS_PER_UNIT["ms"])


def parse_duration(text: str) -> int | None:
    """Nanoseconds of a duration text, a fraction of one cut off; None when ``text`` is not a duration.

    One or more decimal numbers, each with a unit (``1h30m``, ``1.5s``). A number without a unit is not a duration.
    """
    if not _WHOLE.fullmatch(text):
        return None
    return int(sum((Decimal(number) * NS_PER_UNIT[unit] for number, unit in _PART.findall(text)), Decimal(0)))


def _decimal(value_ns: int, unit_ns: int) -> str:
    whole, rest = divmod(value_ns, unit_ns)
    digits = f"{rest:0{len(str(unit_ns)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)
