"""A process is its pid and its start time: a reused pid, a zombie or a stranger is never taken for it."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time

from harness import processes


def sleeper(token: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], env={**os.environ, processes.TOKEN_VARIABLE: token})


def identity(child: subprocess.Popen[bytes]) -> processes.Identity:
    found = processes.identify(child.pid)
    assert found is not None
    return found


def test_a_reused_pid_is_another_process() -> None:
    """The same pid with another start time is neither alive nor hit by a signal."""
    child = sleeper()
    real = identity(child)
    stale = processes.Identity(real.pid, real.start_ticks - 1)
    assert processes.alive(real)
    assert not processes.alive(stale)
    assert not processes.send(stale, signal.SIGKILL)
    assert processes.end([stale], grace_s=0.1) == []
    assert child.poll() is None
    child.kill()
    child.wait()


def test_a_zombie_is_not_alive() -> None:
    child = sleeper()
    real = identity(child)
    child.kill()
    time.sleep(0.1)
    assert not processes.alive(real)
    child.wait()


def test_a_stopped_process_is_ended_and_a_deaf_one_is_killed() -> None:
    stopped = sleeper()
    deaf = subprocess.Popen(["sh", "-c", "trap '' TERM; echo on; while :; do sleep 0.1; done"], stdout=subprocess.PIPE)
    assert deaf.stdout is not None
    deaf.stdout.readline()
    stopped.send_signal(signal.SIGSTOP)
    both = [identity(stopped), identity(deaf)]
    assert processes.end(both, grace_s=0.5) == [both[1]]
    assert (stopped.wait(), deaf.wait()) == (-signal.SIGTERM, -signal.SIGKILL)
    deaf.stdout.close()


def test_a_process_nobody_wrote_down_is_found_by_its_mark() -> None:
    token = secrets.token_hex(8)
    marked, other = sleeper(token), sleeper(token + "x")
    assert processes.find_marked(token) == [identity(marked)]
    for child in (marked, other):
        child.kill()
        child.wait()
    assert processes.find_marked(token) == []


def test_a_name_with_spaces_and_parentheses_does_not_confuse_the_reader() -> None:
    child = subprocess.Popen(["bash", "-c", "exec -a 'x) R 1 (y' sleep 60"])
    assert processes.identify(child.pid) is not None
    child.kill()
    child.wait()
    assert processes.Identity.from_json(processes.own_identity().to_json()) == processes.own_identity()
