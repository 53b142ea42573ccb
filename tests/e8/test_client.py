"""The generator as a process of its own, against a stand-in that answers as it is told."""

from __future__ import annotations

import dataclasses
import itertools
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.e8.client import EXIT_ORPHANED, Load
from harness.e8.generator import GeneratorProcess
from harness.e8.turns import Turn, read_turns
from harness.errors import LoadError
from harness.processes import alive, identify, send
from tests.e8.standin import GOOD, StandIn, standing


@pytest.fixture
def target() -> Iterator[StandIn]:
    with standing() as state:
        yield state


def load_of(target: StandIn, **more: Any) -> Load:
    defaults = Load(base=target.url, c=3, turn_timeout_s=5, deadline_s=20, turns_per_client=4, warmup_turns=2)
    return dataclasses.replace(defaults, **more)


def generate(load: Load, folder: Path) -> tuple[dict[str, Any], list[Turn]]:
    """Run a load to its end."""
    turns = folder / "turns.jsonl"
    with GeneratorProcess(load, turns, folder / "generator.log", mark="test") as generator:
        generator.wait_warm()
        generator.go()
        done = generator.wait_done(load.deadline_s + 5)
    assert done is not None
    return done, read_turns(turns)


def test_each_client_sends_its_turns_back_to_back_on_new_connections(target: StandIn, tmp_path: Path) -> None:
    done, turns = generate(load_of(target), tmp_path)
    assert (done["ended"], done["attempts"], done["planned"]) == ("all turns", 12, 12)
    assert (done["warm_up_turns"], done["warm_up_ok"]) == (6, 6)
    assert len(target.turns) == target.connections == 18
    assert Counter(turn["x-sh-session-id"] for turn in target.turns) == {f"e8-c3-s{i}": 6 for i in (1, 2, 3)}
    assert target.most_in_flight == 3
    assert Counter(turn.client for turn in turns) == {1: 4, 2: 4, 3: 4}
    assert all(turn.ok and turn.ms >= 5 and turn.stop == "stop" for turn in turns)
    for client in (1, 2, 3):
        mine = sorted((turn.start_ms, turn.start_ms + turn.ms) for turn in turns if turn.client == client)
        assert all(start >= end for (_, end), (start, _) in itertools.pairwise(mine))
    assert done["wall_ms"] == pytest.approx(max(turn.start_ms + turn.ms for turn in turns), abs=5)
    assert done["cpu_s"] > 0


def test_success_is_200_and_a_stop_reason_that_is_no_error(target: StandIn, tmp_path: Path) -> None:
    answers = [
        (200, GOOD),
        (200, {"stopReason": "error", "errorMessage": "Connection error."}),
        (200, {"response": "no stop reason"}),
        (200, b"<html>"),
        (429, {"error": "overloaded"}),
        (503, {"error": "no sandbox"}),
        (500, b""),
        (200, {"stopReason": "stop", "errorMessage": "model call failed"}),
        (200, {"stopReason": "ERROR"}),
        (200, {"stopReason": " Aborted "}),
        (200, {"stopReason": ""}),
        (200, {"stopReason": "toolUse", "errorMessage": ""}),
    ]
    target.reply = lambda number: answers[number - 1]
    _, turns = generate(load_of(target, c=1, turns_per_client=12, warmup_turns=0), tmp_path)
    assert [(turn.code, turn.ok) for turn in turns] == [
        ("200", True),
        ("200", False),
        ("200", False),
        ("200", False),
        ("429", False),
        ("503", False),
        ("500", False),
        ("200", False),
        ("200", False),
        ("200", False),
        ("200", False),
        ("200", True),
    ]
    assert turns[1].error == "Connection error."
    assert turns[4].error == "overloaded"


def test_a_turn_that_hangs_is_an_attempt_with_code_000_at_its_deadline(target: StandIn, tmp_path: Path) -> None:
    target.delay_s = 1.5
    done, turns = generate(load_of(target, c=2, turns_per_client=1, turn_timeout_s=0.3, warmup_turns=0), tmp_path)
    assert done["attempts"] == 2
    assert [(turn.code, turn.ok, turn.error) for turn in turns] == [("000", False, "no answer in 0.3 s")] * 2
    assert all(290 <= turn.ms < 1400 for turn in turns)


