"""The figures at the top of a page, and the parts of the fleet taken together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from harness.report import words
from harness.report.facts import Facts, Row

Verdict = Mapping[str, Any]


def tiles(facts: Facts, verdict: Verdict) -> list[tuple[str, str, str]]:
    """Name, number and a remark for the figures one looks for first."""
    seen = [cell["http_2xx"] for cell in facts.cells if cell["http_2xx"] is not None]
    planned = [cell["planned"] for cell in facts.cells if cell["planned"] is not None]
    worst = max((c for c in facts.cells if c["p99_ns"] is not None), key=lambda c: c["p99_ns"], default=None)
    late = max(
        (c for c in facts.cells if c["send_delay_p99_ns"] is not None),
        key=lambda c: c["send_delay_p99_ns"],
        default=None,
    )
    moved: Counter[str] = Counter()
    for failure in facts.failures:
        moved[failure["class"]] += failure["value"]
    classes = [name for name, _ in moved.most_common()]
    counted = [zero for zero in facts.zeros if zero["failures"] is not None]
    engines, missing = facts.engines, facts.unreturned
    rolled = sum(1 for roll in facts.rolls if roll["planned"] and roll["outcome"] == "ROLLED")
    wanted = sum(1 for roll in facts.rolls if roll["planned"])
    uncounted = f"; {_uncounted(missing, len(engines))}" if missing else ""
    lost = (verdict.get("counts") or {}).get("lost_backends")
    return [
        (
            "2xx answers",
            words.count(sum(seen) if seen else None),
            f"of {words.count(sum(planned))} planned{uncounted}" if planned else "plan not known",
        ),
        (
            "failure classes",
            _classes(len(classes), measured=bool(counted), whole=not missing and len(counted) == len(facts.zeros)),
            words.shortened(classes) if classes else f"of the zero-failure set{_partly(counted, facts)}{uncounted}",
        ),
        (
            "engines that returned",
            f"{len(engines) - len(missing)} of {len(engines)}" if engines else words.NOT_MEASURED,
            "how many were lost is not known" if lost is None else f"{lost} lost during the load",
        ),
        ("slowest p99", words.milliseconds(worst["p99_ns"] if worst else None), _where(worst)),
        ("send delay p99", words.milliseconds(late["send_delay_p99_ns"] if late else None), _where(late)),
        ("planned rolls", _rolls(rolled, wanted, known=bool(facts.run)), "proxies and targets"),
    ]


def _where(cell: Row | None) -> str:
    return f"{cell['target']} on {cell['node']}" if cell else "no statistic in the report"


def _uncounted(missing: list[str], engines: int) -> str:
    return "no engine returned" if len(missing) == engines else f"{words.shortened(missing)} not counted"


def _partly(counted: list[Row], facts: Facts) -> str:
    return f", {len(facts.zeros) - len(counted)} not counted" if 0 < len(counted) < len(facts.zeros) else ""


def _rolls(rolled: int, wanted: int, *, known: bool) -> str:
    if not known:
        return words.NOT_MEASURED
    return f"{rolled} of {wanted}" if wanted else "none planned"


def _classes(number: int, *, measured: bool, whole: bool) -> str:
    """How many classes moved; none is said only where every engine was asked, and counts every class."""
    if number:
        return str(number)
    if not measured:
        return words.NOT_MEASURED
    return "none" if whole else "none seen"


def by_kind(facts: Facts) -> list[Row]:
    """The parts of a kind taken together: cores of all and of the busiest, memory of all at its peak and of the most.

    A sum over an unknown part is unknown.
    """
    peaks = {row["kind"]: row["rss_peak_bytes"] for row in facts.memory}
    kinds: dict[str | None, list[Row]] = {}
    for part in facts.resources:
        kinds.setdefault(part["kind"], []).append(part)
    rows = []
    for kind, parts in kinds.items():
        cores = [part["cpu_cores"] for part in parts]
        memory = [part["rss_max_bytes"] for part in parts]
        rows.append(
            {
                "kind": kind or "–",
                "parts": len(parts),
                "cores_all": None if None in cores else sum(cores),
                "cores_most": max((value for value in cores if value is not None), default=None),
                "rss_peak_bytes": peaks.get(kind),
                "rss_most_bytes": max((value for value in memory if value is not None), default=None),
            }
        )
    return rows
