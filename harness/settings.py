"""Every setting: its key, type, default, bounds and meaning stand in the dataclasses below, and nowhere else.

Values come from harness.toml, then ``HARNESS_*`` of the environment, then ``key=value`` on the command line. A key
nobody knows is refused before anything starts, wherever it came from: a misspelt ``profil=soak`` must never let a
short run pass for a soak.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import SettingsError

Value = str | int | float
ENVIRONMENT_PREFIX = "HARNESS_"
NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?")
LADDER_KEYS = ("arm", "ladder")
"""Settings of ladders alone, beside those of the group e8; ``SHARED_KEYS`` are of every kind of run."""
SHARED_KEYS = ("run", "runs", "fault", "pin_file")
CLIMB_KEYS = frozenset(
    {"ladder", "e8.turns_per_rung", "e8.degrade_x", "e8.min_c", "e8.rss_budget_bytes", "e8.watch_s", "pin_file"}
)
"""Settings of ladders that mean nothing where one rung is held; ``HOLD_KEYS`` mean nothing where one is climbed."""
HOLD_KEYS = frozenset({"e8.soak_c", "e8.soak_s"})
LAG_KEYS = frozenset({"run", "runs", "e8.base", "e8.metrics", "e8.stub"})
"""All that the lag check listens to: where to keep what it saw, and that no deployment is meant."""
REALISM_KEYS = frozenset({"e8.basis"})
NEVER_EMPTY = frozenset({"runs", "pin_file", "fleet"})
LOCAL = "local"
MOST_LOCAL_NODES = 26
NOT_SETTINGS = frozenset({"HARNESS_TOKEN"})  # the mark of a run's processes


def _setting(
    default: Value,
    meaning: str,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    return field(
        default=default,
        metadata={"default": default, "help": meaning, "least": least, "most": most, "choices": choices},
    )


@dataclass(frozen=True)
class EngineSettings:
    """The load engine."""

    max_send_delay_ms: float = _setting(250.0, "p99 of intended-to-written above which the driver was late", least=0.1)
    timeout_s: float = _setting(30.0, "bounds connecting, and the wait for in-flight requests at the end", least=0.1)
    drain_s: float = _setting(1.0, "allowance for draining in a backend's deadline", least=0)
    grace_s: float = _setting(120.0, "how long past its plan a silent engine is waited for", least=0)
    max_executions: int = _setting(16, "executions an engine runs at once", least=1, most=1000)


@dataclass(frozen=True)
class ProxySettings:
    """The node proxies of the embedded fleet."""

    drain_s: int = _setting(2, "how long the old process drains at a hot restart", least=1, most=600)
    parent_shutdown_s: int = _setting(4, "when the old process exits after a hot restart", least=2, most=900)


@dataclass(frozen=True)
class TargetSettings:
    """The target servers of the embedded fleet."""

    drain_s: float = _setting(1.0, "how long a replica out of the endpoints is left to drain", least=0, most=600)


@dataclass(frozen=True)
class LadderSettings:
    """A ladder of concurrent turns, and what it climbs: the embedded tier, or somebody's deployment at ``base``."""

    base: str = _setting("", "URL of a deployment to measure; empty means the embedded tier")
    metrics: str = _setting("", "URL of its admin listener")
    stub: str = _setting("", "URL of the model stub that it calls")
    workers: int = _setting(
        0, "workers; 0 means 2 of the embedded tier, and of a deployment as it says", least=0, most=64
    )
    turns_per_worker: int = _setting(
        0, "turns a worker may hold; 0 means 4, in the capacity arm enough for twice the top rung", least=0, most=10_000
    )
    sandboxes: int = _setting(0, "sandboxes of the embedded tier; 0 means 2, in the capacity arm 16", least=0, most=64)
    lease_cap: int = _setting(
        0, "leases per sandbox; 0 means 13, in the capacity arm enough for twice the top rung", least=0, most=10_000
    )
    profile: str = _setting(
        "", "the embedded stub: ttft_ms/token_delay_ms/tokens/tool_call_rate; empty means what the arm is pinned to"
    )
    schedule: str = _setting(
        "conversation",
        "who the embedded stub counts tool calls for: each conversation, or one counter for all",
        choices=("conversation", "counter"),
    )
    basis: str = _setting(
        "e6-ocp", "row of recorded duty that the realism arm is calibrated to", choices=("e6-ocp", "e6-kind", "e7")
    )
    turns_per_rung: int = _setting(30, "turns of each client in a rung", least=1, most=10_000)
    turn_timeout_s: float = _setting(60.0, "deadline of one turn", least=1, most=600)
    body: str = _setting('{"prompt":"summarise the diff"}', "what a turn sends")
    degrade_x: float = _setting(2.0, "p95 bound of a healthy rung, as a multiple of the p95 at c=1", least=1, most=100)
    min_c: int = _setting(4, "least knee: one under it fails", least=1, most=10_000)
    rss_budget_bytes: int = _setting(0, "what a worker may hold; 0 means memory is never what bound", least=0)
    sandbox_cpu_cmd: str = _setting("", "command that prints the CPU seconds the sandboxes have used, a line each")
    host_cpu_cmd: str = _setting("", "command that prints the CPU seconds the deployment's host has used")
    exec_count_cmd: str = _setting("", "command that prints how many commands the sandboxes have run, a line each")
    watch_s: float = _setting(
        5.0,
        "how long the host at rest, and an idle and a starved worker, are watched before the ladder",
        least=1,
        most=600,
    )
    soak_c: int = _setting(2, "clients that ./doit e8-soak holds", least=1, most=1000)
    soak_s: float = _setting(900.0, "how long ./doit e8-soak holds them", least=1, most=86_400)