def test_a_refused_connection_is_code_000(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take the port
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        load = Load(base=url, c=1, turn_timeout_s=5, deadline_s=20, turns_per_client=2, warmup_turns=0)
        done, turns = generate(load, tmp_path)
    assert [turn.code for turn in turns] == ["000", "000"]
    assert done["local_errors"] == 0


def test_the_rungs_deadline_cuts_what_is_in_flight_and_starts_nothing_more(target: StandIn, tmp_path: Path) -> None:
    target.delay_s = 0.4
    done, turns = generate(load_of(target, c=2, turns_per_client=50, deadline_s=1, warmup_turns=0), tmp_path)
    assert (done["ended"], done["attempts"], done["planned"]) == ("rung deadline", len(turns), 100)
    assert Counter(turn.code for turn in turns) == {"200": 4, "000": 2}
    assert 950 <= done["wall_ms"] < 1500


def test_a_load_of_a_set_time(target: StandIn, tmp_path: Path) -> None:
    done, turns = generate(load_of(target, turns_per_client=None, duration_s=0.5), tmp_path)
    assert (done["ended"], done["planned"]) == ("time is up", None)
    assert len(turns) > 20
    assert 450 <= done["wall_ms"] < 900


def test_a_busy_generator_shows_in_its_own_cpu_time(target: StandIn, tmp_path: Path) -> None:
    idle, _ = generate(load_of(target), tmp_path)
    busy, _ = generate(load_of(target, burn_ms=20.0), tmp_path)
    assert busy["cpu_s"] >= 12 * 0.02
    assert busy["cpu_s"] / busy["wall_ms"] * 1000 > 0.5 > idle["cpu_s"]


def test_a_generator_whose_caller_is_gone_ends(target: StandIn, tmp_path: Path) -> None:
    load = load_of(target, turns_per_client=None, duration_s=60, deadline_s=90)
    generator = GeneratorProcess(load, tmp_path / "turns.jsonl", tmp_path / "log", mark="test")
    generator.wait_warm()
    generator.go()
    generator._process.stdin.close()  # type: ignore[union-attr]
    assert generator._process.wait(5) == EXIT_ORPHANED
    generator._process.stdout.close()  # type: ignore[union-attr]


def test_a_killed_generator_is_told_by_its_last_words_or_its_exit(target: StandIn, tmp_path: Path) -> None:
    load = load_of(target, turns_per_client=None, duration_s=60, deadline_s=90)
    with GeneratorProcess(load, tmp_path / "turns.jsonl", tmp_path / "log", mark="test") as generator:
        generator.wait_warm()
        generator.go()
        send(generator.identity, signal.SIGKILL)
        with pytest.raises(LoadError, match="ended before its load was done"):
            generator.wait_done(5)
    assert not alive(generator.identity)
    assert identify(generator.identity.pid) is None


def test_an_unusable_load_is_one_sentence(tmp_path: Path) -> None:
    load = Load(base="http://no-such-host.invalid:1", c=1, turn_timeout_s=1, deadline_s=5, turns_per_client=1)
    with (
        GeneratorProcess(load, tmp_path / "turns.jsonl", tmp_path / "log", mark="test") as generator,
        pytest.raises(LoadError, match="the generator cannot run its load"),
    ):
        generator.wait_warm()
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_turns_file_with_a_torn_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_text(Turn(1, 0.0, 2.5, "200", "stop").to_line() + '\n{"client": 1, "sta')
    with pytest.raises(ValueError, match="line 2 is no turn"):
        read_turns(path)


def test_a_rung_takes_no_longer_than_its_turns(target: StandIn, tmp_path: Path) -> None:
    began = time.monotonic()
    generate(load_of(target), tmp_path)
    assert time.monotonic() - began < 5
