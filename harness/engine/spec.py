"""What comes over the wire or the command line, checked: addresses, one execution, a start message."""

from __future__ import annotations

import ipaddress
import math
import re
import socket
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar
from urllib.parse import urlsplit

from harness.errors import PlanError, SettingsError

MAX_RATE_RPS = 1_000_000
MAX_DURATION_S = 7 * 86_400
MAX_CONNECTIONS = 10_000
MAX_PENDING = 10_000_000
MAX_TIMEOUT_S = 600
MAX_REQUEST_BYTES = 16_384  # far below any socket's send buffer: a request is always written whole
UNIX_PATH_BYTES = 107

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\t]*)")
_PATH = re.compile(r"[\x21-\x7e]*")
_FRAMING_HEADERS = frozenset({"content-length", "transfer-encoding", "upgrade", "expect"})
_T = TypeVar("_T")


@dataclass(frozen=True)
class Address:
    """Where to connect: an ``(ip, port)``, on loopback unless told otherwise, or the path of a Unix socket."""

    family: socket.AddressFamily
    target: tuple[str, int] | str


def parse_address(text: str, *, network: bool = False) -> Address:
    """``ip:port`` on loopback (127.0.0.0/8) or ``unix:/path``; with ``network`` any host's address.

    Raises SettingsError on anything else.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path.startswith("/") or len(path.encode()) > UNIX_PATH_BYTES:
            raise SettingsError(f"{text!r} is no socket address: give unix:/absolute/path of at most 107 bytes")
        return Address(socket.AF_UNIX, path)
    host, _, port = text.rpartition(":")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535 or not _is_allowed(host, network=network):
        what = "a host: give its IPv4 address" if network else "this machine: give 127.x.y.z"
        raise SettingsError(f"{text!r} is no address of {what}:port or unix:/path")
    return Address(socket.AF_INET, (host, int(port)))


def _is_allowed(host: str, *, network: bool) -> bool:
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return address.is_loopback or (network and not address.is_unspecified and not address.is_multicast)


@dataclass(frozen=True)
class ExecutionSpec:
    """One target's load on this node."""

    label: str
    url: str
    method: str
    rate_rps: Fraction
    duration_s: Fraction
    connections: int
    max_pending: int
    timeout_s: float
    phase_s: float
    planned: int
    request: bytes

    @property
    def head(self) -> bool:
        """True when responses carry no body whatever their headers say."""
        return self.method == "HEAD"


def parse_execution(value: Any) -> ExecutionSpec:
    """An ExecutionSpec from the JSON object of a start message. Raises PlanError naming the field that is wrong."""
    if not isinstance(value, dict):
        raise PlanError("execution is not an object")
    fields = dict(value)
    label = _take(fields, "label", str)
    url = _take(fields, "url", str)
    method = _take(fields, "method", str, "GET")
    headers = _take(fields, "headers", list, [])
    rate_rps = _number(fields, "rate_rps", above=0, most=MAX_RATE_RPS)
    duration_s = _number(fields, "duration_s", above=0, most=MAX_DURATION_S)
    connections = _integer(fields, "connections", 1, MAX_CONNECTIONS, 100)
    max_pending = _integer(fields, "max_pending", 0, MAX_PENDING, 0)
    timeout_s = _number(fields, "timeout_s", above=0, most=MAX_TIMEOUT_S, default=30)
    phase_s = _number(fields, "phase_s", at_least=0, most=MAX_DURATION_S, default=0)
    if fields:
        raise PlanError(f"execution has a field this engine does not know: {', '.join(sorted(map(str, fields)))}")
    planned = rate_rps * duration_s
    if planned.denominator != 1:
        raise PlanError(
            f"rate_rps {float(rate_rps):g} × duration_s {float(duration_s):g} is no whole number of requests"
        )
    if phase_s >= 1 / rate_rps:
        raise PlanError(f"phase_s {float(phase_s):g} is not below one interval of {float(1 / rate_rps):g} s")
    return ExecutionSpec(
        label=label,
        url=url,
        method=method,
        rate_rps=rate_rps,
        duration_s=duration_s,
        connections=connections,
        max_pending=max_pending,
        timeout_s=float(timeout_s),
        phase_s=float(phase_s),
        planned=planned.numerator,
        request=_request_bytes(method, url, headers),
    )