@dataclass(frozen=True)
class KubernetesSettings:
    """A fleet on Kubernetes: one engine on every worker node, one driver, reports on a volume."""

    engine: str = _setting(
        "harness", "whose engine and driver: this project's own, or sortie's", choices=("harness", "sortie")
    )
    image: str = _setting("", "image of engine=harness, by digest; empty means what the values files say")
    chart: str = _setting("", "chart to install: a folder, or oci://...; empty means the one of engine=harness")
    chart_digest: str = _setting("", "sha256:... of a chart that is pulled")
    values: str = _setting("", "values files of the chart, separated by ';'")
    kubeconfig: str = _setting("", "kubeconfig file; empty means KUBECONFIG, or ~/.kube/config")
    namespace: str = _setting("aether-test", "where the release stands")
    system_namespace: str = _setting("aether-system", "whose pods must all be ready; empty means none")
    release: str = _setting("soak", "name of the release, from which all names follow")
    cluster_domain: str = _setting("cluster.local", "domain of the cluster's DNS")
    priority_class: str = _setting("soak-load", "PriorityClass of engines and driver; made where it is absent")
    storage_class: str = _setting("", "StorageClass of the reports; empty means the default, else the only one")
    reader_image: str = _setting("", "image with a shell that reads the volume; empty means that of the driver")
    statsd: str = _setting("auto", "where engines send live metrics: auto, off, or IP:PORT")
    statsd_service: str = _setting("o11y/otel-scraper", "namespace/name of the Service that statsd=auto looks for")
    settle_s: float = _setting(240.0, "wait between the load's start and the first roll", least=0, most=3600)
    verify: str = _setting(
        "auto", "check signatures: auto (where cosign is), require, or off", choices=("auto", "require", "off")
    )
    identity: str = _setting("", "regular expression of the workflow that signed chart and images")
    issuer: str = _setting("", "issuer of its identity")
    trusted_root: str = _setting("", "trusted root of a private Sigstore; empty means the public one")
    plain_http: int = _setting(0, "1 pulls chart and signatures over plain HTTP", least=0, most=1)
    helm: str = _setting("helm", "the command helm")
    cosign: str = _setting("cosign", "the command cosign")


