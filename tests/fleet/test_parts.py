"""The parts under the fleet: configuration, children, the control socket, endpoints, samples, sweep."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import processes
from harness.errors import FleetError
from harness.files import read_json, write_json
from harness.fleet.local import control, endpoints, envoy
from harness.fleet.local.children import Child, spawn
from harness.fleet.local.config import LocalConfig, make_socket_dir, node_configs, read_config
from harness.fleet.local.document import FleetDocument
from harness.fleet.local.resources import Sampler, usage
from harness.fleet.local.sweep import sweep
from tests.fleet.conftest import MakeRun

MARK = "mark-of-a-test"
SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


# configuration


def test_every_node_has_an_address_of_its_own() -> None:
    nodes = node_configs(5)
    assert [node.name for node in nodes] == ["node-a", "node-b", "node-c", "node-d", "node-e"]
    assert len({node.address for node in nodes}) == 5


@pytest.mark.parametrize("count", [0, 27])
def test_a_number_of_nodes_that_does_not_fit_is_refused(count: int) -> None:
    with pytest.raises(FleetError, match="1 to 26"):
        node_configs(count)


def test_a_run_without_a_key_is_refused_by_its_name(make_run: MakeRun) -> None:
    folder = make_run()
    whole = read_json(folder.run_json)
    settings = {key: value for key, value in whole["settings"].items() if key != "proxy.drain_s"}
    write_json(folder.run_json, whole | {"settings": settings})
    with pytest.raises(FleetError, match=r"run\.json has no 'proxy\.drain_s'"):
        read_config(folder)
    write_json(folder.run_json, whole)


def test_sockets_stand_in_a_short_private_folder(config: LocalConfig) -> None:
    assert len(str(config.socket_dir)) < 60
    make_socket_dir(config.socket_dir)
    assert config.socket_dir.stat().st_mode & 0o777 == 0o700
    make_socket_dir(config.socket_dir)  # ours: taken again


def test_a_folder_that_is_none_of_ours_is_not_taken(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(FleetError, match="not ours"):
        make_socket_dir(link)


# children


def test_an_exit_is_seen_with_its_status(tmp_path: Path) -> None:
    async def run() -> list[int | None]:
        seen: list[Child] = []
        commands = [["false"], SLEEPER]
        children = [
            spawn(command, name="x", kind="x", node=None, token=MARK, log=tmp_path / "log", on_exit=seen.append)
            for command in commands
        ]
        assert await children[0].wait(10)
        await children[1].end(5)
        return [child.exit_status for child in children]

    assert asyncio.run(run()) == [1, -signal.SIGTERM]


def test_a_stopped_child_that_ignores_sigterm_is_still_ended(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(15, 1); open('deaf', 'w').close(); time.sleep(60)"

    async def run() -> int | None:
        child = spawn(
            [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r}); {deaf}"],
            name="x", kind="x", node=None, token=MARK, log=tmp_path / "log", on_exit=lambda _: None,
        )  # fmt: skip
        while not (tmp_path / "deaf").exists():
            await asyncio.sleep(0.02)
        child.signal(signal.SIGSTOP)
        await child.end(0.2)
        return child.exit_status

    assert asyncio.run(run()) == -signal.SIGKILL


def test_children_die_with_a_killed_supervisor_but_the_driver_does_not(
    tmp_path: Path, until: Callable[[Callable[[], bool], float], None]
) -> None:
    """PDEATHSIG for targets, proxies and engines; driver and churn outlive it to write what they have."""
    program = f"""
import asyncio, sys
from pathlib import Path
from harness.fleet.local.children import spawn
async def run():
    for name, dies in (("dies", True), ("lives", False)):
        child = spawn({SLEEPER!r}, name=name, kind="x", node=None, token="death-test", log=Path("log"),
                      on_exit=lambda _: None, dies_with_us=dies)
        Path(name).write_text(f"{{child.identity.pid}} {{child.identity.start_ticks}}")
    Path("ready").touch()
    await asyncio.sleep(60)
