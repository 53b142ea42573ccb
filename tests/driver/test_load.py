"""The driver against stand-in engines that obey or break the protocol on command."""

from __future__ import annotations

import asyncio
import json
import os
import re
from dataclasses import replace
from typing import Any

import pytest


def test_stand_in_two_healthy_engines_pass(bench: Any, healthy_engine: Any) -> None:
    executions = asyncio.run(bench.run(healthy_engine, healthy_engine))
    assert [e.passed for e in executions] == [True, True]
    report = bench.report()
    assert report["pass"] is True
    first = report["executions"][0]
    assert first["label"] == "mesh/cart"
    assert first["backends"] == bench.backends
    assert first["totals"] == {"benchmark.http_2xx": 18}
    assert [r["backend"] for r in first["results"]] == bench.backends
    assert first["results"][0]["harness"] == {"planned": 9, "released": 9}
    assert first["results"][0]["statistics"]["harness.send_delay"] == {"count": 9, "unit": "ns", "p99": 400000}
    assert first["thresholds"] == [
        {"expr": "counter:benchmark.http_5xx == 0", "scope": "pool", "pass": True, "actual": "0"}
    ]
    assert bench.rows("results.jsonl") == report["executions"]
    assert {(row["label"], row["backend"], row["id"]) for row in bench.rows("histograms.jsonl")} == {
        (label, backend, "latency_2xx") for label in ("mesh/cart", "mesh/pay") for backend in bench.backends
    }


def test_stand_in_starts_carry_the_plan_one_start_time_and_phases_of_their_own(bench: Any, healthy_engine: Any) -> None:
    asyncio.run(bench.run(healthy_engine, healthy_engine))
    starts = [talk.received for talks in bench.talks for talk in talks]
    flat = [start for received in starts for start in received]
    claim = json.loads(bench.text("load.json"))
    assert {start["start_at_unix_ns"] for start in flat} == {claim["start_unix_ns"]}
    assert [start["id"] for start in starts[0]] == ["mesh/cart", "mesh/pay"]
    fractions = {round(s["execution"]["phase_s"] * s["execution"]["rate_rps"], 9) for s in flat}
    assert len(fractions) == 4
    execution = starts[0][0]["execution"] | {"phase_s": None}
    assert execution == {
        "label": "mesh/cart",
        "url": "http://cart.test/",
        "method": "GET",
        "headers": ["User-Agent: t"],
        "rate_rps": 9,
        "duration_s": 1,
        "connections": 100,
        "max_pending": 18,
        "timeout_s": 0.1,
        "phase_s": None,
    }
    assert claim["pid"] == os.getpid()
    assert claim["ends_unix_s"] == pytest.approx(claim["start_unix_ns"] / 1e9 + 1)


def test_stand_in_engine_that_dies_is_lost_and_the_other_is_judged(bench: Any, healthy_engine: Any) -> None:
    async def dies(talk: Any) -> None:
        await talk.starts()
        talk.writer.close()

    asyncio.run(bench.run(healthy_engine, dies))
    for execution in bench.report()["executions"]:
        assert execution["pass"] is False
        assert "error" not in execution
        assert [r["backend"] for r in execution["results"]] == bench.backends[:1]
        (lost,) = execution["backend_errors"]
        assert lost["backend"] == bench.backends[1]
        assert re.search("awaiting execution response:.*Unavailable", lost["error"])
        assert execution["thresholds"][0]["pass"] is True


def test_stand_in_all_engines_lost_is_an_error_that_names_each(bench: Any) -> None:
    async def dies(talk: Any) -> None:
        await talk.starts()
        talk.writer.close()

    asyncio.run(bench.run(dies, dies))
    execution = bench.report()["executions"][0]
    assert not {"results", "thresholds", "totals", "failures"} & set(execution)
    lines = execution["error"].split("\n")
    assert [line.startswith(f"backend {b}: ") for line, b in zip(lines, bench.backends, strict=True)] == [True, True]
    assert len(execution["backend_errors"]) == 2


