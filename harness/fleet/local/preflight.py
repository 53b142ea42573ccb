"""Checks before a local fleet starts. Every one runs, each says what it saw, none starts anything that stays."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable

from harness.errors import FleetError
from harness.fleet.base import Check
from harness.fleet.local.config import LocalConfig
from harness.fleet.local.envoy import SHARED_MEMORY, envoy_binary
from harness.processes import find_marked

VERSION_LIMIT_S = 15.0
ACCESS_LINE_BYTES = 400  # a JSON line of the access log is about 330 bytes
DISK_MARGIN_BYTES = 512 << 20
FILES_PER_CONNECTION = 2  # towards the engine and towards the replica
FILES_MARGIN = 200
# CPU seconds per request over proxy, engine and replica: 1.44 cores at 2,400 rps, 0.51 at 800
CPU_S_PER_REQUEST = 0.0007


def preflight(config: LocalConfig) -> list[Check]:
    """All checks, in a fixed order."""
    looks: list[tuple[str, Callable[[LocalConfig], tuple[bool, str]]]] = [
        ("envoy", _envoy),
        ("loopback", _loopback),
        ("disk", _disk),
        ("files", _files),
        ("leftovers", _leftovers),
        ("shared memory", _shared_memory),
        ("sockets", _sockets),
        ("cores", _cores),
    ]
    checks = []
    for name, look in looks:
        try:
            ok, seen = look(config)
        except (OSError, FleetError) as error:
            ok, seen = False, str(error)
        checks.append(Check(name, ok, seen))
    return checks


def _envoy(config: LocalConfig) -> tuple[bool, str]:
    binary = envoy_binary()
    try:
        answer = subprocess.run(
            [str(binary), "--version"], capture_output=True, text=True, timeout=VERSION_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"{binary} --version did not end within {VERSION_LIMIT_S:g} s"
    said = " ".join(answer.stdout.split()) or answer.stderr.strip()[:200]
    return answer.returncode == 0, said


def _loopback(config: LocalConfig) -> tuple[bool, str]:
    addresses = [node.address for node in config.nodes] + [f"127.0.2.{i + 1}" for i in range(config.replicas)]
    for address in addresses:
        with socket.socket() as probe:
            try:
                probe.bind((address, 0))
            except OSError as error:
                return False, f"{address} cannot be used: {error}"
    return True, f"{len(addresses)} addresses of 127.0.0.0/8 can be used"


def expected_evidence_bytes(config: LocalConfig) -> int:
    """An upper estimate of what a run writes: its access logs, and room for everything else.

    Twice the access logs: the live files are copied into the evidence.
    """
    requests = sum(target.rate_rps for target in config.targets) * config.duration_s * len(config.nodes)
    lines = requests if config.access_log == "all" else 0
    return 2 * lines * ACCESS_LINE_BYTES + DISK_MARGIN_BYTES


def _disk(config: LocalConfig) -> tuple[bool, str]:
    free = shutil.disk_usage(config.folder.root).free
    needed = expected_evidence_bytes(config)
    return free >= needed, f"{free / 2**30:.1f} GiB free, up to {needed / 2**30:.1f} GiB wanted"


def _files(config: LocalConfig) -> tuple[bool, str]:
    """The supervisor raises the soft limit to the hard one, which only root can raise further."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FILES_PER_CONNECTION * config.connections * len(config.targets) + FILES_MARGIN
    if hard >= needed or hard == resource.RLIM_INFINITY:
        return True, f"{hard} open files allowed, one proxy may want {needed}"
    fits = max(1, (hard - FILES_MARGIN) // (FILES_PER_CONNECTION * len(config.targets)))
    return False, (
        f"{hard} open files allowed, one proxy may want {needed}: raise the hard limit, "
        f"or start another run with connections={fits}"
    )


def _leftovers(config: LocalConfig) -> tuple[bool, str]:
    marked = find_marked(config.token)
    pids = ", ".join(str(process.pid) for process in marked)
    return not marked, f"processes of this run are still there: pid {pids}" if marked else "none"


def _shared_memory(config: LocalConfig) -> tuple[bool, str]:
    writable = os.access(SHARED_MEMORY, os.W_OK | os.X_OK)
    return writable, f"{SHARED_MEMORY}, where Envoy keeps what survives a hot restart"


def _sockets(config: LocalConfig) -> tuple[bool, str]:
    folder = config.socket_dir.parent
    with tempfile.TemporaryDirectory(dir=folder):
        return True, f"Unix sockets will stand in {config.socket_dir}"


def _cores(config: LocalConfig) -> tuple[bool, str]:
    rate_rps = sum(target.rate_rps for target in config.targets) * len(config.nodes)
    cores = len(os.sched_getaffinity(0))
    wanted = rate_rps * CPU_S_PER_REQUEST
    seen = f"{rate_rps} rps want about {wanted:.1f} of {cores} cores"
    return wanted <= cores, seen
