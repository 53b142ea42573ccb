"""Every way a connection can go is one outcome, whatever the order."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.conftest import BEHAVIOURS, BY_NAME, Behaviour, Server, run_execution


def drive(server: Server, **changes: Any) -> dict[str, Any]:
    """Run one execution against ``server`` in one loop."""

    async def both() -> dict[str, Any]:
        async with server.listen() as address:
            return await run_execution(address, **changes)

    return asyncio.run(both())


def counts(result: dict[str, Any]) -> dict[str, int]:
    return {name.removeprefix("benchmark."): count for name, count in result["counters"].items()}


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.name)
def test_a_behaviour_is_counted_as_what_it_is_and_spoils_nothing_after_it(behaviour: Behaviour) -> None:
    server = Server([behaviour])
    result = drive(server, rate_rps=20, duration_s=0.15, timeout_s=0.2)  # 3 requests, 50 ms apart
    assert counts(result) == Counter(behaviour.counts) + Counter({"http_2xx": 2})
    assert len(server.requests) == 3


@given(st.lists(st.sampled_from(BEHAVIOURS), min_size=1, max_size=24), st.sampled_from([1, 2, 30]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_outcomes_add_up_under_any_sequence(script: list[Behaviour], connections: int, burst: bool) -> None:
    """The identity itself is checked by ``run_execution``; here: no response is counted that was not sent."""
    server = Server(list(script))
    planned = len(script)
    rate_rps = 10_000 if burst else 400
    result = drive(
        server, rate_rps=rate_rps, duration_s=planned / rate_rps, connections=connections, max_pending=8, timeout_s=0.1
    )
    used = script[: len(server.requests)]
    sent = Counter(name for behaviour in used for name in behaviour.counts if name.startswith("http_"))
    seen = counts(result)
    assert result["harness"]["released"] == planned
    assert len(server.requests) <= planned
    for status_class in ("http_1xx", "http_2xx", "http_3xx", "http_4xx", "http_5xx", "http_xxx"):
        assert seen.get(status_class, 0) <= sent[status_class]


def test_keep_alive_uses_one_connection_and_close_uses_one_each() -> None:
    kept, closed = Server(), Server([BY_NAME["says close"]] * 5)
    drive(kept, rate_rps=50)
    drive(closed, rate_rps=50)
    assert (kept.connections, closed.connections) == (1, 5)


def test_head_answers_are_complete_at_their_headers_and_keep_the_connection() -> None:
    head = Behaviour("head", (b"HTTP/1.1 200 OK\r\nContent-Length: 4711\r\n\r\n",), "keep", ())
    server = Server([head] * 10)
    result = drive(server, method="HEAD")
    assert counts(result) == {"http_2xx": 10}
    assert server.connections == 1
    assert result["statistics"]["benchmark_http_client.response_body_size"]["max"] == 0


def test_requests_carry_the_authority_of_the_url_and_the_headers_given() -> None:
    server = Server()
    drive(server, method="POST", url="http://svc-1.mesh.internal:18081/a?b=c", headers=["X-Run: r1"])
    assert set(server.requests) == {
        b"POST /a?b=c HTTP/1.1\r\nHost: svc-1.mesh.internal:18081\r\nX-Run: r1\r\nContent-Length: 0\r\n\r\n"
    }


def test_sizes_are_of_the_body_and_of_header_names_and_values() -> None:
    statistics = drive(Server([BY_NAME["chunked"]] * 10))["statistics"]
    body = statistics["benchmark_http_client.response_body_size"]
    header = statistics["benchmark_http_client.response_header_size"]
    assert body == {"count": 10, "unit": "raw", "mean": 2, "pstdev": 0, "min": 2, "max": 2}
    assert header["min"] == header["max"] == len(b"Transfer-Encoding" + b"chunked")


def test_a_unix_socket_is_a_target_like_any_other(tmp_path: Path) -> None:
    async def both() -> dict[str, Any]:
        async with Server().listen(str(tmp_path / "s")) as address:
            return await run_execution(address)

    assert counts(asyncio.run(both())) == {"http_2xx": 10}
