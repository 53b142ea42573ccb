"""What a ladder measures: the embedded tier, or a deployment of somebody's, behind one surface."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from harness.e8.cpu import Hook, descriptors, host_cores, host_cpu_s, processes_cpu_s
from harness.e8.http import CONNECT_LIMIT_S, Base, parse_base
from harness.e8.metrics import Measured, read_metrics, read_profile, read_stub_stats
from harness.e8.readings import MOST, Reading
from harness.e8.record import EMBEDDED, STOP_REASON
from harness.e8.tier.handle import Tier
from harness.e8.tier.process import BOOT_ID
from harness.errors import FleetError
from harness.processes import Identity, identify

COUNT = re.compile(r"[0-9]{1,9}")
PARTS = ("supervisor", "stub", "relay", "store", "sandbox")
NO_PROFILE = "not to be had"
NOT_HERE = "only the embedded tier's processes can be looked at"


@dataclass(frozen=True)
class Target:
    """Where turns go, where the target tells of itself, and how what it does not tell is learned.

    ``tier`` is the embedded system under test; of any other target the processes are out of sight, and hooks, commands
    of the user's, tell CPU seconds and execs. ``pins`` are the run's, name → what was found; None: nobody looked.
    """

    base: Base
    admin: Base
    stub: Base
    tier: Tier | None = None
    sandbox_cpu: Hook | None = None
    host_cpu: Hook | None = None
    exec_count: Hook | None = None
    pins: Mapping[str, str] | None = None

    @property
    def measured(self) -> str:
        """The name under which its numbers are quoted."""
        return EMBEDDED if self.tier else self.base.url

    @property
    def placement(self) -> str:
        """Where the generator runs: an address can prove that it is on the target's machine, never that it is not."""
        return "on-box" if self.base.is_loopback else "undetermined"


def embedded(tier: Tier, *, pins: Mapping[str, str] | None = None) -> Target:
    """The embedded tier as a target."""
    urls = tier.urls
    return Target(
        parse_base(urls["base"], "e8.base"),
        parse_base(urls["metrics"], "e8.metrics"),
        parse_base(urls["stub"], "e8.stub"),
        tier,
        pins=pins,
    )


def somebodys(
    base: str,
    metrics: str,
    stub: str,
    *,
    sandbox_cpu: str,
    host_cpu: str,
    exec_count: str,
    pins: Mapping[str, str] | None = None,
) -> Target:
    """A deployment, from its settings; an empty hook is none. Raises SettingsError."""

    def hook(key: str, command: str) -> Hook | None:
        return Hook(key, command) if command else None

    return Target(
        parse_base(base, "e8.base"),
        parse_base(metrics, "e8.metrics"),
        parse_base(stub, "e8.stub"),
        sandbox_cpu=hook("e8.sandbox_cpu_cmd", sandbox_cpu),
        host_cpu=hook("e8.host_cpu_cmd", host_cpu),
        exec_count=hook("e8.exec_count_cmd", exec_count),
        pins=pins,
    )


@dataclass(frozen=True)
class Snapshot:
    """The target while nothing moves. Everything cumulative is here to be differenced.

    ``cpu_s`` is part → CPU seconds (supervisor, stub, relay, store, sandbox, worker, host). ``execs_per_turn`` is the
    stub's count since it began: number of execs → turns. ``at_s`` is when ``reading`` was had, on the monotonic clock.
    """

    reading: Reading
    cpu_s: Mapping[str, Measured]
    execs: Measured
    execs_per_turn: Mapping[str, int] | None
    store_connections: Measured
    descriptors: Measured
    system: Mapping[str, str]
    at_s: float = 0.0


def look_at_cpu(target: Target, reading: Reading) -> dict[str, Measured]:
    """CPU seconds now, of every part that can be seen. ``reading`` names the workers."""
    if target.tier is None:
        found = {part: Measured(None, NOT_HERE) for part in (*PARTS, "worker")}
        with ThreadPoolExecutor() as both:  # one after the other, the first would be told of a longer time
            sandbox = both.submit(_asked, target.sandbox_cpu, "e8.sandbox_cpu_cmd", several=True)
            found["host"] = host_cpu_s() if _is_here(target, reading) else _asked(target.host_cpu, "e8.host_cpu_cmd")
            found["sandbox"] = sandbox.result()
        return found
    found = {
        part: processes_cpu_s(target.tier.identities(part), part, with_children=part == "sandbox") for part in PARTS
    }
    return found | {"worker": processes_cpu_s(workers_of(reading), "worker"), "host": _host_cpu(reading)}


def _host_cpu(reading: Reading) -> Measured:
    """CPU time of this machine; unknown where the target may use a part of it alone: what the rest does would count."""
    cores = host_cores()
    if None in (cores, reading.cores) or cores == reading.cores:
        return host_cpu_s()
    part = f"the target has {reading.cores:g} of this machine's {cores} cores"
    return Measured(None, f"{part}, and the machine's CPU time is that of them all")


def look(target: Target, cpu_s: Mapping[str, Measured] | None = None) -> Snapshot:
    """Everything that is known of the target now; ``cpu_s`` when that was read before.

    CPU time is read last, so that little lies between it and the turns that come next.
    """
    reading, at_s = read_metrics(target.admin), time.monotonic()
    stats = read_stub_stats(target.stub)
    execs_per_turn = _counts(stats.get("execsPerTurn")) if stats else None
    found = Snapshot(
        reading=reading,
        cpu_s={},
        execs=_execs(target, execs_per_turn),
        execs_per_turn=execs_per_turn,
        store_connections=store_connections(target.tier),
        descriptors=_descriptors(target.tier, reading),
        system=system_of(target, reading),
        at_s=at_s,
    )
    if cpu_s is not None:
        return replace(found, cpu_s=cpu_s)
    cpu_s, latest = look_at_cpu(target, reading), read_metrics(target.admin)
    same = latest.pids == reading.pids
    return replace(found, cpu_s=cpu_s, reading=latest, at_s=time.monotonic()) if same else replace(found, cpu_s=cpu_s)


