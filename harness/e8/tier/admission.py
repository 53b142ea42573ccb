"""What the supervisor knows of its workers' slots. Pure; a worker is a number here."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

SPURIOUS_WINDOW_NS = 1_000_000_000


@dataclass
class Slots:
    """One worker: sockets sent to it, sockets it took, slots in use as it told last."""

    sent: int = 0
    received: int = 0
    reported: int = 0

    @property
    def in_flight(self) -> int:
        """Slots in use: what it reported and what is still on its way to it."""
        return self.reported + self.sent - self.received


@dataclass
class Refusal:
    """A 429, and what the slots looked like then."""

    at_ns: int
    in_flight: dict[int, int]


class Admission:
    """W × S: the worker with the fewest slots in use gets the next socket, if it has one left."""

    def __init__(self, turns_per_worker: int) -> None:
        self._most = turns_per_worker
        self._slots: dict[int, Slots] = {}
        self._refusals: deque[Refusal] = deque(maxlen=1000)
        self.over_admission = 0
        self.spurious_refusals = 0

    def begin(self, worker: int) -> None:
        """A new process in this worker's place: nothing is in flight there."""
        self._slots[worker] = Slots()

    def end(self, worker: int) -> None:
        """The process is gone, and its turns with it."""
        self._slots.pop(worker, None)

    def in_flight(self, worker: int) -> int:
        """Slots in use; 0 for a worker that is not there."""
        return self._slots[worker].in_flight if worker in self._slots else 0

    def choose(self, without: frozenset[int] = frozenset()) -> int | None:
        """The worker for the next socket, the first among equals; None when every slot is in use."""
        free = [
            (slots.in_flight, worker)
            for worker, slots in self._slots.items()
            if worker not in without and slots.in_flight < self._most
        ]
        return min(free)[1] if free else None

    def sent(self, worker: int) -> None:
        """A socket was handed over."""
        self._slots[worker].sent += 1

    def refused(self, now_ns: int) -> None:
        """A socket was answered with 429."""
        self._refusals.append(Refusal(now_ns, {worker: slots.in_flight for worker, slots in self._slots.items()}))

    def report(self, worker: int, in_flight: int, received: int, at_ns: int) -> None:
        """A worker told its slots in use, as they were at ``at_ns``.

        More than was known is an over-admission (a second turn on a kept connection). Fewer, told before a refusal and
        heard after it, makes that refusal spurious.
        """
        slots = self._slots.get(worker)
        if slots is None:  # it drains
            return
        before = slots.in_flight
        slots.reported, slots.received = in_flight, received
        if slots.in_flight > before:
            self.over_admission += 1
        while self._refusals and self._refusals[0].at_ns < at_ns - SPURIOUS_WINDOW_NS:
            self._refusals.popleft()
        for refusal in list(self._refusals):
            if at_ns < refusal.at_ns and slots.in_flight < refusal.in_flight.get(worker, 0):
                self.spurious_refusals += 1
                self._refusals.remove(refusal)
