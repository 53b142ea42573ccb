"""Schedules: data that people edit, resolved to concrete rolls, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import PlanError
from harness.plan import schedule
from harness.plan.build import node_names
from harness.plan.model import Roll

NODES = node_names(5)
TARGETS = ["svc-1", "svc-2", "svc-3", "svc-4", "echo", "mixed-svc", "uds-echo", "uds-cr-echo"]


def resolve(text: str, tmp_path: Path, duration_s: int = 60, *, scaled: bool = False) -> tuple[Roll, ...]:
    path = tmp_path / "schedule.toml"
    path.write_text(text)
    return schedule.resolve(
        schedule.read_schedule(path),
        duration_s=duration_s,
        nodes=NODES,
        targets=TARGETS,
        parent_shutdown_s=4,
        scaled=scaled,
    )


@pytest.mark.parametrize(("profile", "duration_s", "rolls"), [("quick", 60, 5), ("e2e", 900, 14), ("soak", 30_600, 33)])
def test_each_profile_has_a_schedule_of_its_own_that_resolves(profile: str, duration_s: int, rolls: int) -> None:
    found = schedule.read_schedule(schedule.profile_file(profile))
    resolved = schedule.resolve(found, duration_s=duration_s, nodes=NODES, targets=TARGETS, parent_shutdown_s=4)
    assert (found.duration_s, len(resolved)) == (duration_s, rolls)
    kinds = [roll.kind for roll in resolved]
    assert kinds.count("proxy") >= 2
    assert kinds.count("target") >= 2


def test_next_goes_round_the_nodes_and_times_scale_with_the_load(tmp_path: Path) -> None:
    text = "duration_s = 60\n" + "".join(
        f'[[roll]]\nat_s = {at}\nkind = "proxy"\nname = "next"\n' for at in (30, 10, 50)
    )
    assert resolve(text, tmp_path, duration_s=30, scaled=True) == (
        Roll(5.0, "proxy", "node-a"),
        Roll(15.0, "proxy", "node-b"),
        Roll(25.0, "proxy", "node-c"),
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("duration_s = 0", "duration_s must be a positive whole number"),
        ("rolls = 1\nduration_s = 60", "unknown keys rolls; a schedule holds duration_s and [[roll]]"),
        ("duration_s = 60\nroll = 3", "rolls are written as [[roll]]"),
        ("duration_s = 60\n[[roll]]\nat_s = 1", "roll 1: wants at_s, kind and name, and nothing else"),
        (
            'duration_s = 60\n[[roll]]\nat_s = -1\nkind = "proxy"\nname = "next"',
            "at_s must be seconds after the load's start",
        ),
        ('duration_s = 60\n[[roll]]\nat_s = 1\nkind = "pod"\nname = "next"', "kind must be one of proxy, target"),
        (
            'duration_s = 60\n[[roll]]\nat_s = 1\nkind = "proxy"\nname = "node-z"',
            "rolls proxy 'node-z', which is none of node-a",
        ),
        (
            'duration_s = 60\n[[roll]]\nat_s = 60\nkind = "proxy"\nname = "next"',
            "a roll starts after the load's end at 60 s",
        ),
        (
            "duration_s = 60\n" + '[[roll]]\nat_s = 1\nkind = "proxy"\nname = "node-a"\n'
            '[[roll]]\nat_s = 6\nkind = "proxy"\nname = "node-a"',
            "restarts the proxy of node-a twice within 5 s, its old process needs 6 s to go",
        ),
        ("duration_s = ", "the schedule is not TOML"),
    ],
)
def test_a_schedule_that_no_run_may_have_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(PlanError) as refused:
        resolve(text, tmp_path)
    assert sentence in str(refused.value)
    assert "schedule.toml" in str(refused.value)


def test_a_file_of_the_users_is_taken_literally_or_refused(tmp_path: Path) -> None:
    """Times that shrank in silence would be another experiment than the one that was written down."""
    roll = '[[roll]]\nat_s = 7.5\nkind = "target"\nname = "echo"\n'
    assert resolve(roll, tmp_path, duration_s=30) == (Roll(7.5, "target", "echo"),)
    assert resolve("duration_s = 30\n" + roll, tmp_path, duration_s=30) == (Roll(7.5, "target", "echo"),)
    with pytest.raises(PlanError, match=r"is written for a load of 20 s, this one lasts 30 s; give duration_s=20, or"):
        resolve("duration_s = 20\n" + roll, tmp_path, duration_s=30)


def test_the_written_schedule_reads_back_the_same(tmp_path: Path) -> None:
    rolls = (Roll(1.5, "proxy", "node-a"), Roll(2.0, "target", "uds-echo"))
    path = tmp_path / "schedule.tsv"
    path.write_text(schedule.schedule_tsv(rolls))
    assert schedule.read_schedule_tsv(path) == rolls
