"""A signal at every call of every step, before and after it is applied: over in two seconds, everything put back.

The clock is a fake; the processes and their signals are in test_process.py.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from harness.fleet.kubernetes.churn.runner import Churn
from harness.fleet.kubernetes.churn.schedule import Schedule
from tests.fleet.kubernetes.churn.conftest import Done
from tests.fleet.kubernetes.churn.fake import FakeCluster

ReadText = Callable[[str], Schedule]
Do = Callable[..., Done]
LONGEST_S = 2.0
SVC = "aether-test/deployment/svc"
ALL = """
[objects]
proxy = "{system_namespace}/daemonset/proxy"
csi = "{system_namespace}/daemonset/uds-csi"
svc = "{namespace}/deployment/svc"
uds = "{namespace}/deployment/uds"
[[step]]
at_s = 10
do = "roll"
what = "proxy"
rss_sample = true
[[step]]
at_s = 20
do = "new-service-account"
name = "newsa-1"
for_s = 3
[[step]]
at_s = 40
do = "uds-csi"
what = "csi"
victim = "uds"
[[step]]
at_s = 400
do = "roll-together"
what = ["proxy", "svc"]
[[step]]
at_s = 410
do = "shrink"
what = "svc"
for_s = 5
[[step]]
at_s = 420
do = "no-rolls"
until_s = 430
"""


def is_clean(done: Done) -> bool:
    """Nothing on the cluster is changed, and nothing is noted to be put back."""
    there = [thing for thing in done.cluster.objects if thing.name.startswith("newsa")]
    return not there and done.replicas(SVC) == 2 and not done.undo.exists()


def stops_at(call: int, *, applied: bool, number: int, at: list[float]) -> Callable[[FakeCluster, Churn], None]:
    """Prepares a stop in the middle of a call."""

    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        def look(index: int, text: str) -> None:
            if index == call and text.endswith("applied") == applied and not at:
                at.append(cluster.now_s)
                churn.stop(number)

        cluster.watch = look

    return prepare


@pytest.mark.parametrize("applied", [False, True])
def test_a_term_in_any_call_is_over_in_two_seconds(schedule_of: ReadText, do: Do, applied: bool) -> None:
    schedule = schedule_of(ALL)
    whole = do(schedule, latency_s=0.2)
    assert whole.code == 0
    assert is_clean(whole)
    interesting = [
        index
        for index, (_, text) in enumerate(whole.calls)
        if not text.startswith(("read ", "list ")) or index < 40 or index % 9 == 0
    ]
    assert len(interesting) > 40
    for index in interesting:
        at: list[float] = []
        done = do(schedule, prepare=stops_at(index, applied=applied, number=15, at=at), latency_s=0.2)
        what = whole.calls[index]
        assert at, what
        taken = sum("churn driver complete" in line for line in done.lines)
        assert done.code == 143, what
        assert done.ended_s - at[0] < LONGEST_S, what
        assert is_clean(done), (what, done.lines[-5:])
        assert taken or any("CHURN ABORTED: stopped by SIGTERM" in line for line in done.lines), what


@pytest.mark.parametrize("second", [0.0, 5.0, 10.05, 21.0, 30.0, 100.0, 400.1, 412.0, 425.0])
def test_an_int_in_a_wait_is_over_at_once(schedule_of: ReadText, do: Do, second: float) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.loop.call_later(second, churn.stop, signal.SIGINT)

    done = do(schedule_of(ALL), prepare=prepare, latency_s=0.2)
    assert done.code == 130
    assert done.ended_s - second < LONGEST_S
    assert is_clean(done)
    assert "CHURN ABORTED: stopped by SIGINT (context=test)" in done.lines


def test_a_scale_that_never_answers_is_taken_for_applied(schedule_of: ReadText, do: Do) -> None:
    """It is put back, and once more at the next start: it may arrive after all."""

    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.hanging = (f"scale {SVC} 0",)
        cluster.loop.call_later(411.0, churn.stop, 15)

    done = do(schedule_of(ALL), prepare=prepare)
    assert done.code == 143
    assert done.ended_s - 411.0 < LONGEST_S
    assert done.cluster.broken_off
    assert done.replicas(SVC) == 2
    assert done.lines[-4:] == [
        "CHURN ABORTED: stopped by SIGTERM (context=test)",
        f"STOP: abandoned after 0.7s, and may have been applied: scale {SVC} to 0",
        f"UNDO {SVC} restored to replicas=2",
        f"STOP: noted for the next start: {SVC} replicas=2",
    ]
    assert done.undo.exists()


def test_what_cannot_be_put_back_in_time_is_noted(schedule_of: ReadText, do: Do) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.hanging = (f"scale {SVC} 2",)
        cluster.loop.call_later(412.0, churn.stop, 15)

    done = do(schedule_of(ALL), prepare=prepare)
    assert (done.code, done.undo.exists()) == (143, True)
    assert done.ended_s - 412.0 < LONGEST_S
    assert done.lines[-1] == f"STOP: noted for the next start: {SVC} replicas=2"


def test_a_stop_during_rolls_at_once_waits_for_each(schedule_of: ReadText, do: Do) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.loop.call_later(400.1, churn.stop, 15)

    done = do(schedule_of(ALL), prepare=prepare, latency_s=0.5)
    assert done.code == 143
    rolled = {str(thing) for thing, at_s in done.cluster.restarted_s.items() if at_s >= 400}
    assert rolled == {"aether-system/daemonset/proxy", SVC}
    assert not [line for line in done.lines if line.startswith("STOP: abandoned")]


def test_a_stop_after_the_schedule_leaves_only_samples_undone(schedule_of: ReadText, do: Do) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.loop.call_later(600.0, churn.stop, 15)

    done = do(schedule_of(ALL), prepare=prepare)
    assert done.code == 143
    assert done.lines[-1] == "STOP: 1 memory samples are not taken"
    assert not [line for line in done.lines if "ABORTED" in line]


def test_a_finished_driver_leaves_queued_samples_to_run(schedule_of: ReadText, do: Do) -> None:
    done = do(schedule_of(ALL))
    assert done.code == 0
    complete = next(index for index, line in enumerate(done.lines) if line.startswith("churn driver complete"))
    assert [line.split(" at_s")[0] for line in done.lines[complete + 1 :]] == [
        "RSS SAMPLE done aether-system/daemonset/proxy"
    ]
