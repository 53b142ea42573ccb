"""The lease book: a cap, a TTL, and nobody holds what is gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.e8.tier.leases import EMPTY, SATURATED, Granted, LeaseBook, Refused


def book(*names: str, now_s: float = 0.0) -> LeaseBook:
    made = LeaseBook()
    for name in names:
        made.announce(name, 100, now_s)
    return made


def grant(made: LeaseBook, cap: int = 9, ttl_s: float = 10, now_s: float = 0.0) -> Granted:
    found = made.acquire(cap, ttl_s, now_s)
    assert isinstance(found, Granted)
    return found


def test_an_empty_pool_and_a_full_one_are_told_apart() -> None:
    assert book().acquire(4, 10, 0) == Refused(EMPTY, 0)
    made = book("a", "b")
    for _ in range(2):
        grant(made, cap=1)
    assert made.acquire(1, 10, 0) == Refused(SATURATED, 2)


def test_leases_go_where_there_are_fewest() -> None:
    made = book("a", "b", "c")
    assert [grant(made).sandbox for _ in range(6)] == ["a", "b", "c", "a", "b", "c"]


def test_a_lease_ends_with_its_ttl_unless_renewed() -> None:
    made = book("a")
    kept, lost = grant(made, ttl_s=10), grant(made, ttl_s=10)
    assert made.renew([kept.lease], 10, now_s=9) == []
    assert isinstance(made.acquire(2, 10, 9.9), Refused)
    assert isinstance(made.acquire(2, 10, 10), Granted)
    assert made.expired == 1
    assert made.renew([kept.lease, lost.lease], 10, now_s=11) == [lost.lease]
    assert made.release(kept.lease)
    assert not made.release(lost.lease)


def test_a_sandbox_that_is_not_announced_again_is_gone_with_its_leases() -> None:
    made = book("a")
    made.announce("b", 5, 0)
    leases = [grant(made, ttl_s=1000) for _ in range(2)]
    assert made.renew([], 5, now_s=5) == []
    assert made.held == 1
    assert [made.release(lease.lease) for lease in leases] == [True, False]


def test_a_withdrawn_sandbox_takes_its_leases_with_it() -> None:
    made = book("a")
    lease = grant(made)
    made.withdraw("a")
    made.withdraw("never there")
    assert (made.held, made.release(lease.lease)) == (0, False)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("acquire"), st.integers(1, 4)),
            st.tuples(st.just("release"), st.integers(0, 30)),
            st.tuples(st.just("wait"), st.integers(0, 12)),
            st.tuples(st.just("announce"), st.sampled_from("abc")),
            st.tuples(st.just("withdraw"), st.sampled_from("abc")),
        ),
        max_size=60,
    )
)
def test_never_more_than_the_cap_and_never_a_lease_on_nothing(steps: list[tuple[str, int | str]]) -> None:
    made = LeaseBook()
    now_s = 0.0
    held: dict[int, tuple[str, float]] = {}
    present: dict[str, float] = {}
    for step, value in steps:
        if step == "wait":
            now_s += int(value)
        elif step == "announce":
            made.announce(str(value), 8, now_s)
            present[str(value)] = now_s + 8
        elif step == "withdraw":
            made.withdraw(str(value))
            present.pop(str(value), None)
        present = {name: until_s for name, until_s in present.items() if until_s > now_s}
        held = {n: (name, until_s) for n, (name, until_s) in held.items() if until_s > now_s and name in present}
        if step == "acquire":
            counts = [sum(name == each for each, _ in held.values()) for name in present]
            found = made.acquire(int(value), 5, now_s)
            if isinstance(found, Granted):
                assert counts and min(counts) < int(value)
                held[found.lease] = (found.sandbox, now_s + 5)
            else:
                assert found.why == (SATURATED if counts else EMPTY)
                assert not counts or min(counts) >= int(value)
        elif step == "release":
            assert made.release(int(value)) == (held.pop(int(value), None) is not None)
        made.renew([], 5, now_s)
        assert made.held == len(held)
