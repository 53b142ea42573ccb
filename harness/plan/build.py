"""Settings → the plan of a run: targets, shares, queue, floor, thresholds and schedule, or a refusal in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from harness.errors import PlanError
from harness.plan import schedule as schedules
from harness.plan import shares
from harness.plan.model import Plan, PlannedTarget, Roll
from harness.plan.sortie_yaml import ZERO_FAILURES
from harness.settings import Settings

POOL = "nodes"
POOL_ADDRESS = "nodes.fleet.internal:8443"
SCENARIO = "mesh"
STAND_IN_DOMAINS = (".internal", ".test", ".example", ".invalid", ".localhost")  # RFC 2606, 6761 and ICANN's .internal
LONGEST_URL = 2000
USER_AGENT = "User-Agent: soak-harness"


@dataclass(frozen=True)
class Planned:
    """A plan and what goes on beside its load."""

    plan: Plan
    rolls: tuple[Roll, ...]


def node_names(count: int) -> list[str]:
    """``node-a``, ``node-b`` … at most 26."""
    return [f"node-{chr(ord('a') + index)}" for index in range(count)]


def build_plan(settings: Settings) -> Planned:
    """Everything a run promises, worked out before anything is started. Raises PlanError."""
    from harness.sortie.thresholds import check_known, parse_threshold

    _check_settings(settings)
    profile = schedules.read_schedule(schedules.profile_file(settings.profile))
    duration_s = settings.duration_s or profile.duration_s
    if duration_s is None:
        raise PlanError(f"{profile.source}: a profile needs duration_s")
    targets_file = Path(settings.targets) if settings.targets else shares.DEFAULT_TARGETS_FILE
    listed = shares.read_targets(targets_file)
    _check_hosts(listed, targets_file)
    targets = shares.compute_shares(
        listed,
        rate_rps=settings.rate,
        concurrency=settings.concurrency,
        source=targets_file.name,
    )
    extra = tuple(text.strip() for text in settings.thresholds.split(";") if text.strip())
    for text in extra:
        check_known(parse_threshold(text))
    floor = shares.floor_rps(targets, backends=settings.nodes, floor_pct=settings.floor_pct)
    plan = Plan(
        scenario=SCENARIO,
        pool=POOL,
        dns=POOL_ADDRESS,
        rate_rps=settings.rate,
        duration_s=duration_s,
        concurrency=settings.concurrency,
        max_pending=_queue(settings, targets),
        connections=settings.connections,
        timeout_s=settings.engine.timeout_s,
        headers=(USER_AGENT,),
        targets=targets,
        thresholds=(*ZERO_FAILURES, f"rate:benchmark.http_2xx >= {floor}", *extra),
    )
    return Planned(plan, _rolls(settings, profile, plan))


def _check_settings(settings: Settings) -> None:
    if settings.proxy.drain_s >= settings.proxy.parent_shutdown_s:
        raise PlanError(
            f"proxy.drain_s={settings.proxy.drain_s} must be under proxy.parent_shutdown_s="
            f"{settings.proxy.parent_shutdown_s}: the old proxy would be gone before it has drained"
        )


def _check_hosts(targets: list[shares.WeightedTarget], source: Path) -> None:
    """The embedded fleet answers for every target itself; no verdict of it may be taken for one of a real host."""
    seen: dict[str, str] = {}
    for target in targets:
        authority, host = _authority(target, source)
        if not host.endswith(STAND_IN_DOMAINS):
            raise PlanError(
                f"{source}: fleet=local answers for {target.name!r} with a server of its own, so the host in "
                f"{target.url!r} must end in one of {', '.join(STAND_IN_DOMAINS)}"
            )
        if authority in seen:
            raise PlanError(f"{source}: {target.name!r} and {seen[authority]!r} are both reached as {authority}")
        seen[authority] = target.name


def _authority(target: shares.WeightedTarget, source: Path) -> tuple[str, str]:
    """``host:port`` in lower case, and the host. Raises PlanError for a URL that no request line could carry."""
    try:
        parts = urlsplit(target.url)
        port = parts.port
    except ValueError:
        port = -1
    plain = (
        len(target.url) <= LONGEST_URL and target.url.isascii() and target.url.isprintable() and "@" not in target.url
    )
    if port in (-1, 0) or not plain:
        raise PlanError(f"{source}: {target.name!r} has a URL that cannot be asked for: {target.url[:80]!r}")
    return f"{parts.hostname or ''}:{port or 80}", parts.hostname or ""


def _queue(settings: Settings, targets: tuple[PlannedTarget, ...]) -> int | None:
    if settings.max_pending == 0:
        return None
    if settings.max_pending > 0:
        return settings.max_pending
    return shares.queue_size(targets, concurrency=settings.concurrency, stall_budget_s=settings.stall_budget_s)


def _rolls(settings: Settings, profile: schedules.Schedule, plan: Plan) -> tuple[Roll, ...]:
    if settings.churn == "off":
        return ()
    chosen = profile if settings.churn == "profile" else schedules.read_schedule(Path(settings.churn))
    names = [target.name for target in plan.targets]
    if settings.churn == "profile" and settings.targets:
        # the shipped schedules name the shipped targets; with other targets the same moments go round them in turn
        rolls = tuple(
            roll if roll.kind == "proxy" else Roll(roll.at_s, roll.kind, schedules.NEXT) for roll in chosen.rolls
        )
        chosen = schedules.Schedule(chosen.source, chosen.duration_s, rolls)
    if settings.replicas == 1 and any(roll.kind == "target" for roll in chosen.rolls):
        raise PlanError(
            f"{chosen.source}: rolls a target, which takes one replica away at a time: give replicas=2 or churn=off"
        )
    return schedules.resolve(
        chosen,
        duration_s=plan.duration_s,
        nodes=node_names(settings.nodes),
        targets=names,
        parent_shutdown_s=settings.proxy.parent_shutdown_s,
        scaled=settings.churn == "profile",
    )
