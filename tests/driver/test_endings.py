"""How a load ends early, what it leaves on disk, and what it tells meanwhile; the engines are stand-ins."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
from dataclasses import replace
from typing import Any

import pytest

from harness.driver import evidence as evidence_module
from harness.errors import LoadError, StageError


def test_stand_in_cancelled_load_reports_an_error_and_keeps_the_partial_counts(bench: Any) -> None:
    async def answers_cancel(talk: Any) -> None:
        starts = await talk.starts()
        await talk.until_cancel()
        for start in starts:
            talk.result(start, cancelled=True, elapsed_ms=300, http_2xx=2)

    async def stop(load: Any) -> None:
        await asyncio.sleep(0.3)
        load.cancel("the driver got SIGTERM")

    asyncio.run(bench.run(answers_cancel, during=stop))
    execution = bench.report()["executions"][0]
    assert execution["error"] == "execution cancelled: the driver got SIGTERM"
    assert execution["pass"] is False
    assert not {"results", "thresholds", "backend_errors"} & set(execution)
    assert execution["elapsed_ms"] < 1000
    assert bench.rows("progress.jsonl")[-1]["counters"] == {"benchmark.http_2xx": 2}
    log = bench.text("sortie.log")
    assert "FAIL mesh/cart (scenario mesh, " in log
    assert "execution cancelled: the driver got SIGTERM" in log
    assert log.endswith("FAIL  0/2 executions passed\n")


def test_stand_in_cancelled_load_does_not_wait_for_ever(bench: Any) -> None:
    async def deaf(talk: Any) -> None:
        await talk.starts()
        await asyncio.sleep(60)

    async def stop(load: Any) -> None:
        await asyncio.sleep(0.1)
        load.cancel("the driver got SIGINT")

    asyncio.run(bench.run(deaf, during=stop))
    assert "execution cancelled" in bench.report()["executions"][0]["error"]


def test_stop_while_dialling_reports_at_once(bench: Any) -> None:
    async def mute(talk: Any) -> None:
        await asyncio.sleep(60)

    async def stop(load: Any) -> None:
        await asyncio.sleep(0.1)
        load.cancel("the driver got SIGTERM")

    asyncio.run(bench.run(mute, limits=replace(bench.limits, reach_s=30.0), during=stop))
    execution = bench.report()["executions"][0]
    assert execution["error"].startswith("execution cancelled:")
    assert execution["elapsed_ms"] < 5000


def test_second_load_of_a_run_is_refused_and_nothing_is_dispatched(bench: Any, healthy_engine: Any) -> None:
    bench.folder.load_json.write_text('{"pid": 7, "claimed_at": "2026-01-01T00:00:00.000Z"}')
    with pytest.raises(LoadError, match=r"claimed by process 7 at 2026-01-01.*never started twice"):
        asyncio.run(bench.run(healthy_engine))
    assert bench.talks[0][0].received in ([], [{"type": "cancel"}])
    assert not bench.folder.report_json.exists()


def test_stand_in_full_disk_ends_the_load_in_a_sentence_and_cancels_the_engines(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_json(path: Any, value: Any) -> None:
        if value["elapsed_s"] > 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(evidence_module, "write_json", write_json)

    async def waits(talk: Any) -> None:
        await talk.starts()
        await talk.until_cancel()

    with pytest.raises(StageError, match=r"progress\.json cannot be written \(No space left on device\)"):
        asyncio.run(bench.run(waits, plan=bench.plan(duration_s=20)))
    assert bench.talks[0][0].received[-1] == {"type": "cancel"}
    assert not bench.folder.report_json.exists()


def test_stand_in_progress_is_written_for_looking_and_as_history(bench: Any) -> None:
    async def reports(talk: Any) -> None:
        starts = await talk.starts()
        for second in (1, 2):
            await asyncio.sleep(1.05)
            for start in starts:
                counters = {
                    "benchmark.http_2xx": 5 * second,
                    "benchmark.http_5xx": second,
                    "benchmark.http_inflight_lost": 1,
                }
                interval = {"count": 5, "p50_ns": 1_000_000 * second, "p99_ns": 3_000_000, "max_ns": 4_000_000}
                talk.send(
                    type="progress", id=start["id"], elapsed_ms=1000 * second, counters=counters, interval=interval
                )
        await asyncio.sleep(1.5)
        for start in starts:
            talk.result(start)

    async def look(load: Any) -> None:
        await asyncio.sleep(3.4)
        looked.append(json.loads(bench.text("progress.json")))

    looked: list[dict[str, Any]] = []
    limits = replace(bench.limits, grace_s=20.0)
    asyncio.run(bench.run(reports, plan=bench.plan(duration_s=2), limits=limits, progress_s=1.0, during=look))
    (seen,) = looked
    assert seen["planned"] == 24
    assert seen["http_2xx"] == 20
    assert seen["failures"] == {"http_5xx": 4, "http_inflight_lost": 2}
    assert seen["backends"][bench.backends[0]]["state"] == "running"
    rows = [row for row in bench.rows("progress.jsonl") if row["label"] == "mesh/cart"]
    assert rows[-1]["state"] == "ended"
    assert [row["state"] for row in rows].count("ended") == 1
    intervals = [row["interval"] for row in rows if row["interval"]]
    assert sum(interval["count"] for interval in intervals) == 10
    assert {"count", "p50_ns", "p99_ns", "max_ns"} == set(intervals[0])
    line = re.compile(rf"    mesh/cart  {bench.backends[0]}  [12]s  http_2xx (5|10)  http_5xx [12]  max 4ms")
    assert any(line.fullmatch(row) for row in bench.text("sortie.log").splitlines())
    assert "http_inflight_lost" not in bench.text("sortie.log")


def test_stand_in_log_has_the_contracts_lines(bench: Any, healthy_engine: Any) -> None:
    asyncio.run(bench.run(healthy_engine))
    backend = bench.backends[0]
    lines = bench.text("sortie.log").splitlines()
    assert lines[0] == f"  running mesh/cart (9 rps per backend for 1s) on {backend}"
    assert re.fullmatch(r"  PASS mesh/cart \(scenario mesh, [0-9.]+(m?s)\)", lines[2])
    assert lines[4] == ""
    assert re.fullmatch(
        r'  ok   mesh/pay  \(3 rps per backend for 1s, pool "nodes", [0-9.]+m?s, started 20[0-9T:.-]+Z\)', lines[6]
    )
    assert lines[-1] == "PASS  2/2 executions passed"
