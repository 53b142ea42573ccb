"""Real tiers for tests, small and fast; none may leave a process behind."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import processes
from harness.e8.tier.handle import Tier, start
from harness.e8.tier.process import MARK_VARIABLE
from harness.e8.tier.settings import Profile, TierSettings

HOLD = "until [ -e go ]; do sleep 0.02; done"
FAST = Profile(ttft_ms=5, token_delay_ms=0, output_tokens=4, tool_call_rate=0.5)


@dataclass
class Response:
    """What came back, its body parsed."""

    status: int
    headers: dict[str, str]
    body: Any


def ask(base: str, method: str, path: str, body: Any = None, *, limit_s: float = 20, **headers: str) -> Response:
    """One request on a connection of its own; a body that is not bytes is sent as JSON."""
    connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=limit_s)
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, {"content-type": "application/json"} | headers)
        response = connection.getresponse()
        return Response(response.status, dict(response.getheaders()), json.loads(response.read()))
    finally:
        connection.close()


class Probe:
    """A tier with the questions that tests have."""

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        self._threads = ThreadPoolExecutor(32)

    def turn(self, body: Any = None, **limits: float) -> Response:
        """One turn."""
        return ask(self.tier.urls["base"], "POST", "/turn", body or {"prompt": "summarise the diff"}, **limits)

    def turns(self, number: int) -> list[Future[Response]]:
        """Turns sent at once."""
        return [self._threads.submit(self.turn) for _ in range(number)]

    def held_turns(self, number: int) -> list[Future[Response]]:
        """The same, of a tier whose command waits for ``let_go``; returns once that many more commands run."""
        wanted = self._commands_running() + number
        sent = self.turns(number)
        deadline_s = time.monotonic() + 15
        while self._commands_running() < wanted:
            assert time.monotonic() < deadline_s, "the commands did not begin"
            time.sleep(0.02)
        return sent

    def _commands_running(self) -> int:
        return sum(int(each["running"]) for each in self.tier.stats()["relay"].values())

    def let_go(self) -> None:
        """Let commands that wait end, and all later ones at once."""
        for sandbox in self.tier.state["sandboxes"]:
            (Path(sandbox["workspace"]) / "go").touch()

    def metrics(self) -> dict[str, Any]:
        """``GET /metrics``."""
        found: dict[str, Any] = ask(self.tier.urls["metrics"], "GET", "/metrics").body
        return found

    def stub(self, path: str) -> Any:
        """One of the stub's pages."""
        return ask(self.tier.urls["stub"], "GET", path).body

    def worker(self, number: int) -> processes.Identity:
        """The process of a worker now."""
        found = processes.identify(self.metrics()["workers"][number]["pid"])
        assert found is not None
        return found

    def wait(self, condition: Callable[[dict[str, Any]], bool], limit_s: float = 15) -> dict[str, Any]:
        """The first metrics that fulfil the condition."""
        deadline = time.monotonic() + limit_s
        while not condition(metrics := self.metrics()):
            assert time.monotonic() < deadline, f"did not come true: {metrics}"
            time.sleep(0.02)
        return metrics

    def close(self) -> None:
        """End the tier; nothing that carries its mark may be left."""
        self.tier.stop()
        self._threads.shutdown()
        assert not processes.find_marked(self.tier.state["mark"], MARK_VARIABLE)


MakeTier = Callable[..., Probe]


@pytest.fixture
def make_tier(tmp_path: Path) -> Iterator[MakeTier]:
    """Starts tiers: one worker and one sandbox, fast, telemetry every 100 ms, unless told otherwise."""
    made: list[Probe] = []

    def make(**changed: Any) -> Probe:
        small = {"workers": 1, "sandboxes": 1, "profile": FAST, "tool_command": "true"}
        settings = TierSettings(**small | {"stats_interval_ms": 100, "lifetime_s": 120.0} | changed)
        made.append(Probe(start(settings, state=tmp_path / f"tier-{len(made)}.json")))
        return made[-1]

    yield make
    for probe in made:
        probe.close()


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probe]:
    """One tier for tests that leave it as they found it."""
    settings = TierSettings(profile=FAST, tool_command="echo hello", stats_interval_ms=100, lifetime_s=300)
    probe = Probe(start(settings, state=tmp_path_factory.mktemp("tier") / "tier.json"))
    yield probe
    probe.close()


@pytest.fixture
def holding(make_tier: MakeTier) -> MakeTier:
    """``make_tier`` with a command that waits for ``let_go``."""
    return lambda **changed: make_tier(tool_command=HOLD, **changed)


@pytest.fixture
def request_to() -> Callable[..., Response]:
    """``ask`` for tests that talk to a part of their own."""
    return ask
