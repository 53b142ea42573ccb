"""A tier's life: it comes up whole or says why not, keeps its deadline, and leaves nothing behind however it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.e8.tier.control import CONTROL_HEADER, secret_file
from harness.e8.tier.handle import Tier, read_state, start, sweep
from harness.e8.tier.process import LIFETIME_VARIABLE, MARK_VARIABLE, PARENT_VARIABLE
from harness.e8.tier.settings import TierSettings
from harness.errors import FleetError
from harness.processes import Identity, alive, find_marked, send

pytestmark = pytest.mark.fleet


def launcher(tier: Any) -> Identity:
    return Identity.from_json(tier.tier.state["launcher"])


def gone(mark: str, limit_s: float = 15) -> bool:
    """True once nothing carries the mark."""
    deadline_s = time.monotonic() + limit_s
    while find_marked(mark, MARK_VARIABLE):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


def test_the_state_names_every_process_and_the_environment(make_tier: Callable[..., Any]) -> None:
    tier = make_tier(workers=2, sandboxes=3)
    state = tier.tier.state
    names = ["store", "stub", "relay", "sandbox-0", "sandbox-1", "sandbox-2", "supervisor"]
    assert sorted(each["name"] for each in state["processes"]) == sorted(names)
    assert all(alive(each) for each in tier.tier.identities("store", "stub", "relay", "sandbox", "supervisor"))
    marked = set(find_marked(state["mark"], MARK_VARIABLE))
    assert {worker["pid"] for worker in tier.metrics()["workers"]} <= {process.pid for process in marked}
    assert len(marked) == len(names) + 2
    assert state["env"]["SH_WORKERS"] == "2"
    assert state["settings"]["sandboxes"] == 3
    assert state["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert state["stopped_at"] is None


def test_everything_listens_on_loopback_only(make_tier: Callable[..., Any]) -> None:
    tier = make_tier()
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if " 0A " in line]
    ours = {f"{port:04X}" for port in tier.tier.state["ports"].values()}
    assert {each.partition(":")[0] for each in listening if each.partition(":")[2] in ours} == {"0100007F"}


def test_it_ends_at_its_deadline_and_the_state_says_so(holding: Callable[..., Any]) -> None:
    tier = holding(lifetime_s=6.0)
    tier.turns(1)
    assert gone(tier.tier.state["mark"])
    deadline_s = time.monotonic() + 5
    while alive(launcher(tier)):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    state = read_state(tier.tier.path)
    assert state["stopped_at"] is not None
    assert all(each["exit_status"] is not None for each in state["processes"])
    assert not any(Path(each["workspace"]).exists() for each in state["sandboxes"])
    with pytest.raises(FleetError, match="does not run any more"):
        Tier(tier.tier.path)


def test_a_killed_launcher_takes_all_but_running_commands_with_it_and_the_sweep_takes_those(
    holding: Callable[..., Any],
) -> None:
    tier = holding()
    tier.held_turns(1)
    send(launcher(tier), signal.SIGKILL)
    mark = tier.tier.state["mark"]
    deadline_s = time.monotonic() + 10
    while len(find_marked(mark, MARK_VARIABLE)) > 1:
        assert time.monotonic() < deadline_s, "only the command may be left"
        time.sleep(0.05)
    sweep(tier.tier.path)
    assert not find_marked(mark, MARK_VARIABLE)
    sweep(tier.tier.path)  # nothing left to do
    sweep(tier.tier.path.with_name("none.json"))


def test_when_the_supervisor_ends_the_tier_does(make_tier: Callable[..., Any]) -> None:
    tier = make_tier()
    send(tier.tier.identities("supervisor")[0], signal.SIGKILL)
    assert gone(tier.tier.state["mark"])


def test_a_frozen_worker_does_not_keep_a_tier_from_ending(make_tier: Callable[..., Any]) -> None:
    tier = make_tier()
    send(tier.worker(0), signal.SIGSTOP)
    began_s = time.monotonic()
    tier.tier.stop()
    assert time.monotonic() - began_s < 12
    assert not find_marked(tier.tier.state["mark"], MARK_VARIABLE)


def test_a_second_tier_of_the_same_state_file_ends_the_first(tmp_path: Path) -> None:
    settings = TierSettings(workers=1, sandboxes=1, lifetime_s=60)
    first = start(settings, state=tmp_path / "tier.json", mark="mark-one")
    try:
        second = start(settings, state=tmp_path / "tier.json", root=tmp_path / "elsewhere", mark="mark-two")
        assert not find_marked("mark-one")
        assert len(find_marked("mark-two")) == 7  # the run's mark is on the launcher too
        assert second.state["root"] == str(tmp_path / "elsewhere")
        assert first.state["launcher"] != second.state["launcher"]
    finally:
        sweep(tmp_path / "tier.json")
    assert not find_marked("mark-two")


def test_a_tier_ends_nothing_else_of_its_run(tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"], env=os.environ | {"HARNESS_TOKEN": "mark-run"})
    try:
        start(TierSettings(workers=1, sandboxes=1, lifetime_s=60), state=tmp_path / "tier.json", mark="mark-run")
        sweep(tmp_path / "tier.json")
        assert [process.pid for process in find_marked("mark-run")] == [bystander.pid]
    finally:
        bystander.kill()
        bystander.wait()


def test_a_taken_port_is_said_in_one_sentence_and_nothing_is_left(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = TierSettings(workers=1, sandboxes=1, port=taken.getsockname()[1], lifetime_s=30)
        with pytest.raises(FleetError, match="supervisor of the tier did not start"):
            start(settings, state=tmp_path / "tier.json", mark="mark-taken")
    assert not find_marked("mark-taken")
    assert not (tmp_path / "tier.json").exists()
    assert "Address already in use" in (tmp_path / "tier.d/log/supervisor.log").read_text()


def test_a_signal_while_it_starts_ends_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness.e8.tier", f"--state={tmp_path / 'tier.json'}"]
    process = subprocess.Popen(command, env=os.environ | {"HARNESS_TOKEN": "mark-early"})
    deadline_s = time.monotonic() + 20
    while len(find_marked("mark-early")) < 2:  # the launcher and its first child
        assert time.monotonic() < deadline_s
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0
    assert not find_marked("mark-early")


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--workers=0"], 3, "workers is 0"),
        (["--profile=1/2/3"], 3, "the profile is '1/2/3'"),
        (["--port=5000", "--admin-port=5000"], 3, "give two ports"),
        (["--schedule=dice"], 2, "--schedule"),
        (["--workers=two"], 2, "--workers"),
        (["--state=/proc/nowhere/tier.json"], 5, "the tier cannot use /proc/nowhere"),
    ],
)
def test_flags_that_do_not_fit_are_one_sentence(tmp_path: Path, flags: list[str], code: int, said: str) -> None:
    command = [sys.executable, "-m", "harness.e8.tier", f"--state={tmp_path / 'tier.json'}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == code
    assert said in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "tier.json").exists()


@pytest.mark.parametrize("text", [None, "{", "[]", '{"measured": "elsewhere"}'])
def test_a_state_file_that_is_none_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "tier.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(FleetError, match="is no state of a tier"):
        Tier(path)


def test_the_control_port_refuses_what_it_does_not_know(make_tier: Callable[..., Any], request_to: Any) -> None:
    tier = make_tier(sandboxes=1)
    control, secret = tier.tier.urls["control"], {CONTROL_HEADER: secret_file(tier.tier.path).read_text()}
    for path, body in [
        ("/stub", {"workers": "3"}),
        ("/stub", {"profile": 3}),
        ("/stub", {"profile": "1/2/3"}),
        ("/stub", {"schedule": "dice"}),
        ("/stub", b"{"),
        ("/exec", {"sandbox": "sandbox-0"}),
        ("/exec", {"sandbox": "nobody", "command": "true", "limit_s": 1}),
        ("/exec", {"sandbox": "sandbox-0", "command": "a\0b", "limit_s": 1}),
    ]:
        assert request_to(control, "POST", path, body, **secret).status == 400
    assert request_to(control, "GET", "/nothing", **secret).status == 404
    with pytest.raises(FleetError, match="no such sandbox"):
        tier.tier.run("nobody", "true")
    assert tier.tier.state["stub_generation"] == 1
    assert tier.turn().status == 200


def test_the_control_port_runs_nothing_for_who_does_not_know_its_secret(
    make_tier: Callable[..., Any], request_to: Any
) -> None:
    tier = make_tier()
    control, state, file = tier.tier.urls["control"], tier.tier.path, secret_file(tier.tier.path)
    command = {"sandbox": "sandbox-0", "command": "touch ran", "limit_s": 5}
    for given in ({}, {CONTROL_HEADER: ""}, {CONTROL_HEADER: "é"}, {CONTROL_HEADER: file.read_text()[:-1]}):
        for method, path, body in (("POST", "/exec", command), ("POST", "/stub", {}), ("GET", "/stats", None)):
            assert request_to(control, method, path, body, **given).status == 403
    assert not (Path(tier.tier.state["sandboxes"][0]["workspace"]) / "ran").exists()
    assert tier.tier.run("sandbox-0", "true").exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() not in state.read_text()  # which is evidence, and may be published
    tier.tier.stop()
    assert not file.exists()


def test_a_part_keeps_a_deadline_of_its_own_and_does_not_outlive_its_parent() -> None:
    command = [sys.executable, "-m", "harness.e8.tier.store"]
    own = os.environ | {LIFETIME_VARIABLE: "0.3"}
    assert subprocess.run(command, env=own, capture_output=True, timeout=20).returncode == 0
    orphan = os.environ | {PARENT_VARIABLE: "1"}
    done = subprocess.run(command, env=orphan, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1
    assert "was gone before this process began" in done.stderr
