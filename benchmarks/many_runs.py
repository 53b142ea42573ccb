"""How long ./doit takes to start when many runs are there.

    python -m benchmarks.many_runs runs/quick-20261130T093000Z --count 1000

Puts one graded run and copies of it, COUNT in all, into a temporary folder and times ``./doit list``, ``./doit`` and
``./doit gate:RUN`` of the genuine one there, each five times. Prints the median and the slowest.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.graph.receipts import PROJECT

REPEATS = 5


def main() -> None:
    """Parse, copy, time, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run that passed")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        for index in range(arguments.count - 1):
            copy(arguments.run, runs / f"copy-{index:05d}")
        copy(arguments.run, runs / arguments.run.resolve().name)
        words = (["list"], [], [f"gate:{arguments.run.resolve().name}"])
        figures = {" ".join(["./doit", *line]): measure(runs, line) for line in words}
    if arguments.json:
        print(json.dumps({"runs": arguments.count, "seconds": figures}))
        return
    for command, seconds in figures.items():
        print(
            f"{command:<28} median {statistics.median(seconds):.2f} s, slowest {max(seconds):.2f} s, "
            f"{arguments.count} runs"
        )


def copy(source: Path, target: Path) -> None:
    """A copy under another name, its receipts renamed so that it is that run."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("live", "report.html"))
    for receipt in (target / "stages").glob("*.json"):
        receipt.write_text(json.dumps({**json.loads(receipt.read_text()), "run": target.name}))


def measure(runs: Path, words: list[str]) -> list[float]:
    """Seconds of wall time of each repeat."""
    environment = {**os.environ, "HARNESS_RUNS": str(runs)}
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "harness.entry", *words],
            cwd=PROJECT,
            env=environment,
            capture_output=True,
            check=False,
        )
        seconds.append(time.perf_counter() - start)
        if done.returncode:
            raise SystemExit(f"./doit {' '.join(words)} ended with {done.returncode}: {done.stderr.decode()}")
    return seconds


if __name__ == "__main__":
    main()
