"""Who serves a target: one file per target that every proxy watches, and the proof that they took it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.errors import FleetError
from harness.files import write_json
from harness.fleet.local.http import get_json

_ASSIGNMENT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
POLL_S = 0.05


def socket_address(address: str) -> dict[str, Any]:
    """``ip:port`` or ``unix:/path`` in Envoy's form."""
    if address.startswith("unix:"):
        return {"pipe": {"path": address.removeprefix("unix:")}}
    ip, _, port = address.rpartition(":")
    return {"socket_address": {"address": ip, "port_value": int(port)}}


def write_endpoints(folder: Path, target: str, addresses: Sequence[str]) -> None:
    """Replace the endpoints of ``target``; the proxies see the rename. Raises OSError on a full disk."""
    servers = [{"endpoint": {"address": socket_address(address)}} for address in addresses]
    assignment = {"@type": _ASSIGNMENT, "cluster_name": target, "endpoints": [{"lb_endpoints": servers}]}
    write_json(folder / f"{target}.json", {"resources": [assignment]})


async def endpoints_in_use(admin: Path, target: str) -> set[str]:
    """The addresses a proxy sends ``target``'s requests to, in our form. Raises OSError when the proxy is silent."""
    clusters = await get_json(admin, "/clusters?format=json")
    return {
        our_form(host["address"])
        for cluster in clusters["cluster_statuses"]
        if cluster["name"] == target
        for host in cluster.get("host_statuses", [])
    }


def our_form(address: dict[str, Any]) -> str:
    """Inverse of ``socket_address``."""
    if "pipe" in address:
        return f"unix:{address['pipe']['path']}"
    return f"{address['socket_address']['address']}:{address['socket_address']['port_value']}"


async def wait_in_use(
    admins: Callable[[], dict[str, Path]], target: str, addresses: Sequence[str], *, limit_s: float
) -> None:
    """Wait until every proxy uses exactly ``addresses`` for ``target``.

    ``admins`` gives node → admin socket anew for each look: a proxy may be restarted meanwhile. A proxy that does not
    answer (frozen, restarting) is waited for, never skipped. Raises FleetError naming the nodes that did not follow.
    """
    deadline = time.monotonic() + limit_s
    wanted = set(addresses)
    while True:
        behind = []
        for node, admin in admins().items():
            try:
                if await endpoints_in_use(admin, target) != wanted:
                    behind.append(node)
            except OSError:
                behind.append(node)
        if not behind:
            return
        if time.monotonic() > deadline:
            raise FleetError(
                f"after {limit_s:g} s the proxies of {', '.join(behind)} do not use the new endpoints of {target}",
                target=target,
            )
        await asyncio.sleep(POLL_S)
