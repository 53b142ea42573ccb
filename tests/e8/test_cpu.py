"""CPU seconds of processes, of this machine, and of what a command tells."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.e8 import cpu
from harness.e8.cpu import Hook, descriptors, host_cpu_s, processes_cpu_s, rss_bytes
from harness.errors import SettingsError
from harness.processes import Identity, alive, identify, own_identity

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"
PARENT = f"""import subprocess, sys, time
living = subprocess.Popen([sys.executable, '-c', 'import time, sys; sys.stdin.read()'], stdin=subprocess.PIPE)
subprocess.run([sys.executable, '-c', {BURN!r}])
print('burnt', flush=True)
time.sleep(60)
"""


def test_the_time_of_children_counts_for_their_parent_where_that_is_asked() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        try:
            process = identify(parent.pid)
            assert process is not None
            assert parent.stdout is not None
            assert parent.stdout.readline() == b"burnt\n"
            spent = processes_cpu_s([process], "a sandbox", with_children=True)
            alone = processes_cpu_s([process], "a supervisor")
            assert spent.value is not None
            assert alone.value is not None
            assert spent.value - alone.value >= 0.29
        finally:
            parent.kill()
    gone = processes_cpu_s([process], "a sandbox")
    assert gone.value is None
    assert gone.reason == f"a process of a sandbox is gone (pid {process.pid})"


def test_a_reused_pid_is_not_the_process() -> None:
    here = own_identity()
    assert processes_cpu_s([Identity(here.pid, here.start_ticks + 1)], "x").value is None
    assert descriptors([Identity(here.pid, here.start_ticks + 1)]) is None
    assert rss_bytes([Identity(here.pid, here.start_ticks + 1)]) is None


def test_of_no_process_nothing_is_known() -> None:
    assert processes_cpu_s([], "the stub").reason == "no process of the stub is known"
    assert descriptors([]) is None
    assert rss_bytes([]) is None


def test_descriptors_are_counted() -> None:
    here = own_identity()
    before = descriptors([here])
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(5)]
    after = descriptors([here])
    for descriptor in opened:
        os.close(descriptor)
    assert before is not None
    assert after == before + 5
    assert (rss_bytes([here]) or 0) > 1 << 20


def test_a_busy_machine_is_seen_as_busy() -> None:
    before, until = host_cpu_s(), time.process_time() + 0.3
    while time.process_time() < until:
        pass
    after = host_cpu_s()
    assert before.value is not None
    assert after.value is not None
    assert after.value - before.value >= 0.25


@pytest.mark.parametrize(
    ("command", "several", "value"),
    [
        ("echo 41.5", False, 41.5),
        ("printf '12.5\\n2.5\\n'", True, 15.0),
        ("printf '12.5\\n2.5\\n'", False, None),
        ("echo 1+1", False, None),
        ("echo '12%'", True, None),
        ("echo '$(id)'", False, None),
        ("true", True, None),
        ("false", True, None),
        ("/no/such/command", False, None),
        ("sh -c 'echo 7; exit 3'", False, None),
        ("echo -5", False, None),
        ("printf '12\\n-5\\n'", True, None),
        ("echo 999999999999999999", False, None),
        ("seq 1000000", True, None),
    ],
)
def test_a_hook_prints_bare_numbers_or_nothing_is_known(command: str, several: bool, value: float | None) -> None:
    read = Hook("e8.sandbox_cpu_cmd", command).read(several=several)
    assert read.value == value
    assert (read.reason is None) == (value is not None)
    assert value is not None or "e8.sandbox_cpu_cmd" in str(read.reason)


def test_a_hook_whose_time_is_up_ends_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "HOOK_LIMIT_S", 0.5)
    pid, script = tmp_path / "pid", tmp_path / "hook.sh"
    script.write_text(f"sh -c 'echo $$ > {pid}; exec sleep 30' | cat\n")
    read = Hook("e8.host_cpu_cmd", f"sh {script}").read()
    assert read.reason == "e8.host_cpu_cmd gave nothing in 0.5 s"
    deadline_s = time.monotonic() + 5
    while (left := identify(int(pid.read_text()))) and alive(left) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert left is None or not alive(left)


def test_a_sum_keeps_what_it_is_made_of() -> None:
    assert Hook("e8.sandbox_cpu_cmd", "printf '12.5\\n2.5\\n'").read(several=True).parts == (12.5, 2.5)


def test_a_process_is_timed_more_finely_than_by_ticks() -> None:
    readings = set()
    until = time.process_time() + 0.005
    while time.process_time() < until:
        readings.add(processes_cpu_s([own_identity()], "this test").value)
    assert len(readings) > 2


@pytest.mark.parametrize("command", ["", "  ", "echo 'open"])
def test_a_hook_that_is_no_command_is_refused(command: str) -> None:
    with pytest.raises(SettingsError, match=r"e8\.host_cpu_cmd"):
        Hook("e8.host_cpu_cmd", command)
