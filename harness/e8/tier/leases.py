"""Leases on sandboxes: at most ``cap`` on one, each gone after its TTL unless renewed. Pure: times are given."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

EMPTY, SATURATED = "empty", "saturated"


@dataclass(frozen=True)
class Granted:
    """A slot on a sandbox."""

    lease: int
    sandbox: str
    pool: int


@dataclass(frozen=True)
class Refused:
    """No slot: the pool is empty, or every sandbox is at its cap."""

    why: str
    pool: int


@dataclass
class Sandbox:
    """A sandbox that is present, with its leases: id → when it expires."""

    present_until_s: float
    leases: dict[int, float] = field(default_factory=dict)


class LeaseBook:
    """Which sandboxes are there and who holds them. A lease on a sandbox that went away is gone with it."""

    def __init__(self) -> None:
        self._sandboxes: dict[str, Sandbox] = {}
        self._places: dict[int, str] = {}
        self._numbers = itertools.count(1)
        self._next_expiry_s = float("inf")
        self.granted = 0
        self.refused = 0
        self.expired = 0

    @property
    def held(self) -> int:
        """Leases held now."""
        return len(self._places)

    def announce(self, sandbox: str, ttl_s: float, now_s: float) -> None:
        """The sandbox is there, for another ``ttl_s``."""
        until_s = now_s + ttl_s
        self._sandboxes.setdefault(sandbox, Sandbox(until_s)).present_until_s = until_s
        self._next_expiry_s = min(self._next_expiry_s, until_s)

    def withdraw(self, sandbox: str) -> None:
        """The sandbox is gone."""
        found = self._sandboxes.pop(sandbox, None)
        for lease in found.leases if found else ():
            del self._places[lease]

    def acquire(self, cap: int, ttl_s: float, now_s: float) -> Granted | Refused:
        """A slot on the sandbox with the fewest leases, the first by name among equals."""
        self._expire(now_s)
        pool = len(self._sandboxes)
        if not pool:
            self.refused += 1
            return Refused(EMPTY, pool)
        name, sandbox = min(self._sandboxes.items(), key=lambda item: (len(item[1].leases), item[0]))
        if len(sandbox.leases) >= cap:
            self.refused += 1
            return Refused(SATURATED, pool)
        lease = next(self._numbers)
        sandbox.leases[lease] = now_s + ttl_s
        self._places[lease] = name
        self._next_expiry_s = min(self._next_expiry_s, now_s + ttl_s)
        self.granted += 1
        return Granted(lease, name, pool)

    def renew(self, leases: list[int], ttl_s: float, now_s: float) -> list[int]:
        """Keep those for another ``ttl_s``. Returns the ones that are lost already."""
        self._expire(now_s)
        for lease in leases:
            if lease in self._places:
                self._sandboxes[self._places[lease]].leases[lease] = now_s + ttl_s
        return [lease for lease in leases if lease not in self._places]

    def release(self, lease: int) -> bool:
        """Give the slot back; False when it was lost before."""
        name = self._places.pop(lease, None)
        if name is None:
            return False
        del self._sandboxes[name].leases[lease]
        return True

    def _expire(self, now_s: float) -> None:
        if now_s < self._next_expiry_s:
            return
        for name, sandbox in list(self._sandboxes.items()):
            if sandbox.present_until_s <= now_s:
                self.withdraw(name)
                continue
            for lease, until_s in list(sandbox.leases.items()):
                if until_s <= now_s:
                    del sandbox.leases[lease], self._places[lease]
                    self.expired += 1
        times = [s.present_until_s for s in self._sandboxes.values()]
        times += [until_s for s in self._sandboxes.values() for until_s in s.leases.values()]
        self._next_expiry_s = min(times, default=float("inf"))
