"""The shipped schedule of a soak, whole, on a fake clock: every change with its second, every line that is counted.

golden.tsv was written from the schedule's table in words, not from soak.toml.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import PlanError
from harness.fleet.kubernetes.churn.calls import Thing
from harness.fleet.kubernetes.churn.planned import load_schedule, plan_churn
from harness.fleet.kubernetes.churn.schedule import Schedule, check_length, read_schedule, shipped
from harness.fleet.kubernetes.config import ClusterConfig
from harness.plan.schedule import schedule_tsv
from harness.store.side_rows import event_rows
from tests.fleet.kubernetes.churn.conftest import IMAGE, OFFSET_S, Done

GOLDEN = Path(__file__).with_name("golden.tsv")


def soak() -> Schedule:
    path = shipped("soak")
    assert path is not None
    return read_schedule(path, namespace="aether-test", system_namespace="aether-system", image=IMAGE)


@pytest.fixture
def done(do: Callable[..., Done]) -> Done:
    return do(soak())


def test_every_change_comes_in_its_second(done: Done) -> None:
    golden = [line.split("\t") for line in GOLDEN.read_text().splitlines()]
    assert [(f"{second:g}", text) for second, text in done.changes] == [tuple(row) for row in golden]
    assert done.code == 0


def test_thirty_three_rolls_make_thirty_five_lines(done: Done) -> None:
    rolled = [line for line in done.lines if line.startswith("ROLLED ")]
    assert len(rolled) == 35
    assert sum(text.startswith("restart ") for _, text in done.changes) == 33
    assert not [line for line in done.lines if line.startswith("FAILED ")]
    assert done.lines[0].startswith("churn driver start T0=2027-01-15T08:00:00.000Z build=")
    assert done.lines[-1] == (
        "churn driver complete (33 rolls: 2 aether-agent, 2 aether-edge, 3 aether-mesh-dns, 6 aether-proxy, "
        "2 aether-uds-csi, 5 svc-1, 4 svc-2, 4 svc-3, 3 svc-4, 2 svc-5; + 2 new-SA steps)"
    )


def test_the_rarer_steps_say_what_they_do(done: Done) -> None:
    assert [line for line in done.lines if "scheduled" in line] == [
        "new-SA step scheduled at T0+{126,288}m (2)",
        "uds-csi step scheduled at T0+{162,270}m (2)",
        "SHRINK scheduled at T0+{450}m (1)",
        "no-roll window scheduled at T0+{360}m (1)",
    ]
    told = ("SHRINK begin", "SHRINK done", "no-roll window ", "CONCURRENT")
    shrink = [line for line in done.lines if line.startswith(told)]
    assert shrink == [
        "no-roll window scheduled at T0+{360}m (1)",
        "CONCURRENT triple begin at_s=18240",
        "CONCURRENT triple done rolled=3/3",
        "no-roll window begin T0+360m; until T0+450m",
        "no-roll window end T0+450m",
        "SHRINK begin aether-test/deployment/svc-5 replicas=2 -> 0 for 90s at_s=27240",
        "SHRINK done aether-test/deployment/svc-5 restored to replicas=2",
    ]
    windows = [line for line in done.lines if line.startswith(("UDSCSI", "ROLLED aether-system/daemonset/aether-uds"))]
    assert len(windows) == 6
    assert windows[0] == (
        "UDSCSI begin aether-system/daemonset/aether-uds-csi victim=aether-test/uds-echo-1@node-a at_s=9960"
    )
    assert "window=down on node-a" in windows[1]
    assert re.fullmatch(
        r"ROLLED \S+ victim=aether-test/uds-echo-1@node-a window=down rollout=11s terminated=5(\.5)?s "
        r"replacement=uds-echo-2 ready=12(\.5)?s csinode=2/2 failedmount_during=0 failedmount_after=0 at_s=9960 "
        r"took_ms=\d+",
        windows[2],
    )
    accounts = [line for line in done.lines if "newsa/" in line]
    assert accounts[0] == (
        "ROLLED newsa/soak-newsa-1 node-b ready=3s at_s=7800 took_ms=23000 "
        "svc-1:ok=90,non2xx=0,connerr=0,codes=200x90 uds-echo:ok=90,non2xx=0,connerr=0,codes=200x90"
    )


def test_six_samples_of_memory_are_taken_at_one_age(done: Done) -> None:
    assert sum(line.startswith("RSS SAMPLE queued") for line in done.lines) == 6
    assert sum(line.endswith("pods=2/2") for line in done.lines if line.startswith("RSS SAMPLE done")) == 6
    head, *rows = (line.split("\t") for line in done.log.with_name("proxy-rss.tsv").read_text().splitlines())
    assert head[0] == "at"
    assert Counter(row[1] for row in rows) == dict.fromkeys(("3840", "6000", "13200", "15360", "18240", "20400"), 2)
    assert {(row[5], row[6], row[7]) for row in rows} == {("1800", str(50 << 20), "yes")}


def test_nothing_is_left_changed(done: Done) -> None:
    assert not done.undo.exists()
    assert not [thing for thing in done.cluster.objects if "newsa" in thing.name]
    assert done.replicas("aether-test/deployment/svc-5") == 2


def test_the_tables_pair_every_planned_row_with_its_line(done: Done, config: ClusterConfig) -> None:
    """As the rule churn_incomplete pairs them: by kind and name, the n-th with the n-th."""
    planned = Counter((roll.kind, roll.name) for roll in soak().rolls(OFFSET_S))
    events = list(event_rows(config.live))
    assert Counter((row["kind"], row["name"]) for row in events if row["outcome"] == "ROLLED") == planned
    assert sum(planned.values()) == 35
    at_s = {row["at_s"] for row in events if row["outcome"] == "ROLLED"}
    assert at_s == {roll.at_s for roll in soak().rolls(OFFSET_S)}
    assert {"START", "COMPLETE"} <= {row["outcome"] for row in events}


def test_the_shipped_schedules_fit_their_profiles() -> None:
    check_length(soak(), duration_s=30600, offset_s=OFFSET_S)
    path = shipped("e2e")
    assert path is not None
    e2e = read_schedule(path, namespace="load", system_namespace="mesh")
    check_length(e2e, duration_s=900, offset_s=e2e.offset_s(OFFSET_S))
    assert [(roll.at_s, roll.kind, roll.name) for roll in e2e.rolls(e2e.offset_s(OFFSET_S))] == [
        (180, "daemonset", "aether-agent"),
        (480, "daemonset", "aether-proxy"),
    ]
    assert e2e.steps[0].things == (Thing("mesh", "daemonset", "aether-agent"),)
    assert shipped("quick") is None


def test_a_plan_keeps_the_file_and_its_rows(tmp_path: Path) -> None:
    about: dict[str, Any] = {
        "namespace": "aether-test",
        "system_namespace": "aether-system",
        "image": IMAGE,
        "settle_s": OFFSET_S,
    }
    planned = plan_churn("profile", "soak", duration_s=30600, **about)
    path = shipped("soak")
    assert planned is not None
    assert path is not None
    assert (planned.content, planned.rolls) == (path.read_bytes(), soak().rolls(OFFSET_S))
    assert plan_churn("off", "soak", duration_s=30600, **about) is None
    assert plan_churn("profile", "quick", duration_s=60, **about) is None
    with pytest.raises(PlanError, match="written for a load of 30600 s"):
        plan_churn("profile", "soak", duration_s=60, **about)
    with pytest.raises(PlanError, match="cannot be read"):
        plan_churn(str(tmp_path / "absent.toml"), "quick", duration_s=60, **about)


def test_a_run_refuses_a_schedule_that_its_rows_were_not_made_of(config: ClusterConfig) -> None:
    path = shipped("soak")
    assert path is not None
    (config.live / "churn.toml").write_bytes(path.read_bytes())
    config.folder.schedule.write_text(schedule_tsv(soak().rolls(OFFSET_S)))
    assert load_schedule(config) == Schedule(
        str(config.live / "churn.toml"), soak().duration_s, soak().settles, soak().steps, soak().workloads, soak().noted
    )
    (config.live / "churn.toml").write_text(path.read_text().replace("at_s = 720 ", "at_s = 721 "))
    with pytest.raises(PlanError, match=r"churn\.toml is not the schedule that schedule\.tsv"):
        load_schedule(config)
