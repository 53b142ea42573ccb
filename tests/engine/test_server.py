"""The engine process and its wire: what a driver says, what it hears, and when the engine ends."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import __version__
from harness.errors import EXIT_STAGE, EXIT_USAGE
from tests.engine.conftest import ROOT, Driver, EngineProcess, FixedServer, execution_json

pytestmark = pytest.mark.fleet
StartEngine = Callable[..., EngineProcess]
Connect = Callable[[EngineProcess], Driver]


def test_the_engine_says_hello_runs_several_executions_and_gives_each_its_result(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer
) -> None:
    engine = start_engine("--proxy", f"127.0.0.1:{fixed_server.port}", "--max-executions", "4")
    driver = connect(engine)
    assert driver.read() == {
        "type": "hello",
        "name": "node-a",
        "version": __version__,
        "max_executions": 4,
        "pid": engine.process.pid,
    }
    start_at_unix_ns = time.time_ns() + 200_000_000
    shares = {"a": 30, "b": 90, "c": 10}
    for key, rate_rps in shares.items():
        execution = execution_json(label=f"mesh/{key}", rate_rps=rate_rps, duration_s=2)
        driver.send({"type": "start", "id": key, "execution": execution, "start_at_unix_ns": start_at_unix_ns})
        assert driver.read() == {"type": "accepted", "id": key}
    progress: list[dict[str, Any]] = []
    results: dict[str, dict[str, Any]] = {}
    while len(results) < 3:
        message = driver.read()
        if message["type"] == "progress":
            progress.append(message)
        else:
            results[message["id"]] = message
    assert {message["id"] for message in progress} == set(shares)
    assert {key: result["counters"] for key, result in results.items()} == {
        key: {"benchmark.http_2xx": 2 * rate_rps} for key, rate_rps in shares.items()
    }
    assert fixed_server.requests() == 2 * sum(shares.values())
    assert len({result["started_at"] for result in results.values()}) == 1


def test_a_start_over_the_cap_is_refused_and_a_slot_is_free_again_after_a_result(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer
) -> None:
    engine = start_engine("--max-executions", "1")
    first, second = connect(engine), connect(engine)
    first.start("1", url=fixed_server.url, duration_s=0.5)
    assert first.read("hello")["type"] == "accepted"
    second.start("1", url=fixed_server.url)
    refused = second.read("hello")
    assert (refused["type"], refused["id"], refused["reason"]) == ("refused", "1", "execution_cap")
    assert "refused a start because the engine is at its cap" in refused["error"]
    first.result()
    second.start("2", url=fixed_server.url)
    assert second.result()["id"] == "2"


def test_what_is_wrong_on_the_wire_is_answered_and_the_engine_goes_on(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer, tmp_path: Path
) -> None:
    driver = connect(start_engine("--log", str(tmp_path / "engine.log")))
    wrong: list[tuple[Any, str | None, str]] = [
        (b"{nonsense\n", None, "not JSON"),
        (b"\xff\xfe\n", None, "not JSON"),
        (b"[" * 100_000 + b"\n", None, "not JSON"),
        (
            {"type": "start", "id": "\ud800", "execution": execution_json(label="\ud800", rate_rps=0)},
            "\ud800",
            "rate_rps",
        ),
        ([], None, "type None"),
        ({"type": "pause"}, None, "'pause'"),
        ({"type": ["start"]}, None, "type"),
        ({"type": "start"}, None, "id"),
        ({"type": "start", "id": True}, None, "id"),
        ({"type": "start", "id": "x"}, "x", "execution"),
        ({"type": "start", "id": "x", "execution": execution_json(rate_rps=0)}, "x", "rate_rps"),
        ({"type": "start", "id": "x", "execution": execution_json()}, "x", "no --proxy"),
        (
            {
                "type": "start",
                "id": "x",
                "execution": execution_json(url=fixed_server.url),
                "start_at_unix_ns": time.time_ns() + 10**16,
            },
            "x",
            "ahead",
        ),
    ]
    for message, key, named in wrong:
        driver.send(message)
        answer = driver.read("hello")
        assert (answer["type"], answer["id"]) == ("failed", key)
        assert named in answer["error"]
    driver.start("x", url=fixed_server.url, duration_s=0.5)
    driver.start("x", url=fixed_server.url)
    assert driver.read()["type"] == "accepted"
    assert "running already" in driver.read()["error"]
    assert driver.result()["counters"] == {"benchmark.http_2xx": 50}


def test_a_line_over_the_limit_ends_the_connection_with_a_word(start_engine: StartEngine, connect: Connect) -> None:
    driver = connect(start_engine())
    driver.send(b"x" * (9 << 20) + b"\n")
    assert "bytes" in driver.read("hello")["error"]
    with pytest.raises((EOFError, ConnectionError)):
        driver.read()


def test_cancel_ends_all_with_partial_results(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer
) -> None:
    driver = connect(start_engine())
    for key in (1, 2):
        driver.start(key, url=fixed_server.url, duration_s=40)
    driver.read("hello", "accepted")  # a second has gone by
    driver.send({"type": "cancel"})
    results = [driver.result(), driver.result()]
    assert {result["id"] for result in results} == {1, 2}
    for result in results:
        assert result["harness"]["cancelled"] is True
        assert result["harness"]["planned"] == 4000
        assert 1 <= result["counters"]["benchmark.http_2xx"] == result["harness"]["released"] < 4000


def test_a_load_whose_driver_is_gone_ends(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer
) -> None:
    engine = start_engine("--max-executions", "1")
    lost = Driver(engine.address)
    lost.start(url=fixed_server.url, duration_s=60)
    assert lost.read("hello", "accepted")["type"] == "progress"
    lost.close()
    next_driver = connect(engine)
    deadline = time.monotonic() + 10
    while True:
        next_driver.start("2", url=fixed_server.url)
        if next_driver.read("hello")["type"] == "accepted":
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    next_driver.result()
    before = fixed_server.requests()
    time.sleep(0.3)
    assert fixed_server.requests() == before


def test_sigterm_delivers_partial_results_and_exits_0(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer, tmp_path: Path
) -> None:
    engine = start_engine("--log", str(tmp_path / "engine.log"))
    driver = connect(engine)
    driver.start(url=fixed_server.url, duration_s=60)
    driver.read("hello", "accepted")
    engine.process.terminate()
    assert driver.result()["harness"]["cancelled"] is True
    with pytest.raises((EOFError, ConnectionError)):
        driver.read("progress")
    assert engine.process.wait(10) == 0
    log = (tmp_path / "engine.log").read_text()
    for event in ("listening on", "driver connected", "start '1'", "ending: SIGTERM", "result '1'", "ended"):
        assert event in log


def test_an_engine_ends_by_itself_at_the_end_of_its_lifetime(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer
) -> None:
    engine = start_engine(lifetime_s=1)
    driver = connect(engine)
    driver.start(url=fixed_server.url, duration_s=60)
    assert driver.result()["harness"]["cancelled"] is True
    assert engine.process.wait(10) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["--listen", "10.0.0.1:1"], EXIT_USAGE, "no address of this machine"),
        (["--listen", "unix:/tmp/x"], EXIT_USAGE, "not a Unix socket"),
        (["--listen", "127.0.0.1:0", "--proxy", "example:80"], EXIT_USAGE, "no address of this machine"),
        (["--listen", "127.0.0.1:0", "--max-executions", "0"], EXIT_USAGE, "--max-executions"),
        (["--listen", "127.0.0.1:0", "--address-file", "/nonexistent/a"], EXIT_USAGE, "cannot write"),
    ],
)
def test_a_command_line_that_cannot_work_ends_in_one_sentence(arguments: list[str], code: int, named: str) -> None:
    command = [sys.executable, "-m", "harness.engine", "--name", "node-a", "--lifetime-s", "5", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == code
    assert named in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_taken_port_ends_in_one_sentence(start_engine: StartEngine) -> None:
    command = [sys.executable, "-m", "harness.engine", "--name", "b", "--lifetime-s", "5"]
    command += ["--listen", start_engine().address]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == EXIT_STAGE
    assert "cannot listen" in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_has_an_example() -> None:
    command = [sys.executable, "-m", "harness.engine", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    assert "example:" in done.stdout


def test_a_log_on_a_full_disk_does_not_end_a_load(
    start_engine: StartEngine, connect: Connect, fixed_server: FixedServer
) -> None:
    driver = connect(start_engine("--log", "/dev/full"))
    driver.start(url=fixed_server.url)
    assert driver.result()["counters"] == {"benchmark.http_2xx": 10}
