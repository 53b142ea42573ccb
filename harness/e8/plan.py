"""What a ladder is to be, from its settings: the rungs, the tier it climbs, and how long each rung may take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from harness.e8.arms import ARMS, CAPACITY, NO_BASIS, REALISM, threshold
from harness.e8.compose import RungPlan
from harness.e8.driver import rung_deadline_s
from harness.e8.faults import Faults, parse
from harness.e8.http import parse_base
from harness.e8.ladder import parse_ladder
from harness.e8.record import rung_name
from harness.e8.target import Target, somebodys
from harness.e8.tier.settings import Profile, TierSettings
from harness.errors import FaultError, SettingsError
from harness.settings import Settings

OWN_LADDER: Mapping[str, str] = {REALISM: "1 2 4 8", CAPACITY: "1 2 4 8 16 32 64 128 256"}
"""The ladders that two cores carry in a few minutes: the first to the pool's floor, the other beyond its knee."""
OWN_SANDBOXES: Mapping[str, int] = {REALISM: 2, CAPACITY: 16}
OWN_WORKERS, OWN_TURNS_PER_WORKER, OWN_CAP = 2, 4, 13
OWN_PROFILE: Mapping[str, Profile] = {REALISM: Profile(300, 12, 64, 0.5), CAPACITY: Profile(10, 1, 64, 0.5)}
LIFETIME_MARGIN_S = 3600.0
MOST_LIFETIME_S = 86_400.0
AUTO_RUNGS = 24


@dataclass(frozen=True)
class LadderPlan:
    """One ladder. ``rungs`` are the clients of each rung, None where the ladder finds them itself, up to ``top``."""

    arm: str
    text: str
    rungs: tuple[int, ...] | None
    top: int
    basis: str
    tier: TierSettings | None
    faults: Faults
    settings: Settings

    @property
    def names(self) -> tuple[str, ...]:
        """The rungs that are known before the first one is measured."""
        return tuple(map(rung_name, self.rungs or (1,)))

    def deployment(self, pins: Mapping[str, str] | None = None) -> Target:
        """The deployment that is climbed, where it is not the embedded tier."""
        own = self.settings.e8
        return somebodys(
            own.base,
            own.metrics,
            own.stub,
            sandbox_cpu=own.sandbox_cpu_cmd,
            host_cpu=own.host_cpu_cmd,
            exec_count=own.exec_count_cmd,
            pins=pins,
        )

    def rung(self, c: int, repeat: int, mean_turn_ms: float | None, *, cut_tries: int = 0) -> RungPlan:
        """What one rung sends; ``mean_turn_ms`` is what a turn takes alone, as far as that was measured."""
        own = self.settings.e8
        return RungPlan(
            c=c,
            repeat=repeat,
            arm=self.arm,
            duty_basis=self.basis,
            turns_per_client=own.turns_per_rung,
            turn_timeout_s=own.turn_timeout_s,
            deadline_s=rung_deadline_s(own.turns_per_rung, mean_turn_ms, own.turn_timeout_s),
            body=own.body,
            burn_ms=self.faults.burn_ms(rung_name(c, repeat)),
            cut_tries=cut_tries,
        )


def plan_ladder(settings: Settings) -> LadderPlan:
    """The ladder of one arm. Raises SettingsError or FaultError; nothing is started or written."""
    arm, own = settings.arm, settings.e8
    if arm not in ARMS:
        raise SettingsError(f"arm={arm}: a ladder is of one arm, {' or '.join(ARMS)}")
    text = " ".join((settings.ladder or OWN_LADDER[arm]).split())
    rungs, top = parse_ladder(text)
    workers = own.workers or OWN_WORKERS
    faults = parse(settings.fault, ladder=rungs, workers=workers)
    outside = bool(own.base or own.metrics or own.stub)
    _check_body(own.body)
    if outside:
        _check_outside(settings)
        if settings.fault:
            raise FaultError("faults are injected into the embedded tier alone: leave out fault= or e8.base=")
    if not outside:
        _check_no_hooks(settings)
    basis = NO_BASIS if arm == CAPACITY else own.basis
    tier = None if outside else _tier(settings, arm, workers, top, rungs, faults)
    return LadderPlan(arm, text, rungs, top, basis, tier, faults, settings)


def _check_body(body: str) -> None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise SettingsError(f"e8.body={body} is no JSON object, and a turn sends one")


