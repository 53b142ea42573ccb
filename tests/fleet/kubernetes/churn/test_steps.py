"""Rolls, three at once, and SHRINK: what fails ends the schedule, and what was changed is put back all the same."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from harness.errors import ForbiddenError
from harness.fleet.kubernetes.churn.runner import Churn
from harness.fleet.kubernetes.churn.schedule import Schedule
from tests.fleet.kubernetes.churn.conftest import Done
from tests.fleet.kubernetes.churn.fake import FakeCluster, unreachable

ReadText = Callable[[str], Schedule]
Do = Callable[..., Done]
OBJECTS = """
[objects]
proxy = "{system_namespace}/daemonset/proxy"
svc = "{namespace}/deployment/svc"
web = "{namespace}/deployment/web"
"""
SHRINK = OBJECTS + '[[step]]\nat_s = 60\ndo = "shrink"\nwhat = "svc"\nfor_s = 90\n'
AFTER = '[[step]]\nat_s = 900\ndo = "roll"\nwhat = "web"\n'
TRIPLE = OBJECTS + '[[step]]\nat_s = 60\ndo = "roll-together"\nwhat = ["proxy", "svc", "web"]\n'
SVC = "aether-test/deployment/svc"


def test_the_first_roll_that_fails_ends_the_schedule(schedule_of: ReadText, do: Do) -> None:
    text = OBJECTS + '[[step]]\nat_s = 60\ndo = "roll"\nwhat = "svc"\n' + AFTER

    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.failing["restart "] = ForbiddenError("may not\npatch")

    done = do(schedule_of(text), prepare=prepare)
    assert done.code == 1
    assert [text for _, text in done.calls] == [f"restart {SVC}"]
    assert done.lines[2:] == [
        f"FAILED {SVC} at_s=300 : may not patch",
        f"CHURN ABORTED: {SVC} failed; the rest of the schedule is not done (context=test)",
    ]


def test_three_at_once_begin_together_and_each_is_waited_for(schedule_of: ReadText, do: Do) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.failing[f"restart {SVC}"] = unreachable()

    done = do(schedule_of(TRIPLE + AFTER), prepare=prepare, latency_s=2.0)
    assert done.code == 1
    assert [second for second, _ in done.calls] == [60, 60, 60]
    assert [line.split(" ")[0] for line in done.lines[2:]] == [
        "CONCURRENT", "FAILED", "ROLLED", "ROLLED", "CONCURRENT", "CHURN",
    ]  # fmt: skip
    assert done.lines[-2] == "CONCURRENT triple done rolled=2/3"


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("to", ["0", "2"])
def test_a_scale_that_fails_is_put_back_and_ends_the_schedule(
    schedule_of: ReadText, do: Do, applied: bool, to: str
) -> None:
    """It may have been applied: the API did not say."""

    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.failing[f"scale {SVC} {to}"] = unreachable()
        cluster.applied = applied
        cluster.failures_left = 1

    done = do(schedule_of(SHRINK + AFTER), prepare=prepare)
    assert done.code == 1
    assert done.replicas(SVC) == 2
    assert not done.undo.exists()
    assert f"SHRINK FAILED {SVC} : nobody answers" in done.lines
    assert done.lines[-1] == f"UNDO {SVC} restored to replicas=2"
    assert done.lines[-2].startswith("CHURN ABORTED: SHRINK of ")
    assert not [line for line in done.lines if line.startswith("ROLLED")]


def test_the_count_is_on_disk_before_the_first_call(schedule_of: ReadText, do: Do) -> None:
    noted: list[dict[str, object]] = []

    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        def look(number: int, text: str) -> None:
            if text == f"scale {SVC} 0":
                noted.append(json.loads(churn._undo.path.read_text()))

        cluster.put(SVC, replicas=5)
        cluster.watch = look

    done = do(schedule_of(SHRINK), prepare=prepare)
    assert noted == [{"replicas": {SVC: 5}, "made": []}]
    assert done.replicas(SVC) == 5
    assert (done.code, done.undo.exists()) == (0, False)


def test_what_cannot_be_put_back_is_said_and_done_at_the_next_start(schedule_of: ReadText, do: Do) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.failing[f"scale {SVC} 2"] = unreachable()

    done = do(schedule_of(SHRINK), prepare=prepare)
    assert done.code == 1
    assert done.lines[-1].startswith(f"UNDO FAILED {SVC} replicas=2 : nobody answers; it stands in churn-undo.json")
    assert done.undo.exists()

    again = do(schedule_of(OBJECTS + AFTER), prepare=lambda cluster, churn: cluster.put(SVC, replicas=0))
    assert (again.code, again.changes[0]) == (0, (0, f"scale {SVC} 2"))
    assert again.replicas(SVC) == 2
    assert not again.undo.exists()


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda cluster: cluster.put(SVC, replicas=0), "it has no replicas already, so that nothing would go away"),
        (lambda cluster: cluster.failing.update({"read ": unreachable()}), "its replicas cannot be read: nobody answ"),
    ],
)
def test_a_count_that_is_not_known_is_not_changed(
    schedule_of: ReadText, do: Do, break_it: Callable[[FakeCluster], object], why: str
) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        break_it(cluster)

    done = do(schedule_of(SHRINK), prepare=prepare)
    assert (done.code, done.changes) == (1, [])
    assert done.lines[-2].startswith(f"SHRINK FAILED {SVC} : {why}")


def test_a_fault_of_the_program_puts_everything_back(schedule_of: ReadText, do: Do) -> None:
    clusters: list[FakeCluster] = []

    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        clusters.append(cluster)
        cluster.failing[f"scale {SVC} 0"] = RuntimeError("a bug")  # type: ignore[assignment]  # what no call may raise
        cluster.applied = True

    with pytest.raises(RuntimeError, match="a bug"):
        do(schedule_of(SHRINK), prepare=prepare)
    assert clusters[0].calls[-1][1] == f"scale {SVC} 2"
