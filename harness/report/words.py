"""Numbers and rules as words. ``None`` is always "not measured": an unknown number is never printed as 0."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import datetime

NOT_MEASURED = "not measured"

BLAME: dict[str, str] = {
    "mesh": "the mesh failed this, not the load generator",
    "driver": "the load generator's fault, the mesh is not blamed",
    "plan": "the plan is at fault",
    "evidence": "what was saved is at fault",
}
"""Cause of a finding → whom it blames."""


WAIT = "A wait for a connection is not in it, but in queue_to_connect: a stall that kept requests back shows there."
LATENCY: dict[str, str] = {
    "this harness": "Latency is counted from the moment a request should have been sent, so a stall of the server is "
    "not hidden. The send delay is the p99 of how late requests were written, which that latency includes.",
    "sortie": f"Latency starts when a request has been encoded on a connection, as sortie measures it. {WAIT}",
    "nighthawk": f"Latency starts when a request has been encoded on a connection, as nighthawk measures it. {WAIT}",
    "k6": "Latency is http_req_duration of k6: sending, waiting and receiving. A wait for a connection, connecting and "
    "the TLS handshake are not in it, and neither is how late an iteration began.",
}
"""Who measured → what the latency covers."""


def next_step(rule: str, advice: str, causes: Collection[str] = ()) -> str:
    """What to do about a broken rule, and whom it blames.

    ``causes`` are those of all findings of the rule; where they differ, nobody is named.
    """
    blame = BLAME.get(next(iter(causes))) if len(causes) == 1 else None
    return f"{rule} ({blame}): {advice}" if blame else f"{rule}: {advice}"


def number(value: int, noun: str) -> str:
    """``1 line``, ``2 lines``: a count with its noun."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def shortened(items: Sequence[str], most: int = 3) -> str:
    """The first few of a list, and how many more there are."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")


def milliseconds(value_ns: float | None) -> str:
    """Nanoseconds as milliseconds: no decimals from 100, one from 10, else two; trailing zeros dropped."""
    if value_ns is None:
        return NOT_MEASURED
    value = value_ns / 1e6
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    text = f"{value:,.{decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + " ms"


def count(value: float | None) -> str:
    """A whole number with thousands separators."""
    return NOT_MEASURED if value is None else f"{value:,.0f}"


def mebibytes(value_bytes: float | None) -> str:
    """Bytes as MiB, one decimal below 100."""
    if value_bytes is None:
        return NOT_MEASURED
    value = value_bytes / 2**20
    return f"{value:,.0f} MiB" if value >= 100 else f"{value:.1f} MiB"


def cores(value: float | None) -> str:
    """CPU cores in use, three decimals."""
    return NOT_MEASURED if value is None else f"{value:.3f}"


def seconds(value_s: float | None) -> str:
    """A moment or a duration in seconds, one decimal when it has one."""
    return NOT_MEASURED if value_s is None else f"{value_s:,.1f}".removesuffix(".0") + " s"


def duration(value_s: float | None) -> str:
    """A duration for people: ``60 s``, ``15 min``, ``8 h 30 min``."""
    if value_s is None:
        return NOT_MEASURED
    if value_s < 120 or value_s % 60:
        return seconds(value_s)
    hours, minutes = divmod(int(value_s) // 60, 60)
    return " ".join(part for part in (f"{hours} h" if hours else "", f"{minutes} min" if minutes else "") if part)


def utc(moment: datetime | str | None) -> str:
    """A UTC moment to the millisecond, with its zone."""
    if moment is None:
        return NOT_MEASURED
    if isinstance(moment, str):
        return moment
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d} UTC"


def zero_bound(trials: int | None) -> str:
    """What 0 failures in ``trials`` requests prove: the rate is below 3/n with 95 % confidence.

    The rule of three: (1 - p)^n = 0.05 solved for small p, with -ln 0.05 = 2.996 rounded up. Few trials (n < 30, where
    the rounding shows) and none prove nothing that is worth a number.
    """
    if trials is None:
        return NOT_MEASURED
    if trials < 30:
        return f"nothing: {number(trials, 'request')} {'is' if trials == 1 else 'are'} too few"
    exponent = math.floor(math.log10(3 / trials))
    mantissa = math.ceil(3 / trials / 10.0**exponent * 10) / 10  # upwards: a bound may be loose, never too tight
    return f"below {mantissa:.1f} × 10{superscript(exponent)} of requests, with 95 % confidence"


def superscript(number: int) -> str:
    """An exponent in superscript digits."""
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