def _check_no_hooks(settings: Settings) -> None:
    for key in ("sandbox_cpu_cmd", "host_cpu_cmd", "exec_count_cmd"):
        if getattr(settings.e8, key):
            raise SettingsError(
                f"e8.{key}= tells of a deployment, and the embedded tier is measured: name e8.base= too"
            )


def _check_outside(settings: Settings) -> None:
    """A deployment is named whole, and nothing of the embedded tier beside it."""
    own = settings.e8
    for key in ("base", "metrics", "stub"):
        if not getattr(own, key):
            raise SettingsError(f"e8.{key}= is missing: a deployment is named by e8.base=, e8.metrics= and e8.stub=")
        parse_base(getattr(own, key), f"e8.{key}")
    for key, default in (("sandboxes", 0), ("lease_cap", 0), ("profile", ""), ("schedule", "conversation")):
        if getattr(own, key) != default:
            raise SettingsError(f"e8.{key}= is of the embedded tier, and e8.base= names a deployment: leave one out")


def _tier(
    settings: Settings, arm: str, workers: int, top: int, rungs: tuple[int, ...] | None, faults: Faults
) -> TierSettings:
    """The embedded tier; in the capacity arm both caps clear the top rung as often as they must."""
    own = settings.e8
    capacity = arm == CAPACITY
    cleared = int(threshold("cap_headroom_x") * top)
    sandboxes = own.sandboxes or OWN_SANDBOXES[arm]
    profile = Profile.from_text(own.profile) if own.profile else OWN_PROFILE[arm]
    return TierSettings(
        workers=workers,
        turns_per_worker=own.turns_per_worker or (_share(cleared, workers) if capacity else OWN_TURNS_PER_WORKER),
        sandboxes=sandboxes,
        cap=own.lease_cap or (_share(cleared, sandboxes) if capacity else OWN_CAP),
        profile=profile,
        schedule=own.schedule,
        leak_connections=faults.leak_connections,
        lifetime_s=_lifetime_s(settings, profile, rungs),
    )


def check_headroom(plan: LadderPlan) -> None:
    """Capacity on the embedded tier: a cap that would end a given ladder is known before anything is started.

    Raises SettingsError. How high an automatic ladder goes is not known yet, and of a deployment no cap is: there the
    rules ``admission_headroom`` and ``lease_headroom`` judge. In the realism arm a cap may end the ladder.
    """
    tier = plan.tier
    if plan.arm != CAPACITY or tier is None or plan.rungs is None:
        return
    needed = int(threshold("cap_headroom_x") * plan.top)
    wants = f"and the capacity arm needs {needed} for a top rung of {plan.top}"
    if tier.workers * tier.turns_per_worker < needed:
        raise SettingsError(
            f"e8.turns_per_worker={tier.turns_per_worker}: {_of(tier.workers, 'worker')} of "
            f"{_of(tier.turns_per_worker, 'turn')} admit {tier.workers * tier.turns_per_worker}, {wants}: give "
            f"{_share(needed, tier.workers)} or more, more e8.workers, or a lower ladder"
        )
    if tier.sandboxes * tier.cap < needed:
        raise SettingsError(
            f"e8.lease_cap={tier.cap}: {_of(tier.sandboxes, 'sandbox')} of {_of(tier.cap, 'lease')} hold "
            f"{tier.sandboxes * tier.cap} turns, {wants}: give {_share(needed, tier.sandboxes)} or more, more "
            "e8.sandboxes, or a lower ladder"
        )


def sizes(tier: TierSettings) -> str:
    """How large the embedded tier is, in words."""
    workers, turns = _of(tier.workers, "worker"), _of(tier.turns_per_worker, "turn")
    return f"{workers} of {turns}, {_of(tier.sandboxes, 'sandbox')} of {_of(tier.cap, 'lease')}"


def _of(count: int, what: str) -> str:
    many = f"{what}es" if what.endswith("x") else f"{what}s"
    return f"{count} {what if count == 1 else many}"


def _share(total: int, parts: int) -> int:
    return -(-total // parts)


def _lifetime_s(settings: Settings, profile: Profile, rungs: tuple[int, ...] | None) -> float:
    """Twice what the rungs may take at most, and an hour: for the workload, and for a ladder that is gone on with."""
    answer_ms = profile.ttft_ms + profile.output_tokens * profile.token_delay_ms
    a_rung_s = rung_deadline_s(settings.e8.turns_per_rung, 3 * answer_ms, settings.e8.turn_timeout_s)
    return min(MOST_LIFETIME_S, LIFETIME_MARGIN_S + 2 * a_rung_s * (len(rungs) if rungs else AUTO_RUNGS))
