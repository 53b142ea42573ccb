"""Command line of the embedded tier."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import signal
import sys
from pathlib import Path

from harness.e8.tier.launcher import Launcher
from harness.e8.tier.settings import SCHEDULES, Profile, TierSettings
from harness.errors import HarnessError

HELP = {
    "workers": "worker processes, W",
    "turns_per_worker": "turns one worker may have in flight, S",
    "sandboxes": "sandbox agents, K",
    "cap": "leases one sandbox may have",
    "profile": "the model stub: ttft_ms/token_delay_ms/output_tokens/tool_call_rate",
    "schedule": "which requests get a tool call: decided per conversation, or by one counter for all clients",
    "tool_command": "what the model asks to run; bash, in the sandbox's folder",
    "lag_resolution_ms": "period of the loop lag's timer",
    "stats_interval_ms": "period of the workers' telemetry",
    "lease_ttl_ms": "a lease that is not renewed ends then",
    "restart_backoff_ms": "pause before a worker that ended is started again; doubles up to 30 s",
    "leak_connections": "store connections that each turn opens and never closes: a fault",
    "port": "data port, 0: any",
    "admin_port": "port of /metrics, 0: any",
    "lifetime_s": "the tier ends by itself then",
}


def main(arguments: list[str] | None = None) -> int:
    """Run a tier until SIGTERM, SIGINT or its deadline. Returns the exit code."""
    options = vars(_parser().parse_args(arguments))
    state = Path(options.pop("state")).resolve()
    root = Path(options.pop("root") or state.with_name(f"{state.stem}.d")).resolve()
    try:
        settings = TierSettings(**options | {"profile": Profile.from_text(options["profile"])})
        (root / "log").mkdir(parents=True, exist_ok=True)
        return asyncio.run(_run(settings, state, root))
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: the tier cannot use {error.filename or root}: {error.strerror or error}", file=sys.stderr)
        return HarnessError.exit_code


async def _run(settings: TierSettings, state: Path, root: Path) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    loop.call_later(settings.lifetime_s, stop.set)
    return await Launcher(settings, state, root).run(stop)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.e8.tier",
        description="The embedded system under test: supervisor, workers, relay, sandboxes, store and model stub.",
    )
    parser.add_argument("--state", required=True, metavar="FILE", help="written, whole, once turns are taken")
    parser.add_argument("--root", metavar="DIR", help="logs and workspaces (default: FILE's name with .d)")
    defaults = TierSettings()
    for each in dataclasses.fields(TierSettings):
        default = getattr(defaults, each.name)
        flag = f"--{each.name.replace('_', '-')}"
        if each.name == "profile":
            parser.add_argument(
                flag, default=default.to_text(), help=f"{HELP[each.name]} (default {default.to_text()})"
            )
            continue
        parser.add_argument(
            flag,
            type=type(default),
            default=default,
            choices=SCHEDULES if each.name == "schedule" else None,
            help=f"{HELP[each.name]} (default {default})",
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