@dataclass(frozen=True)
class Settings:
    """All settings of one invocation."""

    profile: str = _setting("quick", "quick (60 s), e2e (900 s) or soak (30,600 s)", choices=("quick", "e2e", "soak"))
    fleet: str = _setting("local", "where load runs: local is this machine, else a context of a kubeconfig")
    run: str = _setting("", "id of the run to go on with, or a name for a new one")
    runs: str = _setting("runs", "folder that holds the runs")
    nodes: int = _setting(5, "nodes, each with an engine; at most 26 of the embedded fleet", least=1, most=5000)
    rate: int = _setting(60, "requests per second per node, over all targets", least=1, most=100_000)
    duration_s: int = _setting(0, "length of the load; 0 means the profile's", least=0, most=7 * 86_400)
    targets: str = _setting("", "targets file (name url weight); empty means the eight that ship with the project")
    replicas: int = _setting(2, "replicas of each target", least=1, most=8)
    concurrency: int = _setting(
        1, "workers that a share must divide by; multiplies connections and queue", least=1, most=16
    )
    connections: int = _setting(100, "connections per target and node", least=1, most=10_000)
    stall_budget_s: int = _setting(2, "stall that the client queue rides out", least=1, most=600)
    max_pending: int = _setting(-1, "client queue; -1 computes it, 0 leaves it out of the plan", least=-1, most=100_000)
    floor_pct: int = _setting(99, "share of the planned count under which the plan's floor trips", least=1, most=100)
    thresholds: str = _setting("", "further thresholds, separated by ';', like latency_2xx.p99 < 500ms")
    churn: str = _setting("profile", "rolls during the load: profile, off, or a schedule file")
    fault: str = _setting(
        "", "faults to inject, separated by ';', like freeze proxy node-d at 20s for 5s, or kill stub at c4 of a ladder"
    )
    arm: str = _setting(
        "both",
        "ladders to climb: realism, capacity, or both, one after the other; ./doit e8-soak holds one, of both capacity",
        choices=("both", "realism", "capacity"),
    )
    ladder: str = _setting(
        "", "clients of each rung, like 1 2 4 8, or auto, or auto 64 for at most 64; empty means the arm's own"
    )
    settle_s: float = _setting(1.0, "wait between a ready fleet and the load", least=0, most=3600)
    access_log: str = _setting("all", "what the proxies log: all requests, or errors only", choices=("all", "errors"))
    progress_s: float = _setting(10.0, "interval of progress rows in the evidence", least=1, most=600)
    pin_file: str = _setting("pins.toml", "versions and digests that a run must find installed")
    force: int = _setting(0, "1 lets a teardown on a cluster end what is not saved, or still loads", least=0, most=1)
    purge: int = _setting(0, "1 lets a teardown on a cluster delete the volume of the reports, too", least=0, most=1)
    engine: EngineSettings = field(default_factory=EngineSettings)
    proxy: ProxySettings = field(default_factory=ProxySettings)
    target: TargetSettings = field(default_factory=TargetSettings)
    k8s: KubernetesSettings = field(default_factory=KubernetesSettings)
    e8: LadderSettings = field(default_factory=LadderSettings)

    def flat(self) -> dict[str, Value]:
        """Key → value, nested keys dotted: the form that stands in run.json."""
        return {setting.key: _get(self, setting.key) for setting in SETTINGS}


@dataclass(frozen=True)
class Setting:
    """One setting as the registry knows it."""

    key: str
    type: type
    default: Value
    help: str
    least: float | None
    most: float | None
    choices: tuple[str, ...]

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return ENVIRONMENT_PREFIX + self.key.replace(".", "_").upper()

    def parse(self, value: object, source: str) -> Value:
        """The value in its type. ``source`` opens the sentence of a SettingsError."""
        if isinstance(value, str) and any(ord(character) < 32 for character in value):
            raise SettingsError(f"{source}: {self.key} must be one line without control characters")
        parsed = self._typed(value, source)
        if self.key in NEVER_EMPTY and not parsed:
            raise SettingsError(f"{source}: {self.key}= must not be empty")
        if self.choices and parsed not in self.choices:
            raise SettingsError(f"{source}: {self.key}={value} must be one of {', '.join(self.choices)}")
        if isinstance(parsed, int | float):
            if self.least is not None and not parsed >= self.least:
                raise SettingsError(f"{source}: {self.key}={value} must be at least {self.least:g}")
            if self.most is not None and not parsed <= self.most:
                raise SettingsError(f"{source}: {self.key}={value} must be at most {self.most:g}")
        return parsed

    def _typed(self, value: object, source: str) -> Value:
        if self.type is str and isinstance(value, str):
            return value
        if self.type is not str and isinstance(value, str | int | float) and not isinstance(value, bool):
            try:
                number = self.type(value) if not isinstance(value, str) or NUMBER.fullmatch(value) else None
            except (ValueError, OverflowError):
                number = None
            if number is not None and not (isinstance(value, float) and number != value):
                return typing.cast(Value, number)
        kind = {str: "text", int: "a whole number", float: "a number"}[self.type]
        raise SettingsError(f"{source}: {self.key}={value} must be {kind}")


