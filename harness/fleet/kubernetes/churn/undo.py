"""What must be put back, on disk before it is changed: a count to restore, an object to delete.

The file outlives the process: whoever comes next (the churn again, a teardown) puts back what it still names.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from harness.errors import ClusterError, FleetError
from harness.files import read_json, write_json
from harness.fleet.kubernetes.churn.calls import ClusterCalls, Thing

FILE = "churn-undo.json"
Say = Callable[[str], None]


class Undo:
    """The notes of one run. Every change of them is on disk before the method returns; raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.replicas: dict[Thing, int] = {}
        self.made: list[Thing] = []
        if path.exists():
            self._read()

    def _read(self) -> None:
        try:
            document = read_json(self.path)
            self.replicas = {Thing.parse(text): _count(count) for text, count in document["replicas"].items()}
            self.made = [Thing.parse(text) for text in document["made"]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise FleetError(
                f"{self.path} says what must be put back on the cluster, and cannot be read ({error}); put that back "
                "by hand, then remove the file"
            ) from error

    def __bool__(self) -> bool:
        return bool(self.replicas or self.made)

    def before_scale(self, thing: Thing, replicas: int) -> None:
        """Note the count to restore; one that is noted already is older, and stays."""
        self.replicas.setdefault(thing, replicas)
        self._write()

    def before_create(self, thing: Thing) -> None:
        """Note an object that is about to be made."""
        if thing not in self.made:
            self.made.append(thing)
        self._write()

    def done(self, thing: Thing) -> None:
        """Nothing of ``thing`` is left to put back."""
        self.replicas.pop(thing, None)
        if thing in self.made:
            self.made.remove(thing)
        self._write()

    def _write(self) -> None:
        if not self:
            self.path.unlink(missing_ok=True)
            return
        replicas = {str(thing): count for thing, count in self.replicas.items()}
        write_json(self.path, {"replicas": replicas, "made": [str(thing) for thing in self.made]})

    async def put_back(self, calls: ClusterCalls, say: Say, *, unsure: bool = False) -> bool:
        """Put all of it back, everything at once; whether it was. A line for each.

        ``unsure``: a call that was abandoned may still arrive after this, so that the notes stay for another time.
        """
        things = [*self.replicas, *reversed(self.made)]
        return all(await asyncio.gather(*(self._one(thing, calls, say, unsure) for thing in things)))

    async def _one(self, thing: Thing, calls: ClusterCalls, say: Say, unsure: bool) -> bool:
        count = self.replicas.get(thing)
        try:
            if count is None:
                await calls.delete(thing)
            else:
                await calls.scale(thing, count)
        except ClusterError as error:
            wanted = "delete it" if count is None else f"replicas={count}"
            say(f"UNDO FAILED {thing} {wanted} : {error}; it stands in {FILE} and is tried again at the next start")
            return False
        say(f"UNDO {thing} " + ("deleted" if count is None else f"restored to replicas={count}"))
        if not unsure:
            with contextlib.suppress(OSError):  # a note that stays is put back once more, which changes nothing
                self.done(thing)
        return True


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count of replicas")
    return value
