"""How long a grading takes: of one soak, of a thousand, and a question across them.

    python -m benchmarks.gate_speed --runs 1000

Makes that many soak-sized runs in a temporary folder and adopts them; then times, as whole processes, ``harness gate
RUN`` with its tables there, ``harness gate --all`` and ``harness sql run-by-run``. What the parts of one grading take
is measured inside further processes.

The shell gate that this one stands in for took 0.305 s for a report of 102,595 characters on two cores, nearly all of
it for starting a dozen processes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.soak_run import plan_of_soak, write_soak
from harness.adopt import adopt
from harness.graph.receipts import PROJECT

SHELL_GATE_S = 0.305
REPEATS = 15
REPEATS_OF_MANY = 3


def main() -> None:
    """Parse, make the runs, time, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="How many runs --all grades. Default: 1000.")
    parser.add_argument("--json", action="store_true", help="Every repeat, in seconds.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), arguments.runs)
    print(json.dumps(figures) if arguments.json else "\n".join(told(figures)))


def measure(folder: Path, count: int) -> dict[str, Any]:
    """All figures in seconds, each a list of the repeats."""
    runs, plan = folder / "runs", plan_of_soak()
    characters, adoption_s = 0, []
    for number in range(count):
        source = folder / "given" / f"soak-{number:05}"
        characters = write_soak(source, source.name, plan)
        began = time.perf_counter()
        adopt(source, runs)
        adoption_s.append(time.perf_counter() - began)
    run, where = "soak-00000", ("--runs", str(runs))
    parts = [json.loads(python("-m", "benchmarks.gate_parts", str(runs / run))[1]) for _ in range(REPEATS)]
    return {
        "runs": count,
        "report_characters": characters,
        "adopt_s": adoption_s,
        "gate_s": repeated(REPEATS, "-m", "harness.cli", "gate", run, *where),
        "parts_s": {
            "start of python": repeated(REPEATS, "-c", "pass"),
            **{name: [part[name] for part in parts] for name in parts[0]},
        },
        "gate_all_s": repeated(REPEATS_OF_MANY, "-m", "harness.cli", "gate", "--all", *where),
        "run_by_run_s": repeated(REPEATS_OF_MANY, "-m", "harness.cli", "sql", "run-by-run", *where),
    }


def python(*words: str) -> tuple[float, str]:
    """Seconds of wall time of a whole process, and what it printed."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *words], cwd=PROJECT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr or done.stdout[-300:]}")
    return seconds, done.stdout


def repeated(times: int, *words: str) -> list[float]:
    """Seconds of each repeat."""
    return [python(*words)[0] for _ in range(times)]


def told(figures: dict[str, Any]) -> Iterator[str]:
    """The figures for people: median, fastest and slowest."""
    gate, every, count = median(figures["gate_s"]), median(figures["gate_all_s"]), figures["runs"]
    yield f"report of {figures['report_characters']:,} characters, {count:,} runs"
    yield _line("harness adopt, in this process", figures["adopt_s"])
    yield _line("harness gate RUN", figures["gate_s"]) + f"; the shell gate took {SHELL_GATE_S * 1e3:.0f} ms"
    for name, seconds in figures["parts_s"].items():
        yield _line(f"  {name}", seconds) + f", {median(seconds) / gate:.0%}"
    yield _line("harness gate --all", figures["gate_all_s"]) + (
        f"; {count / every:,.0f} runs/s, {count / every * SHELL_GATE_S:.0f} times the shell gate's"
    )
    yield _line("harness sql run-by-run", figures["run_by_run_s"])


def _line(what: str, seconds: list[float]) -> str:
    fastest, slowest = min(seconds) * 1e3, max(seconds) * 1e3
    return f"{what:<32} median {median(seconds) * 1e3:7,.1f} ms ({fastest:,.1f} to {slowest:,.1f})"


if __name__ == "__main__":
    main()
