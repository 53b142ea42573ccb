"""A schedule file is refused whole, with its name and the step at fault; what it plans is in the order of time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.errors import PlanError
from harness.fleet.kubernetes.churn.schedule import Schedule, check_length

ReadText = Callable[[str], Schedule]

OBJECTS = """
[objects]
proxy = "{system_namespace}/daemonset/proxy"
svc = "{namespace}/deployment/svc"
web = "{namespace}/deployment/web"
"""


def step(**keys: object) -> str:
    values = {key: str(value).lower() if isinstance(value, bool) else repr(value) for key, value in keys.items()}
    return "\n[[step]]\n" + "".join(f"{key} = {value}\n" for key, value in values.items())


ROLL = step(at_s=60, do="roll", what="svc")


def test_steps_of_one_second_stay_in_the_order_of_the_file(schedule_of: ReadText) -> None:
    text = OBJECTS + step(at_s=60, do="roll", what="web") + step(at_s=30, do="roll", what="proxy") + ROLL
    assert [(found.at_s, found.things[0].name) for found in schedule_of(text).steps] == [
        (30, "proxy"),
        (60, "web"),
        (60, "svc"),
    ]


def test_a_skipped_step_is_no_row_of_the_plan(schedule_of: ReadText) -> None:
    found = schedule_of(OBJECTS + ROLL + step(at_s=90, do="roll", what="web", skip=True))
    assert [(roll.at_s, roll.kind, roll.name) for roll in found.rolls(10)] == [(70, "deployment", "svc")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no step"),
        ("step = 1", "holds no step"),
        ("a = ", "not TOML"),
        ("unknown = 1\n" + OBJECTS + ROLL, "unknown keys unknown"),
        ("counts_from = 'now'\n" + OBJECTS + ROLL, "counts_from must be settled or load"),
        ("duration_s = 1.5\n" + OBJECTS + ROLL, "duration_s must be whole seconds"),
        (OBJECTS + step(at_s=60.5, do="roll", what="svc"), "step 1: at_s must be whole seconds .* is 60.5"),
        (OBJECTS + step(at_s="12m", do="roll", what="svc"), "step 1: at_s must be whole seconds .* is '12m'"),
        (OBJECTS + step(at_s=-1, do="roll", what="svc"), "at_s must be whole seconds"),
        (OBJECTS + step(at_s=True, do="roll", what="svc"), "at_s must be whole seconds"),
        (OBJECTS + ROLL + step(at_s=60, do="dance"), "step 2: do must be one of"),
        (OBJECTS + step(at_s=60, do="roll"), "roll wants at_s, do, what"),
        (OBJECTS + step(at_s=60, do="roll", what="svc", until_s=3), "and not until_s"),
        (OBJECTS + step(at_s=60, do="roll", what="absent"), "'absent' is none of .objects.: proxy, svc, web"),
        (OBJECTS + step(at_s=60, do="roll", what=["svc"]), "is none of .objects."),
        (OBJECTS + step(at_s=60, do="roll", what="svc", skip=1), "skip must be true or false"),
        (OBJECTS + step(at_s=60, do="roll-together", what=["svc"]), "two or more"),
        (OBJECTS + step(at_s=60, do="roll-together", what=["svc", "svc"]), "each once"),
        (OBJECTS + step(at_s=1, do="roll-together", what=["svc", "web"], rss_sample=["proxy"]), "what is not rolled"),
        (OBJECTS + step(at_s=1, do="shrink", what="proxy", for_s=90), "a DaemonSet has no count"),
        (OBJECTS + step(at_s=1, do="shrink", what="svc", for_s=0), "for_s must be whole seconds from 1"),
        (OBJECTS + step(at_s=1, do="shrink", what="svc", for_s=1.5), "for_s must be whole seconds"),
        (OBJECTS + step(at_s=9, do="no-rolls", until_s=9), "until_s must be whole seconds from 10"),
        (OBJECTS + ROLL + step(at_s=50, do="no-rolls", until_s=70), "rolled at 60 s, and from 50 s until 70 s"),
        (OBJECTS + step(at_s=1, do="uds-csi", what="svc", victim="web"), "what must be a DaemonSet"),
        (OBJECTS + step(at_s=1, do="new-service-account", name="Big"), "name must be one that an object may have"),
        (OBJECTS + step(at_s=1, do="new-service-account", name="a", image="probe:1"), "by digest"),
        (OBJECTS + 2 * step(at_s=1, do="new-service-account", name="a"), "a name of its own"),
        ('[objects]\nsvc = "load/job/svc"\n' + ROLL, "is not NAMESPACE/KIND/NAME"),
        ('[objects]\nsvc = "load/pod/svc"\n' + ROLL, "kind must be one of"),
        ('[objects]\nsvc = "svc"\n' + ROLL, "object svc: 'svc' is not NAMESPACE/KIND/NAME"),
        (
            '[objects]\nsvc = "a/deployment/x"\nweb = "b/deployment/x"\n' + ROLL + step(at_s=9, do="roll", what="web"),
            "cannot be told apart",
        ),
        ("workloads = 'svc'\n" + OBJECTS + ROLL, "workloads must be a list"),
    ],
)
def test_what_cannot_be_is_refused(schedule_of: ReadText, text: str, why: str) -> None:
    with pytest.raises(PlanError, match=rf"schedule\.toml.*{why}"):
        schedule_of(text)


def test_a_roll_may_share_its_second_with_the_start_of_a_window(schedule_of: ReadText) -> None:
    assert len(schedule_of(OBJECTS + ROLL + step(at_s=60, do="no-rolls", until_s=70)).steps) == 2


def test_a_schedule_is_over_before_its_load(schedule_of: ReadText) -> None:
    found = schedule_of("duration_s = 300\n" + OBJECTS + step(at_s=60, do="shrink", what="svc", for_s=90))
    check_length(found, duration_s=300, offset_s=100)
    with pytest.raises(PlanError, match="ends 310 s after the load's start"):
        check_length(found, duration_s=300, offset_s=160)
    with pytest.raises(PlanError, match="is written for a load of 300 s, this one lasts 301 s"):
        check_length(found, duration_s=301, offset_s=0)