def _registry() -> tuple[Setting, ...]:
    found: list[Setting] = []

    def walk(owner: type, prefix: str) -> None:
        hints = typing.get_type_hints(owner)
        for item in dataclasses.fields(owner):
            kind = hints[item.name]
            if dataclasses.is_dataclass(kind):
                walk(typing.cast(type, kind), f"{prefix}{item.name}.")
            else:
                found.append(Setting(key=prefix + item.name, type=kind, **item.metadata))

    walk(Settings, "")
    return tuple(found)


SETTINGS = _registry()
BY_KEY: Mapping[str, Setting] = types.MappingProxyType({setting.key: setting for setting in SETTINGS})


def is_for(key: str, *, ladder: bool) -> bool:
    """Whether the setting means something to a ladder, or to a soak."""
    of_ladder = key.startswith("e8.") or key in LADDER_KEYS
    return key in SHARED_KEYS or of_ladder == ladder


def means_to(key: str, task: str) -> bool:
    """Whether the setting means something to a task that runs something: soak, e8, e8-soak or e8-lag-check."""
    if task == "e8-lag-check":
        return key in LAG_KEYS
    silent = {"e8": HOLD_KEYS, "e8-soak": CLIMB_KEYS}.get(task, frozenset())
    return is_for(key, ladder=task != "soak") and key not in silent


def _get(settings: object, key: str) -> Value:
    value: Any = settings
    for part in key.split("."):
        value = getattr(value, part)
    return typing.cast(Value, value)


def _find(key: str, source: str) -> Setting:
    if key in BY_KEY:
        return BY_KEY[key]
    near = difflib.get_close_matches(key, BY_KEY, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(BY_KEY)}"
    raise SettingsError(f"{source}: {key!r} is no setting{hint}")


def build(values: Mapping[str, object], source: str) -> Settings:
    """Settings from flat keys; what is not given keeps its default. Raises SettingsError."""
    groups: dict[str, dict[str, Value]] = {}
    for key, value in values.items():
        setting = _find(key, source)
        group, _, name = setting.key.rpartition(".")
        groups.setdefault(group, {})[name] = setting.parse(value, source)
    nested = {name: dataclasses.replace(getattr(Settings(), name), **fields) for name, fields in groups.items() if name}
    built = dataclasses.replace(Settings(), **groups.get("", {}), **nested)  # type: ignore[arg-type]
    if built.fleet == LOCAL and built.nodes > MOST_LOCAL_NODES:
        raise SettingsError(f"{source}: nodes={built.nodes} must be at most {MOST_LOCAL_NODES} with fleet={LOCAL}")
    return built


def load(toml: Path, environment: Mapping[str, str], arguments: Mapping[str, str]) -> Settings:
    """File, then environment, then command line. Raises SettingsError with the source at fault in its sentence."""
    values: dict[str, object] = {}
    for key, value in read_toml(toml).items():
        values[key] = _find(key, str(toml)).parse(value, str(toml))
    by_variable = {setting.variable: setting.key for setting in SETTINGS}
    for name, text in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX) and name not in NOT_SETTINGS:
            if name not in by_variable:
                near = difflib.get_close_matches(name, by_variable, n=1)
                raise SettingsError(
                    f"environment: {name} is no setting" + (f"; did you mean {near[0]}?" if near else "")
                )
            values[by_variable[name]] = BY_KEY[by_variable[name]].parse(text, f"environment {name}")
    for key, text in arguments.items():
        values[key] = _find(key, "command line").parse(text, "command line")
    return build(values, "settings")


def read_toml(path: Path) -> dict[str, object]:
    """harness.toml with its tables flattened to dotted keys; a file that is not there holds nothing."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: cannot be read as TOML ({' '.join(str(error).split())[:200]})") from error
    flat: dict[str, object] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            flat[key] = value
    return flat
