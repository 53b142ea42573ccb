"""The embedded fleet: N nodes on one machine, each an Envoy as node proxy and an engine, with real target servers.

``LocalFleet`` is loaded on first use: every target server imports this package, and must stay small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.fleet.local.fleet import LocalFleet

__all__ = ["LocalFleet"]


def __getattr__(name: str) -> Any:
    if name == "LocalFleet":
        from harness.fleet.local.fleet import LocalFleet

        return LocalFleet
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
