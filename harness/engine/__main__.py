"""Command line of the engine process."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from harness.engine.server import Engine
from harness.engine.spec import Address, parse_address
from harness.engine.usage import report_usage, say
from harness.errors import HarnessError, SettingsError
from harness.files import LineLog, utc_stamp, write_atomic

EXAMPLE = """example:
  python -m harness.engine --listen 127.0.1.1:0 --name node-a --proxy 127.0.1.1:18081 \\
      --address-file /tmp/node-a.address --lifetime-s 600
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one engine until its lifetime ends or SIGTERM. Returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        listen = parse_address(options.listen, network=options.network)
        proxy = parse_address(options.proxy, network=options.network) if options.proxy else None
        if not isinstance(listen.target, tuple):
            raise SettingsError("--listen takes ip:port, not a Unix socket")
        if options.max_executions < 1 or not 0 < options.lifetime_s < 30 * 86_400:
            raise SettingsError("--max-executions must be at least 1 and --lifetime-s between 0 and 30 days")
        if not 0 <= options.usage_s <= 3600:
            raise SettingsError("--usage-s must be between 0 and 3600")
        log = _writer(options.log) if options.log else None
        return _run(options, listen.target, proxy, log)
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: engine {options.name} cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return SettingsError.exit_code


def _writer(path: Path) -> Callable[[str], None]:
    """Appends lines to the file; ``-`` is stdout, the log of a pod. Raises OSError when it cannot be opened."""
    return say if path == Path("-") else LineLog(path, durable=False).write


def _run(
    options: argparse.Namespace, listen: tuple[str, int], proxy: Address | None, log: Callable[[str], None] | None
) -> int:
    import uvloop

    def note(text: str) -> None:
        if log is not None:
            line = f"{utc_stamp()} {options.name} {text}".replace("\n", " ")
            with contextlib.suppress(OSError):  # a full disk must not end a load
                log(line.encode("ascii", "backslashreplace").decode("ascii"))

    async def serve() -> None:
        engine = Engine(
            name=options.name,
            proxy=proxy,
            max_executions=options.max_executions,
            log=note,
            network=options.network,
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, engine.stop, signal.Signals(number).name)
        usage = asyncio.create_task(report_usage(options.name, options.usage_s)) if options.usage_s else None
        await engine.serve(
            *listen,
            lifetime_s=options.lifetime_s,
            on_listening=lambda address: write_atomic(options.address_file, address) if options.address_file else None,
        )
        if usage is not None:
            usage.cancel()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # connections × targets may pass the usual 1,024
    gc.collect()
    gc.freeze()  # what start-up made is never looked at again
    gc.disable()  # the server collects between requests instead
    uvloop.run(serve())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.engine",
        description="Open-loop HTTP/1.1 load engine of one node, driven over TCP (JSON lines).",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--listen", required=True, metavar="IP:PORT", help="loopback address for drivers; port 0: any")
    parser.add_argument(
        "--network", action="store_true", help="addresses need not be of loopback: an engine in a pod, told so"
    )
    parser.add_argument("--name", required=True, help="the node's name, said in hello and in errors")
    parser.add_argument("--proxy", metavar="ADDRESS", help="ip:port or unix:/path all requests go to; else each url's")
    parser.add_argument("--max-executions", type=int, default=16, help="cap over all drivers (default 16)")
    parser.add_argument("--address-file", type=Path, metavar="FILE", help="gets ip:port, whole, once listening")
    parser.add_argument("--lifetime-s", type=float, required=True, metavar="S", help="the engine ends by itself then")
    parser.add_argument("--log", type=Path, metavar="FILE", help="append one line per event; -: print it")
    parser.add_argument(
        "--usage-s", type=float, default=0.0, metavar="S", help="print CPU, throttling and memory this often; 0: never"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
