"""The fault= schedule: what reads, and what is refused in one sentence that names the part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import FaultError
from harness.fleet.local.faults import FORMS, Fault, parse

NODES = ["node-a", "node-b", "node-c", "node-d"]
TARGETS = ["svc-1", "svc-2", "svc-3"]


def faults(text: str, duration_s: float = 60) -> list[Fault]:
    return parse(text, NODES, TARGETS, duration_s)


def test_the_documented_schedule_reads_in_time_order() -> None:
    found = faults(
        "kill-engine node-b at 20s; freeze engine node-c at 10s for 15s; freeze proxy node-d at 20s for 5s;"
        " stop target svc-2 at 15s for 5s; slow svc-3 300ms at 20s; crash-proxy node-a at 30s"
    )
    assert [(f.verb, f.name, f.at_s, f.for_s, f.delay_ms) for f in found] == [
        ("freeze-engine", "node-c", 10, 15, None),
        ("stop-target", "svc-2", 15, 5, None),
        ("kill-engine", "node-b", 20, None, None),
        ("freeze-proxy", "node-d", 20, 5, None),
        ("slow", "svc-3", 20, None, 300),
        ("crash-proxy", "node-a", 30, None, None),
    ]


def test_nothing_asked_for_is_no_fault() -> None:
    assert faults("") == faults(" ; ;") == []


def test_optional_end_and_parts_of_seconds() -> None:
    assert faults("slow svc-1 50ms at 1.5s for 0.25s") == [
        Fault("slow", "svc-1", 1.5, 0.25, 50, "slow svc-1 50ms at 1.5s for 0.25s")
    ]


@pytest.mark.parametrize("verb", ["kill-churn", "kill-driver", "stop-driver", "kill-supervisor"])
def test_parts_there_is_one_of_need_no_name(verb: str) -> None:
    assert [(f.verb, f.name) for f in faults(f"{verb} at 3s")] == [(verb, "")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("explode node-a at 3s", "'explode node-a at 3s' is none that is known: kill-engine NODE at Ts"),
        ("kill-engine node-x at 3s", "names the node 'node-x', but there are only node-a, node-b"),
        ("slow svc-9 10ms at 3s", "names the target 'svc-9'"),
        ("freeze engine node-a at 3s", "does not read as 'freeze engine NODE at Ts for Ds'"),
        ("freeze proxy node-a for 3s", "does not read as 'freeze proxy NODE at Ts for Ds'"),
        ("slow svc-1 at 3s", "does not read as 'slow TARGET Nms at Ts [for Ds]'"),
        ("kill-engine node-a at 3", "does not read as"),
        ("kill-driver at 60s", "begins at 60 s, but the load lasts only 60 s"),
        ("stop target svc-1 at 3s for 0s", "lasts no time"),
        ("freeze engine node-a at 3s for 5s; starve engine node-a at 7s for 5s", "begins before 'freeze engine"),
        ("kill-driver at 3s, kill-churn at 4s", "does not read as"),
    ],
)
def test_refused_in_a_sentence(text: str, says: str) -> None:
    with pytest.raises(FaultError) as raised:
        faults(text)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_spells_of_one_part_one_after_another_are_fine() -> None:
    assert len(faults("freeze proxy node-a at 3s for 5s; freeze proxy node-a at 8s for 5s")) == 2


@given(st.text(alphabet=st.sampled_from("abcdefghijklmnopqrstuvwxyz -;.0123456789s"), max_size=60))
def test_any_text_reads_or_is_refused_never_crashes(text: str) -> None:
    try:
        found = faults(text)
    except FaultError:
        return
    assert all(fault.verb in FORMS for fault in found)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(FORMS)),
            st.sampled_from(NODES),
            st.sampled_from(TARGETS),
            st.integers(0, 59),
            st.integers(1, 9),
            st.integers(0, 5000),
        ),
        max_size=1,
    )
)
def test_every_form_filled_in_reads_back_as_what_was_put_in(rows: list[tuple[str, str, str, int, int, int]]) -> None:
    for verb, node, target, at_s, for_s, delay_ms in rows:
        text = FORMS[verb].replace("[", "").replace("]", "").replace("TARGET", target).replace("NODE", node)
        text = text.replace("Ts", f"{at_s}s").replace("Ds", f"{for_s}s").replace("Nms", f"{delay_ms}ms")
        (found,) = faults(text)
        assert (found.verb, found.at_s) == (verb, at_s)
        assert found.for_s == (for_s if "Ds" in FORMS[verb] else None)
        assert found.delay_ms == (delay_ms if "Nms" in FORMS[verb] else None)
        assert found.name == (node if "NODE" in FORMS[verb] else target if "TARGET" in FORMS[verb] else "")
