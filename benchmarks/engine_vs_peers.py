"""The engine beside hey, h2load and Locust: same run, same server, one core for the client and one for the server.

Counts are the server's, not the tools'. Ratios are between tools of this run; a figure alone says little about another
machine. Peers are used when present (Debian: hey, nghttp2-client; PyPI: locust) and named when absent.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from load_tools import Engine, Load, Measured, Peer, ToolError, find_peers, pin_to

EXAMPLE = """examples:
  python benchmarks/engine_vs_peers.py --seconds 5
  python benchmarks/engine_vs_peers.py --truth --locust /tmp/locust-venv/bin/locust --json
"""
RATES = {60: 5, 1000: 20}  # rps → connections
LIMIT_CONNECTIONS = 64
LIMIT_STEPS_RPS = (5_000, 10_000, 20_000, 25_000, 30_000, 35_000, 40_000, 45_000, 50_000, 60_000, 70_000)
LIMIT_DELAY_MS = 10.0  # above this p99 of the send delay a rate is no longer held
TRUTH = {"rate_rps": 100, "seconds": 10, "connections": 5, "stall_s": 1.0}


class Server:
    """``fixed_server.py`` in a process of its own."""

    def __init__(self, cpu: int | None) -> None:
        command = [sys.executable, str(Path(__file__).with_name("fixed_server.py"))]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=pin_to(cpu),
        )
        assert self._process.stdout is not None
        ports = json.loads(self._process.stdout.readline())
        self._control = ("127.0.0.1", ports["control"])
        self.url = f"http://127.0.0.1:{ports['port']}/"

    def counts(self) -> tuple[int, float]:
        """Requests and CPU seconds so far."""
        with socket.create_connection(self._control, timeout=30) as connection:
            answer = json.loads(connection.makefile("rb").readline())
        return answer["requests"], answer["cpu_s"]

    def freeze(self, seconds: float) -> None:
        """SIGSTOP for that long."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


@dataclass(frozen=True)
class Row:
    """One tool under one load."""

    load: str
    tool: str
    planned: int | None
    sent: int
    seconds: float
    cpu_s: float
    us_per_request: float
    server_cpu_s: float
    latency_ms: dict[str, float]
    send_delay_p99_ms: float | None


class Bench:
    """Runs loads and keeps rows."""

    def __init__(self, server: Server, tools: list[Engine | Peer]) -> None:
        self.server = server
        self.tools = tools
        self.rows: list[Row] = []
        self.notes: list[str] = []

    def measure(self, name: str, tool: Engine | Peer, load: Load, *, stall_s: float = 0) -> Row | None:
        """One row, None when the tool failed (noted). With ``stall_s`` the server freezes at 40 % of the load."""
        if isinstance(tool, Peer):
            tool.measure_start_up(self.server.url)
        requests, server_cpu_s = self.server.counts()
        staller = threading.Thread(target=self._stall, args=(requests, load.seconds * 0.4, stall_s))
        if stall_s:
            staller.start()
        try:
            measured = tool.run(load)
        except ToolError as error:
            self.notes.append(f"{tool.name} at {name}: {error}")
            return None
        finally:
            if stall_s:
                staller.join()
        requests_after, server_cpu_after_s = self.server.counts()
        return self._row(name, tool, load, measured, requests_after - requests, server_cpu_after_s - server_cpu_s)

    @staticmethod
    def _row(name: str, tool: Engine | Peer, load: Load, measured: Measured, sent: int, server_cpu_s: float) -> Row:
        return Row(
            load=name,
            tool=tool.name,
            planned=None if load.rate_rps is None else int(load.rate_rps * load.seconds),
            sent=sent,
            seconds=load.seconds,
            cpu_s=round(measured.cpu_s, 3),
            us_per_request=round(measured.cpu_s / max(1, sent) * 1e6, 1),
            server_cpu_s=round(server_cpu_s, 3),
            latency_ms={f"p{q:g}": round(value, 3) for q, value in measured.latency_ms.items()},
            send_delay_p99_ms=None if measured.send_delay_p99_ms is None else round(measured.send_delay_p99_ms, 3),
        )

    def _stall(self, before: int, after_s: float, for_s: float) -> None:
        deadline = time.monotonic() + 30  # a tool that never sends is noticed elsewhere
        while self.server.counts()[0] == before and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(after_s)
        self.server.freeze(for_s)

    def at_rate(self, rate_rps: int, connections: int, seconds: float) -> None:
        """Every tool at one rate."""
        for tool in self.tools:
            self._keep(self.measure(f"{rate_rps} rps", tool, Load(self.server.url, rate_rps, seconds, connections)))

    def at_limit(self, seconds: float) -> None:
        """Peers in a closed loop; the engine at the highest open-loop rate it holds to the request."""
        for tool in self.tools:
            if isinstance(tool, Peer):
                self._keep(self.measure("limit", tool, Load(self.server.url, None, seconds, LIMIT_CONNECTIONS)))
                continue
            held: Row | None = None
            for rate_rps in LIMIT_STEPS_RPS:
                row = self._held(tool, Load(self.server.url, rate_rps, seconds, LIMIT_CONNECTIONS))
                if row is None:
                    break
                held = row
            self._keep(held)

    def _held(self, tool: Engine, load: Load) -> Row | None:
        """The row of a rate that was held to the request; a second try, for another process may have had the core."""
        for _ in range(2):
            row = self.measure("limit", tool, load)
            if row and row.sent == row.planned and (row.send_delay_p99_ms or 0) <= LIMIT_DELAY_MS:
                return row
        return None

    def truth(self) -> None:
        """A server frozen for 1 s under 100 rps on 5 connections: p95 is about 500 ms and p99 about 900 ms."""
        load = Load(self.server.url, int(TRUTH["rate_rps"]), TRUTH["seconds"], int(TRUTH["connections"]))
        for tool in self.tools:
            self._keep(self.measure("truth", tool, load, stall_s=TRUTH["stall_s"]))

    def _keep(self, row: Row | None) -> None:
        if row is not None:
            self.rows.append(row)

    def ratios(self) -> dict[str, dict[str, float]]:
        """Per load: the engine's CPU per request over each peer's (below 1: the engine is cheaper)."""
        found: dict[str, dict[str, float]] = {}
        ours = {row.load: row.us_per_request for row in self.rows if row.tool == Engine.name}
        for row in self.rows:
            if row.tool != Engine.name and row.load in ours and row.us_per_request:
                found.setdefault(row.load, {})[row.tool] = round(ours[row.load] / row.us_per_request, 2)
        return found


