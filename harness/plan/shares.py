"""Targets file → shares: who gets how many of a node's requests per second, in whole numbers or not at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import gcd
from pathlib import Path

from harness.errors import PlanError
from harness.plan.model import PlannedTarget

MAX_TARGETS = 16  # an engine runs at most this many executions at once
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
URL = re.compile(r"http://[A-Za-z0-9\[][^\s]*")
LONGEST_NAME = 40  # it becomes part of file and socket names
POSITIVE = re.compile(r"[1-9][0-9]*")

DEFAULT_TARGETS_FILE = Path(__file__).with_name("targets.tsv")


@dataclass(frozen=True)
class WeightedTarget:
    """A line of a targets file."""

    name: str
    url: str
    weight: int


def read_targets(path: Path) -> list[WeightedTarget]:
    """Parse ``name url weight`` lines; ``#`` starts a comment, blank lines are skipped.

    Raises PlanError with the file's name and, where one line is at fault, its number.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: the targets file cannot be read ({_reason(error)})") from error
    targets: list[WeightedTarget] = []
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split("#", 1)[0].split()
        if fields:
            targets.append(_parse(fields, f"{path}:{number}", {target.name for target in targets}))
    if not targets:
        raise PlanError(f"{path}: names no target")
    if len(targets) > MAX_TARGETS:
        raise PlanError(f"{path}: names {len(targets)} targets, an engine runs at most {MAX_TARGETS} at once")
    return targets


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _parse(fields: list[str], where: str, seen: set[str]) -> WeightedTarget:
    if len(fields) != 3:
        raise PlanError(f"{where}: wants three fields (name url weight), has {len(fields)}")
    name, url, weight = fields
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise PlanError(
            f"{where}: target name {name[:80]!r} must be at most {LONGEST_NAME} lower-case letters, digits and "
            "inner hyphens"
        )
    if name in seen:
        raise PlanError(f"{where}: target {name!r} is listed twice")
    if not URL.fullmatch(url):
        raise PlanError(f"{where}: url {url!r} must start with http:// and a host")
    if not POSITIVE.fullmatch(weight):
        raise PlanError(f"{where}: weight {weight!r} must be a positive whole number")
    return WeightedTarget(name, url, int(weight))


def compute_shares(
    targets: list[WeightedTarget], *, rate_rps: int, concurrency: int, source: str
) -> tuple[PlannedTarget, ...]:
    """Each target's share of a node's rate: rate × weight ÷ Σ weights, exact.

    Raises PlanError when a share is not whole or no multiple of the concurrency: rounding would make a rate that
    nobody planned.
    """
    if rate_rps < 1:
        raise PlanError(f"rate={rate_rps} must be a positive whole number")
    if concurrency < 1:
        raise PlanError(f"concurrency={concurrency} must be a positive whole number")
    total = sum(target.weight for target in targets)
    weights = [target.weight for target in targets]
    shares = []
    for target in targets:
        share, rest = divmod(rate_rps * target.weight, total)
        if rest:
            raise PlanError(
                f"{source}: target {target.name!r} would get {rate_rps * target.weight / total:.3f} rps of "
                f"rate={rate_rps}, which is not whole; a multiple of {total // gcd(*weights)} divides evenly"
            )
        if share % concurrency:
            raise PlanError(
                f"{source}: target {target.name!r} gets {share} rps, no multiple of concurrency={concurrency}"
            )
        shares.append(PlannedTarget(target.name, target.url, share))
    if sum(share.rate_rps for share in shares) != rate_rps:
        raise PlanError(f"{source}: the shares do not sum to rate={rate_rps}")
    return tuple(shares)


def queue_size(targets: tuple[PlannedTarget, ...], *, concurrency: int, stall_budget_s: int) -> int:
    """Client queue that rides out a stall: largest share ÷ concurrency × stall budget."""
    if stall_budget_s < 1:
        raise PlanError(f"stall_budget_s={stall_budget_s} must be a positive whole number")
    return max(target.rate_rps for target in targets) // concurrency * stall_budget_s


def floor_rps(targets: tuple[PlannedTarget, ...], *, backends: int, floor_pct: int) -> str:
    """The pool-wide floor of a plan: smallest share × backends × P/100, two decimals."""
    hundredths = min(target.rate_rps for target in targets) * backends * floor_pct
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def shares_tsv(targets: tuple[PlannedTarget, ...]) -> str:
    """``name TAB rate_rps per node TAB url`` lines, plan order."""
    return "".join(f"{target.name}\t{target.rate_rps}\t{target.url}\n" for target in targets)
