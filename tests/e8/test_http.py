"""A name of several addresses: the first that connects is kept."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from harness.e8 import http
from harness.e8.http import Client, fetch, parse_base
from tests.e8.standin import standing


def resolve(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, int]) -> None:
    """Let every name have these addresses, in this order, as a hosts file would."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_the_first_address_that_connects_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with standing() as target, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        refusing = taken.getsockname()
        base = parse_base(target.url, "e8.base")
        resolve(monkeypatch, refusing, ("127.0.0.1", base.port))
        assert fetch(parse_base(f"http://two.test:{base.port}", "e8.base"), "/health", limit_s=5).status == 200


def test_where_none_connects_the_turns_say_so_and_a_single_address_is_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Any] = []

    async def connects(_: int, address: Any) -> bool:
        tried.append(address)
        return False

    monkeypatch.setattr(http, "_connects", connects)
    resolve(monkeypatch, ("127.0.0.1", 1), ("127.0.0.2", 1))
    client = Client(parse_base("http://two.test:1", "e8.base"))
    asyncio.run(client.open())
    assert client._address == ("127.0.0.1", 1)
    assert tried == [("127.0.0.1", 1), ("127.0.0.2", 1)]
    resolve(monkeypatch, ("127.0.0.1", 1))
    asyncio.run(Client(parse_base("http://one.test:1", "e8.base")).open())
    assert len(tried) == 2