def main(arguments: list[str] | None = None) -> int:
    """Run, print, return the exit code."""
    options = _parser().parse_args(arguments)
    server_cpu, client_cpu = _cores(options.no_pin)
    peers, absent = find_peers(client_cpu, options.locust)
    if options.only:
        peers = [peer for peer in peers if peer.name in options.only.split(",")]
    server = Server(server_cpu)
    bench = Bench(server, [Engine(client_cpu), *peers])
    try:
        for rate_rps, connections in RATES.items():
            bench.at_rate(rate_rps, connections, options.seconds)
        if not options.no_limit:
            bench.at_limit(min(options.seconds, 5.0))
        if options.truth:
            bench.truth()
    finally:
        server.close()
    report: dict[str, Any] = {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "kernel": platform.release()},
        "pinned": client_cpu is not None,
        "absent": absent,
        "notes": bench.notes,
        "rows": [asdict(row) for row in bench.rows],
        "cpu_ratio_engine_to_peer": bench.ratios(),
    }
    print(json.dumps(report, indent=2) if options.json else _text(report, bench.rows))
    return 0 if any(row.tool == Engine.name for row in bench.rows) else 1


def _cores(no_pin: bool) -> tuple[int | None, int | None]:
    usable = sorted(os.sched_getaffinity(0))
    return (None, None) if no_pin or len(usable) < 2 else (usable[0], usable[1])


def _text(report: dict[str, Any], rows: list[Row]) -> str:
    lines = [f"{'load':<9} {'tool':<7} {'sent of planned':>17} {'rps':>7} {'CPU s':>7} {'us/req':>7}"]
    lines[0] += f" {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8} {'send delay p99':>15} {'server CPU':>11}"
    for row in rows:
        sent = f"{row.sent} of {row.planned if row.planned is not None else '-'}"
        line = f"{row.load:<9} {row.tool:<7} {sent:>17} {row.sent / row.seconds:>7.0f} {row.cpu_s:>7.2f}"
        line += f" {row.us_per_request:>7.1f}"
        line += "".join(
            f" {row.latency_ms[q]:>8.2f}" if q in row.latency_ms else f" {'-':>8}" for q in ("p50", "p95", "p99")
        )
        line += f" {row.send_delay_p99_ms:>12.2f} ms" if row.send_delay_p99_ms is not None else f" {'-':>15}"
        lines.append(line + f" {row.server_cpu_s / row.seconds:>10.0%}")
    for load, ratios in report["cpu_ratio_engine_to_peer"].items():
        lines.append(f"CPU per request at {load}, engine to peer: " + ", ".join(f"{k} {v}" for k, v in ratios.items()))
    lines += [f"absent: {name} is not on this machine and was not run" for name in report["absent"]]
    lines += [f"note: {note}" for note in report["notes"]]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10, help="length of each load (default 10)")
    parser.add_argument("--truth", action="store_true", help="also the stall test: 100 rps for 10 s, 1 s frozen")
    parser.add_argument("--no-limit", action="store_true", help="leave out the loads at the limit")
    parser.add_argument("--no-pin", action="store_true", help="do not give client and server a core each")
    parser.add_argument("--only", metavar="NAMES", help="peers to run, by comma (hey,h2load,locust)")
    parser.add_argument("--locust", metavar="PATH", help="the locust command, when it is not on PATH")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


if __name__ == "__main__":
    sys.exit(main())