def dial_address(url: str, *, network: bool = False) -> Address:
    """Where ``url`` itself points, for an engine without a proxy. Raises PlanError unless that is loopback.

    With ``network`` any host will do; its name is resolved now, once, as a driver does with its pool.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    try:
        if network:
            host = str(socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
        return parse_address(f"{host}:{port}", network=network)
    except SettingsError as error:
        raise PlanError(f"url {url!r} names no loopback address and this engine has no --proxy") from error
    except (OSError, UnicodeError) as error:
        raise PlanError(f"url {url!r} names a host that cannot be resolved ({error})") from error


def parse_start(message: dict[str, Any]) -> tuple[ExecutionSpec, int | None]:
    """The execution of a start message and its ``start_at_unix_ns`` (None: now). Raises PlanError."""
    unknown = sorted(set(message) - {"type", "id", "execution", "start_at_unix_ns"})
    if unknown:
        raise PlanError(f"start has a field this engine does not know: {', '.join(unknown)}")
    start_at = message.get("start_at_unix_ns")
    if start_at is not None and (type(start_at) is not int or start_at < 0):
        raise PlanError("start_at_unix_ns is not a whole number of nanoseconds")
    return parse_execution(message.get("execution")), start_at


def _request_bytes(method: str, url: str, headers: list[Any]) -> bytes:
    if not _TOKEN.fullmatch(method) or method in ("CONNECT", "TRACE"):
        raise PlanError(f"method {method!r} is not one this engine sends")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise PlanError(f"url {url!r} does not parse: {error}") from error
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    plain = parts.scheme == "http" and parts.hostname and port != 0 and "@" not in parts.netloc and not parts.fragment
    if not plain or not _PATH.fullmatch(path) or not _PATH.fullmatch(parts.netloc):
        raise PlanError(f"url {url!r} is not http://host[:port]/path in plain ASCII")
    lines = [f"{method} {path} HTTP/1.1"]
    names = set()
    for header in headers:
        match = _HEADER.fullmatch(header) if isinstance(header, str) else None
        if match is None:
            raise PlanError(f"header {header!r} is not 'Name: value' in plain ASCII")
        name = match[1].lower()
        if name in _FRAMING_HEADERS:
            raise PlanError(f"header {match[1]!r} would change how a message ends, and this engine sends no body")
        names.add(name)
        lines.append(f"{match[1]}: {match[2]}")
    if "host" not in names:
        lines.insert(1, f"Host: {parts.netloc}")
    if method in ("POST", "PUT", "PATCH"):
        lines.append("Content-Length: 0")
    request = "\r\n".join([*lines, "", ""]).encode("ascii")
    if len(request) > MAX_REQUEST_BYTES:
        raise PlanError(f"the request is {len(request)} bytes long; the most is {MAX_REQUEST_BYTES}")
    return request


def _take(fields: dict[str, Any], name: str, kind: type[_T], default: _T | None = None) -> _T:
    value = fields.pop(name, default)
    if not isinstance(value, kind):
        raise PlanError(f"execution.{name} is absent or not a {kind.__name__}")
    return value


def _integer(fields: dict[str, Any], name: str, low: int, high: int, default: int) -> int:
    value = fields.pop(name, default)
    if type(value) is not int or not low <= value <= high:
        raise PlanError(f"execution.{name} is not a whole number from {low} to {high}")
    return value


def _number(
    fields: dict[str, Any],
    name: str,
    *,
    most: int,
    above: int | None = None,
    at_least: int | None = None,
    default: int | None = None,
) -> Fraction:
    """Exact as written: 0.1 is one tenth, so that rate × duration has no rounding."""
    value = fields.pop(name, default)
    if type(value) not in (int, float) or (isinstance(value, float) and not math.isfinite(value)):
        raise PlanError(f"execution.{name} is absent or not a number")
    number = Fraction(str(value))
    if number > most or (above is not None and number <= above) or (at_least is not None and number < at_least):
        bound = f"above {above}" if at_least is None else f"from {at_least}"
        raise PlanError(f"execution.{name} is {value}; it must be {bound} and at most {most}")
    return number
