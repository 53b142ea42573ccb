"""How busy each tier was: one small picture each, all to one scale, with what would convict it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.e8.arms import CAPACITY, threshold
from harness.e8.record import Ladder, Rung
from harness.report.ladder.axes import Doublings, medians
from harness.report.ladder.pictures import Knee, band, joined, written
from harness.report.ladder.states import mark
from harness.report.svg import WIDTH, line, picture, text

ACROSS, GAP, LEFT = 4, 14.0, 34.0
HEAD, HEIGHT, FOOT = 56.0, 104.0, 38.0
SAID = 14.0  # a line of the head more
WHOLE_PCT = 100.0


@dataclass(frozen=True)
class Tier:
    """A tier: its name, of what its share is one, the share in % of a rung, and the shares that are held against it."""

    name: str
    of: str
    share: Callable[[Rung], float | None]
    limits: Sequence[tuple[float, str]] = ()


def tiers_of(ladder: Ladder) -> list[Tier]:
    """Every tier whose CPU can be measured, with its thresholds; of the parts without one only how busy they are."""
    rest = ladder.rest_pct or 0.0
    at_rest = " above rest" if rest else ""
    host, worker, sandbox = (threshold(f"{name}_bound_pct") for name in ("host_cpu", "worker_cpu", "sandbox"))
    most, ceiling = threshold("generator_cpu_bound_pct"), threshold("sandbox_ceiling_pct")
    ceilings = [(ceiling, f"ceiling {ceiling:g} %")] if ladder.arm == CAPACITY else []
    of_cores = "% of the target’s cores" + (f" ({ladder.cores})" if ladder.cores else "")
    of_workers = "% of min(W, cores)" + (f" ({ladder.tier_cores:g})" if ladder.tier_cores else "")

    def part(name: str) -> Callable[[Rung], float | None]:
        return lambda rung: rung.made_util_pct(getattr(rung, f"{name}_cpu_s"), ladder.cores)

    parts = [Tier(name, of_cores, part(name)) for name in ("supervisor", "stub", "relay", "store")]
    return [
        Tier("workers", of_workers, lambda rung: rung.worker_cpu_util_pct, [(worker, f"{worker:g} %")]),
        Tier("host", of_cores, lambda rung: rung.host_cpu_util_pct, [(host + rest, f"{host:g} %{at_rest}")]),
        Tier(
            "sandboxes",
            "% of the pool" + (f" ({ladder.pool})" if ladder.pool else ""),
            lambda rung: rung.sandbox_util_pct,
            [(sandbox, f"{sandbox:g} %, with leases held"), *ceilings],
        ),
        Tier("generator", "% of one core, used or waited for", _generator, [(most, f"{most:g} %")]),
        *parts,
    ]


def _generator(rung: Rung) -> float | None:
    used = rung.generator_cpu_s
    return None if used is None else rung.made_util_pct(used + (rung.generator_wait_s or 0), 1)


def small_multiples(title: str, ladder: Ladder, rungs: Sequence[Rung], states: dict[str, str], knee: Knee) -> Markup:
    """One small picture per tier. ``states``: rung → what it came to."""
    tiers = tiers_of(ladder)
    shares = [share for tier in tiers for rung in rungs if (share := tier.share(rung)) is not None]
    top_pct = max([WHOLE_PCT, *shares])
    head = HEAD + SAID * any(value > top_pct for tier in tiers for value, _ in tier.limits)
    width = (WIDTH - (ACROSS - 1) * GAP) / ACROSS
    parts = []
    for number, tier in enumerate(tiers):
        down, across = divmod(number, ACROSS)
        left, top = across * (width + GAP), down * (head + HEIGHT + FOOT)
        parts.append(_tier(tier, rungs, states, knee, (left, top, width, head), top_pct))
    return picture(WIDTH, -(-len(tiers) // ACROSS) * (head + HEIGHT + FOOT), title, parts)


def _tier(
    tier: Tier,
    rungs: Sequence[Rung],
    states: dict[str, str],
    knee: Knee,
    place: tuple[float, float, float, float],
    top_pct: float,
) -> Markup:
    left, top, width, head = place
    start, end = top + head + HEIGHT, top + head
    right = left + width
    levels = sorted({rung.c for rung in rungs})
    x = Doublings(levels, left + LEFT + 8, right - 13)

    def y(share: float) -> float:
        return start + min(max(share / top_pct, 0.0), 1.0) * (end - start)

    known = [(share, rung) for rung in rungs if (share := tier.share(rung)) is not None]
    highest = max(known, key=lambda pair: pair[0], default=None)
    says = f"highest {highest[0]:.1f} % at {highest[1].name}" if highest else "not measured"
    parts = [
        band(knee, x, end, start),
        text(left, top + 14, tier.name, "name"),
        text(left, top + 29, tier.of, "tick"),
        text(left, top + 43, says, "tick value" if highest else "tick"),
        *(line(left + LEFT, y(share), right, y(share), "grid") for share in (50.0, WHOLE_PCT)),
        *(text(left + LEFT - 5, y(share) + 4, f"{share:g}", "tick end") for share in (0.0, 50.0, WHOLE_PCT)),
        line(left + LEFT, start, right, start, "axis"),
    ]
    for share, limit in tier.limits:
        if share > top_pct:  # no share comes to it, so a line would stand above the axis
            parts.append(text(left, top + 57, f"{limit} cannot be reached", "tick limit-says"))
            continue
        parts.append(line(left + LEFT, y(share), right, y(share), "limit"))
        parts.append(text(left + LEFT + 4, y(share) - 4, limit, "tick limit-says halo"))
    shares = medians((rung.c, tier.share(rung)) for rung in rungs)
    parts.append(joined([(x(c), None if share is None else y(share)) for c, share in shares]))
    for share, rung in known:
        shape = mark(x(rung.c), y(share), states[rung.name], size=3)
        said = f"{rung.name}, {states[rung.name]}: {tier.name} {share:.1f} {tier.of}"
        parts.append(Markup("<g><title>{}</title>{}</g>").format(said, shape))
    parts += [text(x(c), start + 15, str(c), "tick middle") for c in written(levels, knee, x, 22)]
    return Markup("").join(parts)
