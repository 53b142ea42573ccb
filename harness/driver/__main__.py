"""Command line of the driver: reads the plan, drives the engines, exits with the verdict.

Exit codes: 0 every execution passed; 1 one did not, or the load was cancelled; 2 a plan or command line that cannot
be driven; 4 the load could not run or its files not be written.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.driver.claim import check_unclaimed
from harness.driver.evidence import Evidence, Files
from harness.driver.load import Limits, Load
from harness.driver.pool import addresses_of
from harness.errors import EXIT_FAIL, EXIT_INTERNAL, EXIT_PASS, EXIT_REFUSED, HarnessError, UsageError
from harness.plan.model import Plan
from harness.plan.sortie_yaml import read_plan
from harness.runs import RunFolder
from harness.sortie.report import report_passed
from harness.sortie.thresholds import Threshold, parse_thresholds

DNS = "dns"


@dataclass(frozen=True)
class Order:
    """A command line that was checked against its plan."""

    plan: Plan
    thresholds: tuple[Threshold, ...]
    backends: tuple[str, ...]
    files: Files
    limits: Limits
    connections: int
    progress_s: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one load and return the exit code. Says one sentence on stderr when there is none to give a verdict on."""
    try:
        order = read_order(arguments)
        check_unclaimed(order.files.claim)
        return asyncio.run(drive(order))
    except UsageError as error:
        print(f"driver: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except HarnessError as error:
        print(f"driver: {error}", file=sys.stderr)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - a fault of ours: one sentence too, under an exit code of its own
        print(
            f"driver: {_place(error)}: {type(error).__name__}: {error}; this is a fault in the driver", file=sys.stderr
        )
        return EXIT_INTERNAL


async def drive(order: Order) -> int:
    """Drive the load, stopping early on SIGTERM, SIGINT and SIGHUP. Raises StageError."""
    evidence = Evidence(order.files)
    try:
        load = Load(
            order.plan,
            order.thresholds,
            order.backends,
            evidence,
            limits=order.limits,
            connections=order.connections,
            progress_s=order.progress_s,
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, load.cancel, f"the driver got {number.name}")
        executions = await load.run()
    finally:
        evidence.close()
    return EXIT_PASS if report_passed(executions) else EXIT_FAIL


def read_order(arguments: Sequence[str] | None) -> Order:
    """Parse and check. Raises PlanError or UsageError; a malformed command line exits 2 by argparse."""
    parser = argparse.ArgumentParser(prog="python -m harness.driver", description=__doc__.splitlines()[0])
    parser.add_argument("--plan", type=Path, required=True, help="the plan file")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", type=Path, help="the run's live folder, which must be there")
    where.add_argument("--report", type=Path, help="the report; everything else beside it, and the log on stdout")
    parser.add_argument("--stream", type=Path, help="with --report: the results stream, where it has another name")
    parser.add_argument(
        "--resolve", required=True, metavar="NAME=IP:PORT,…", help="the pool's name and its engines; dns: look it up"
    )
    parser.add_argument("--progress", type=_seconds, default=10.0, help="seconds between progress lines, 0 for none")
    parser.add_argument("--timeout-s", type=_seconds, default=30.0, help="where the plan names no timeout")
    parser.add_argument("--connections", type=_positive, default=100, help="where the plan names none")
    parser.add_argument("--drain-s", type=_seconds, default=1.0)
    parser.add_argument("--grace-s", type=_seconds, default=120.0)
    options = parser.parse_args(arguments)
    plan = read_plan(options.plan)
    files = _files(options)
    thresholds = parse_thresholds(plan.thresholds)
    backends = addresses_of(plan.dns) if options.resolve == DNS else resolve(options.resolve, plan.dns)
    return Order(
        plan=plan,
        thresholds=thresholds,
        backends=backends,
        files=files,
        limits=Limits(timeout_s=options.timeout_s, drain_s=options.drain_s, grace_s=options.grace_s),
        connections=options.connections,
        progress_s=options.progress,
    )


def _files(options: argparse.Namespace) -> Files:
    if options.report is not None:
        report: Path = options.report.absolute()
        if not report.parent.is_dir() or report.suffix != ".json":
            raise UsageError(f"--report {options.report} must be a .json file in a folder that is there")
        return Files.beside(report, stream=options.stream)
    folder = RunFolder(options.out.absolute().parent)
    if folder.live != options.out.absolute() or not folder.live.is_dir() or options.stream is not None:
        raise UsageError(f"--out {options.out} must be the folder 'live' of a run, and --stream goes with --report")
    return Files.of(folder)


def resolve(text: str, name: str) -> tuple[str, ...]:
    """The engines of the pool ``name`` out of ``NAME=IP:PORT,IP:PORT``: each once, sorted. Raises UsageError."""
    given, _, listed = text.partition("=")
    addresses = sorted({address.strip() for address in listed.split(",") if address.strip()})
    if given != name or not addresses:
        raise UsageError(f"--resolve {text!r} must give the addresses of the plan's pool, like {name}=127.0.1.1:8443")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise UsageError(f"--resolve: {address!r} must be ip:port")
    return tuple(addresses)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(text)
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else "driver"


if __name__ == "__main__":
    sys.exit(main())