def test_nobody_listens_is_not_reachable_and_the_load_still_reports(bench: Any, healthy_engine: Any) -> None:
    asyncio.run(bench.run(healthy_engine, None))
    execution = bench.report()["executions"][0]
    assert "not reachable within 0.5s" in execution["backend_errors"][0]["error"]
    assert execution["totals"] == {"benchmark.http_2xx": 9}
    assert json.loads(bench.text("progress.json"))["backends"][bench.backends[1]]["state"] == "unreachable"


def test_nobody_reachable_at_all_claims_the_load_and_reports_errors(bench: Any) -> None:
    asyncio.run(bench.run(None))
    execution = bench.report()["executions"][0]
    assert "not reachable within 0.5s" in execution["error"]
    assert execution["elapsed_ms"] >= 400
    assert bench.folder.load_json.exists()


def test_a_listener_that_is_no_engine_is_not_reachable(bench: Any) -> None:
    async def chatters(talk: Any) -> None:
        talk.writer.write(b"220 mail ready\r\n")

    asyncio.run(bench.run(chatters))
    assert "not an engine" in bench.report()["executions"][0]["error"]


def test_stand_in_silent_engine_is_given_up_at_its_deadline(bench: Any, healthy_engine: Any) -> None:
    async def silent(talk: Any) -> None:
        await talk.starts()
        await talk.until_cancel()
        await asyncio.sleep(60)

    asyncio.run(bench.run(healthy_engine, silent))
    execution = bench.report()["executions"][0]
    (error,) = execution["backend_errors"]
    assert re.fullmatch(r"no result [23]s after dispatch: the engine went silent or is far behind", error["error"])
    assert len(execution["results"]) == 1
    assert execution["elapsed_ms"] >= 2900  # lead, plan, timeout, grace, answer and cancellation


def test_stand_in_silent_engine_that_answers_the_cancellation_keeps_its_result(bench: Any) -> None:
    async def wakes_when_cancelled(talk: Any) -> None:
        starts = await talk.starts()
        await talk.until_cancel()
        for start in starts:
            talk.result(start, cancelled=True, elapsed_ms=700)

    asyncio.run(bench.run(wakes_when_cancelled))
    execution = bench.report()["executions"][0]
    assert "no result" in execution["backend_errors"][0]["error"]
    assert execution["results"][0]["elapsed_ms"] == 700
    assert execution["thresholds"][0] == {
        "expr": "counter:benchmark.http_5xx == 0",
        "scope": "pool",
        "pass": False,
        "actual": "no backend survived",
    }


def test_stand_in_answer_on_its_way_past_the_deadline_is_taken(bench: Any) -> None:
    async def late(talk: Any) -> None:
        starts = await talk.starts()
        await asyncio.sleep(2.4)
        for start in starts:
            talk.result(start)

    limits = replace(bench.limits, answer_s=5.0)
    executions = asyncio.run(bench.run(late, limits=limits))
    assert [e.passed for e in executions] == [True, True]


def test_stand_in_thawed_engine_stalled_and_its_result_is_kept(bench: Any, healthy_engine: Any) -> None:
    async def thawed(talk: Any) -> None:
        for start in await talk.starts():
            talk.result(start, elapsed_ms=10_500)

    asyncio.run(bench.run(healthy_engine, thawed))
    execution = bench.report()["executions"][0]
    (error,) = execution["backend_errors"]
    assert error["error"] == "reported an execution of 10.5s for one planned to last 1s: it stalled"
    assert [r["elapsed_ms"] for r in execution["results"]] == [1000, 10500]
    assert execution["pass"] is False