def silent(target: Target) -> str | None:
    """The first address of the target that gives no answer; None where all of them do. No turn is sent."""
    if not takes_connections(target.base):
        return target.base.url
    if read_metrics(target.admin).problem is not None:
        return f"{target.admin.url}/metrics"
    return None if read_profile(target.stub) is not None else f"{target.stub.url}/profile"


def system_of(target: Target, reading: Reading) -> dict[str, str]:
    """What was measured, by name: a ladder is of one system only while none of these changes."""
    found: dict[str, str] = {}
    if reading.problem is None:  # what was not told just now has not changed
        workers = ",".join(map(str, reading.pids)) if target.tier is None else _named(workers_of(reading))
        found |= {"environment": _canonical(reading.environment), "worker": workers}
        if (restarts := reading.counters.get("restarts")) is not None:
            found["restarts of workers"] = f"{restarts:g}"  # a worker without a pid is known by nothing else
    profile = read_profile(target.stub)
    found["profile"] = NO_PROFILE if profile is None else _canonical(profile)
    if target.pins is not None:
        found["pins"] = _canonical(dict(target.pins))
    if target.tier is not None:
        found |= {part: _named(target.tier.identities(part)) for part in PARTS}
        found["boot id"] = BOOT_ID.read_text().strip()
    return found


def facts(target: Target, reading: Reading, profile: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a ladder's record says of its target, each as the target told it, unparsed where it may be refused."""
    told = reading.environment
    return {
        "measured": target.measured,
        "workers": told.get("SH_WORKERS"),
        "turns_per_worker": told.get("SH_TURNS_PER_WORKER"),
        "cap": told.get("KAGENTI_SANDBOX_CAP"),
        "pool": reading.pool_size,
        "cores": reading.cores,
        "stub_url": target.stub.url,
        "stub_url_echoed": told.get("ANTHROPIC_BASE_URL"),
        "profile": profile,
        "lag_resolution_ms": reading.lag_resolution_ms,
        "success_by": STOP_REASON,
    }


def takes_connections(base: Base) -> bool:
    """Whether something listens there."""
    try:
        socket.create_connection((base.host, base.port), timeout=CONNECT_LIMIT_S).close()
    except OSError:
        return False
    return True


def _is_here(target: Target, reading: Reading) -> bool:
    """Whether the target runs on this machine: by its address, its cores, and every worker's pid being a process here.

    An address alone may be a tunnel's end.
    """
    here = target.base.is_loopback and reading.cores == host_cores() and bool(reading.pids)
    return here and target.host_cpu is None and all(pid is not None and identify(pid) for pid in reading.pids)


def _asked(hook: Hook | None, key: str, *, several: bool = False) -> Measured:
    return hook.read(several=several) if hook else Measured(None, f"{key} is not set")


def _execs(target: Target, execs_per_turn: Mapping[str, int] | None) -> Measured:
    if target.exec_count is not None:
        return target.exec_count.read(several=True)
    if execs_per_turn is None:
        return Measured(None, "the stub tells no usable count of execs and e8.exec_count_cmd is not set")
    return Measured(sum(int(execs) * turns for execs, turns in execs_per_turn.items()))


def _counts(value: object) -> dict[str, int] | None:
    if not isinstance(value, dict):
        return None
    usable = all(COUNT.fullmatch(name) and type(count) is int and 0 <= count <= MOST for name, count in value.items())
    return value if usable else None


def store_connections(tier: Tier | None) -> Measured:
    """Connections that the store has open."""
    if tier is None:
        return Measured(None, NOT_HERE)
    try:
        store = tier.stats().get("store") or {}
    except FleetError as error:
        return Measured(None, str(error))
    found = store.get("connections")
    return Measured(found) if isinstance(found, int) else Measured(None, "the store gave no answer")


def _descriptors(tier: Tier | None, reading: Reading) -> Measured:
    if tier is None:
        return Measured(None, NOT_HERE)
    if reading.problem is not None:
        return Measured(None, reading.problem)
    parts = {part: tier.identities(part) for part in ("supervisor", "store", "relay")}  # one each, while it runs
    counts = {part: descriptors(each) for part, each in (parts | {"worker": workers_of(reading)}).items()}
    known = [count for count in counts.values() if count is not None]
    if len(known) < len(counts):
        gone = ", ".join(part for part, count in counts.items() if count is None)
        return Measured(None, f"a process of the tier is gone or not told of ({gone})")
    return Measured(sum(known))


def workers_of(reading: Reading) -> list[Identity]:
    """The workers as processes of this machine; one that is gone has no start time and is found by nobody.

    None at all where one does not tell its pid: a sum of the others would pass for that of all.
    """
    pids = [pid for pid in reading.pids if pid is not None]
    return [identify(pid) or Identity(pid, 0) for pid in pids] if len(pids) == len(reading.pids) else []


def _named(processes: list[Identity]) -> str:
    return ",".join(f"{process.pid}/{process.start_ticks}" for process in sorted(processes))


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)
