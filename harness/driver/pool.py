"""The engines behind the name of a plan's pool: looked up once, before anything is dispatched."""

from __future__ import annotations

import ipaddress
import socket
import time

from harness.errors import UsageError

LIMIT_S = 30.0
RETRY_S = 0.5


def addresses_of(dns: str, *, limit_s: float = LIMIT_S) -> tuple[str, ...]:
    """Every IPv4 address of ``host:port`` as ``ip:port``, each once, in the order of addresses.

    A name without an answer is asked for again until ``limit_s`` is over. Raises UsageError then.
    """
    host, _, port = dns.rpartition(":")
    end_s = time.monotonic() + limit_s
    while True:
        try:
            answers = socket.getaddrinfo(host, int(port), socket.AF_INET, socket.SOCK_STREAM)
            found = {str(answer[4][0]) for answer in answers}
            why = "no address"
        except (OSError, UnicodeError) as error:
            found, why = set(), str(error)
        if found:
            return tuple(f"{address}:{port}" for address in sorted(found, key=ipaddress.IPv4Address))
        if time.monotonic() >= end_s:
            raise UsageError(f"the pool {dns} names no engine within {limit_s:g} s ({why}): are the engines ready?")
        time.sleep(RETRY_S)
