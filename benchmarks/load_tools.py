"""The load tools that are compared, each behind one function: run this load, say what you measured.

A tool's own latency figures are taken as it gives them: from the intended moment for the engine, from the moment it
chose to send for the others. That difference is what ``--truth`` shows.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram

ROOT = Path(__file__).resolve().parents[1]
QUANTILES = (50.0, 95.0, 99.0)


class ToolError(Exception):
    """A tool ended badly; the message holds its last words."""


@dataclass(frozen=True)
class Load:
    """``rate_rps`` None: as fast as it goes with this many connections, which only closed loops can do."""

    url: str
    rate_rps: int | None
    seconds: float
    connections: int


@dataclass(frozen=True)
class Measured:
    """CPU seconds of the load without the tool's start-up, and its percentiles in ms (absent: the tool has none)."""

    cpu_s: float
    latency_ms: dict[float, float]
    send_delay_p99_ms: float | None = None


def pin_to(cpu: int | None) -> Callable[[], None] | None:
    """For ``preexec_fn``: run on that CPU only."""
    return None if cpu is None else lambda: os.sched_setaffinity(0, {cpu})


def process_cpu_s(pid: int) -> float:
    """Seconds on a CPU so far, all threads; to the nanosecond, where /proc/PID/stat counts in ticks of 10 ms."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _run(command: list[str], cpu: int | None, output: Path | None = None) -> float:
    """Run to the end; CPU seconds of the process and its children. Raises ToolError on another code than 0."""
    with (output or Path(os.devnull)).open("wb") as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=out, stderr=errors, preexec_fn=pin_to(cpu))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            last_words = errors.read().decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
            raise ToolError(f"{command[0]} ended with {process.returncode} and said: {last_words[0]}")
    return usage.ru_utime + usage.ru_stime


def _percentiles(values_ms: Iterable[float]) -> dict[float, float]:
    ordered = sorted(values_ms)
    if not ordered:
        return {}
    return {q: ordered[min(len(ordered) - 1, int(q / 100 * len(ordered)))] for q in QUANTILES}


class Engine:
    """``python -m harness.engine``, started once per load and spoken to as a driver does."""

    name = "engine"
    open_loop = True

    def __init__(self, cpu: int | None) -> None:
        self._cpu = cpu

    def run(self, load: Load) -> Measured:
        """One execution. CPU is taken between its start and its result."""
        assert load.rate_rps is not None
        with tempfile.TemporaryDirectory() as folder:
            address_file = Path(folder) / "address"
            command = [sys.executable, "-m", "harness.engine", "--listen", "127.0.0.1:0", "--name", "bench"]
            command += ["--lifetime-s", str(load.seconds + 60), "--address-file", str(address_file)]
            process = subprocess.Popen(command, cwd=ROOT, preexec_fn=pin_to(self._cpu))
            try:
                while not address_file.exists():
                    if process.poll() is not None:
                        raise ToolError("the engine did not start")
                    time.sleep(0.02)
                host, _, port = address_file.read_text().rpartition(":")
                before_s = process_cpu_s(process.pid)
                result = self._drive((host, int(port)), load)
                cpu_s = process_cpu_s(process.pid) - before_s
            finally:
                process.terminate()
                process.wait()
        histograms = {name: HdrHistogram.decode(text) for name, text in result["harness"]["histograms"].items()}
        latency, delay = histograms.get("latency_2xx"), histograms.get("send_delay")
        return Measured(
            cpu_s,
            {q: latency.get_value_at_percentile(q) / 1e6 for q in QUANTILES} if latency else {},
            delay.get_value_at_percentile(99.0) / 1e6 if delay else None,
        )

    @staticmethod
    def _drive(address: tuple[str, int], load: Load) -> dict[str, Any]:
        execution = {
            "label": "bench",
            "url": load.url,
            "rate_rps": load.rate_rps,
            "duration_s": load.seconds,
            "connections": load.connections,
            "max_pending": 100_000,
            "timeout_s": 10,
        }
        with socket.create_connection(address, timeout=load.seconds + 30) as connection:
            file = connection.makefile("rwb")
            file.write(json.dumps({"type": "start", "id": 1, "execution": execution}).encode() + b"\n")
            file.flush()
            for line in file:
                message: dict[str, Any] = json.loads(line)
                if message["type"] == "result":
                    return message
                if message["type"] in ("failed", "refused"):
                    raise ToolError(message["error"])
        raise ToolError("the engine closed without a result")


class Peer:
    """A tool that is one command; its start-up is measured once by a load of one second and taken off."""

    open_loop = False

    def __init__(self, name: str, path: str, cpu: int | None) -> None:
        self.name = name
        self._path = path
        self._cpu = cpu
        self._start_up_s = 0.0

    def run(self, load: Load) -> Measured:
        """One load, after ``measure_start_up``."""
        cpu_s, latency_ms = self._once(load)
        return Measured(max(0.0, cpu_s - self._start_up_s), latency_ms)

    def measure_start_up(self, url: str) -> None:
        """Measure once what the tool costs before its first requests."""
        if not self._start_up_s:
            self._start_up_s, _ = self._once(Load(url, 1, 1, 1))

    def _once(self, load: Load) -> tuple[float, dict[float, float]]:
        with tempfile.TemporaryDirectory() as folder:
            runs = {"hey": self._hey, "h2load": self._h2load, "locust": self._locust}
            return runs[self.name](load, Path(folder))

    def _hey(self, load: Load, folder: Path) -> tuple[float, dict[float, float]]:
        rows = folder / "rows.csv"
        command = [self._path, "-z", f"{load.seconds}s", "-c", str(load.connections), "-cpus", "1", "-o", "csv"]
        if load.rate_rps:
            command += ["-q", f"{load.rate_rps / load.connections:g}"]
        cpu_s = _run([*command, load.url], self._cpu, rows)
        with rows.open() as file:
            return cpu_s, _percentiles(float(row["response-time"]) * 1e3 for row in csv.DictReader(file))

    def _h2load(self, load: Load, folder: Path) -> tuple[float, dict[float, float]]:
        log = folder / "log"
        command = [self._path, "--h1", "-D", f"{load.seconds:g}", "-c", str(load.connections), f"--log-file={log}"]
        if load.rate_rps:
            command.append(f"--rps={load.rate_rps / load.connections:g}")
        cpu_s = _run([*command, load.url], self._cpu)
        with log.open() as file:
            return cpu_s, _percentiles(int(line.split("\t")[2]) / 1e3 for line in file)

    def _locust(self, load: Load, folder: Path) -> tuple[float, dict[float, float]]:
        wait = f"constant_throughput({load.rate_rps / load.connections:g})" if load.rate_rps else "constant(0)"
        (folder / "locustfile.py").write_text(
            "from locust import FastHttpUser, constant, constant_throughput, task\n\n\n"
            f"class User(FastHttpUser):\n    wait_time = {wait}\n\n"
            "    @task\n    def get(self):\n        self.client.get('/')\n"
        )
        command = [self._path, "--headless", "-f", str(folder / "locustfile.py"), "-H", load.url.rstrip("/")]
        command += ["-u", str(load.connections), "-r", str(load.connections), "-t", f"{load.seconds:g}s"]
        cpu_s = _run([*command, "--csv", str(folder / "out"), "--exit-code-on-error", "0"], self._cpu)
        with (folder / "out_stats.csv").open() as file:
            total = next(row for row in csv.DictReader(file) if row["Name"] == "Aggregated")
        return cpu_s, {q: float(total[f"{q:g}%"]) for q in QUANTILES if total[f"{q:g}%"] not in ("", "N/A")}


def find_peers(cpu: int | None, locust: str | None) -> tuple[list[Peer], list[str]]:
    """The peers on this machine, and the names of those that are not."""
    paths = {"hey": shutil.which("hey"), "h2load": shutil.which("h2load"), "locust": shutil.which(locust or "locust")}
    found = [Peer(name, path, cpu) for name, path in paths.items() if path]
    return found, [name for name, path in paths.items() if not path]