asyncio.run(run())
"""
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=os.environ)
    try:
        until(lambda: (tmp_path / "ready").exists(), 20)
    finally:
        parent.kill()
        parent.wait()
    dies, lives = (processes.Identity(*map(int, (tmp_path / name).read_text().split())) for name in ("dies", "lives"))
    until(lambda: not processes.alive(dies), 5)
    assert processes.alive(lives)
    processes.end([lives], grace_s=5)


# control socket


def test_requests_are_answered_and_a_refusal_is_a_sentence(tmp_path: Path) -> None:
    async def handler(request: dict[str, Any]) -> dict[str, Any]:
        if request["cmd"] == "no":
            raise FleetError("not now")
        return {"echo": request["cmd"]}

    async def run() -> list[dict[str, Any]]:
        server = await control.serve(tmp_path / "c", handler)
        loop = asyncio.get_running_loop()
        ask = [
            loop.run_in_executor(None, lambda c=c: control.ask(tmp_path / "c", {"cmd": c}, limit_s=5))
            for c in ("yes", "no")
        ]
        answers = [await one for one in ask]
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "c"))
        writer.write(b"nonsense\n")
        answers.append(json.loads(await reader.readline()))
        writer.close()
        server.close()
        return answers

    yes, no, nonsense = asyncio.run(run())
    assert yes == {"ok": True, "echo": "yes"}
    assert no == {"ok": False, "error": "not now"}
    assert nonsense["ok"] is False


def test_nobody_there_is_a_fleet_error(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="does not answer"):
        control.ask(tmp_path / "nobody", {"cmd": "status"}, limit_s=1)


# endpoints and Envoy's configuration


@given(st.one_of(st.integers(1, 65535).map(lambda port: f"127.0.2.1:{port}"), st.just("unix:/tmp/a/b.sock")))
def test_an_address_survives_the_way_through_envoys_form(address: str) -> None:
    assert endpoints.our_form(endpoints.socket_address(address)) == address


@pytest.mark.fleet
@pytest.mark.parametrize("access_log", ["all", "errors"])
def test_envoy_itself_takes_the_bootstrap(make_run: MakeRun, tmp_path: Path, access_log: str) -> None:
    config = read_config(make_run(access_log=access_log))
    for target in config.targets:
        endpoints.write_endpoints(tmp_path, target.name, ["127.0.2.1:1", "unix:/tmp/x.sock"])
    file = tmp_path / "bootstrap.json"
    write_json(file, envoy.bootstrap(config, config.nodes[0], port=10000, admin=tmp_path / "admin", endpoints=tmp_path))
    said = subprocess.run(
        [envoy.envoy_binary(), "--mode", "validate", "-c", file],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert said.returncode == 0, said.stderr


def test_the_route_outlives_the_clients_timeout_and_nothing_is_retried(config: LocalConfig, tmp_path: Path) -> None:
    """A proxy that answered before the client gave up, or that tried twice, would hide what happened."""
    text = json.dumps(envoy.bootstrap(config, config.nodes[0], port=1, admin=tmp_path / "a", endpoints=tmp_path))
    assert f'"timeout": "{config.request_timeout_s + 5:g}s"' in text
    assert "retry" not in text


def test_only_the_first_epoch_chooses_a_base_id(config: LocalConfig, tmp_path: Path) -> None:
    first = envoy.command(config, tmp_path / "b", epoch=0, base_id_file=tmp_path / "id", base_id=None)
    later = envoy.command(config, tmp_path / "b", epoch=3, base_id_file=tmp_path / "id", base_id=77)
    assert "--use-dynamic-base-id" in first and "--base-id" not in first
    assert later[later.index("--base-id") + 1] == "77" and later[later.index("--restart-epoch") + 1] == "3"


# samples


def test_a_sample_holds_cpu_and_memory_of_what_runs(tmp_path: Path) -> None:
    Sampler(tmp_path / "resources.jsonl", list).sample()
    (row,) = [json.loads(line) for line in (tmp_path / "resources.jsonl").read_text().splitlines()]
    assert row["pid"] == os.getpid() and row["cpu_s"] > 0 and row["rss_bytes"] > 1 << 20
    assert usage(2**22 + 1) is None


# fleet.json


def test_fleet_json_follows_changes_and_gives_its_reserve_back(tmp_path: Path) -> None:
    contents = {"n": 0}

    async def run() -> dict[str, Any]:
        document = FleetDocument(tmp_path / "fleet.json", lambda: dict(contents))
        document.set_state("ready")
        keeper = asyncio.create_task(document.keep())
        contents["n"] = 1
        document.changed()
        await asyncio.sleep(0.3)
        keeper.cancel()
        seen: dict[str, Any] = read_json(tmp_path / "fleet.json")
        document.set_state("failed", "why")
        return seen

    assert asyncio.run(run()) == {"schema": 1, "state": "ready", "reason": "", "n": 1}
    assert read_json(tmp_path / "fleet.json")["reason"] == "why"
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.json"]


# sweep


def test_a_sweep_ends_what_is_recorded_or_marked_and_nothing_else(make_run: MakeRun) -> None:
    config = read_config(make_run())
    plain = subprocess.Popen(SLEEPER)
    marked = subprocess.Popen(SLEEPER, env=os.environ | {processes.TOKEN_VARIABLE: config.token})
    other = subprocess.Popen(SLEEPER)
    try:
        time.sleep(0.1)
        recorded = processes.identify(plain.pid)
        reused = processes.identify(other.pid)
        assert recorded and reused
        entries = [
            {"name": "engine-node-a", **recorded.to_json()},
            {"name": "somebody who had this pid before", "pid": reused.pid, "start_ticks": reused.start_ticks - 1},
        ]
        shared = envoy.SHARED_MEMORY / "envoy_shared_memory_9999999990"
        shared.touch()
        make_socket_dir(config.socket_dir)
        (config.socket_dir / "node-b.1.base_id").write_text("999999999")
        write_json(config.folder.fleet_json, {"processes": entries, "nodes": []})
        lines = sweep(config)
        assert plain.wait(5) == marked.wait(5) == -signal.SIGTERM
        assert other.poll() is None
        assert not shared.exists() and not config.socket_dir.exists()
        assert len(lines) == 4 and any("engine-node-a" in line for line in lines)
        assert sweep(config) == []
    finally:
        for process in (plain, marked, other):
            process.kill()
            process.wait()
