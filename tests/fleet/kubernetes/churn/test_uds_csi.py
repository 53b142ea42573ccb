"""The window without a CSI plugin: eight sequences of what is seen, and what the step makes of each outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.errors import ForbiddenError
from harness.files import utc_stamp
from harness.fleet.kubernetes.churn.runner import Churn
from harness.fleet.kubernetes.churn.schedule import Schedule
from harness.fleet.kubernetes.churn.uds_csi import PluginWindow
from tests.fleet.kubernetes.churn.conftest import Done
from tests.fleet.kubernetes.churn.fake import T0_UNIX_S, FakeCluster, unreachable

ReadText = Callable[[str], Schedule]
Do = Callable[..., Done]
CSI = "aether-system/daemonset/uds-csi"
TEXT = """
[objects]
csi = "{system_namespace}/daemonset/uds-csi"
uds = "{namespace}/deployment/uds"
[[step]]
at_s = 40
do = "uds-csi"
what = "csi"
victim = "uds"
[[step]]
at_s = 400
do = "roll"
what = "uds"
"""


def pod(uid: str, *, ready: bool = True, goes: bool = False) -> dict[str, Any]:
    meta = {"name": uid, "uid": uid} | ({"deletionTimestamp": "2027-01-15T08:00:00Z"} if goes else {})
    return {
        "metadata": meta,
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


OLD, GOING = pod("old"), pod("old", goes=True)
NEW, READY = pod("new", ready=False), pod("new")
SEQUENCES: dict[str, tuple[list[list[dict[str, Any]]], str]] = {
    "nothing was seen": ([], "unseen"),
    "the old pod stays": ([[OLD], [OLD]], "up"),
    "the old pod goes": ([[OLD], [GOING]], "down"),
    "the old pod is gone": ([[OLD], []], "down"),
    "the new pod is not ready yet": ([[OLD], [GOING], [NEW]], "down"),
    "the new pod is ready": ([[OLD], [GOING], [NEW], [READY]], "back"),
    "the new pod goes again": ([[OLD], [GOING], [READY], [pod("new", goes=True)]], "down"),
    "the newest of each pod counts": ([[OLD], [GOING, NEW], [GOING, READY], [GOING, NEW]], "down"),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_of_what_is_seen(name: str) -> None:
    seen, state = SEQUENCES[name]
    window = PluginWindow("old")
    for pods in seen:
        window.see_all(pods)
    assert window.state == state


def last_of(done: Done) -> str:
    return next(line for line in done.lines if line.startswith((f"ROLLED {CSI}", f"FAILED {CSI}")))


def words_of(done: Done) -> dict[str, str]:
    return dict(word.split("=", 1) for word in last_of(done).split() if "=" in word)


def test_a_plugin_that_is_back_before_the_delete_is_late(schedule_of: ReadText, do: Do) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        def look(number: int, text: str) -> None:
            if text.startswith("delete "):
                cluster.window_s = (1.8, 1.9, 1.95)

        cluster.watch = look

    done = do(schedule_of(TEXT), prepare=prepare)
    assert "UDSCSI window=late on node-a: the plugin was back when the pod was deleted" in done.lines
    assert last_of(done).startswith("ROLLED")
    assert words_of(done)["window"] == "late"


def test_a_window_that_was_never_seen_is_a_finding_and_no_pod_is_deleted(schedule_of: ReadText, do: Do) -> None:
    done = do(schedule_of(TEXT), prepare=lambda cluster, churn: setattr(cluster, "window_s", (0.01, 0.02, 0.03)))
    assert done.code == 0
    assert not [text for _, text in done.changes if text.startswith("delete")]
    assert any(line.startswith("UDSCSI window=missed on node-a: the plugin was never seen down") for line in done.lines)
    words = words_of(done)
    assert last_of(done).startswith("FAILED")
    assert (words["bad"], words["terminated"], words["replacement"]) == ("window", "-s", "-")
    assert done.lines[-2].startswith("ROLLED aether-test/deployment/uds")


def test_a_plugin_that_never_goes_down_ends_the_step_in_time(schedule_of: ReadText, do: Do) -> None:
    done = do(schedule_of(TEXT), prepare=lambda cluster, churn: setattr(cluster, "window_s", (1e5, 1e5, 1e5)))
    words = words_of(done)
    assert (words["window"], words["rollout"]) == ("missed", "?s")
    assert words["bad"] == "rollout,window"
    assert next(second for second, text in done.calls if text == "restart aether-test/deployment/uds") == 400


@pytest.mark.parametrize(("listed", "after"), [(True, "1"), (False, "?")])
def test_a_volume_that_does_not_mount_afterwards_is_a_finding(
    schedule_of: ReadText, do: Do, listed: bool, after: str
) -> None:
    """Events that cannot be listed are not taken for none."""

    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.events = [{"reason": "FailedMount", "lastTimestamp": utc_stamp(T0_UNIX_S + 80)}]
        if not listed:
            cluster.failing["list Event"] = ForbiddenError("may not")

    words = words_of(do(schedule_of(TEXT), prepare=prepare))
    assert (words["failedmount_after"], words["bad"]) == (after, "failedmount_after")


def test_a_volume_that_did_not_mount_in_the_window_is_told(schedule_of: ReadText, do: Do) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.events = [{"reason": "FailedMount", "lastTimestamp": utc_stamp(T0_UNIX_S + 44)}]

    done = do(schedule_of(TEXT), prepare=prepare)
    words = words_of(done)
    assert last_of(done).startswith("ROLLED")
    assert (words["failedmount_during"], words["failedmount_after"]) == ("1", "0")


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda cluster: cluster.victims.update(uds=[]), "has no Ready pod to delete"),
        (lambda cluster: cluster.victims["uds"][0]["spec"].pop("volumes"), "has no volume of a CSI plugin"),
        (lambda cluster: cluster.failing.update({f"restart {CSI}": ForbiddenError("may not")}), "may not"),
        (lambda cluster: cluster.failing.update({f"read {CSI}": unreachable()}), "nobody answers"),
    ],
)
def test_a_step_that_cannot_begin_ends_the_schedule(
    schedule_of: ReadText, do: Do, break_it: Callable[[FakeCluster], object], why: str
) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        break_it(cluster)

    done = do(schedule_of(TEXT), prepare=prepare)
    assert done.code == 1
    assert why in last_of(done)
    assert "the uds-csi step could not run" in done.lines[-1]


def test_calls_that_fail_in_the_middle_are_a_finding_and_nothing_is_tried_again(schedule_of: ReadText, do: Do) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.failing["delete "] = unreachable()

    done = do(schedule_of(TEXT), prepare=prepare)
    assert done.code == 0
    assert [text for _, text in done.changes if text.startswith("delete")] == ["delete aether-test/pod/uds-1"]
    assert words_of(done)["bad"].split(",")[0] == "calls"