def test_stand_in_refusal_at_the_cap_stops_the_whole_scenario(bench: Any) -> None:
    async def accepts(talk: Any) -> None:
        starts = await talk.starts()
        await talk.until_cancel()
        for start in starts:
            talk.result(start, cancelled=True, elapsed_ms=0, http_2xx=0)

    async def refuses_one(talk: Any) -> None:
        talk.hello()
        first, second = await talk.receive(), await talk.receive()
        talk.send(type="accepted", id=first["id"])
        talk.send(type="refused", id=second["id"], reason="execution_cap", error="at its cap of 1 execution")
        await talk.until_cancel()
        talk.result(first, cancelled=True, elapsed_ms=0, http_2xx=0)

    asyncio.run(bench.run(accepts, refuses_one))
    cart, pay = bench.report()["executions"]
    for execution in (cart, pay):
        assert execution["refused"] == "execution_cap"
        assert f"backend {bench.backends[1]} refused a start because the engine is at its" in execution["error"]
        assert not {"results", "thresholds", "totals", "failures", "not_run"} & set(execution)
        assert execution["elapsed_ms"] < 900
    assert "backend_errors" not in cart
    (error,) = pay["backend_errors"]
    assert error["backend"] == bench.backends[1]
    assert error["refused"] == "execution_cap"
    assert "refused the start" in error["error"]


def test_stand_in_engine_side_failure_is_named(bench: Any, healthy_engine: Any) -> None:
    async def fails(talk: Any) -> None:
        for start in await talk.starts():
            talk.send(type="failed", id=start["id"], error="bad\noption")

    asyncio.run(bench.run(healthy_engine, fails))
    error = bench.report()["executions"][0]["backend_errors"][0]["error"]
    assert error == "nighthawk reported failure: bad option"


def test_stand_in_engine_that_cuts_short_by_itself_never_passes(bench: Any, healthy_engine: Any) -> None:
    async def quits(talk: Any) -> None:
        for start in await talk.starts():
            talk.result(start, cancelled=True, elapsed_ms=990)

    asyncio.run(bench.run(healthy_engine, quits))
    execution = bench.report()["executions"][0]
    assert execution["backend_errors"][0]["backend"] == bench.backends[1]
    assert len(execution["results"]) == 2


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{torn\n", "not a JSON object"),
        (b"[1]\n", "not a JSON object"),
        (b"\xff\xfe\n", "not a JSON object"),
        (b"x" * (9 << 20) + b"\n", "over 8 MiB"),
    ],
    ids=["torn", "array", "bytes", "oversized"],
)
def test_stand_in_engine_that_breaks_the_protocol_is_lost(
    bench: Any, healthy_engine: Any, line: bytes, why: str
) -> None:
    async def babbles(talk: Any) -> None:
        await talk.starts()
        talk.writer.write(line)
        await talk.writer.drain()

    asyncio.run(bench.run(healthy_engine, babbles))
    (error,) = bench.report()["executions"][0]["backend_errors"]
    assert error["backend"] == bench.backends[1]
    assert why in error["error"]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"elapsed_ms": 1000},
        {"elapsed_ms": "1s", "counters": {}},
        {"elapsed_ms": True, "counters": {}},
        {"elapsed_ms": 1, "counters": []},
    ],
)
def test_stand_in_answer_without_a_result_is_no_pass(bench: Any, healthy_engine: Any, answer: dict[str, Any]) -> None:
    async def empty(talk: Any) -> None:
        for start in await talk.starts():
            talk.send(type="result", id=start["id"], **answer)

    asyncio.run(bench.run(healthy_engine, empty))
    execution = bench.report()["executions"][0]
    assert "returned no results" in execution["backend_errors"][0]["error"]
    assert len(execution["results"]) == 1


def test_stand_in_messages_that_mean_nothing_are_ignored(bench: Any) -> None:
    async def noisy(talk: Any) -> None:
        starts = await talk.starts()
        talk.send(type="result", id="mesh/nobody", elapsed_ms=1, counters={})
        talk.send(type="weather", id=starts[0]["id"])
        talk.send(type="progress", id=starts[0]["id"], counters=[], interval="x")
        for start in starts:
            talk.result(start)
            talk.result(start, elapsed_ms=99_000)  # a second answer changes nothing

    executions = asyncio.run(bench.run(noisy))
    assert [e.passed for e in executions] == [True, True]
