"""``./doit``: the environment is made once, made again when it must be, and never half.

A stand-in for Python records what the launcher asks of it, so that nothing here needs a network or a real venv.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "dirname", "date", "cmp", "flock", "uname", "cp", "rm", "mkdir", "chmod", "cat", "sleep")

PYTHON = """#!/bin/sh
case "$*" in
-c*) exit 0 ;;
"-m venv .venv")
    echo venv >>"$CALLS"
    mkdir -p .venv/bin .venv/lib/python3.11/site-packages
    cp "$STAND_IN" .venv/bin/python ;;
"-m pip "*)
    for word; do last=$word; done
    echo "pip $last" >>"$CALLS"
    sleep "${PIP_SLEEPS_S:-0}"
    exit "${PIP_EXITS:-0}" ;;
"-m harness.entry"*)
    shift 2
    echo "in $PWD"
    for word; do echo "argument $word"; done ;;
esac
"""


class Checkout:
    """A folder with the launcher, lock files, and a PATH on which only what a test puts there is found."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "check out"
        self.bin = folder / "bin"
        self.calls_file = folder / "calls"
        self.root.mkdir()
        self.bin.mkdir()
        shutil.copy(ROOT / "doit", self.root / "doit")
        (self.root / "requirements.lock").write_text("a==1\n")
        (self.root / "requirements-dev.lock").write_text("a==1\nb==1\n")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(str(shutil.which(tool)))
        self.put("uname", "#!/bin/sh\necho Linux x86_64\n")
        self.put("python3.11", PYTHON)

    def put(self, name: str, script: str) -> None:
        """A program of that name on the PATH."""
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """The launcher, called from another folder, in a session of its own."""
        env = {
            "PATH": str(self.bin),
            "CALLS": str(self.calls_file),
            "STAND_IN": str(self.bin / "python3.11"),
            **environment,
        }
        return subprocess.Popen(
            [str(self.root / "doit"), *words],
            cwd="/",
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *words: str, **environment: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        process = self.start(*words, **environment)
        out, err = process.communicate(timeout=30)
        return process.returncode, out, err

    def calls(self) -> list[str]:
        """What was asked of Python and pip so far."""
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_second_start_installs_nothing(checkout: Checkout) -> None:
    assert checkout.run("list")[0] == 0
    code, _, err = checkout.run("list")
    assert (code, err) == (0, "")
    assert checkout.calls() == ["venv", "pip requirements.lock"]


def test_words_reach_the_graph_unchanged_from_any_folder(checkout: Checkout) -> None:
    code, out, _ = checkout.run("soak", "fault=stop target svc-2 at 15s for 5s; x", "", "*")
    lines = [f"in {checkout.root}", "argument soak", "argument fault=stop target svc-2 at 15s for 5s; x"]
    assert (0, [*lines, "argument ", "argument *"]) == (code, out.splitlines())


def test_a_changed_lock_file_brings_the_environment_up_to_it(checkout: Checkout) -> None:
    checkout.run("list")
    (checkout.root / "requirements.lock").write_text("a==2\n")
    assert "bringing .venv up to requirements.lock" in checkout.run("list")[2]
    assert checkout.calls() == ["venv", "pip requirements.lock", "pip requirements.lock"]


def test_developer_tasks_get_the_developer_lock_once(checkout: Checkout) -> None:
    checkout.run("list")
    checkout.run("test")
    checkout.run("lint")
    checkout.run("list")
    assert checkout.calls() == ["venv", "pip requirements.lock", "pip requirements-dev.lock"]


def test_a_start_killed_half_way_is_begun_anew(checkout: Checkout) -> None:
    process = checkout.start("list", PIP_SLEEPS_S="20")
    wait_until(lambda: "pip requirements.lock" in checkout.calls())
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    code, _, err = checkout.run("list")
    assert code == 0
    assert "making .venv" in err
    assert checkout.calls() == ["venv", "pip requirements.lock"] * 2


def test_two_starts_at_once_make_one_environment(checkout: Checkout) -> None:
    first = checkout.start("list", PIP_SLEEPS_S="1")
    wait_until(lambda: "pip requirements.lock" in checkout.calls())
    code, out, err = checkout.run("list")
    first.communicate()
    assert (first.returncode, code) == (0, 0)
    assert "waiting for it" in err
    assert "argument list" in out
    assert checkout.calls() == ["venv", "pip requirements.lock"]


def test_a_failed_install_is_said_and_tried_again(checkout: Checkout) -> None:
    code, out, err = checkout.run("list", PIP_EXITS="1")
    assert (code, out) == (4, "")
    assert "could not be installed" in err.splitlines()[-1]
    assert checkout.run("list")[0] == 0


def test_uv_is_used_where_it_is_and_pip_has_the_last_word(checkout: Checkout) -> None:
    checkout.put("uv", '#!/bin/sh\necho "uv $1 $2" >>"$CALLS"\nexit "${UV_EXITS:-0}"\n')
    assert "trying pip" in checkout.run("list", UV_EXITS="1")[2]
    checkout.run("test")
    assert checkout.calls() == ["venv", "uv pip install", "pip requirements.lock", "uv pip install"]


@pytest.mark.parametrize(
    ("python", "sentence"),
    [
        (None, "no Python 3.11 or newer was found"),
        ("#!/bin/sh\nexit 1\n", "no Python 3.11 or newer was found"),
        (
            '#!/bin/sh\ncase "$2" in *venv*) exit 1 ;; esac\necho 3.12\n',
            "Python 3.12 is here without its venv module; on Debian or Ubuntu: apt-get install python3.12-venv",
        ),
    ],
    ids=["none", "too old", "no venv"],
)
def test_a_machine_without_a_usable_python_is_told_what_to_install(
    checkout: Checkout, python: str | None, sentence: str
) -> None:
    (checkout.bin / "python3.11").unlink()
    if python:
        checkout.put("python3", python)
    code, out, err = checkout.run("soak")
    assert (code, out) == (4, "")
    assert len(err.splitlines()) == 1
    assert err.startswith(f"doit: {sentence}")
    assert "apt-get install" in err
    assert not (checkout.root / ".venv").exists()


def test_another_platform_is_refused_before_anything_is_made(checkout: Checkout) -> None:
    checkout.put("uname", "#!/bin/sh\necho Linux riscv64\n")
    code, _, err = checkout.run("soak")
    assert (code, len(err.splitlines())) == (4, 1)
    assert "Linux on x86_64" in err
    assert not (checkout.root / ".venv").exists()


def test_the_environment_finds_the_checkout_by_a_relative_path(checkout: Checkout) -> None:
    checkout.run("list")
    packages = checkout.root / ".venv/lib/python3.11/site-packages"
    assert checkout.root == (packages / (packages / "soak-harness.pth").read_text().strip()).resolve()
    assert os.access(checkout.root / ".venv/bin/harness", os.X_OK)


def wait_until(true: object, within_s: float = 10) -> None:
    """Poll ``true()``; fail the test when it stays false."""
    assert callable(true)
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
