"""A network namespace with no way out: the cluster and every test that talks to it live in one, and only there.

It has a loopback, a bridge for nodes and pods, and nothing else, so that whatever is sent inside it stays inside it. It
has no name and no mount: it is there while a process is in it or this program holds it, and so cannot be left behind.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.supplies import SupplyError, run

CLONE_NEWNET = 0x40000000
BRIDGE = "harness0"
GATEWAY = "10.244.0.1"
PREFIX = 16
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
"""The first address of ``SERVICES``: where pods look for the API. No kube-proxy is needed: the bridge has it."""
NOWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))  # of documentation, nobody's


class Namespace:
    """Made at once; ``entered()`` is a ``with`` block whose thread, and the processes it starts, are inside."""

    def __init__(self) -> None:
        home = _own()
        try:
            _call("unshare", CLONE_NEWNET)
            self._inside = _own()
            _furnish()
            if found := ways_out():
                raise SupplyError(f"the network namespace of the test cluster has a way out: {'; '.join(found)}")
        finally:
            _call("setns", home, CLONE_NEWNET)
            os.close(home)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The calling thread is inside until the block ends; blocks may be nested."""
        home = _own()
        try:
            _call("setns", self._inside, CLONE_NEWNET)
            yield
        finally:
            _call("setns", home, CLONE_NEWNET)
            os.close(home)

    def close(self) -> None:
        """Let go of it. It ends with the last process inside."""
        os.close(self._inside)


def add_address(address: str) -> None:
    """Give the bridge one more address, that of a node. Only inside."""
    run("ip", "address", "replace", f"{address}/{PREFIX}", "dev", BRIDGE)


def ways_out() -> list[str]:
    """Why a packet might leave the calling thread's namespace: one text for each way; empty when there is none."""
    found = []
    for link in json.loads(run("ip", "-json", "-details", "link", "show")):
        kind = link.get("linkinfo", {}).get("info_kind")
        if link["ifname"] != "lo" and kind not in ("bridge", "veth"):
            found.append(f"link {link['ifname']} ({kind or 'physical'})")
    for version in ("-4", "-6"):
        routes = json.loads(run("ip", version, "-json", "route", "show", "table", "all") or "[]")
        found += [
            f"route {route['dst']} by {route.get('gateway') or route.get('dev')}"
            for route in routes
            if (route["dst"] == "default" or "gateway" in route) and route.get("type") != "unreachable"
        ]
    for family, address in NOWHERE:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((address, 9))  # UDP: asks for the route, sends nothing
            except OSError as error:
                if error.errno in (errno.ENETUNREACH, errno.EADDRNOTAVAIL):
                    continue
            found.append(f"{address} can be reached")
    return found


def name_of(process: int | str = "thread-self") -> str:
    """What tells the network namespace of a process, or of the calling thread, from others."""
    return str(Path(f"/proc/{process}/ns/net").readlink())


def _furnish() -> None:
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{GATEWAY}/{PREFIX}", "dev", BRIDGE)
    run("ip", "address", "add", f"{API_SERVICE}/32", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")


def _own() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _call(name: str, *arguments: int) -> None:
    """setns(2) and unshare(2); Python's own begin with 3.12."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise SupplyError(f"{name} of a network namespace: {os.strerror(number)}; this needs root")
