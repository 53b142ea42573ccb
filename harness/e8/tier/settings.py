"""What a tier is started with: one owner of every default, range and variable name."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.e8.tier.knobs import Knobs
from harness.errors import SettingsError

CONVERSATION, COUNTER = SCHEDULES = ("conversation", "counter")
ECHOED = (
    "PORT",
    "SH_WORKERS",
    "SH_TURNS_PER_WORKER",
    "SH_ROUTING_POLICY",
    "SH_SANDBOX_DISCOVERY",
    "SH_REMOTE_SANDBOX",
    "SH_PERSISTENT_EXEC",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "KAGENTI_SANDBOX_CAP",
    "SH_LAG_RESOLUTION_MS",
)
"""Variables of the supervisor that /metrics tells; no other one may leave the process."""


@dataclass(frozen=True)
class Profile:
    """How the model stub behaves: milliseconds before the first delta and after each delta, deltas of a text, and the
    share of requests that are answered with a tool call (0.5: one exec per turn)."""

    ttft_ms: float = 300.0
    token_delay_ms: float = 12.0
    output_tokens: int = 64
    tool_call_rate: float = 0.5

    @classmethod
    def from_knobs(cls, knobs: Knobs) -> Profile:
        """From the stub's environment. Raises SettingsError."""
        return cls(
            ttft_ms=knobs.number("SH_STUB_TTFT_MS", cls.ttft_ms, 0, 60_000),
            token_delay_ms=knobs.number("SH_STUB_TOKEN_DELAY_MS", cls.token_delay_ms, 0, 10_000),
            output_tokens=knobs.whole("SH_STUB_OUTPUT_TOKENS", cls.output_tokens, 1, 100_000),
            tool_call_rate=knobs.number("SH_STUB_TOOL_CALL_RATE", cls.tool_call_rate, 0, 1),
        )

    @classmethod
    def from_text(cls, text: str) -> Profile:
        """From ``ttft/delay/tokens/rate``, for example 300/12/64/0.5. Raises SettingsError."""
        parts = text.split("/")
        if len(parts) != 4:
            raise SettingsError(f"the profile is {text!r}; give ttft_ms/token_delay_ms/output_tokens/tool_call_rate")
        return cls.from_knobs(Knobs(dict(zip(_PROFILE_VARIABLES, parts, strict=True))))

    def to_text(self) -> str:
        """Inverse of ``from_text``."""
        return "/".join(plain(value) for value in dataclasses.astuple(self))

    def to_environment(self) -> dict[str, str]:
        """The stub's variables."""
        return dict(zip(_PROFILE_VARIABLES, (plain(value) for value in dataclasses.astuple(self)), strict=True))

    def to_json(self) -> dict[str, float]:
        """What ``GET /profile`` answers."""
        numbers = dict(zip(_PROFILE_FIELDS, dataclasses.astuple(self), strict=True))
        return {name: int(value) if value == int(value) else value for name, value in numbers.items()}


_PROFILE_FIELDS = ("ttftMs", "tokenDelayMs", "outputTokens", "toolCallRate")
_PROFILE_VARIABLES = ("SH_STUB_TTFT_MS", "SH_STUB_TOKEN_DELAY_MS", "SH_STUB_OUTPUT_TOKENS", "SH_STUB_TOOL_CALL_RATE")


@dataclass(frozen=True)
class TierSettings:
    """All of one tier. The defaults fit two cores: a realism ladder 1 2 4 8 with its shipped lease cap."""

    workers: int = 2
    turns_per_worker: int = 4
    sandboxes: int = 2
    cap: int = 13
    profile: Profile = field(default_factory=Profile)
    schedule: str = CONVERSATION
    tool_command: str = "ls -la"
    lag_resolution_ms: int = 1
    stats_interval_ms: int = 1000
    lease_ttl_ms: int = 60_000
    restart_backoff_ms: int = 250
    leak_connections: int = 0
    port: int = 0
    admin_port: int = 0
    lifetime_s: float = 900.0

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            if not low <= getattr(self, name) <= high:
                raise SettingsError(f"{name} is {getattr(self, name)!r}; give a number from {low:g} to {high:g}")
        if self.schedule not in SCHEDULES:
            raise SettingsError(f"schedule is {self.schedule!r}; give one of {', '.join(SCHEDULES)}")
        if not self.tool_command:
            raise SettingsError("tool_command is empty; give a command that bash can run")
        if self.port and self.port == self.admin_port:
            raise SettingsError(f"port and admin_port are both {self.port}; give two ports")

    def to_json(self) -> dict[str, Any]:
        """The form that stands in the state file."""
        return dataclasses.asdict(self)

    def to_flags(self) -> list[str]:
        """The command line that starts such a tier."""
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        values["profile"] = self.profile.to_text()
        return [f"--{name.replace('_', '-')}={plain(value)}" for name, value in values.items()]

    def supervisor_environment(self, stub_url: str, relay: str, store: str) -> dict[str, str]:
        """The supervisor's variables; its workers inherit them."""
        return {
            "PORT": plain(self.port),
            "SH_ADMIN_PORT": plain(self.admin_port),
            "SH_WORKERS": plain(self.workers),
            "SH_TURNS_PER_WORKER": plain(self.turns_per_worker),
            "SH_ROUTING_POLICY": "leastInFlight",
            "SH_WORKER_RESTART_BACKOFF_MS": plain(self.restart_backoff_ms),
            "SH_STATS_INTERVAL_MS": plain(self.stats_interval_ms),
            "SH_LAG_RESOLUTION_MS": plain(self.lag_resolution_ms),
            "SH_REMOTE_SANDBOX": "1",
            "SH_SANDBOX_DISCOVERY": "records",
            "SH_RELAY_ADDR": relay,
            "SH_STORE_ADDR": store,
            "SH_LEAK_CONNECTIONS_PER_TURN": plain(self.leak_connections),
            "ANTHROPIC_BASE_URL": stub_url,
            "ANTHROPIC_MODEL": "stub",
            "KAGENTI_SANDBOX_CAP": plain(self.cap),
            "KAGENTI_SANDBOX_LEASE_TTL_MS": plain(self.lease_ttl_ms),
        }


RANGES: dict[str, tuple[float, float]] = {
    "workers": (1, 64),
    "turns_per_worker": (1, 10_000),
    "sandboxes": (0, 64),
    "cap": (1, 10_000),
    "lag_resolution_ms": (1, 1000),
    "stats_interval_ms": (50, 60_000),
    "lease_ttl_ms": (100, 3_600_000),
    "restart_backoff_ms": (1, 30_000),
    "leak_connections": (0, 100),
    "port": (0, 65_535),
    "admin_port": (0, 65_535),
    "lifetime_s": (1, 86_400),
}


def plain(value: object) -> str:
    """A number as a plain decimal that ``Knobs`` reads, text as it is."""
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def available_cores() -> int:
    """Cores that this process may use: its affinity, and its cgroup's quota rounded down, at least 1."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores
